"""A session: turns are recorded raw and durably, and read back exactly.

session = await fov.session("support-42")
turn = await session.record([{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}])
(await session.get_turn(turn.id, "R")).content
"""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from foveate.context import board as boards
from foveate.context.assemble import Order
from foveate.context.board import Board, Note, NoteKind
from foveate.context.context import Context
from foveate.context.tools import RANGE_LEVELS as SHOWN_LEVELS
from foveate.context.tools import ToolSet
from foveate.errors import InvalidMessage, LevelUnknown, TurnNotFound
from foveate.events import Event, EventKind
from foveate.formats.sizes import SentSizes
from foveate.recall.search import Hit, SearchFilter
from foveate.session import export as exports
from foveate.session import record
from foveate.session.cabinet import Cabinet, CabinetEntry, filed_note
from foveate.session.checkpoints import Checkpoints
from foveate.session.context import Asked, Contexts, given_settings
from foveate.session.documents import Documents
from foveate.session.exchange import Exchange
from foveate.session.files import Files
from foveate.session.fork import fork_session
from foveate.session.goals import Goals
from foveate.session.picture import PastPicture, past_picture
from foveate.session.prompts import Prompts
from foveate.session.read import Reader
from foveate.session.record import Recordable, announce, as_messages, check_text, context_token, pin_number
from foveate.session.shared import PrefixSource, SharedParts
from foveate.session.tenant import public_id
from foveate.session.tools import Retrieval
from foveate.session.topics import SessionTopics
from foveate.session.values import (
    Pin,
    RecordedTurn,
    SessionInfo,
    SessionStats,
    TextPage,
    TopicTurns,
    TurnContent,
    TurnDetails,
    TurnOutline,
    describe_pin,
    describe_session,
    describe_stats,
    lowered_budget,
    restored_budget,
    with_budget,
)
from foveate.settings import SessionStrategy, make_strategy, session_strategy
from foveate.store import Draft, Place, SessionRow
from foveate.store.codec import draft_messages
from foveate.tokens import Counter, calibrate, session_counter
from foveate.turn import Json, Message, Text, Turn, turn_id, turn_number

if TYPE_CHECKING:
    from foveate.client import Foveate

_T = TypeVar("_T")


class Session:
    """One conversation. Open it with `Foveate.session`; several handles, tasks and processes may share it."""

    def __init__(self, row: SessionRow, shared: SharedParts, *, tenant: str = "") -> None:
        self.id: str = public_id(tenant, row.id)
        """The id within its tenant."""
        self._key = row.id
        self._tenant = tenant
        self._row = with_budget(row, shared.settings.session.budget_tokens)
        self._shared = shared
        self._store = shared.store
        self._events = shared.events
        self._counter = session_counter(row.model, row.encoding)
        self._contexts = Contexts(shared, row.id)
        self._offer: ToolSet | None = None
        self._limit_tokens: int | None = None

    @property
    def stored_id(self) -> str:
        """The id in the store; of a tenant's session `tenant:id`."""
        return self._key

    @property
    def home(self) -> Foveate:
        """The open store, as the tenant of this session sees it."""
        return self._shared.view(self._row.tenant)

    @property
    def info(self) -> SessionInfo:
        """Session data as of the last change or `refresh` through this handle."""
        return describe_session(self._row, self._tenant)

    @property
    def counter(self) -> Counter:
        """The token counter of this session."""
        return self._counter

    @property
    def sizes(self) -> SentSizes:
        """Counts messages as they are sent, including images and files."""
        return SentSizes.of(self._row.model, self._row.encoding)

    @property
    def goals(self) -> Goals:
        """Goals of the conversation: `goals.add("…")`, `step`, `plan`, `decide`, `artifact`, `done`, `list`."""
        return Goals(self._store, self._key)

    @property
    def shows_goals(self) -> bool:
        """Whether contexts include the goals; `oneshot` shows its epic and tasks instead."""
        shown = self._strategy().strategy
        return "goals" in (*shown.documents, *shown.changing_documents)

    @property
    def documents(self) -> Documents:
        """Documents of the session: `documents.give("epic", "…")`, `get`; `oneshot` shows epic and tasks."""
        given = given_settings(self._row, self._shared.settings) if self._row.strategy == "oneshot" else None
        strategy = make_strategy("oneshot", self._shared.settings, given)
        return Documents(self._store, self._row, strategy.document_limits)

    @property
    def files(self) -> Files:
        """Files and todos that tool calls name: `files.list()`, `summarize(path, "…")`, `summaries()`."""
        return Files(self._store, self._row.id, self._row.last_turn, self.load_turns)

    @property
    def prompts(self) -> Prompts:
        """Stored prompts as this session uses them: `prompts.text(key)`, `render`, `set`."""
        return Prompts(self._store, self._row.tenant)

    async def set_mode(self, name: str) -> SessionInfo:
        """Add the prompt of a mode, such as `developer`, to every system prompt; an empty name removes it."""
        return await self._update({"mode": await self.prompts.check_mode(name)})

    @property
    def cabinet(self) -> Cabinet:
        """The file cabinet, as the tools of this session use it: `cabinet.file(…)`, `read`, `content`, `list`."""
        row = self._row
        return Cabinet(
            self._store,
            self._shared.settings,
            tenant=row.tenant,
            view=self._tenant,
            session_id=row.id,
            noted=self._note_filed,
        )

    async def _note_filed(self, entry: CabinetEntry) -> None:
        """List a new key on the board for some turns."""
        turns = self._shared.settings.cabinet.note_turns
        if turns:
            await self.refresh()
            await self._contexts.board.note(self._row, filed_note(entry, self._row.last_turn, turns))

    @property
    def checkpoints(self) -> Checkpoints:
        """The session's checkpoints as values: `checkpoints.list()`, `status()`."""
        return Checkpoints(self.refresh, self.context, self._store, self._contexts.driver, self._key)

    @property
    def topics(self) -> SessionTopics:
        """Topics of the conversation: `topics.add_message(…)`, `get_context`, `seal_current_topic`, `get_history`."""
        return SessionTopics(self, self._store, self._contexts.driver, self._key)

    @property
    def compression_level(self) -> int:
        """zstd compression level of recorded messages."""
        return self._shared.settings.store.compression_level

    @property
    def strategy_problem(self) -> str:
        """Why the session does not use its own strategy, e.g. because it is not installed; empty if it does."""
        return self._strategy().problem

    def limit_budget(self, tokens: int) -> None:
        """Limit the budget of this handle, e.g. to the model's window. Not stored."""
        self._limit_tokens = tokens
        self.take(self._row)

    async def restore_budget(self, before: SessionInfo) -> SessionInfo:
        """Take a change of the budget back."""
        return await self._update(restored_budget(before, self._shared.settings.session.budget_tokens))

    async def lower_budget(self, tokens: int) -> SessionInfo:
        """Lower the session's budget, e.g. after a provider found a request too long. It is never raised by this."""
        await self._reload()
        return await self._update(lowered_budget(self._row, tokens))

    async def refresh(self) -> SessionInfo:
        """Read the session's data again, including changes by other handles."""
        await self._reload()
        return self.info

    async def record(
        self,
        messages: Recordable,
        *,
        at: str | float | datetime | None = None,
        format: str | None = None,  # noqa: A002 - the word users know
        key: str | None = None,
        turn: str | int | None = None,
        context: Context | str | None = None,
    ) -> RecordedTurn:
        """Record messages durably, and return the last turn they belong to.

        Accepts dicts in OpenAI, Anthropic or Gemini format, response objects of those providers' packages, canonical
        messages, or a whole Turn. Each prompt starts a turn; messages before the first prompt are added to the open
        turn. `at` is the time of messages that have none. Recording again with the same `key` adds nothing. If
        messages belong to a certain `turn` and another one has begun, they are rejected with `TurnBegun`. `context` is
        the context that an answer was made for, or its `token`; by default the last one of this session.
        """
        return (await self.record_all(messages, at=at, format=format, key=key, turn=turn, context=context))[-1]

    async def record_all(
        self,
        messages: Recordable,
        *,
        at: str | float | datetime | None = None,
        format: str | None = None,  # noqa: A002
        key: str | Sequence[str | None] | None = None,
        turn: str | int | None = None,
        after: str | None = None,
        exact: bool = False,
        context: Context | str | None = None,
    ) -> list[RecordedTurn]:
        """Like `record`, but return every turn that was created or extended, in order.

        `key` may be a list with the key of each message. With `after`, the key of the last message that has one must
        be this, or else nothing is recorded (`SessionContinued`). With `exact`, a `key` that was used for different
        messages is an error (`KeyReused`).
        """
        newest = None if turn is None else turn_number(turn)
        if turn is not None and newest is None:
            raise TurnNotFound(self.id, str(turn), (await self.refresh()).turns)
        drafts = await record.make_drafts(self, messages, at=at, format_name=format, key=key, context=context)
        places = await self.append(drafts, newest_turn=newest, after=after, exact=exact)
        return record.recorded_turns(self.id, drafts, places, self._counter)

    async def draft(
        self,
        messages: Sequence[Message],
        keys: Sequence[str | None],
        *,
        at: datetime | None = None,
        context: Context | str | None = None,
    ) -> list[Draft]:
        """Messages as they are stored, counted and packed, each with its key; see `append`."""
        bound = record.bind_answer(messages, partial(self._shared.asked.pop, self._key), context)
        return await draft_messages(bound, at, keys, self.sizes, self.compression_level)

    async def append(
        self,
        drafts: Sequence[Draft],
        *,
        newest_turn: int | None = None,
        after: str | None = None,
        exact: bool = False,
        tail: str = "",
    ) -> list[Place]:
        """Record drafts, all or none, and publish events; see `foveate.store.log.append`."""
        places = await self._store.append(
            self._key, drafts, newest_turn=newest_turn, after=after, exact=exact, tail=tail
        )
        self._shared.worker.wake(self._key)
        if places and any(draft.role == "assistant" for draft in drafts):
            self._shared.uses.answered(self._row.tenant, self._key, places[-1].turn)
        if self._events.is_watched:
            announce(self._events, self._key, drafts=drafts, places=places)
        return places

    def publish(self, kind: EventKind, data: Mapping[str, Json]) -> None:
        """Publish an event of this session, e.g. that a tool was called."""
        turn = turn_id(self._row.last_turn) if self._row.last_turn else None
        self._events.publish(Event(kind, self._key, datetime.now(UTC), turn, data))

    async def note(self, kind: NoteKind, key: str, text: str) -> None:
        """Put a note on the board, for as many turns as something retrieved stays there."""
        now = (await self.refresh()).turns
        life = self._shared.settings.context.board_life_turns
        await self._contexts.board.note(self._row, Note(kind, key, text, until_turn=now + life, since_turn=now))

    async def get_turn(
        self,
        turn: str | int,
        level: str = "R",
        format: Literal["tagged", "plain"] = "tagged",  # noqa: A002
    ) -> TurnContent:
        """The text of a turn at a level, tagged or plain."""
        number = turn_number(turn)
        return await self._found(turn, await self.get_turns(number, number, level, format) if number else [])

    async def get_turns(
        self,
        first: str | int,
        last: str | int,
        level: str = "R",
        format: Literal["tagged", "plain"] = "tagged",  # noqa: A002
    ) -> list[TurnContent]:
        """The existing turns from `first` to `last`, like `get_turn`."""
        reader = self._reader()
        return await reader.contents(*reader.between(first, last), level, format)

    async def read_page(
        self,
        first: str | int,
        last: str | int | None = None,
        level: str = "C",
        *,
        page: int = 1,
        page_tokens: int = 8_000,
    ) -> TextPage:
        """A page of the turns from `first` to `last` (default: `first` alone) at a level, in tags.

        Level `E` gives the eras that sum up a range. At most 1,000 turns; a page beyond the last is the last.
        """
        await self._reload()
        reader = self._reader()
        low, high = reader.between(first, first if last is None else last)
        if level not in SHOWN_LEVELS:
            raise LevelUnknown(level, SHOWN_LEVELS)
        return await self._retrieval().page(low, high, level, page=page, page_tokens=page_tokens)

    async def get_turns_by_topic(
        self,
        topic: str,
        level: str = "C",
        format: Literal["tagged", "plain"] = "tagged",  # noqa: A002
    ) -> TopicTurns:
        """The turns on a topic, oldest first. A learned topic is named by its id, its title or one of its keywords.

        If no learned topic has this name, up to eight turns that a search finds; `is_exact` is then false. A turn that
        has no rendition yet is returned raw, and one that was pruned is left out.
        """
        await self._reload()
        match = await self._retrieval().on_topic(topic)
        return await self._reader().on_topic(match, level, format)

    async def turn_details(self, turn: str | int) -> TurnDetails:
        """Lengths, tool calls and topics of a turn, and who made its renditions when."""
        number = turn_number(turn)
        return await self._reader().details(await self._found(turn, [number] if number else []))

    async def load_turn(self, turn: str | int) -> Turn:
        """A turn with its messages."""
        number = turn_number(turn)
        return await self._found(turn, await self.load_turns(number, number) if number else [])

    async def load_turns(self, first: str | int = 1, last: str | int | None = None) -> list[Turn]:
        """The turns from `first` to `last` (default: all) with their messages."""
        reader = self._reader()
        return await reader.turns(*reader.between(first, last))

    async def outline(self, first: str | int = 1, last: str | int | None = None) -> list[TurnOutline]:
        """Sizes and times of turns, without their content."""
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
        """The context for a prompt, within the budget.

        With another budget or strategy than the session's own it is a preview: planned from scratch, and nothing is
        saved. Older turns that match the prompt are added after the history, unless `recall` is false. With `tools`
        the history tools are counted and included in `Context.request`; by default they are after a call of
        `Session.tools`.
        """
        offer = None if tools is False else self._offer or (ToolSet() if tools else None)
        given = prompt if isinstance(prompt, str) else as_messages(prompt, None)
        return await self.context_with(
            offer, given, budget_tokens=budget_tokens, system=system, order=order, strategy=strategy, recall=recall
        )

    async def look(self, *, budget_tokens: int | None = None, strategy: str | None = None) -> Context:
        """The context as it is now, for a person to look at: no answer will come from it. See `context`."""
        return await self.context_with(None, budget_tokens=budget_tokens, strategy=strategy, is_answered=False)

    async def pictures(self) -> list[PastPicture]:
        """What contexts showed each time the plan had changed, oldest first; the newest 500 are kept."""
        return [past_picture(row) for row in await self._store.pictures.list_pictures(self._key)]

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
        is_answered: bool = True,
    ) -> Context:
        """`context` with these tools; a prompt that is the newest turn, recorded and unanswered, is sent once."""
        snapshot = await self._contexts.snapshot(strategy)
        self.take(snapshot.session)
        row, counter = self._row, self._counter  # another call may replace them before this one ends
        said = [Message("user", (Text(prompt),))] if isinstance(prompt, str) else prompt
        asked = Asked(
            prompt="" if prompt and await self._contexts.reader.is_waiting(row, said) else prompt,
            budget_tokens=budget_tokens,
            system=system,
            tools_tokens=offer.tokens(counter) if offer else 0,
            history_tools_tokens=offer.late_tokens(counter) if offer else 0,
            order=order or self._shared.settings.context.order,
            strategy=strategy,
            recall=recall,
        )
        context = await self._contexts.make(replace(snapshot, session=row), counter, asked)
        sent = offer if context.has_history_tools or not offer else offer.without_history()
        drops = self._shared.settings.context.drop_unbound_thinking
        context = replace(context, offer=sent, drops_unbound_thinking=drops)
        if is_answered:
            self.came_from(context)
        return context

    def came_from(self, source: Context | PrefixSource) -> None:
        """The answer that is recorded next came from this context, or from a request with this prefix."""
        self._shared.asked[self._key] = partial(context_token, source) if isinstance(source, Context) else source

    def turn(self, prompt: str | Sequence[Mapping[str, Any]]) -> Exchange:
        """One prompt and its answer, safe for concurrent prompts in this session; use it in a `with` block.

        `turn.request(format, …)` returns the arguments of the call, `turn.record(reply)` records the answer. The
        prompt is recorded when the block begins, once, even if the block is run again after a failure.
        """
        lock = self._shared.turn_locks.setdefault(self._key, asyncio.Lock())
        return Exchange(self, prompt, lock)

    async def is_waiting(self, prompt: Sequence[Message]) -> bool:
        """Whether the newest turn ends with exactly this prompt and has no answer yet."""
        await self._reload()
        return await self._contexts.reader.is_waiting(self._row, prompt)

    def tools(
        self,
        format: str = "openai",  # noqa: A002
        extra_tools: Sequence[Mapping[str, Any]] = (),
        *,
        besides: Sequence[Mapping[str, Any]] = (),
    ) -> list[Any]:
        """The history tools and your `extra_tools` in a provider's format. All later contexts count and send them.

        `context.request(format)` includes the same tools. `besides` is the old name of `extra_tools`.
        """
        if besides:
            warnings.warn("tools(besides=…) is now tools(extra_tools=…)", DeprecationWarning, stacklevel=2)
        offer = ToolSet((*extra_tools, *besides), format)
        definitions = offer.definitions(format)
        self._offer = offer
        return definitions

    async def call_tool(self, name: str, arguments: object) -> str:
        """Execute a model's call of a history tool. Returns text; an invalid call returns an explanation for the
        model."""
        await self._reload()
        return await self._retrieval().answer(name, arguments)

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
        hits = await self._shared.searcher.search(self._row, query, max_results, wanted)
        return [replace(hit, session_id=self.id) for hit in hits]

    async def board(self) -> Board:
        """Retrieved turns that contexts show for some turns."""
        await self._reload()
        return boards.current(await self._contexts.board.load(self._row))

    async def dismiss(self, name: str) -> None:
        """Remove an item from the board by its name, e.g. `T-87-R`."""
        await self._contexts.board.keep(boards.dismiss(await self.board(), name))

    async def save(self, name: str) -> None:
        """Keep an item on the board until it is dismissed."""
        await self._contexts.board.keep(boards.save(await self.board(), name))

    async def fork(
        self, session_id: str, at: str | int | None = None, *, title: str | None = None, exist_ok: bool = False
    ) -> Session:
        """A new session that shares the turns up to `at` (default: the newest; 0: none, a child session).

        With `exist_ok` an existing fork of this id from the same turn (without `at`: from any turn) is opened.
        """
        row = await self._store.get_session(self._key)
        forked = await fork_session(self._store, row, session_id, at, title=title, exist_ok=exist_ok)
        return Session(forked, self._shared, tenant=self._tenant)

    async def use(self, strategy: str, **settings: Json) -> SessionInfo:
        """Change the strategy of the session, with these settings. The turns are not changed."""
        make_strategy(strategy, self._shared.settings, settings)
        return await self._update({"strategy": strategy, "settings": json.dumps(settings)})

    async def rename(self, title: str) -> SessionInfo:
        """Change the title."""
        return await self._update({"title": check_text("title", title)})

    async def label(self, *, platform: str | None = None, channel: str | None = None) -> SessionInfo:
        """Set the labels of the session; omitted ones are not changed."""
        labels = {"platform": platform, "channel": channel}
        return await self._update(
            {name: check_text(name, value) for name, value in labels.items() if value is not None}
        )

    async def calibrate(self, context: Context, *, reported_tokens: int) -> float:
        """Calibrate token counts with the usage that a provider reported for a context. Counts rise at once and
        fall slowly."""
        counted = int(context.tokens / context.calibration)
        exact = self._counter.exact
        factor = calibrate(
            self._row.calibration, counted_tokens=counted, reported_tokens=reported_tokens, is_exact=exact
        )
        return (await self._update({"calibration": factor})).calibration

    async def pin(self, text: str, *, locked: bool = False) -> Pin:
        """Include a rule or fact verbatim in every context. A locked pin needs confirmation to remove.

        Pinning the same text again returns the existing pin, locked if either call asks for it.
        """
        if not text.strip():
            raise InvalidMessage("pin", "has no text")
        check_text("pin", text)
        row = await self._store.add_pin(self._key, text, locked=locked)
        return describe_pin(row)

    async def pins(self) -> list[Pin]:
        """The pins, oldest first."""
        return [describe_pin(row) for row in await self._store.list_pins(self._key)]

    async def unpin(self, pin_id: str, *, even_if_locked: bool = False) -> None:
        """Remove a pin; a locked one requires `even_if_locked`."""
        await self._store.remove_pin(self._key, pin_number(self.id, pin_id), even_if_locked=even_if_locked)

    async def stats(self) -> SessionStats:
        """Counts, sizes and the state of background work."""
        await self._reload()
        backlog = await self._store.derived.backlog(self._key)
        pins = await self._store.list_pins(self._key)
        return describe_stats(self._row, await self._store.sizes(self._key), backlog, pins=len(pins))

    async def export(
        self,
        format: str = "json",  # noqa: A002
        *,
        first: str | int = 1,
        last: str | int | None = None,
        after: str | float | datetime | None = None,
        before: str | float | datetime | None = None,
    ) -> AsyncIterator[str]:
        """Export the conversation as chunks of text: `json` (everything), `markdown`, or any transcript format.

        `after` and `before` select turns by their start time: `2026-11-15`, `7d` (ago), `yesterday`.
        """
        info = await self.refresh()
        low, high = self._reader().between(first, last)
        writer = exports.start(format, info, await self.pins())
        results, span = exports.WholeResults(self._store, self._key), exports.Span.between(after, before)
        high = min(high, info.turns)
        async for piece in exports.pieces(writer, self.load_turns, results, first=low, last=high, span=span):
            yield piece

    async def _found(self, turn: str | int, found: Sequence[_T]) -> _T:
        if not found:
            raise TurnNotFound(self.id, str(turn), (await self.refresh()).turns)
        return found[0]

    def _strategy(self) -> SessionStrategy:
        given = given_settings(self._row, self._shared.settings)
        return session_strategy(self._row.strategy, self._shared.settings, given)

    async def _reload(self) -> None:
        self.take(await self._store.get_session(self._key))

    def take(self, row: SessionRow) -> None:
        """Go on with the session's data as they were just read."""
        limit = self._limit_tokens
        if row.budget_chosen != 1:
            row = with_budget(row, self._shared.settings.session.budget_tokens)
        self._row = row if limit is None else replace(row, budget_tokens=min(row.budget_tokens, limit))
        self._counter = session_counter(row.model, row.encoding)

    async def _update(self, changes: Mapping[str, object]) -> SessionInfo:
        if changes:
            self.take(await self._store.update_session(self._key, changes))
        return self.info

    def _retrieval(self) -> Retrieval:
        searcher = self._shared.searcher
        return Retrieval(self._store, self._row, self._contexts, self._counter, searcher=searcher)

    def _reader(self) -> Reader:
        return Reader(self._store, self._row, self._counter, self._contexts.reader)
