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
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from foveate.context import board as boards
from foveate.context.assemble import MESSAGE_TOKENS, REPLY_TOKENS, Order
from foveate.context.board import Board, Note, NoteKind
from foveate.context.context import Context
from foveate.context.signatures import is_signed, messages_prefix, request_prefix
from foveate.context.tools import HISTORY_TOOLS, ToolSet
from foveate.context.tools import RANGE_LEVELS as SHOWN_LEVELS
from foveate.errors import InvalidMessage, LevelNotReady, LevelUnknown, TurnNotFound, TurnPruned
from foveate.events import Event, EventKind
from foveate.formats.sizes import SentSizes
from foveate.history.recalled import Recaller
from foveate.recall.search import Hit, SearchFilter
from foveate.session import export as exports
from foveate.session.agent import TriggerAgent
from foveate.session.cabinet import Cabinet, CabinetEntry, filed_note
from foveate.session.checkpoints import Checkpoints
from foveate.session.context import Contexts, given_settings
from foveate.session.documents import Documents
from foveate.session.exchange import Exchange
from foveate.session.files import Files
from foveate.session.fork import fork_session
from foveate.session.goals import Goals
from foveate.session.picture import PastPicture, past_picture
from foveate.session.prompts import Prompts
from foveate.session.read import Reader
from foveate.session.record import (
    Recordable,
    announce,
    as_messages,
    by_turn,
    check_text,
    numbered_keys,
    pin_number,
    read_messages,
)
from foveate.session.request import Request
from foveate.session.shared import SharedParts
from foveate.session.tenant import public_id
from foveate.session.tools import Retrieval
from foveate.session.topics import SessionTopics
from foveate.session.values import (
    BUDGET_LOWERED,
    Pin,
    RecordedTurn,
    SessionInfo,
    SessionStats,
    TextPage,
    TopicTurns,
    TurnContent,
    TurnDetails,
    TurnOutline,
    describe_session,
    describe_stats,
    with_budget,
)
from foveate.settings import make_strategy, session_strategy
from foveate.store import Draft, Place, SessionRow
from foveate.store.client_rows import Standing
from foveate.store.codec import draft_messages, draft_turn
from foveate.text import compact_json
from foveate.tokens import Counter, calibrate, session_counter
from foveate.turn import Json, Message, Text, Turn, from_us, parse_time, turn_id, turn_number

if TYPE_CHECKING:
    from foveate.client import Foveate


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
        recaller = Recaller(shared.store, shared.searcher, shared.settings.recall, caller=shared.caller)
        self._contexts = Contexts(
            shared.store,
            row.id,
            shared.events,
            shared.settings,
            recaller=recaller,
            agent=TriggerAgent(shared, row.id),
            renewals=shared.renewals,
            uses=shared.uses,
            worker=shared.worker,
        )
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
        row = self._row
        shown = session_strategy(row.strategy, self._shared.settings, given_settings(row)).strategy
        return "goals" in (*shown.documents, *shown.changing_documents)

    @property
    def documents(self) -> Documents:
        """Documents of the session: `documents.give("epic", "…")`, `get`; `oneshot` shows epic and tasks."""
        given = given_settings(self._row) if self._row.strategy == "oneshot" else None
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
        return Checkpoints(self.refresh, self.context, self._store, self._contexts.storyteller, self._key)

    @property
    def topics(self) -> SessionTopics:
        """Topics of the conversation: `topics.add_message(…)`, `get_context`, `seal_current_topic`, `get_history`."""
        return SessionTopics(self, self._store, self._contexts.storyteller, self._key)

    @property
    def compression_level(self) -> int:
        """zstd compression level of recorded messages."""
        return self._shared.settings.store.compression_level

    @property
    def strategy_problem(self) -> str:
        """Why the session does not use its own strategy, e.g. because it is not installed; empty if it does."""
        row = self._row
        return session_strategy(row.strategy, self._shared.settings, given_settings(row)).problem

    def limit_budget(self, tokens: int) -> None:
        """Limit the budget of this handle, e.g. to the model's window. Not stored."""
        self._limit_tokens = tokens
        self._take(self._row)

    async def restore_budget(self, before: SessionInfo) -> SessionInfo:
        """Take a change of the budget back."""
        is_lowered = before.budget_tokens < self._shared.settings.session.budget_tokens
        chosen = 1 if before.budget_chosen else BUDGET_LOWERED if is_lowered else 0
        return await self._update({"budget_tokens": before.budget_tokens, "budget_chosen": chosen})

    async def lower_budget(self, tokens: int) -> SessionInfo:
        """Lower the session's budget, e.g. after a provider found a request too long. It is never raised by this."""
        await self._reload()
        lowered = {"budget_tokens": max(1, min(tokens, self._row.budget_tokens))}
        return await self._update(
            lowered if self._row.budget_chosen == 1 else {**lowered, "budget_chosen": BUDGET_LOWERED}
        )

    @property
    def history_tools(self) -> frozenset[str]:
        """The names of the history tools."""
        return HISTORY_TOOLS

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
    ) -> RecordedTurn:
        """Record messages durably, and return the last turn they belong to.

        Accepts dicts in OpenAI, Anthropic or Gemini format, response objects of those providers' packages, canonical
        messages, or a whole Turn. Each prompt starts a turn; messages before the first prompt are added to the open
        turn. `at` is the time of messages that have none. Recording again with the same `key` adds nothing. If
        messages belong to a certain `turn` and another one has begun, they are rejected with `TurnBegun`.
        """
        return (await self.record_all(messages, at=at, format=format, key=key, turn=turn))[-1]

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
    ) -> list[RecordedTurn]:
        """Like `record`, but return every turn that was created or extended, in order.

        `key` may be a list with the key of each message. With `after`, the key of the last message that has one must
        be this, or else nothing is recorded (`SessionContinued`). With `exact`, a `key` that was used for different
        messages is an error (`KeyReused`).
        """
        moment = None if at is None else parse_time(at)
        for each in (key,) if isinstance(key, str | None) else key:
            check_text("key", each or "")
        if isinstance(messages, Turn):
            if not messages.messages:
                raise InvalidMessage("turn", "has no messages; a turn has at least one")
            if not isinstance(key, str | None):
                raise InvalidMessage("key", "is a list; a whole turn takes one key")
            drafts = await draft_turn(messages, moment, key, self.sizes, self.compression_level)
        else:
            given = await read_messages(messages, format)
            drafts = await self.draft(given, numbered_keys(key, len(given)), at=moment)
        newest = None if turn is None else turn_number(turn)
        if turn is not None and newest is None:
            raise TurnNotFound(self.id, str(turn), (await self.refresh()).turns)
        places = await self.append(drafts, newest_turn=newest, after=after, exact=exact)
        placed = list(zip(drafts, places, strict=True))
        return [
            RecordedTurn(self.id, number, len(group), self._counter.scale(sum(draft.tokens for draft, _ in group)))
            for number, group in by_turn(placed).items()
        ]

    async def draft(
        self, messages: Sequence[Message], keys: Sequence[str | None], *, at: datetime | None = None
    ) -> list[Draft]:
        """Messages as they are stored, counted and packed, each with its key; see `append`."""
        return await draft_messages(self._bound(messages), at, keys, self.sizes, self.compression_level)

    def _bound(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The messages, the first answer with a hash of the request it came from if its thinking is signed."""
        place = next((index for index, message in enumerate(messages) if message.role == "assistant"), None)
        asked = self._shared.asked.pop(self.id) if place is not None else None
        if place is None or asked is None or not is_signed(messages[place]) or (prefix := asked()) is None:
            return messages
        return [*messages[:place], replace(messages[place], prefix=prefix), *messages[place + 1 :]]

    async def append(
        self,
        drafts: Sequence[Draft],
        *,
        newest_turn: int | None = None,
        after: str | None = None,
        exact: bool = False,
        tail: str = "",
    ) -> list[Place]:
        """Record drafts, all or none, and publish events; see `foveate.store.protocol.Store.append`."""
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
        contents = TopicTurns(match.titles)
        for number in match.turns:
            with suppress(TurnPruned):
                try:
                    contents.append(await self.get_turn(number, level, format))
                except LevelNotReady:
                    contents.append(await self.get_turn(number, "R", format))
        return contents

    async def turn_details(self, turn: str | int) -> TurnDetails:
        """Lengths, tool calls and topics of a turn, and who made its renditions when."""
        number = turn_number(turn)
        if not number:
            raise TurnNotFound(self.id, str(turn), (await self.refresh()).turns)
        return await self._reader().details(number)

    async def load_turn(self, turn: str | int) -> Turn:
        """A turn with its messages."""
        number = turn_number(turn)
        found = await self.load_turns(number, number) if number else []
        if not found:
            raise TurnNotFound(self.id, str(turn), (await self.refresh()).turns)
        return found[0]

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
        return await self._make_context(None, budget_tokens=budget_tokens, strategy=strategy)

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
    ) -> Context:
        """`context` with these tools; a prompt that is the newest turn, recorded and unanswered, is sent once."""
        context = await self._make_context(
            offer, prompt, budget_tokens=budget_tokens, system=system, order=order, strategy=strategy, recall=recall
        )
        self.came_from(context)
        return context

    async def _make_context(
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
        await self._reload()
        said = [Message("user", (Text(prompt),))] if isinstance(prompt, str) else prompt
        request = Request(
            prompt="" if prompt and await self.is_waiting(said) else prompt,
            budget_tokens=self._row.budget_tokens if budget_tokens is None else budget_tokens,
            system=system,
            pins=await self.pins(),
            tools_tokens=offer.tokens(self._counter) if offer else 0,
            history_tools_tokens=offer.late_tokens(self._counter) if offer else 0,
            order=order or self._shared.settings.context.order,
            strategy=strategy,
            recall=recall,
        )
        context = await self._contexts.make(self._row, self._counter, request)
        sent = offer if context.has_history_tools or not offer else offer.without_history()
        drops = self._shared.settings.context.drop_unbound_thinking
        return replace(context, offer=sent, drops_unbound_thinking=drops)

    def came_from(self, context: Context) -> None:
        """The answer that is recorded next came from this context."""
        self._shared.asked[self.id] = lambda: None if context.layout.open_call else context.prefix()

    def came_from_client(
        self, system: str, tools: Sequence[Mapping[str, Any]], messages: Sequence[Mapping[str, Any]]
    ) -> None:
        """The answer that is recorded next came from a client's own request."""
        self._shared.asked[self.id] = lambda: request_prefix(system, tools, messages)

    def came_from_messages(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> None:
        """The answer that is recorded next came from these messages, which a framework sent in a form of its own."""
        self._shared.asked[self.id] = lambda: messages_prefix(messages, tools)

    def whole_tokens(
        self, standing: Standing, drafts: Sequence[Draft], *, system: str, tools: Sequence[Mapping[str, Any]]
    ) -> int | None:
        """Tokens of a request with all that is recorded and these messages, as they are.

        None if that is more than the budget, or if contexts of the session show something else.
        """
        strategy = session_strategy(self._row.strategy, self._shared.settings, given_settings(self._row)).strategy
        if not standing.is_plain or self._row.mode or strategy.keeps_story or strategy.rebuild_schedule is None:
            return None
        recorded = standing.tokens + sum(draft.tokens for draft in drafts)
        framing = MESSAGE_TOKENS * (bool(system) + standing.messages + len(drafts)) + REPLY_TOKENS
        offered = self._counter.stable_base(compact_json(tools)) if tools else 0
        base = recorded + framing + offered + self._counter.stable_base(system)
        tokens = self._counter.scale(base, self._row.calibration)
        return tokens if tokens <= self._row.budget_tokens else None

    @property
    def empty_standing(self) -> Standing:
        """What a session that was just created holds."""
        return Standing(self._row, 0, 0, 0, is_plain=True)

    def take(self, row: SessionRow) -> None:
        """Go on with the session's data as they were just read."""
        self._take(row)

    def turn(self, prompt: str | Sequence[Mapping[str, Any]]) -> Exchange:
        """One prompt and its answer, safe for concurrent prompts in this session; use it in a `with` block.

        `turn.request(format, …)` returns the arguments of the call, `turn.record(reply)` records the answer. The
        prompt is recorded when the block begins, once, even if the block is run again after a failure.
        """
        lock = self._shared.turn_locks.setdefault(self._key, asyncio.Lock())
        return Exchange(self, prompt, lock)

    async def context_for(
        self,
        format: str,  # noqa: A002
        *,
        system: str = "",
        extra_tools: Sequence[Mapping[str, Any]] = (),
        history_tools: bool = True,
        is_late: bool = False,
        budget_tokens: int | None = None,
    ) -> Context:
        """The context for what is recorded, with tools in a provider's format; no prompt is added.

        With `is_late` the history tools are offered only once a turn is not shown word for word.
        """
        offer = ToolSet(tuple(extra_tools), format, has_history=history_tools, is_late=is_late)
        return await self.context_with(
            offer if extra_tools or history_tools else None, system=system, budget_tokens=budget_tokens
        )

    async def is_waiting(self, prompt: Sequence[Message]) -> bool:
        """Whether the newest turn ends with exactly this prompt and has no answer yet."""
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
        return Pin(f"P-{row.number}", row.text, row.locked, from_us(row.created_us))

    async def pins(self) -> list[Pin]:
        """The pins, oldest first."""
        rows = await self._store.list_pins(self._key)
        return [Pin(f"P-{row.number}", row.text, row.locked, from_us(row.created_us)) for row in rows]

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
        span = exports.Span.between(after, before)
        writer = exports.start(format, info, await self.pins())
        results = exports.WholeResults(self._store, self._key)
        last_turn = min(high, info.turns)
        async for piece in exports.pieces(writer, self.load_turns, results, first=low, last=last_turn, span=span):
            yield piece

    async def _reload(self) -> None:
        self._take(await self._store.get_session(self._key))

    def _take(self, row: SessionRow) -> None:
        limit = self._limit_tokens
        row = with_budget(row, self._shared.settings.session.budget_tokens)
        self._row = row if limit is None else replace(row, budget_tokens=min(row.budget_tokens, limit))
        self._counter = session_counter(row.model, row.encoding)

    async def _update(self, changes: Mapping[str, object]) -> SessionInfo:
        if changes:
            self._take(await self._store.update_session(self._key, changes))
        return self.info

    def _retrieval(self) -> Retrieval:
        searcher = self._shared.searcher
        return Retrieval(self._store, self._row, self._contexts, self._counter, searcher=searcher)

    def _reader(self) -> Reader:
        return Reader(self._store, self._row, self._counter, self._contexts.viewer)
