"""A conversation: turns go in raw and durable, and come back exactly.

session = await fov.session("support-42")
turn = await session.record([{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}])
(await session.get_turn(turn.id, "R")).content
"""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal
from weakref import WeakValueDictionary

from foveate.context import board as boards
from foveate.context.assemble import Order
from foveate.context.board import Board
from foveate.context.context import Context
from foveate.context.thinking import is_signed
from foveate.context.tools import ToolSet
from foveate.errors import InvalidMessage, SessionExists, TurnNotFound
from foveate.events import EventBus
from foveate.formats.sizes import SentSizes
from foveate.history.recalled import Recaller
from foveate.models.caller import Caller
from foveate.recall.dates import parse_moment
from foveate.recall.search import Hit, Searcher, SearchFilter
from foveate.session import export as exports
from foveate.session.checkpoints import Checkpoints
from foveate.session.context import Contexts, Request, given_settings
from foveate.session.documents import Documents
from foveate.session.exchange import Exchange
from foveate.session.goals import Goals
from foveate.session.read import Reader
from foveate.session.record import (
    Recordable,
    announce,
    as_messages,
    by_turn,
    check_session_id,
    check_text,
    numbered_keys,
)
from foveate.session.tools import Retrieval
from foveate.session.topics import Topics
from foveate.session.values import (
    Pin,
    RecordedTurn,
    SessionInfo,
    SessionStats,
    TurnContent,
    TurnOutline,
    describe_session,
    describe_stats,
)
from foveate.settings import Settings, make_strategy, session_strategy
from foveate.store import Draft, NewSession, Place, SessionRow, Store
from foveate.store.codec import draft_messages, draft_turn
from foveate.tokens import Counter, calibrate, session_counter
from foveate.turn import Json, Message, Text, Turn, from_us, parse_time, turn_id, turn_number
from foveate.worker.loop import Worker

EXPORT_BATCH_TURNS = 200


@dataclass(frozen=True, slots=True)
class SharedParts:
    """What all sessions of an open store use together."""

    store: Store
    events: EventBus
    settings: Settings
    worker: Worker
    caller: Caller
    searcher: Searcher
    turn_locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    """One for each session whose turn is in progress by `Session.turn`."""


class Session:
    """One conversation. Open it with `Foveate.session`; several handles, tasks and processes may share it."""

    def __init__(self, row: SessionRow, shared: SharedParts) -> None:
        self.id = row.id
        self._row = row
        self._shared = shared
        self._store = shared.store
        self._events = shared.events
        self._counter = session_counter(row.model, row.encoding)
        recaller = Recaller(shared.store, shared.searcher, shared.settings.recall, caller=shared.caller)
        self._contexts = Contexts(
            shared.store, row.id, shared.events, shared.settings, recaller=recaller, worker=shared.worker
        )
        self._offer: ToolSet | None = None
        self._asked: Context | None = None
        """The context made last, which the answer recorded next came from."""
        self._limit_tokens: int | None = None

    @property
    def info(self) -> SessionInfo:
        """As of the last time this handle created, changed or refreshed it."""
        return describe_session(self._row)

    @property
    def counter(self) -> Counter:
        """What counts this session's tokens."""
        return self._counter

    @property
    def sizes(self) -> SentSizes:
        """What counts its messages as they are sent, images and files included."""
        return SentSizes.of(self._row.model, self._row.encoding)

    @property
    def goals(self) -> Goals:
        """What the conversation is to achieve: `goals.add("…")`, `step`, `decide`, `artifact`, `done`, `list`."""
        return Goals(self._store, self.id)

    @property
    def documents(self) -> Documents:
        """What it was given to work with: `documents.give("epic", "…")`, `get`; `oneshot` shows epic and tasks."""
        given = given_settings(self._row) if self._row.strategy == "oneshot" else None
        strategy = make_strategy("oneshot", self._shared.settings, given)
        return Documents(self._store, self._row, strategy.document_limits)

    @property
    def checkpoints(self) -> Checkpoints:
        """The session's checkpoints as values: `checkpoints.list()`, `status()`."""
        return Checkpoints(self.refresh, self.context, self._store, self._contexts.storyteller)

    @property
    def topics(self) -> Topics:
        """The conversation by topics: `topics.add_message(…)`, `get_context`, `seal_current_topic`, `get_history`."""
        return Topics(self, self._store, self._contexts.storyteller)

    @property
    def compression_level(self) -> int:
        """zstd's, for what is recorded."""
        return self._shared.settings.store.compression_level

    @property
    def strategy_problem(self) -> str:
        """Why the session is not shown by its own strategy, if it is not: the strategy does not exist any more, say."""
        row = self._row
        return session_strategy(row.strategy, self._shared.settings, given_settings(row)).problem

    def limit_budget(self, tokens: int) -> None:
        """Use at most these tokens through this handle: what the model that answers takes. Nothing is stored."""
        self._limit_tokens = tokens
        self._take(self._row)

    async def refresh(self) -> SessionInfo:
        """Read the session again; other handles may have changed it."""
        self._take(await self._store.get_session(self.id))
        return self.info

    async def record(
        self,
        messages: Recordable,
        *,
        at: str | float | datetime | None = None,
        format: str | None = None,  # noqa: A002 - the word users know
        key: str | None = None,
        turn: str | int | None = None,
    ) -> RecordedTurn:
        """Keep messages for good, and return the last turn they went to; durable when this returns.

        They are OpenAI, Anthropic or Gemini shaped dicts, what those providers' packages answer with, canonical
        messages, or a whole Turn. Each prompt starts a turn; what comes before the first prompt is added to the open
        turn. `at` is when they were said, for those that don't say. Recording again with the same `key` adds nothing.
        An answer that belongs to one `turn` is refused if another began meanwhile: `TurnBegun`.
        """
        return (await self.record_all(messages, at=at, format=format, key=key, turn=turn))[-1]

    async def record_all(
        self,
        messages: Recordable,
        *,
        at: str | float | datetime | None = None,
        format: str | None = None,  # noqa: A002
        key: str | None = None,
        turn: str | int | None = None,
    ) -> list[RecordedTurn]:
        """Like `record`, and return every turn that was recorded or added to, in order."""
        moment = None if at is None else parse_time(at)
        check_text("key", key or "")
        if isinstance(messages, Turn):
            if not messages.messages:
                raise InvalidMessage("turn", "has no messages; a turn has at least one")
            drafts = await draft_turn(messages, moment, key, self.sizes, self.compression_level)
        else:
            given = self._bound(as_messages(messages, format))
            drafts = await draft_messages(
                given, moment, numbered_keys(key, len(given)), self.sizes, self.compression_level
            )
        newest = None if turn is None else turn_number(turn)
        if turn is not None and newest is None:
            raise TurnNotFound(self.id, str(turn), (await self.refresh()).turns)
        placed = list(zip(drafts, await self.append(drafts, newest_turn=newest), strict=True))
        return [
            RecordedTurn(self.id, number, len(group), self._counter.scale(sum(draft.tokens for draft, _ in group)))
            for number, group in by_turn(placed).items()
        ]

    def _bound(self, messages: list[Message]) -> list[Message]:
        """The messages, the first answer with a hash of the context it came from if its thinking is signed."""
        place = next((index for index, message in enumerate(messages) if message.role == "assistant"), None)
        if place is None or self._asked is None:
            return messages
        context, self._asked = self._asked, None
        if not is_signed(messages[place]):
            return messages
        return [*messages[:place], replace(messages[place], prefix=context.prefix()), *messages[place + 1 :]]

    async def append(self, drafts: Sequence[Draft], *, newest_turn: int | None = None) -> list[Place]:
        """Keep drafts that are made already, all or none, and tell the subscribers."""
        places = await self._store.append(self.id, drafts, newest_turn=newest_turn)
        self._shared.worker.wake(self.id)
        if self._events.is_watched:
            announce(self._events, self.id, drafts=drafts, places=places)
        return places

    async def get_turn(
        self,
        turn: str | int,
        level: str = "R",
        format: Literal["tagged", "plain"] = "tagged",  # noqa: A002
    ) -> TurnContent:
        """A turn's text at a level, in its tag or plain."""
        number = turn_number(turn)
        contents = await self.get_turns(number, number, level, format) if number else []
        if not contents:
            raise TurnNotFound(self.id, str(turn), (await self.refresh()).turns)
        return contents[0]

    async def get_turns(
        self,
        first: str | int,
        last: str | int,
        level: str = "R",
        format: Literal["tagged", "plain"] = "tagged",  # noqa: A002
    ) -> list[TurnContent]:
        """The turns from `first` to `last` that exist, as `get_turn` gives them."""
        reader = self._reader()
        return await reader.contents(*reader.between(first, last), level, format)

    async def load_turn(self, turn: str | int) -> Turn:
        """A turn as the values it was recorded from."""
        number = turn_number(turn)
        found = await self.load_turns(number, number) if number else []
        if not found:
            raise TurnNotFound(self.id, str(turn), (await self.refresh()).turns)
        return found[0]

    async def load_turns(self, first: str | int = 1, last: str | int | None = None) -> list[Turn]:
        """The turns from `first` to `last` (to the newest, if not said) as the values they were recorded from."""
        reader = self._reader()
        return await reader.turns(*reader.between(first, last))

    async def outline(self, first: str | int = 1, last: str | int | None = None) -> list[TurnOutline]:
        """Sizes and times of turns, without reading them."""
        reader = self._reader()
        return await reader.outlines(*reader.between(first, last))

    async def context(
        self,
        prompt: str | Sequence[Mapping[str, Any]] = "",
        *,
        budget_tokens: int | None = None,
        system: str = "",
        order: Order | None = None,
        strategy: str | None = None,
        recall: bool = True,
        tools: bool | None = None,
    ) -> Context:
        """All that a model is shown before a prompt, and the prompt, within the budget.

        At a budget or by a strategy other than the session's own it is a one-off: planned afresh, filled to the full,
        changing nothing. What the prompt brings up of older turns is shown behind the history, unless `recall` is off.
        With `tools` the history tools are counted, and are in `Context.request`; if not said, once `Session.tools` was
        asked for them.
        """
        offer = None if tools is False else self._offer or (ToolSet() if tools else None)
        given = prompt if isinstance(prompt, str) else as_messages(prompt, None)
        return await self.context_with(
            offer, given, budget_tokens=budget_tokens, system=system, order=order, strategy=strategy, recall=recall
        )

    async def context_with(
        self,
        offer: ToolSet | None,
        prompt: str | Sequence[Message] = "",
        *,
        budget_tokens: int | None = None,
        system: str = "",
        order: Order | None = None,
        strategy: str | None = None,
        recall: bool = True,
    ) -> Context:
        """`context` with these tools; a prompt that is the newest turn, recorded and unanswered, is sent once."""
        await self.refresh()
        said = [Message("user", (Text(prompt),))] if isinstance(prompt, str) else prompt
        request = Request(
            prompt="" if prompt and await self.is_waiting(said) else prompt,
            budget_tokens=self._row.budget_tokens if budget_tokens is None else budget_tokens,
            system=system,
            pins=await self.pins(),
            tools_tokens=offer.tokens(self._counter) if offer else 0,
            order=order or self._shared.settings.context.order,
            strategy=strategy,
            recall=recall,
        )
        context = replace(await self._contexts.make(self._row, self._counter, request), offer=offer)
        self._asked = context
        return context

    def turn(self, prompt: str | Sequence[Mapping[str, Any]]) -> Exchange:
        """One prompt and its answer, safe beside other prompts in this session; use it in a `with` block.

        `turn.request(format, …)` is what to send, `turn.record(reply)` adds the answer. The prompt is recorded when the
        block begins, once, also if the block is tried again after a failure.
        """
        lock = self._shared.turn_locks.setdefault(self.id, asyncio.Lock())
        return Exchange(self, prompt, lock)

    async def is_waiting(self, prompt: Sequence[Message]) -> bool:
        """Whether the newest turn ends with exactly this prompt, and waits for its answer."""
        number = self._row.last_turn
        if not number or self._row.head == "closed":
            return False
        kept = [message for message in await self._contexts.viewer.raw(number) if message.kind == "message"]
        newest = [message.without_original().parts for message in kept[-len(prompt) :]]
        return newest == [message.parts for message in prompt] and kept[-1].role == "user"

    def tools(
        self,
        format: str = "openai",  # noqa: A002
        extra_tools: Sequence[Mapping[str, Any]] = (),
        *,
        besides: Sequence[Mapping[str, Any]] = (),
    ) -> list[Any]:
        """The history tools as a provider takes them, and `extra_tools` of your own; contexts count all from now on.

        `context.request(format)` has the same. `besides` is the old name of `extra_tools`.
        """
        if besides:
            warnings.warn("tools(besides=…) is now tools(extra_tools=…)", DeprecationWarning, stacklevel=2)
        offer = ToolSet((*extra_tools, *besides), format)
        definitions = offer.definitions(format)
        self._offer = offer
        return definitions

    async def call_tool(self, name: str, arguments: object) -> str:
        """A model's call of a history tool, answered as text; mistakes are explained to the model."""
        await self.refresh()
        shared = self._shared
        retrieval = Retrieval(self._store, self._row, self._contexts, self._counter, searcher=shared.searcher)
        return await retrieval.answer(name, arguments)

    async def search(
        self,
        query: str,
        max_results: int = 10,
        *,
        role: str | None = None,
        tool: str | None = None,
        after: str | float | datetime | None = None,
        before: str | float | datetime | None = None,
        file: str | None = None,
    ) -> list[Hit]:
        """The turns that match a query by words or by meaning, best first, each with its best passage.

        `role` is who said it (`user`, `assistant`, `tool`), `tool` a tool's name, `file` a path that the turn names.
        `after` and `before` also take `7d`, `12h`, `yesterday` or `last week`.
        """
        wanted = SearchFilter(role=role, tool=tool, after=after, before=before, file=file)
        return await self._shared.searcher.search(self._row, query, max_results, wanted)

    async def board(self) -> Board:
        """What was retrieved and is shown for some turns."""
        await self.refresh()
        return boards.current(await self._contexts.board(self._row))

    async def dismiss(self, name: str) -> None:
        """Take something off the board, by its name as in `T-87-R`."""
        await self._contexts.keep_board(boards.dismiss(await self.board(), name))

    async def save(self, name: str) -> None:
        """Keep something on the board until it is dismissed."""
        await self._contexts.keep_board(boards.save(await self.board(), name))

    async def fork(
        self, session_id: str, at: str | int | None = None, *, title: str | None = None, exist_ok: bool = False
    ) -> Session:
        """A session that starts from turn `at` (default: the newest) and shares what is stored up to it.

        With `exist_ok` a fork of this id that was made before from the same turn (without `at`: any turn) is opened.
        """
        row = await self._store.get_session(self.id)
        number = row.last_turn if at is None else turn_number(at)
        if not number:
            raise TurnNotFound(self.id, str(at or "T-1"), row.last_turn)
        new = NewSession(
            id=check_session_id(session_id),
            title=title if title is not None else f"{row.title or row.id}, from {turn_id(number)}",
            platform=row.platform,
            channel=row.channel,
            strategy=row.strategy,
            settings=row.settings,
            budget_tokens=row.budget_tokens,
            model=row.model,
            encoding=row.encoding,
        )
        try:
            forked = await self._store.fork_session(new, self.id, number)
        except SessionExists:
            forked = await self._store.get_session(session_id)
            is_same = forked.parent_id == self.id and (at is None or forked.fork_turn == number)
            if not (exist_ok and is_same):
                raise
        return Session(forked, self._shared)

    async def use(self, strategy: str, **settings: Json) -> SessionInfo:
        """Show the session by another strategy from now on, with these settings of its own; the turns stay the same."""
        make_strategy(strategy, self._shared.settings, settings)
        return await self._update({"strategy": strategy, "settings": json.dumps(settings)})

    async def rename(self, title: str) -> SessionInfo:
        """Give the session another title."""
        return await self._update({"title": check_text("title", title)})

    async def label(self, *, platform: str | None = None, channel: str | None = None) -> SessionInfo:
        """Say where the conversation takes place; what is not said stays as it was."""
        labels = {"platform": platform, "channel": channel}
        return await self._update(
            {name: check_text(name, value) for name, value in labels.items() if value is not None}
        )

    async def calibrate(self, context: Context, *, reported_tokens: int) -> float:
        """Learn from what a provider reported for a context that was sent whole: at once if more, slowly if less."""
        counted = int(context.tokens / context.calibration)
        exact = self._counter.exact
        factor = calibrate(
            self._row.calibration, counted_tokens=counted, reported_tokens=reported_tokens, is_exact=exact
        )
        return (await self._update({"calibration": factor})).calibration

    async def pin(self, text: str, *, locked: bool = False) -> Pin:
        """Keep a rule or fact in every context, verbatim; a locked one is not removed by mistake.

        A text that is pinned already, word for word, has the pin it had, locked if either is to be.
        """
        if not text.strip():
            raise InvalidMessage("pin", "has no text")
        check_text("pin", text)
        row = await self._store.add_pin(self.id, text, locked=locked)
        return Pin(f"P-{row.number}", row.text, row.locked, from_us(row.created_us))

    async def pins(self) -> list[Pin]:
        """The pins, oldest first."""
        rows = await self._store.list_pins(self.id)
        return [Pin(f"P-{row.number}", row.text, row.locked, from_us(row.created_us)) for row in rows]

    async def unpin(self, pin_id: str, *, even_if_locked: bool = False) -> None:
        """Remove a pin; a locked one only with `even_if_locked`."""
        number = pin_id.removeprefix("P-")
        if not number.isdecimal():
            raise InvalidMessage("pin", f"{pin_id!r} is not a pin's id; ids look like P-1")
        await self._store.remove_pin(self.id, int(number), even_if_locked=even_if_locked)

    async def stats(self) -> SessionStats:
        """Counts, sizes and the state of background work."""
        await self.refresh()
        backlog = await self._store.derived.backlog(self.id)
        pins = await self._store.list_pins(self.id)
        return describe_stats(self._row, await self._store.sizes(self.id), backlog, pins=len(pins))

    async def export(
        self,
        format: str = "json",  # noqa: A002
        *,
        first: str | int = 1,
        last: str | int | None = None,
        after: str | float | datetime | None = None,
        before: str | float | datetime | None = None,
    ) -> AsyncIterator[str]:
        """The conversation as text, piece by piece: `json` (everything), `markdown`, or any format's own.

        `after` and `before` limit it to turns that began in this time: `2026-11-15`, `7d` (before now), `yesterday`.
        """
        info = await self.refresh()
        low, high = self._reader().between(first, last)
        now = datetime.now(UTC)
        since = None if after is None else parse_moment(after, now, path="after")
        until = None if before is None else parse_moment(before, now, path="before")
        writer = exports.start(format, info, await self.pins())
        for start in range(low, min(high, info.turns) + 1, EXPORT_BATCH_TURNS):
            end = min(start + EXPORT_BATCH_TURNS - 1, high)
            for turn in await self.load_turns(start, end):
                if _is_within(turn.at, since, until):
                    for piece in writer.add(turn):
                        yield piece
        for piece in writer.finish():
            yield piece

    def _take(self, row: SessionRow) -> None:
        limit = self._limit_tokens
        self._row = row if limit is None else replace(row, budget_tokens=min(row.budget_tokens, limit))
        self._counter = session_counter(row.model, row.encoding)

    async def _update(self, changes: Mapping[str, object]) -> SessionInfo:
        if changes:
            self._take(await self._store.update_session(self.id, changes))
        return self.info

    def _reader(self) -> Reader:
        return Reader(self._store, self._row, self._counter, self._contexts.viewer)


def _is_within(at: datetime | None, since: datetime | None, until: datetime | None) -> bool:
    """Whether a turn began in this time; one without a time is only in an unlimited one."""
    if at is None:
        return since is None and until is None
    return (since is None or at >= since) and (until is None or at < until)
