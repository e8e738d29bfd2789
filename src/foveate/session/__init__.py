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
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from foveate.context import board as boards
from foveate.context.assemble import Order
from foveate.context.board import Board
from foveate.context.context import Context
from foveate.context.pins import PINS_SHARE, check_pins
from foveate.context.tools import RANGE_LEVELS as SHOWN_LEVELS
from foveate.context.tools import RangeLevel, ToolSet
from foveate.errors import InvalidMessage, LevelUnknown, TurnNotFound
from foveate.formats import ProviderFormat as ProviderFormat
from foveate.recall.search import Hit, SearchFilter
from foveate.renditions import Level
from foveate.session import export as exports
from foveate.session import record
from foveate.session.cabinet import Cabinet
from foveate.session.checkpoints import Checkpoints
from foveate.session.context import given_settings
from foveate.session.documents import Documents
from foveate.session.engine import SessionEngine
from foveate.session.erase import NOT_SWEPT, Eraser, EraseReport, Erasure, describe_erasure, sweep
from foveate.session.exchange import Exchange
from foveate.session.files import Files
from foveate.session.goals import Goals
from foveate.session.handoff import Handoff, HandoffTarget, hand_over
from foveate.session.messages import MessageReport, report_messages
from foveate.session.picture import PastPicture, Picture, past_picture, picture_of
from foveate.session.prompts import Prompts
from foveate.session.read import TurnFormat
from foveate.session.record import Recordable, as_messages, check_text, pin_number
from foveate.session.sent import SentRequest, opened_request, sent_request
from foveate.session.tenant import public_id
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
    describe_stats,
)
from foveate.session.why import TurnReason, explain_turn, on_board_of
from foveate.settings import make_strategy
from foveate.store import PinRow
from foveate.strategy import StrategyName
from foveate.tokens import Counter
from foveate.turn import Json, Turn, turn_number

_T = TypeVar("_T")


class Session:
    """One conversation. Open it with `Foveate.session`; several handles, tasks and processes may share it."""

    def __init__(self, engine: SessionEngine) -> None:
        self.id: str = public_id(engine.tenant, engine.stored_id)
        """The id within its tenant."""
        self.engine = engine
        """Internal: the operations that the gateway, intake, agents and tools use."""
        self._offer: ToolSet | None = None

    @property
    def info(self) -> SessionInfo:
        """Session data as of the last change or `refresh` through this handle."""
        return self.engine.info

    async def refresh(self) -> SessionInfo:
        """Reload the session's data, including changes by other handles."""
        return await self.engine.reload()

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
        turn. `at` is the time of messages that have none. Recording again with the same `key` adds nothing. With
        `turn`, messages are rejected (`TurnBegun`) if a later turn has begun. `context` is the context that the answer
        was generated from, or its `token`; default: the last context of this session.
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
        """Record messages durably, and return every turn that was created or extended, in order.

        Takes the arguments of `record`. `key` may also be a list with one key per message. With `after`, nothing is
        recorded (`SessionContinued`) unless that is the newest key in the session. With `exact`, a `key` that was used
        for different messages is an error (`KeyReused`).
        """
        newest = None if turn is None else turn_number(turn)
        if turn is not None and newest is None:
            raise TurnNotFound(self.id, str(turn), (await self.refresh()).turns)
        drafts = await record.make_drafts(self.engine, messages, at=at, format_name=format, key=key, context=context)
        places = await self.engine.append(drafts, newest_turn=newest, after=after, exact=exact)
        return record.recorded_turns(self.id, drafts, places, self.engine.counter)

    async def context(
        self,
        prompt: str | Sequence[Mapping[str, Any]] = "",
        *,
        budget_tokens: int | None = None,
        system: str = "",
        order: Order | None = None,
        strategy: StrategyName | None = None,
        recall: bool = True,
        tools: bool | None = None,
    ) -> Context:
        """Build the context for a prompt, within the budget.

        With a budget or strategy other than the session's it is a preview: planned from scratch, and nothing is saved.
        Older turns that match the prompt are added after the history, unless `recall` is false. With `tools` the
        history tools are counted and included in `Context.request`; default: only after a call of `Session.tools`.
        """
        offer = None if tools is False else self._offer or (ToolSet() if tools else None)
        parsed = prompt if isinstance(prompt, str) else as_messages(prompt, None)
        return await self.engine.context_with(
            offer, parsed, budget_tokens=budget_tokens, system=system, order=order, strategy=strategy, recall=recall
        )

    async def message_reports(self, context: Context | None = None) -> list[MessageReport]:
        """Report what each message became in a context of the `hybrid` strategy (default: the live one), and why."""
        return await report_messages(self, context or await self.context())

    def turn(self, prompt: str | Sequence[Mapping[str, Any]]) -> Exchange:
        """Start a turn: record a prompt and then its answer in a `with` block, safe with concurrent prompts.

        `turn.request(format, …)` returns the arguments of the provider's call, `turn.record(reply)` records the answer.
        The prompt is recorded once, when the block begins; a block that is run again after a failure resumes the turn.
        """
        return Exchange(self, prompt)

    def tools(
        self,
        format: ProviderFormat = "openai",  # noqa: A002
        extra_tools: Sequence[Mapping[str, Any]] = (),
        *,
        besides: Sequence[Mapping[str, Any]] = (),
    ) -> list[Any]:
        """Return the history tools and your `extra_tools` in a provider's format, and include them in later contexts.

        `context.request(format)` contains the same tools. `besides` is the old name of `extra_tools`.
        """
        if besides:
            warnings.warn("tools(besides=…) is now tools(extra_tools=…)", DeprecationWarning, stacklevel=2)
        offer = ToolSet((*extra_tools, *besides), format)
        definitions = offer.definitions(format)
        self._offer = offer
        return definitions

    async def call_tool(self, name: str, arguments: object) -> str:
        """Execute a model's call of a history tool, and return the result as text.

        An invalid call returns an explanation for the model.
        """
        await self.engine.reload()
        return await self.engine.retrieval().answer(name, arguments)

    async def calibrate(self, context: Context, *, reported_tokens: int) -> float:
        """Calibrate token counts with the usage that a provider reported for a context, and return the new factor.

        Counts rise at once and fall slowly.
        """
        return await self.engine.calibrate(context.tokens, context.calibration, reported_tokens=reported_tokens)

    async def picture(self, context: Context | None = None, *, columns: int = 240) -> Picture:
        """Describe a context (default: the live one) as a picture: the budget's parts, and the turns by level.

        The timeline has at most `columns` columns; the older turns of a long conversation share some.
        """
        context = context or await self.engine.look()
        outlines = await self.outline()
        removed = {one.number for one in outlines if one.is_pruned}
        board = on_board_of(context)
        draw = partial(picture_of, columns=columns, removed=removed, on_board=board)
        picture = await asyncio.to_thread(draw, context.segments, context.budget_tokens)
        return picture.dated({one.number: one.started_at for one in outlines})

    async def _dated(self, picture: Picture) -> Picture:
        """Return a picture with the dates of its ticks."""
        outlines = [one for tick in picture.ticks for one in await self.outline(tick.turn, tick.turn)]
        return picture.dated({one.number: one.started_at for one in outlines})

    async def explain_turn(self, turn: str | int, context: Context | None = None) -> TurnReason:
        """Explain why a context (default: the live one) shows a turn at its level, and how to show more of it."""
        number = turn_number(turn)
        outline = await self._found(turn, await self.outline(number, number) if number else [])
        return await asyncio.to_thread(explain_turn, context or await self.engine.look(), outline)

    async def pictures(self) -> list[PastPicture]:
        """List what contexts showed after each change of the plan, oldest first; the newest 500 are kept."""
        return [past_picture(row) for row in await self.engine.store.pictures.list_pictures(self.engine.stored_id)]

    async def requests(self, limit: int = 50) -> list[SentRequest]:
        """List the newest requests that the gateway sent for this session, oldest first, without their bodies."""
        return [sent_request(row) for row in await self.engine.store.sent.list_sent(self.engine.stored_id, limit=limit)]

    async def request(self, number: int) -> SentRequest:
        """Return a request exactly as it was sent, and what changed since the one before."""
        rows = await self.engine.store.sent.read_chain(self.engine.stored_id, number)
        row = next((one for one in rows if one.number == number), None)
        is_whole = row is not None and row.picture is None and row.turn > 0
        outlines = await self.outline(1, row.turn) if row and is_whole else []
        raw_tokens = [one.tokens for one in outlines]
        found = await asyncio.to_thread(opened_request, rows, self.id, number, raw_tokens)
        return replace(found, picture=await self._dated(found.picture)) if found.picture else found

    async def get_turn(
        self,
        turn: str | int,
        level: Level = "R",
        format: TurnFormat = "tagged",  # noqa: A002
    ) -> TurnContent:
        """Return the text of a turn at a level, tagged or plain."""
        number = turn_number(turn)
        return await self._found(turn, await self.get_turns(number, number, level, format) if number else [])

    async def get_turns(
        self,
        first: str | int,
        last: str | int,
        level: Level = "R",
        format: TurnFormat = "tagged",  # noqa: A002
    ) -> list[TurnContent]:
        """Return the texts of the turns from `first` to `last` at a level, tagged or plain.

        Turns that don't exist or were pruned are skipped; `outline` names those. A single turn that was pruned is an
        error (`TurnPruned`).
        """
        reader = self.engine.reader()
        return await reader.contents(*reader.between(first, last), level, format)

    async def get_turns_by_topic(
        self,
        topic: str,
        level: Level = "C",
        format: TurnFormat = "tagged",  # noqa: A002
    ) -> TopicTurns:
        """Return the turns on a topic, oldest first.

        A learned topic is found by its id, its title or one of its keywords. If there is none, up to eight turns are
        found by a search, and `is_exact` is false. A turn without a rendition is returned raw; pruned turns are
        skipped.
        """
        await self.engine.reload()
        match = await self.engine.retrieval().on_topic(topic)
        return await self.engine.reader().on_topic(match, level, format)

    async def read_page(
        self,
        first: str | int,
        last: str | int | None = None,
        level: RangeLevel = "C",
        *,
        page: int = 1,
        page_tokens: int = 8_000,
    ) -> TextPage:
        """Return one page of the turns from `first` to `last` (default: `first` only) at a level, in tags.

        Level `E` returns the eras that summarise the range. At most 1,000 turns are read. A page number beyond the last
        page returns the last page.
        """
        await self.engine.reload()
        reader = self.engine.reader()
        low, high = reader.between(first, first if last is None else last)
        if level not in SHOWN_LEVELS:
            raise LevelUnknown(level, SHOWN_LEVELS)
        return await self.engine.retrieval().page(low, high, level, page=page, page_tokens=page_tokens)

    async def load_turn(self, turn: str | int) -> Turn:
        """Load a turn with its messages."""
        number = turn_number(turn)
        return await self._found(turn, await self.load_turns(number, number) if number else [])

    async def load_turns(self, first: str | int = 1, last: str | int | None = None) -> list[Turn]:
        """Load the turns from `first` to `last` (default: all) with their messages.

        Turns that were pruned are skipped; `outline` names those. A single one is an error (`TurnPruned`).
        """
        reader = self.engine.reader()
        return await reader.turns(*reader.between(first, last))

    async def outline(self, first: str | int = 1, last: str | int | None = None) -> list[TurnOutline]:
        """List sizes and times of the turns from `first` to `last` (default: all), without their content."""
        reader = self.engine.reader()
        return await reader.outlines(*reader.between(first, last))

    async def turn_details(self, turn: str | int) -> TurnDetails:
        """Return lengths, tool calls and topics of a turn, and when and by whom each rendition was made."""
        number = turn_number(turn)
        return await self.engine.reader().details(await self._found(turn, [number] if number else []))

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
        speaker: str | None = None,
        order: str = "relevance",
    ) -> list[Hit]:
        """Search the session's turns by words or by meaning; best first, each with its best passage.

        Filters: `role` is who said it (`user`, `assistant`, `tool`), `speaker` a name that messages begin with (`Anna:
        …`), `tool` a tool's name, `file` a path that the turn names. `after` and `before` are times, or `7d`, `12h`,
        `yesterday`, `last week`, `September 2022`. With the order `time` the oldest turn comes first, and the query may
        be empty.
        """
        filters = SearchFilter(role=role, tool=tool, after=after, before=before, file=file, speaker=speaker)
        hits = await self.engine.shared.searcher.search(self.engine.row, query, max_results, filters, order=order)
        return [replace(hit, session_id=self.id) for hit in hits]

    async def pin(self, text: str, *, locked: bool = False) -> Pin:
        """Include a rule or fact verbatim in every context. Removing a locked pin requires confirmation.

        Pinning the same text again returns the existing pin, locked if either call requested it. The pins of a session
        may have half of its budget; `PinsExceedBudget` if a new one exceeds that.
        """
        if not text.strip():
            raise InvalidMessage("pin", "has no text")
        check_text("pin", text)
        await self.engine.reload()
        own = self.engine.row

        def check(rows: Sequence[PinRow]) -> None:
            check_pins(
                [describe_pin(row) for row in rows], own.budget_tokens, own.exact, own.calibration, share=PINS_SHARE
            )

        row = await self.engine.store.add_pin(self.engine.stored_id, text, locked=locked, check=check)
        return describe_pin(row)

    async def pins(self) -> list[Pin]:
        """List the pins, oldest first."""
        return [describe_pin(row) for row in await self.engine.store.list_pins(self.engine.stored_id)]

    async def unpin(self, pin_id: str, *, even_if_locked: bool = False) -> None:
        """Remove a pin; a locked one requires `even_if_locked`."""
        number = pin_number(self.id, pin_id)
        await self.engine.store.remove_pin(self.engine.stored_id, number, even_if_locked=even_if_locked)

    async def board(self) -> Board:
        """Return the board: retrieved turns and notes that contexts show for a limited number of turns."""
        await self.engine.reload()
        return boards.current(await self.engine.contexts.board.load(self.engine.row))

    async def dismiss(self, name: str) -> None:
        """Remove an item from the board by its name, e.g. `T-87-R`."""
        await self.engine.reload()
        await self.engine.contexts.board.change(self.engine.row, partial(boards.dismiss, name=name))

    async def save(self, name: str) -> None:
        """Keep an item on the board until it is dismissed."""
        await self.engine.reload()
        await self.engine.contexts.board.change(self.engine.row, partial(boards.save, name=name))

    @property
    def goals(self) -> Goals:
        """Goals of the conversation: `goals.add("…")`, `step`, `plan`, `decide`, `artifact`, `done`, `list`."""
        return Goals(self.engine.store, self.engine.stored_id)

    @property
    def documents(self) -> Documents:
        """Documents of the session: `documents.give("epic", "…")`, `get`; `oneshot` shows epic and tasks."""
        row, settings = self.engine.row, self.engine.shared.settings
        overrides = given_settings(row, settings) if row.strategy == "oneshot" else None
        strategy = make_strategy("oneshot", settings, overrides)
        return Documents(self.engine.store, row, strategy.document_limits)

    @property
    def files(self) -> Files:
        """Files and todos that tool calls name: `files.list()`, `summarize(path, "…")`, `summaries()`."""
        row = self.engine.row
        return Files(self.engine.store, row.id, row.last_turn, self._kept_turns)

    @property
    def topics(self) -> SessionTopics:
        """Topics of the conversation: `topics.add_message(…)`, `get_context`, `seal_current_topic`, `get_history`."""
        engine = self.engine
        return SessionTopics(self, engine.store, engine.contexts.driver, engine.stored_id)

    @property
    def checkpoints(self) -> Checkpoints:
        """Checkpoints of the session: `checkpoints.list()`, `status()`."""
        return Checkpoints(self.engine, self.refresh)

    @property
    def prompts(self) -> Prompts:
        """Stored prompts that apply to the session: `prompts.text(key)`, `render`, `set`."""
        return Prompts(self.engine.store, self.engine.row.tenant)

    @property
    def cabinet(self) -> Cabinet:
        """The file cabinet that the tools of this session use: `cabinet.file(…)`, `read`, `content`, `list`."""
        return self.engine.cabinet

    async def set_mode(self, name: str) -> SessionInfo:
        """Add the prompt of a mode, such as `developer`, to every system prompt; an empty name removes it."""
        return await self.engine.update({"mode": await self.prompts.check_mode(name)})

    async def use(self, strategy: StrategyName, **settings: Json) -> SessionInfo:
        """Change the session's strategy and its settings. The turns are not changed."""
        make_strategy(strategy, self.engine.shared.settings, settings)
        return await self.engine.update({"strategy": strategy, "settings": json.dumps(settings)})

    async def rename(self, title: str) -> SessionInfo:
        """Change the session's title."""
        return await self.engine.update({"title": check_text("title", title)})

    async def label(self, *, platform: str | None = None, channel: str | None = None) -> SessionInfo:
        """Set the session's platform and channel; omitted labels are not changed."""
        labels = {"platform": platform, "channel": channel}
        changes = {name: check_text(name, value) for name, value in labels.items() if value is not None}
        return await self.engine.update(changes)

    async def fork(
        self, session_id: str, at: str | int | None = None, *, title: str | None = None, exist_ok: bool = False
    ) -> Session:
        """Create a session that shares the turns up to `at` (default: the newest; 0: none, a child session).

        With `exist_ok`, an existing fork with this id is opened if it was forked at the same turn (without `at`: at any
        turn).
        """
        return Session(await self.engine.fork(session_id, at, title=title, exist_ok=exist_ok))

    async def erase(
        self,
        *turns: str | int,
        text: str | None = None,
        forks: bool = False,
        pins: bool = False,
        by: str = "",
        dry_run: bool = True,
        overwrite: bool = True,
    ) -> EraseReport:
        """Erase turns, or one text in the session's own turns, wherever the store has it. By default, only report.

        Rejected while forks read the turns, unless `forks`. Pins that quote it are reported; `pins` erases them too.
        `by` is who did it, for the audit. With `overwrite`, the file is rewritten so that its free pages have nothing
        of it; writers wait meanwhile.
        """
        eraser = Eraser(self.engine, forks=forks, pins=pins, by=by)
        if (text is None) == (not turns):
            raise InvalidMessage("erase", "takes turns or a text, and one of them is needed")
        report = await (eraser.turns(turns, dry_run=dry_run) if text is None else eraser.text(text, dry_run=dry_run))
        if report.is_erased:
            await self.engine.reload()
            self.engine.shared.worker.wake(self.engine.stored_id)
            rest = await sweep(self.engine.store) if overwrite else NOT_SWEPT
            return replace(report, notes=(*report.notes, *filter(None, [rest])))
        return report

    async def erasures(self) -> list[Erasure]:
        """List what was erased in this session, when and by whom, oldest first."""
        found = await self.engine.store.erasures.list_all(session_id=self.engine.stored_id)
        return [describe_erasure(row, self.engine.tenant) for row in found]

    async def stats(self) -> SessionStats:
        """Return counts, sizes and the state of background work."""
        await self.engine.reload()
        store, key = self.engine.store, self.engine.stored_id
        backlog, pins = await store.derived.backlog(key), await store.list_pins(key)
        return describe_stats(self.engine.row, await store.sizes(key), backlog, pins=len(pins))

    @property
    def counter(self) -> Counter:
        """The token counter of this session."""
        return self.engine.counter

    @property
    def shows_goals(self) -> bool:
        """Whether contexts include the goals; `oneshot` shows its epic and tasks instead."""
        strategy = self.engine.strategy.strategy
        return "goals" in (*strategy.documents, *strategy.changing_documents)

    @property
    def strategy_problem(self) -> str:
        """Why a fallback replaces the session's strategy, e.g. because it is not installed; empty if none does."""
        return self.engine.strategy.problem

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

        `after` and `before` select turns by their start time: `2026-11-15`, `7d` (ago), `yesterday`. JSON and Markdown
        name the turns that were pruned; the other formats leave them out.
        """
        info = await self.refresh()
        reader = self.engine.reader()
        low, high = reader.between(first, last)
        writer = exports.start(format, info, await self.pins())
        results = exports.WholeResults(self.engine.store, self.engine.stored_id)
        span, high = exports.Span.between(after, before), min(high, info.turns)
        async for piece in exports.pieces(writer, reader.kept, results, first=low, last=high, span=span):
            yield piece

    async def handoff(self, to: HandoffTarget = "file", *, budget_tokens: int = 8_000, folder: str = "/") -> Handoff:
        """Write what another client needs to continue: a transcript that `claude` or `codex` resumes in `folder`, or a
        first prompt for `opencode` or as a `file`.

        Within the budget it has the pins and the newest turns verbatim, goals, decisions, open steps, files, and a line
        for each earlier turn. Nothing is written to disk.
        """
        return await hand_over(self, to, budget_tokens=budget_tokens, folder=folder)

    async def _kept_turns(self, first: int) -> list[Turn]:
        """Load the turns from `first` on that were not removed."""
        reader = self.engine.reader()
        return [turn for turn in await reader.kept(*reader.between(first, None)) if isinstance(turn, Turn)]

    async def _found(self, turn: str | int, found: Sequence[_T]) -> _T:
        if not found:
            raise TurnNotFound(self.id, str(turn), (await self.refresh()).turns)
        return found[0]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Return an old public name that moved to the engine, with a deprecation warning (for one release)."""
            if name not in vars(SessionEngine):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            warnings.warn(f"Session.{name} is internal now: session.engine.{name}", DeprecationWarning, stacklevel=2)
            return getattr(self.engine, name)
