"""Makes the contexts of a session: fixed part, history, memory, board and prompt, within the budget.

At the session's own budget the plan is kept between calls. At any other budget the context is a preview: planned from
scratch, and nothing is saved.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import math
import os
import time
from collections.abc import Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import takewhile
from typing import cast, get_args

from foveate import telemetry
from foveate.additions import ClientTexts
from foveate.context import board as boards
from foveate.context.allotments import HISTORY_MINIMUM_TOKENS
from foveate.context.assemble import (
    MESSAGE_TOKENS,
    REPLY_TOKENS,
    BlockText,
    ContextParts,
    Order,
    assemble,
    leading_results,
    prompt_messages,
)
from foveate.context.board import Board
from foveate.context.client_texts import fit_client_texts
from foveate.context.context import Context, PlanReport
from foveate.context.coverage import turns_without_words
from foveate.context.dates import names_day
from foveate.context.pairs import loose_ends
from foveate.context.pins import write_pins
from foveate.context.tags import SUMS, Section, tag_document
from foveate.errors import BudgetExceeded, HistoryExceedsBudget, InvalidPrompt, InvariantBroken, PromptNotFound
from foveate.events import Event, EventKind
from foveate.history.driver import HistoryDriver, HistoryView
from foveate.history.memory_layer import MemoryLayer
from foveate.history.newest_step import native_framing_tokens
from foveate.history.recalled import Recaller, RecallRequest
from foveate.history.request import (
    PROMPT_MESSAGES,
    ContextRequest,
    Fallback,
    check_prompt,
    fit_prompt,
    prompt_tokens,
    said_by_user,
)
from foveate.history.texts import TextReader
from foveate.models.prompts import composed_overrides, overridden
from foveate.plan import Ledger
from foveate.recall.questions import Need, need_of
from foveate.session.agent import TriggerAgent
from foveate.session.board import SessionBoard
from foveate.session.documents import NO_TASKS, check_size
from foveate.session.picture import keep_row
from foveate.session.prompts import mode_text
from foveate.session.shared import SharedParts
from foveate.session.values import describe_pin
from foveate.settings import SessionStrategy, Settings, make_strategy, session_strategy
from foveate.store import SessionRow
from foveate.store.snapshot import SessionSnapshot
from foveate.strategy.standard import Standard
from foveate.tokens import Counter
from foveate.turn import Json, Message, day_text, turn_id

SLACK_TOKENS = 64
"""Tokens left free by a history that fills its room, for the lines around its messages."""
FRAMING_TOKENS = (PROMPT_MESSAGES + 4) * MESSAGE_TOKENS + REPLY_TOKENS
"""Reserve for the framing of messages: the system message, added texts, and those of a usual prompt."""


DEFECTS = (
    AssertionError,
    InvariantBroken,
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""Errors of a defective plan, third-party strategy or damaged rendition."""
STRICT_VARIABLE = "FOVEATE_STRICT"
"""Environment variable; if set, defects are raised instead of handled by a fallback, e.g. in tests."""
MAX_MARKED_CHARS = 100_000
"""A longer query is hashed before its mark is written as JSON, which takes ten times as long."""
MAX_PROBLEM_CHARS = 300
"""Maximum length of a defect's description in an event."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The arguments of a caller."""

    prompt: str | Sequence[Message] = ""
    budget_tokens: int | None = None
    """None for the session's own."""
    system: str = ""
    tools_tokens: int = 0
    """Base tokens of the tools in the request."""
    history_tools_tokens: int = 0
    """The part of `tools_tokens` for history tools that are sent only if there is a history in tags."""
    order: Order = "cache-first"
    strategy: str | None = None
    """A strategy other than the session's own, for a preview."""
    recall: bool = True
    """Add earlier passages that match the prompt."""
    client: ClientTexts = field(default_factory=ClientTexts)
    """What the request of a client has besides the conversation."""
    is_display: bool = False
    """No answer is expected from the context."""


class Contexts:
    """Makes the contexts of one session."""

    def __init__(self, shared: SharedParts, session_id: str) -> None:
        store, settings, writes = shared.store, shared.settings, shared.writes
        self.reader = TextReader(store, session_id, dates=settings.context.dates)
        self.driver = HistoryDriver(store, session_id, self.reader, worker=shared.worker, writes=writes)
        self.board = SessionBoard(
            store, session_id, self.reader, settings=settings, publish=self._publish, writes=writes
        )
        self._recaller = Recaller(store, shared.searcher, settings.recall, writes, caller=shared.caller)
        self._agent = TriggerAgent(shared, session_id)
        self._strategies: dict[tuple[str | None, ...], SessionStrategy] = {}
        """Strategies by requested name and by the session's strategy, settings and scope."""
        self._store = store
        self._session_id = session_id
        self._events = shared.events
        self._settings = settings
        self._renewals = shared.renewals
        self._uses = shared.uses
        self._writes = writes

    async def snapshot(self, strategy: str | None = None) -> SessionSnapshot:
        """Read a snapshot of the session for its own strategy or another one."""
        snapshot = await self._store.snapshot(
            self._session_id, strategy=lambda row: self._chosen(row, strategy).name, known=self.reader.known
        )
        await self.reader.take(snapshot)
        return snapshot

    async def make(self, snapshot: SessionSnapshot, counter: Counter, asked: Asked) -> Context:
        """Make a context within its budget. After a defect, make a simpler context and publish an event."""
        check_prompt(asked.prompt)
        if snapshot.session.mode:
            asked = _in_mode(snapshot, asked)
        prompts = snapshot.prompts
        with overridden(composed_overrides(prompts)) if prompts else nullcontext():
            try:
                return await self._make(snapshot, counter, asked)
            except DEFECTS as defect:
                if os.environ.get(STRICT_VARIABLE):
                    raise
                return await self._make_simpler(snapshot, counter, asked, defect)

    async def _make_simpler(
        self, snapshot: SessionSnapshot, counter: Counter, asked: Asked, defect: Exception
    ) -> Context:
        """Make a context with the first fallback that works."""
        session = snapshot.session
        _log.error("a context of %s could not be made; a simpler one is returned", session.id, exc_info=defect)
        for fallback in get_args(Fallback):
            try:
                context = await self._make(snapshot, counter, asked, fallback)
            except DEFECTS:
                _log.exception("the fallback %s failed too", fallback)
                continue
            problem = f"{type(defect).__name__}: {defect}"[:MAX_PROBLEM_CHARS]
            data: dict[str, Json] = {"fallback": fallback, "strategy": session.strategy, "problem": problem}
            self._publish("context-fallback", session.last_turn, data)
            return replace(context, planned=replace(context.planned, notes={"fallback": fallback}))
        raise InvariantBroken("context", f"{type(defect).__name__}: {defect}") from defect

    async def _make(
        self, snapshot: SessionSnapshot, counter: Counter, asked: Asked, fallback: Fallback | None = None
    ) -> Context:
        session = snapshot.session
        request = await self._request(snapshot, asked, fallback)
        _check_framing(request, counter)
        parts = self._parts(request, counter)
        ledger = self._ledger(request, parts, counter)
        client = fit_client_texts(asked.client, ledger.free_tokens, session.exact)
        if client.tokens:
            changing = {**parts.changing, "client-texts": client.document}
            parts = replace(parts, instructions=client.instructions, changing=changing)
            ledger = replace(ledger, fixed_tokens=ledger.fixed_tokens + client.tokens)
        request = replace(request, prompt=fit_prompt(request.prompt, session, ledger.free_tokens))
        ledger = replace(ledger, prompt_tokens=prompt_tokens(request.prompt, session))
        ledger = self._open(ledger, request)
        board, shown = Board(), ""
        if snapshot.board:
            board = await self.board.shown(snapshot, ends_turn=request.ends_turn, keep=not request.is_preview)
            shown = boards.render(
                board, now_turn=session.last_turn, budget_tokens=ledger.board_limit_tokens, count=session.exact.base
            )
            ledger = self._open(replace(ledger, board_tokens=session.exact.base(shown)), request)
            request = replace(request, retrieved=board.turns)
        try:
            view, layer = await self._history(request, ledger, board)
        except HistoryExceedsBudget as error:
            needed = counter.scale(error.needed_tokens, session.calibration)
            raise HistoryExceedsBudget(needed, counter.scale(ledger.history_tokens, session.calibration)) from None
        if fallback == "text":
            view = replace(view, blocks=[replace(block, messages=None) for block in view.blocks])
        if not request.ends_turn:
            await self._check_waiting(request, counter, view, ledger)
        if not request.is_preview:  # in a preview the history uses the board's room
            board, shown = await self._prefetched(request, ledger, view, layer, board=board, shown=shown)
        open_call = "" if request.ends_turn else await self._open_call(request)
        with telemetry.span("foveate.assemble"):
            context = assemble(
                replace(
                    parts,
                    prompt=request.prompt,
                    history=view.blocks,
                    at_work=0 if request.ends_turn else _blocks_in_progress(session, view.blocks),
                    open_call=open_call,
                    memory=layer.text,
                    board=shown,
                    explains_late=bool(view.blocks) or not session.last_turn,
                )
            )
        room_tokens = counter.scale(ledger.history_tokens, session.calibration)
        found = {"recall_late": list(layer.late), "knowledge": list(layer.knowledge)}
        notes: dict[str, Json] = {**view.planned.notes, **{name: value for name, value in found.items() if value}}
        silent = sum(map(len, turns_without_words(context.segments)))
        planned = replace(
            view.planned, room_tokens=room_tokens, strategy=request.name, notes=notes, turns_without_words=silent
        )
        context = replace(context, planned=planned, board=board)
        if not request.is_preview:
            if layer.knowledge:
                self._uses.show(session, layer.knowledge, request.query, ends_turn=request.ends_turn)
            await self._note_sent(session, context, has_changed=planned.is_new or bool(view.events))
        return context

    async def _request(self, snapshot: SessionSnapshot, asked: Asked, fallback: Fallback | None) -> ContextRequest:
        """Build the request: choose the strategy, the query for recall, and whether it is a preview."""
        session = snapshot.session
        chosen = SessionStrategy("standard", Standard()) if fallback else self._chosen(session, asked.strategy)
        budget_tokens = session.budget_tokens if asked.budget_tokens is None else asked.budget_tokens
        is_own = budget_tokens == session.budget_tokens and chosen.name == session.strategy
        is_preview = fallback is not None or not is_own
        if fallback:
            snapshot = replace(snapshot, plan=None, state=None)
        recalls = asked.recall and chosen.strategy.recalls and fallback is None
        messages = prompt_messages(asked.prompt)
        said, has_results = said_by_user(messages), bool(leading_results(messages))
        has_agent = chosen.strategy.agent and not is_preview
        return ContextRequest(
            snapshot=snapshot,
            name=chosen.name,
            strategy=chosen.strategy,
            budget_tokens=budget_tokens,
            prompt=asked.prompt,
            system=asked.system,
            tools_tokens=asked.tools_tokens,
            history_tools_tokens=asked.history_tools_tokens,
            order=asked.order,
            is_preview=is_preview,
            is_display=asked.is_display,
            ends_turn=bool(said),
            is_pending=fallback is None and (has_results or not said),
            has_results=has_results,
            query=await self._query(session, said) if recalls else "",
            agent=self._agent.status(chosen.strategy, snapshot) if has_agent else "none",
            fallback=fallback,
        )

    def _parts(self, request: ContextRequest, counter: Counter) -> ContextParts:
        """Return the fixed part of a context: everything except history, memory, board and prompt."""
        strategy, session = request.strategy, request.session
        return ContextParts(
            budget_tokens=request.budget_tokens,
            counter=counter,
            calibration=session.calibration,
            model=session.model,
            system=request.system,
            explanation=strategy.explanation if self._settings.context.explain else "",
            pins=[describe_pin(row) for row in request.snapshot.pins],
            documents=_documents(request, strategy.documents),
            changing=_documents(request, strategy.changing_documents),
            tools_tokens=request.tools_tokens,
            history_tools_tokens=request.history_tools_tokens,
            order=request.order,
        )

    def _ledger(self, request: ContextRequest, parts: ContextParts, counter: Counter) -> Ledger:
        """Return a ledger of the budget, charged with the fixed part."""
        exact, settings = request.session.exact, self._settings.context
        system = f"{request.system}\n" if request.system else ""
        explained = exact.stable_base(f"{system}{parts.explanation}") + FRAMING_TOKENS
        pins = write_pins(parts.pins) if parts.pins else ""
        texts = (pins, *parts.documents.values(), *parts.changing.values())
        return Ledger(
            budget_tokens=math.floor(request.budget_tokens / (counter.factor * request.session.calibration)),
            asked_tokens=request.budget_tokens,
            fixed_tokens=explained + sum(map(exact.base, texts)) + request.tools_tokens,
            own_tokens=explained - exact.stable_base(request.system),
            is_preview=request.is_preview,
            is_display=request.is_display,
            cache_ttl_seconds=settings.cache_ttl_seconds,
            now=time.time(),
        )

    def _open(self, ledger: Ledger, request: ContextRequest) -> Ledger:
        """Divide the free tokens of the ledger between history, board and recall."""
        strategy = request.strategy
        takes_rest = request.is_preview or not strategy.holds_back or strategy.gives_back
        return self._settings.allotments.open(
            ledger, takes_rest=takes_rest, recalls=strategy.recalls, history_share=strategy.history_share
        )

    async def _prefetched(
        self,
        request: ContextRequest,
        ledger: Ledger,
        view: HistoryView,
        layer: MemoryLayer,
        *,
        board: Board,
        shown: str,
    ) -> tuple[Board, str]:
        """Add notes, and turns of which recall shows excerpts, to the board as room allows; return it and its text."""
        session, most = request.session, ledger.board_limit_tokens
        moved = () if request.ends_turn or not request.tools_tokens else _shortened_steps(session, view.blocks)
        if not (shown or moved or layer.in_part):
            return board, shown
        if request.strategy.gives_back or not request.strategy.holds_back:
            left = ledger.history_tokens - view.framed_tokens - layer.tokens
            most = min(most, ledger.board_tokens + max(0, left))
        noted = boards.with_notes(board, view.planned.bands, has_tools=request.tools_tokens > 0)
        noted = boards.with_moved(noted, session.last_turn, moved)
        noted = await self.board.with_turns(session, noted, layer.in_part, most)
        # Other notes alone are not shown: a board in every request would prevent caching of the newest turn.
        if not (shown or moved or noted.prefetched):
            return board, shown
        return noted, boards.render(noted, now_turn=session.last_turn, budget_tokens=most, count=session.exact.base)

    async def _note_sent(self, session: SessionRow, context: Context, *, has_changed: bool) -> None:
        """Renew the cabinet keys that a context refers to, and save its picture if the plan has changed."""
        await self._renewals.renew(session.tenant, context.text)
        if has_changed:
            row = await asyncio.to_thread(keep_row, context, session.last_turn)
            await self._writes.write(f"picture of {session.id}", lambda: self._store.pictures.add(session.id, row))

    async def _check_waiting(
        self, request: ContextRequest, counter: Counter, view: HistoryView, ledger: Ledger
    ) -> None:
        """Raise `BudgetExceeded` if the turn that waits for an answer does not fit."""
        session = request.session
        if _shows(view.blocks, session.last_turn) or not await self._waits(request):
            return
        size = (await self.reader.raw_turn(session, session.last_turn)).counted_tokens
        pins = session.exact.base(write_pins([describe_pin(row) for row in request.snapshot.pins]))
        fixed = {"system prompt, tools and framing": ledger.fixed_tokens - pins, "pins": pins}
        named = {**fixed, "turn in progress": size}
        scaled = {name: counter.scale(tokens, session.calibration) for name, tokens in named.items()}
        raise BudgetExceeded(request.budget_tokens, scaled)

    async def _history(self, request: ContextRequest, ledger: Ledger, board: Board) -> tuple[HistoryView, MemoryLayer]:
        """Make the history and the memory layer."""
        if request.fallback == "none":
            return HistoryView([], PlanReport(last_turn=request.session.last_turn)), MemoryLayer()
        if request.is_preview:
            return await self._preview(request, ledger, board)
        return await (self._shared if request.strategy.gives_back else self._separate)(request, ledger, board)

    async def _preview(self, request: ContextRequest, ledger: Ledger, board: Board) -> tuple[HistoryView, MemoryLayer]:
        """Make both for a preview: recall gets its room first, the history the rest."""
        session, history = request.session, ledger.history_tokens
        reserved = 0
        if request.query:
            raw = await self._store.raw_tokens(self._session_id, 1, session.last_turn)
            if raw <= history and not (session.scope or session.channel):
                request = replace(request, query="")
            elif request.strategy.recalls_first and ledger.prompt_tokens:
                share = min(ledger.recall_limit_tokens, max(0, history - HISTORY_MINIMUM_TOKENS))
                # If the whole history fits, with recall's share for passages of other sessions, it is shown raw.
                reserved = share if raw > history - (share if session.scope else 0) else 0
        view = await self._view(request, replace(ledger, history_tokens=history - reserved))
        if not request.query:
            return view, MemoryLayer()
        free = max(0, history - sum(block.sent_tokens for block in view.blocks))
        layer = await self._layer(request, ledger, board, view, self._recall_room(request, ledger, view, free))
        if reserved - layer.tokens > HISTORY_MINIMUM_TOKENS:
            # The history gets what recall does not use, unless it is too little for another plan.
            left = replace(ledger, history_tokens=history - layer.tokens, memory_tokens=layer.tokens)
            view = await self._view(request, left)
        return view, layer

    async def _separate(self, request: ContextRequest, ledger: Ledger, board: Board) -> tuple[HistoryView, MemoryLayer]:
        """Make the history, then recall in its own room or in what the history leaves."""
        view = await self._view(request, ledger)
        if not request.query:
            return view, MemoryLayer()
        free = ledger.recall_limit_tokens
        if not request.strategy.holds_back:
            free = min(free, max(0, ledger.history_tokens - sum(block.sent_tokens for block in view.blocks)))
        free = self._recall_room(request, ledger, view, free)
        return view, await self._layer(request, ledger, board, view, free)

    async def _shared(self, request: ContextRequest, ledger: Ledger, board: Board) -> tuple[HistoryView, MemoryLayer]:
        """Make the history in the room that the memory layer leaves, or the layer in what the history leaves if the
        prompt may not need it.

        A layer beside which the history does not fit is made again for the turns that the smaller history shows. What
        the history left for it is stored with it, so that each request of a turn has the same history and layer.
        """
        tokens = ledger.history_tokens - min(SLACK_TOKENS, ledger.history_tokens // 10)
        if ledger.board_tokens:  # the board stays for some turns, and may grow
            tokens -= max(0, ledger.board_limit_tokens - ledger.board_tokens)

        def leaving(layer: MemoryLayer) -> Ledger:
            return replace(ledger, history_tokens=tokens, needed_tokens=layer.reserved_tokens or layer.tokens)

        if not request.query:
            return await self._view(request, leaving(MemoryLayer())), MemoryLayer()
        room = await self._layer_limit(request, ledger, tokens)
        known = self._recaller.stored(request.snapshot.memory, asked=_asked_mark(request))
        before = leaving(known if known.tokens <= room else MemoryLayer())
        view = await self._view(request, before)
        if self._settings.recall.gate and need_of(request.query) is not Need.SURE:
            room = max(0, min(room, (tokens - view.framed_tokens) // 2))  # the history gives nothing back
        layer = await self._layer(request, ledger, board, view, room)
        left = leaving(layer)
        if left.needed_tokens > before.needed_tokens or layer.tokens > tokens - view.framed_tokens:
            smaller = await self._view(request, left)
            free = max(0, tokens - smaller.framed_tokens)
            if smaller.blocks != view.blocks:
                view, reserved = smaller, left.needed_tokens
                layer = await self._layer(request, ledger, board, view, min(room, free), reserved_tokens=reserved)
            elif layer.tokens > free:  # half of it is for the turn's next steps
                layer = await self._layer(request, ledger, board, view, min(room, free // 2))
        return view, layer

    async def _layer_limit(self, request: ContextRequest, ledger: Ledger, tokens: int) -> int:
        """Return the maximum tokens of the layer, halved up to twice as the turn in progress grows."""
        most = ledger.recall_limit_tokens
        if not request.session.is_open:
            return min(most, max(0, tokens - HISTORY_MINIMUM_TOKENS))
        running = (await self.reader.raw_turn(request.session, request.session.last_turn)).counted_tokens
        left = tokens - HISTORY_MINIMUM_TOKENS - running
        return next((room for room in (most, most // 2) if room <= left), most // 4)

    async def _today(self, request: ContextRequest, ledger: Ledger) -> str:
        """Return the current day, if the history has dates and the system prompt does not name the day."""
        now_us = int(ledger.now * 1_000_000)
        if not self._settings.context.now or names_day(request.system, now_us):
            return ""
        return day_text(now_us) if await self.reader.is_dated(request.session) else ""

    def _recall_room(self, request: ContextRequest, ledger: Ledger, view: HistoryView, free: int) -> int:
        """Return the room for recall, limited by a step that is sent as messages."""
        if not request.is_pending:
            return free
        framing = native_framing_tokens(view.blocks[-1], request.session.exact) if view.blocks else 0
        used = sum(block.sent_tokens for block in view.blocks) + framing
        return max(0, min(free, ledger.free_tokens - used))

    async def _layer(
        self,
        request: ContextRequest,
        ledger: Ledger,
        board: Board,
        view: HistoryView,
        room_tokens: int,
        *,
        reserved_tokens: int = 0,
    ) -> MemoryLayer:
        """Return the memory layer for this view; it is the same in each request of a turn."""
        session, query, visible = request.session, request.query, _visible(view.blocks)
        is_past = request.ends_turn or not session.is_open
        recall = RecallRequest(
            query=query,
            room_tokens=room_tokens,
            reserved_tokens=reserved_tokens,
            visible=visible | boards.whole_turns(board) if board.retrieved else visible,
            is_gated=self._settings.recall.gate,
            is_one_off=ledger.is_preview,
            asking=session.last_turn if session.is_open else None,
            is_first=session.last_turn <= (0 if is_past else 1),
            today=await self._today(request, ledger),
        )
        with telemetry.span("foveate.recall") as span:
            if ledger.is_preview:
                layer = await self._recaller.recall(session, session.exact, recall)
            else:
                marks = {"mark": _layer_mark(request, visible), "asked": _asked_mark(request)}
                layer = await self._recaller.recall_once(request.snapshot, recall, **marks)
            if span:
                found = {telemetry.OPERATION: "search_memory", telemetry.SESSION: self._session_id}
                span.set(found | {"foveate.recall.tokens": layer.tokens})
                span.set({telemetry.RECORDS: len(layer.turns) + len(layer.others) + len(layer.knowledge)})
        return layer

    async def _query(self, session: SessionRow, said: str) -> str:
        """Return the query for recall: the newest text of the user, in the prompt or the turn in progress."""
        has_past = session.last_turn or session.scope or session.channel
        if not (self._settings.recall.enabled and has_past):
            return ""
        if said or not session.is_open:
            return said
        return said_by_user(await self.reader.raw(session, session.last_turn))

    async def _newest_messages(self, request: ContextRequest) -> list[Message]:
        """Return the messages of the newest turn, if it is open and there is no prompt."""
        session = request.session
        if not session.is_open or prompt_messages(request.prompt):
            return []
        return [one for one in await self.reader.raw(session, session.last_turn) if one.kind == "message"]

    async def _waits(self, request: ContextRequest) -> bool:
        """Return whether the model is to answer the newest turn, so that the request must show it."""
        said = await self._newest_messages(request)
        return bool(said) and said[-1].role in ("user", "tool")

    async def _open_call(self, request: ContextRequest) -> str:
        """Return the tool that the newest turn called last, if its result is neither recorded nor in the prompt."""
        said = await self._newest_messages(request)
        calls = loose_ends(said).calls if said and said[-1].role == "assistant" else ()
        return calls[0].name if calls and calls[-1] in said[-1].parts else ""

    def _chosen(self, session: SessionRow, name: str | None) -> SessionStrategy:
        """Return the session's strategy with its settings, or another one with default settings."""
        key = (name, session.strategy, session.settings, session.scope)
        if (found := self._strategies.get(key)) is None:
            if name is None or name == session.strategy:
                found = session_strategy(session.strategy, self._settings, given_settings(session, self._settings))
            else:
                found = SessionStrategy(name, make_strategy(name, self._settings))
            self._strategies[key] = found
        return found

    async def _view(self, request: ContextRequest, ledger: Ledger) -> HistoryView:
        with telemetry.span("foveate.plan") as span:
            view = await self.driver.view(request, ledger)
            if span:
                span.set({"foveate.strategy": request.name, "foveate.plan.is_new": view.planned.is_new})
        for event in view.events:
            turn = event.turn or request.session.last_turn
            self._publish(cast("EventKind", event.kind), turn, dict(event.data))
        if request.strategy.agent and not request.is_preview:
            await self._agent.follow(request.strategy, view.planned.notes, view.events)
        return view

    def _publish(self, kind: EventKind, turn: int, data: dict[str, Json]) -> None:
        self._events.publish(Event(kind, self._session_id, datetime.now(UTC), turn_id(turn), data))


def _check_framing(request: ContextRequest, counter: Counter) -> None:
    """Reject a prompt if the framing of its messages alone exceeds the budget, before they are counted."""
    framing = MESSAGE_TOKENS * len(prompt_messages(request.prompt))
    tokens = counter.scale(framing, request.session.calibration)
    if tokens > request.budget_tokens:
        raise BudgetExceeded(request.budget_tokens, {"framing of messages": tokens})


def _in_mode(snapshot: SessionSnapshot, asked: Asked) -> Asked:
    """Add the prompt of the session's mode to the system prompt."""
    session = snapshot.session
    try:
        mode = mode_text(session, snapshot.tenant_prompts)
    except (PromptNotFound, InvalidPrompt) as error:  # the mode was removed since
        _log.warning("the mode %r of %s is not used: %s", session.mode, session.id, error)
        return asked
    # The system prompt is not changed: the gateway sends the client's own and appends only what follows it.
    return replace(asked, system=f"{asked.system}\n\n{mode}" if asked.system else mode)


def _documents(request: ContextRequest, names: Sequence[Section]) -> dict[Section, str]:
    """Return the session's documents of these names, or their defaults, in their tags."""
    kept, session = request.snapshot.documents, request.session
    defaults = {"epic": session.title, "tasks": NO_TASKS}
    found = {name: text if (text := kept.get(name, "")).strip() else defaults.get(name, "") for name in names}
    if limits := request.strategy.document_limits:
        for name, text in found.items():
            check_size(name, text, limits, session)
    return {name: tag_document(name, text) for name, text in found.items() if text.strip()}


def given_settings(session: SessionRow, settings: Settings) -> dict[str, object]:
    """Return the settings of a session's strategy: those of its scope's profile, overridden by its own."""
    return settings.given_for(session.scope, session.strategy, json.loads(session.settings))


def _blocks_in_progress(session: SessionRow, blocks: Sequence[BlockText]) -> int:
    """Count the blocks of the turn in progress."""
    if not session.is_open:
        return 0
    return len(list(takewhile(lambda block: block.row.first == session.last_turn, reversed(blocks))))


def _shortened_steps(session: SessionRow, blocks: Sequence[BlockText]) -> list[int]:
    """Return the steps of the turn in progress that are not verbatim any more."""
    count = _blocks_in_progress(session, blocks)
    rows = (block.row for block in blocks[len(blocks) - count :])
    shortened = (row for row in rows if row.first_step and (row.level != "R" or row.is_cut))
    return [step for row in shortened for step in range(row.first_step, row.last_step + 1)]


def _shows(blocks: Sequence[BlockText], turn: int) -> bool:
    """Return whether the turn itself is shown, not only a summary of a range."""
    rows = (span for block in blocks if block.row.first <= turn <= block.row.last for span in block.row.spans())
    return any(row.first <= turn <= row.last and row.level not in SUMS for row in rows)


def _layer_mark(request: ContextRequest, visible: Collection[int]) -> str:
    """Return a hash that changes with the prompt and with the turns that are shown before it."""
    past = request.session.last_turn - request.session.is_open
    return _mark(request, [turn for turn in visible if turn <= past])


def _asked_mark(request: ContextRequest) -> str:
    """Return a hash that changes with the prompt."""
    return _mark(request, ())


def _mark(request: ContextRequest, visible: Collection[int]) -> str:
    """Hash the query, the visible turns, and the time of the last prune."""
    pruned_us, query = request.snapshot.pruned_us, request.query
    if len(query) > MAX_MARKED_CHARS:
        query = hashlib.blake2b(query.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    text = json.dumps([query, sorted(visible), "" if pruned_us is None else str(pruned_us).encode().hex()])
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _visible(blocks: Sequence[BlockText]) -> set[int]:
    """Return the turns that are shown verbatim or smoothed."""
    rows = (span for block in blocks for span in block.row.spans())
    return {
        turn
        for row in rows
        if row.level in ("R", "S") and not row.is_cut and not row.first_step
        for turn in range(row.first, row.last + 1)
    }
