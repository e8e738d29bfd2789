"""Contexts of a session: fixed part, history, memory, board and prompt, within the budget.

At the session's own budget the plan is kept between calls. At any other budget the context is a preview: planned from
scratch, and nothing is saved.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import takewhile
from typing import Literal, cast, get_args

from foveate.context import board as boards
from foveate.context.allotments import HISTORY_MINIMUM_TOKENS, HistoryRoom, Split
from foveate.context.assemble import (
    MESSAGE_TOKENS,
    REPLY_TOKENS,
    BlockText,
    ContextParts,
    assemble,
    leading_results,
    prompt_messages,
)
from foveate.context.board import Board
from foveate.context.context import Context, PlanReport
from foveate.context.pairs import loose_ends
from foveate.context.pins import write_pins
from foveate.context.tags import SUMS, Section, tag_document
from foveate.errors import (
    BudgetExceeded,
    HistoryExceedsBudget,
    InvalidPrompt,
    InvariantBroken,
    PromptNotFound,
)
from foveate.events import Event, EventKind
from foveate.history.driver import StatefulDriver
from foveate.history.late_writes import LateWrites
from foveate.history.low_water import CachePrices
from foveate.history.memory_layer import MemoryLayer
from foveate.history.newest_step import PendingRequest, PendingSteps, native_framing_tokens
from foveate.history.plan_cache import HistoryView, PlanCache
from foveate.history.recalled import Recaller, RecallRequest
from foveate.history.texts import TextReader
from foveate.plan import Frame
from foveate.session.agent import TriggerAgent
from foveate.session.board import SessionBoard
from foveate.session.documents import check_size, stand_in
from foveate.session.picture import keep_row
from foveate.session.prompts import load_overrides, mode_text, overridden
from foveate.session.request import Request, check_prompt, fit_prompt, prompt_tokens, said_by_user
from foveate.session.shared import SharedParts
from foveate.settings import Settings, make_strategy, session_strategy
from foveate.store import SessionRow
from foveate.strategy import Strategy
from foveate.strategy.standard import Standard
from foveate.tokens import Counter
from foveate.turn import Json, Message, turn_id

SLACK_TOKENS = 64
"""Left free beside a history that fills its room, for the lines around its messages."""
FRAMING_TOKENS = 6 * MESSAGE_TOKENS + REPLY_TOKENS
"""Room for the framing of messages that every context has."""


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
"""What a fault in a plan, a strategy of a third party or a damaged rendition raises."""
STRICT_VARIABLE = "FOVEATE_STRICT"
"""Where this variable is set, defects are raised: in tests a fallback is a failure."""
MAX_PROBLEM_CHARS = 300
Fallback = Literal["whole-turns", "text", "none"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChosenStrategy:
    """The strategy of a context, and its name."""

    name: str
    strategy: Strategy

    @property
    def gives_back(self) -> bool:
        """Whether its history may use what board and recall leave, and gives it back at a rebuild."""
        return self.strategy.holds_back and not self.strategy.keeps_story and self.strategy.rebuild_schedule is not None

    def room(self, split: Split, *, takes_rest: bool) -> Split:
        """What each part has: the history its share, and the room of a recall that is not wanted."""
        recalls = self.strategy.recalls
        spared = 0 if recalls or takes_rest else split.recall
        history = int((split.history + spared) * self.strategy.history_share)
        return Split(history, split.board, split.recall if recalls else 0)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a history is made for."""

    chosen: ChosenStrategy
    frame: Frame
    room: Split
    query: str
    """What recall looks for; empty: nothing."""
    board: Board
    board_tokens: int
    pending: PendingRequest | None
    ends_turn: bool
    """The prompt begins a turn, so that the newest one is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _FixedPart:
    """What a context has besides history, memory, board and prompt."""

    explanation: str
    documents: dict[Section, str]
    changing: dict[Section, str]
    """Documents behind the history."""
    tokens: int
    """All of it, with pins, the system prompt, tools and framing."""
    own_tokens: int
    """The explanation and the framing."""


class Contexts:
    """Makes the contexts of one session."""

    def __init__(self, shared: SharedParts, session_id: str) -> None:
        store, settings = shared.store, shared.settings
        self._recaller = Recaller(store, shared.searcher, settings.recall, caller=shared.caller)
        self._agent = TriggerAgent(shared, session_id)
        self.viewer = TextReader(store, session_id)
        self._keepers: dict[str, PlanCache] = {}
        self.storyteller = StatefulDriver(store, session_id, self.viewer, worker=shared.worker)
        self._store = store
        self._session_id = session_id
        self._events = shared.events
        self._settings = settings
        self._renewals = shared.renewals
        self._uses = shared.uses
        self._late = LateWrites()
        self.board = SessionBoard(store, session_id, self.viewer, settings, self._publish)
        self._pending = PendingSteps(self.viewer, self.storyteller)

    async def make(self, session: SessionRow, counter: Counter, request: Request) -> Context:
        """A context within its budget. A defect leads to a simpler context and an event, not to an internal error."""
        check_prompt(request.prompt)
        with self.viewer.snapshot(session), overridden(await load_overrides(self._store)):
            request = await self._in_mode(session, request)
            try:
                return await self._make(session, counter, request)
            except DEFECTS as defect:
                if os.environ.get(STRICT_VARIABLE):
                    raise
                return await self._make_simpler(session, counter, request, defect)

    async def _in_mode(self, session: SessionRow, request: Request) -> Request:
        """The request with the prompt of the session's mode behind its system prompt."""
        try:
            mode = await mode_text(self._store, session)
        except (PromptNotFound, InvalidPrompt) as error:  # of a mode that was removed since
            _log.warning("the mode %r of %s is not used: %s", session.mode, session.id, error)
            return request
        if not mode:
            return request
        # The system prompt itself stays as it is: the gateway sends the client's own, and only what follows it.
        return replace(request, system=f"{request.system}\n\n{mode}" if request.system else mode)

    async def _make_simpler(
        self, session: SessionRow, counter: Counter, request: Request, defect: Exception
    ) -> Context:
        """The newest whole turns, as messages or else as text, or no history at all; the first of these that works."""
        _log.error("a context of %s could not be made; a simpler one is returned", session.id, exc_info=defect)
        for fallback in get_args(Fallback):
            try:
                context = await self._make(session, counter, request, fallback)
            except DEFECTS:
                _log.exception("the fallback %s failed too", fallback)
                continue
            problem = f"{type(defect).__name__}: {defect}"[:MAX_PROBLEM_CHARS]
            data: dict[str, Json] = {"fallback": fallback, "strategy": session.strategy, "problem": problem}
            self._publish("context-fallback", session.last_turn, data)
            return replace(context, planned=replace(context.planned, notes={"fallback": fallback}))
        raise InvariantBroken("context", f"{type(defect).__name__}: {defect}") from defect

    async def _make(
        self, session: SessionRow, counter: Counter, request: Request, fallback: Fallback | None = None
    ) -> Context:
        await self.viewer.renew(session)
        chosen = self._chosen(session, request.strategy) if fallback is None else ChosenStrategy("standard", Standard())
        is_own = request.budget_tokens == session.budget_tokens and chosen.name == session.strategy
        one_off = fallback is not None or not is_own
        budget = math.floor(request.budget_tokens / (counter.factor * session.calibration))
        exact = session.exact
        part = await self._fixed_part(session, chosen.strategy, request, exact)
        fixed = part.tokens
        request = replace(request, prompt=fit_prompt(request.prompt, session, budget - fixed))
        prompt = prompt_tokens(request.prompt, session)
        allotments = self._settings.allotments
        ends_turn = bool(said_by_user(prompt_messages(request.prompt)))
        board = await self.board.shown(session, ends_turn=ends_turn, keep=not one_off)
        takes_rest = one_off or not chosen.strategy.holds_back or chosen.gives_back
        room = allotments.split(budget, fixed, prompt, takes_rest=takes_rest)
        shown = boards.render(board, now_turn=session.last_turn, budget_tokens=room.board, count=exact.base)
        used = exact.base(shown)
        room = allotments.split(budget, fixed, prompt, takes_rest=takes_rest, board_tokens_used=used)
        room = chosen.room(room, takes_rest=takes_rest)
        query = await self._query(session, request) if chosen.strategy.recalls and fallback is None else ""
        limit = budget - fixed - prompt - used
        frame = Frame(
            budget,
            fixed,
            prompt,
            one_off,
            session.model,
            asked_tokens=request.budget_tokens,
            own_tokens=part.own_tokens,
            agent="none" if one_off else await self._agent.status(chosen.strategy),
            retrieved=board.turns,
        )
        has_results = bool(leading_results(prompt_messages(request.prompt)))
        is_pending = fallback is None and (has_results or not ends_turn)
        pending = PendingRequest(chosen.name, chosen.strategy, frame, limit, has_results) if is_pending else None
        asked = _Asked(chosen, frame, room, query, board, used, pending, ends_turn)
        try:
            view, layer = await self._history(session, asked, fallback)
        except HistoryExceedsBudget as error:
            needed, had = (counter.scale(tokens, session.calibration) for tokens in (error.needed_tokens, room.history))
            raise HistoryExceedsBudget(needed, had) from None
        if fallback == "text":
            view = replace(view, blocks=[replace(block, messages=None) for block in view.blocks])
        await self._check_waiting(session, counter, request, view.blocks, fixed_tokens=fixed)
        # In a preview the history has the board's room.
        if not one_off and (shown or layer.in_part):
            left = room.history - _framed_tokens(view) - layer.tokens
            most = min(room.board, used + max(0, left)) if takes_rest else room.board
            noted = boards.with_notes(board, view.planned.bands, has_tools=request.tools_tokens > 0)
            noted = await self.board.with_turns(session, noted, layer.in_part, most)
            # Not for the notes alone: a board in every request would keep the newest turn from being cached.
            if shown or noted.prefetched:
                board = noted
                shown = boards.render(board, now_turn=session.last_turn, budget_tokens=most, count=exact.base)
        context = await self._assembled(session, counter, request, part, view, memory=layer.text, board=shown)
        room_tokens = counter.scale(room.history, session.calibration)
        notes = {**view.planned.notes, **_recall_notes(layer)}
        planned = replace(view.planned, room_tokens=room_tokens, strategy=chosen.name, notes=notes)
        context = replace(context, planned=planned, board=board)
        if not one_off:
            self._uses.show(session, layer.knowledge, query, ends_turn=ends_turn)
            await self._note_sent(session, context, has_changed=planned.is_new or bool(view.events))
        return context

    async def _note_sent(self, session: SessionRow, context: Context, *, has_changed: bool) -> None:
        """Keep the cabinet's keys that a context refers to, and its picture if the plan has changed."""
        await self._renewals.renew(session.tenant, context.text)
        if has_changed:
            row = keep_row(context, session.last_turn)
            await self._late.write(lambda: self._store.pictures.add(session.id, row))

    async def _fixed_part(
        self, session: SessionRow, strategy: Strategy, request: Request, counter: Counter
    ) -> _FixedPart:
        documents = await self._documents(session, strategy, strategy.documents)
        changing = await self._documents(session, strategy, strategy.changing_documents)
        explanation = strategy.explanation if self._settings.context.explain else ""
        system = f"{request.system}\n" if request.system else ""
        explained = counter.stable_base(f"{system}{explanation}") + FRAMING_TOKENS
        shown = sum(map(counter.base, [write_pins(request.pins), *documents.values(), *changing.values()]))
        return _FixedPart(
            explanation=explanation,
            documents=documents,
            changing=changing,
            tokens=explained + shown + request.tools_tokens,
            own_tokens=explained - counter.stable_base(request.system),
        )

    async def _assembled(
        self,
        session: SessionRow,
        counter: Counter,
        request: Request,
        part: _FixedPart,
        view: HistoryView,
        *,
        memory: str,
        board: str,
    ) -> Context:
        return assemble(
            ContextParts(
                budget_tokens=request.budget_tokens,
                counter=counter,
                calibration=session.calibration,
                model=session.model,
                system=request.system,
                explanation=part.explanation,
                pins=request.pins,
                documents=part.documents,
                changing=part.changing,
                history=view.blocks,
                at_work=_at_work(session, view.blocks, request.prompt),
                open_call=await self._open_call(session, request),
                memory=memory,
                board=board,
                prompt=request.prompt,
                tools_tokens=request.tools_tokens,
                history_tools_tokens=request.history_tools_tokens,
                explains_late=bool(view.blocks) or not session.last_turn,
                order=request.order,
            )
        )

    async def _check_waiting(
        self,
        session: SessionRow,
        counter: Counter,
        request: Request,
        blocks: Sequence[BlockText],
        *,
        fixed_tokens: int,
    ) -> None:
        """`BudgetExceeded` if the turn that waits for an answer has no room at all."""
        if _shows(blocks, session.last_turn) or not await self._waits(session, request):
            return
        size = await self._store.raw_tokens(self._session_id, session.last_turn, session.last_turn)
        named = {"system prompt, tools and framing": fixed_tokens, "turn in progress": size}
        scaled = {name: counter.scale(tokens, session.calibration) for name, tokens in named.items()}
        raise BudgetExceeded(request.budget_tokens, scaled)

    async def _history(
        self, session: SessionRow, asked: _Asked, fallback: Fallback | None
    ) -> tuple[HistoryView, MemoryLayer]:
        """The history, and what the prompt brings up."""
        if fallback == "none":
            return HistoryView([], PlanReport(last_turn=session.last_turn)), MemoryLayer()
        is_shared = asked.chosen.gives_back and not asked.frame.is_one_off
        return await (self._shared if is_shared else self._recalled)(session, asked)

    async def _recalled(self, session: SessionRow, asked: _Asked) -> tuple[HistoryView, MemoryLayer]:
        """The history, and behind it what the prompt brings up of what the history does not show verbatim.

        In a preview, recall is given its room first, and the history has what is left.
        """
        chosen, frame, room, query, pending = asked.chosen, asked.frame, asked.room, asked.query, asked.pending
        aside = 0
        if query and frame.is_one_off:
            raw = await self._store.raw_tokens(self._session_id, 1, session.last_turn)
            if raw <= room.history and not (session.scope or session.channel):
                query = ""
            elif chosen.strategy.recalls_first and frame.prompt_tokens:
                wanted = self._settings.allotments.one_off_recall(room)
                # A history that fits beside what other sessions may bring is shown whole.
                aside = wanted if raw > room.history - (wanted if session.scope else 0) else 0
        view = await self._view(session, asked, HistoryRoom(room.history - aside), pending)
        if not query:
            return view, MemoryLayer()
        free = _recall_room(chosen, frame, room, sum(block.sent_tokens for block in view.blocks))
        if pending:
            free = max(0, min(free, pending.limit_tokens - self._sent_tokens(session, view)))
        layer = await self._layer(session, asked, view, free)
        if aside - layer.tokens > HISTORY_MINIMUM_TOKENS:
            # What recall leaves unused is the history's, unless it is too little for another plan.
            left = replace(pending, limit_tokens=pending.limit_tokens - layer.tokens) if pending else None
            view = await self._view(session, asked, HistoryRoom(room.history - layer.tokens), left)
        return view, layer

    async def _shared(self, session: SessionRow, asked: _Asked) -> tuple[HistoryView, MemoryLayer]:
        """The history with all that board and recall leave. If they need more, it gives them their shares back."""
        room, query, pending = asked.room, asked.query, asked.pending
        tokens = room.history - min(SLACK_TOKENS, room.history // 10)
        board_rest = max(0, room.board - asked.board_tokens)
        spare = room.recall + board_rest

        def beside(layer: MemoryLayer) -> HistoryRoom:
            has_board = asked.board_tokens or layer.in_part
            return HistoryRoom(tokens, layer.tokens + (board_rest if has_board else 0), spare)

        kept = await self._store.derived.recalled(self._session_id) if query else None
        known = self._recaller.stored(kept, asked=self._asked_mark(query)) if query else MemoryLayer()
        view = await self._view(session, asked, beside(known), pending)
        if not query:
            return view, MemoryLayer()
        layer = await self._layer(session, asked, view, room.recall)
        if layer.tokens and _framed_tokens(view) > beside(layer).limit_tokens:
            view = await self._view(session, asked, HistoryRoom(tokens, spare, spare), pending)
            left = tokens - _framed_tokens(view)
            layer = await self._layer(session, asked, view, max(0, min(room.recall, left)))
        return view, layer

    async def _layer(self, session: SessionRow, asked: _Asked, view: HistoryView, room_tokens: int) -> MemoryLayer:
        """What the prompt brings up beside this view; the same in each request of a turn."""
        query, one_off = asked.query, asked.frame.is_one_off
        visible = _visible(view.blocks)
        wish = RecallRequest(
            query=query,
            room_tokens=room_tokens,
            visible=visible | boards.whole_turns(asked.board),
            is_gated=self._settings.recall.gate,
            is_one_off=one_off,
            asking=session.last_turn if session.is_open else None,
            is_first=session.last_turn <= (0 if asked.ends_turn or not session.is_open else 1),
        )
        exact = session.exact
        if one_off:
            return await self._recaller.recall(session, exact, wish)
        past = session.last_turn - session.is_open
        mark = _mark(query, [turn for turn in visible if turn <= past], self.viewer.pruned)
        kept = await self._store.derived.recalled(self._session_id)
        asked_mark = self._asked_mark(query)
        return await self._recaller.recall_once(session, exact, wish, kept=kept, mark=mark, asked=asked_mark)

    async def _query(self, session: SessionRow, request: Request) -> str:
        """What is looked for: what the user says last, in the prompt or in the turn in progress."""
        has_past = session.last_turn or session.scope or session.channel
        if not (request.recall and self._settings.recall.enabled and has_past):
            return ""
        said = said_by_user(prompt_messages(request.prompt))
        if said or not session.is_open:
            return said
        return said_by_user(await self.viewer.raw(session.last_turn))

    async def _waits(self, session: SessionRow, request: Request) -> bool:
        """Whether the newest turn is what a model is to answer: a request that does not show it asks nothing."""
        if not session.is_open or prompt_messages(request.prompt):
            return False
        said = [message for message in await self.viewer.raw(session.last_turn) if message.kind == "message"]
        return bool(said) and said[-1].role in ("user", "tool")

    async def _open_call(self, session: SessionRow, request: Request) -> str:
        """The tool that the newest turn called last, if its result is neither recorded nor in the prompt."""
        if not session.is_open or prompt_messages(request.prompt):
            return ""
        said = [message for message in await self.viewer.raw(session.last_turn) if message.kind == "message"]
        calls = loose_ends(said).calls if said and said[-1].role == "assistant" else ()
        return calls[0].name if calls and calls[-1] in said[-1].parts else ""

    def _chosen(self, session: SessionRow, name: str | None) -> ChosenStrategy:
        """The session's strategy with its settings, or another one with the defaults."""
        if name is None or name == session.strategy:
            own = session_strategy(session.strategy, self._settings, given_settings(session, self._settings))
            return ChosenStrategy(own.name, own.strategy)
        return ChosenStrategy(name, make_strategy(name, self._settings))

    async def _documents(self, session: SessionRow, strategy: Strategy, names: Sequence[Section]) -> dict[Section, str]:
        """The session's documents of these names, in their tags, or their defaults."""
        if not names:
            return {}
        kept = {row.name: row.text for row in await self._store.artefacts.documents(self._session_id)}
        found = {name: text if (text := kept.get(name, "")).strip() else stand_in(name, session) for name in names}
        for name, text in found.items():
            check_size(name, text, strategy.document_limits, session)
        return {name: tag_document(name, text) for name, text in found.items() if text.strip()}

    async def _view(
        self, session: SessionRow, asked: _Asked, room: HistoryRoom, pending: PendingRequest | None
    ) -> HistoryView:
        view = await self._strategy_view(session, asked.chosen, asked.frame, room)
        return await self._pending.put(session, pending, view) if pending else view

    def _sent_tokens(self, session: SessionRow, view: HistoryView) -> int:
        """What the history takes with its last block as messages."""
        framing = native_framing_tokens(view.blocks[-1], session.exact) if view.blocks else 0
        return sum(block.sent_tokens for block in view.blocks) + framing

    def _asked_mark(self, query: str) -> str:
        """The same for the same prompt."""
        return _mark(query, (), self.viewer.pruned)

    async def _strategy_view(
        self, session: SessionRow, chosen: ChosenStrategy, frame: Frame, room: HistoryRoom
    ) -> HistoryView:
        strategy, room_tokens = chosen.strategy, room.limit_tokens
        if strategy.keeps_story:
            keep = not frame.is_one_off
            view = await self.storyteller.view(session, chosen.name, strategy, frame, room_tokens, keep=keep)
            for told in view.events:
                self._publish(cast("EventKind", told.kind), told.turn or session.last_turn, dict(told.data))
            notes = view.planned.notes
            if any(told.kind == "compression-triggered" for told in view.events):
                await self._agent.compressed()
            if keep and notes.get("agent") == "due":
                await self._agent.start(strategy, cast("int", notes["window_tokens"]))
            return view
        if frame.is_one_off or strategy.rebuild_schedule is None:
            plan, blocks = await self.viewer.plan(
                session, strategy, room_tokens, last_turn=session.last_turn, retrieved=frame.retrieved
            )
            return HistoryView(blocks, PlanReport(plan.bands, last_turn=session.last_turn, notes=plan.notes))
        given = self._settings.context
        prices = CachePrices(given.cache_read_price, given.cache_write_price)
        keeper = self._keepers.get(chosen.name) or PlanCache(self._store, self._session_id, self.viewer, chosen.name)
        self._keepers[chosen.name] = keeper
        view = await keeper.view(
            session,
            strategy,
            room,
            prices=prices,
            retrieved=frame.retrieved,
            cache_ttl_seconds=given.cache_ttl_seconds,
        )
        cause = view.planned.cause if view.planned.is_new else None
        if cause == "full":
            self._publish("context-threshold-reached", session.last_turn, {"room_tokens": room_tokens})
        if cause:
            tokens = sum(block.tokens for block in view.blocks)
            data: dict[str, Json] = {"cause": cause, "tokens": tokens, "churn": round(view.churn, 3)}
            self._publish("gradient-recalculated", session.last_turn, data)
        return view

    def _publish(self, kind: EventKind, turn: int, data: dict[str, Json]) -> None:
        self._events.publish(Event(kind, self._session_id, datetime.now(UTC), turn_id(turn), data))


def _recall_notes(layer: MemoryLayer) -> dict[str, Json]:
    """What a plan's notes say of recall: stages that were late, and items of knowledge that are shown."""
    said: dict[str, Json] = {"recall_late": list(layer.late), "knowledge": list(layer.knowledge)}
    return {name: value for name, value in said.items() if value}


def given_settings(session: SessionRow, settings: Settings) -> dict[str, object]:
    """What is set for one session's strategy: by the profile of its scope, then for itself."""
    return settings.given_for(session.scope, session.strategy, json.loads(session.settings))


def _at_work(session: SessionRow, blocks: Sequence[BlockText], prompt: str | Sequence[Message]) -> int:
    """How many of the blocks are of the turn in progress, unless a prompt ends it."""
    if not session.is_open or said_by_user(prompt_messages(prompt)):
        return 0
    return len(list(takewhile(lambda block: block.row.first == session.last_turn, reversed(blocks))))


def _shows(blocks: Sequence[BlockText], turn: int) -> bool:
    """Whether the turn itself is shown, and not only a range it is in."""
    rows = (span for block in blocks for span in block.row.spans())
    return any(row.first <= turn <= row.last and row.level not in SUMS for row in rows)


def _mark(query: str, visible: Collection[int], pruned_us: int | None) -> str:
    """The same as long as a prompt's turn is in progress and the turns before it are shown as they were."""
    told = json.dumps([query, sorted(visible), "" if pruned_us is None else str(pruned_us).encode().hex()])
    return hashlib.blake2b(told.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _visible(blocks: Sequence[BlockText]) -> set[int]:
    """The turns that are shown verbatim, or nearly so."""
    rows = (span for block in blocks for span in block.row.spans())
    return {
        turn
        for row in rows
        if row.level in ("R", "S") and not row.is_cut and not row.first_step
        for turn in range(row.first, row.last + 1)
    }


def _framed_tokens(view: HistoryView) -> int:
    """What a history takes at most, with the framing of its messages."""
    return sum(block.framed_tokens for block in view.blocks)


def _recall_room(chosen: ChosenStrategy, frame: Frame, room: Split, used_tokens: int) -> int:
    """What recall may take: its own share, or what the history leaves where nothing is held back for it."""
    left = max(0, room.history - used_tokens)
    if frame.is_one_off:
        return left
    return room.recall if chosen.strategy.holds_back else min(room.recall, left)
