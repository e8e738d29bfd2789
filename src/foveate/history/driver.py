"""Histories of one session: planned from a snapshot, written out, planned again until the texts fit, and saved.

    load the plan and the state → plan → read what the plan lacks, make missing artefacts → plan again → write
    → plan with less room, if the texts turned out larger → save, and return the events

Only at the session's own budget is anything saved; a preview leaves no trace.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from foveate.cache import BoundedCache
from foveate.context.assemble import BlockText
from foveate.context.context import PlanReport
from foveate.context.costs import counting, overheads
from foveate.history.kept_plans import Kept, KeptPlans, report_of, written_plan
from foveate.history.late_writes import LateWrites
from foveate.history.newest_step import (
    CUT_SHARE,
    LEAST_ROOM_TOKENS,
    blocks_before,
    cut_step,
    is_native,
    native_tokens,
    step_row,
    waiting_step,
)
from foveate.history.request import ContextRequest
from foveate.history.sizes import Infos, Step
from foveate.history.snapshot import Reach, ReadParts, SizedSnapshot
from foveate.history.texts import TextReader
from foveate.plan import Artefact, ArtefactSpec, KeptPlan, Ledger, NotRead, Plan, PlanEvent, State
from foveate.store import SessionRow, Store, bodies
from foveate.store.rows import ArtefactsMark
from foveate.store.snapshot import SessionSnapshot
from foveate.strategy.build import ArtefactKind, Material
from foveate.strategy.gradient import Gradient
from foveate.turn import Json
from foveate.worker.artefacts import cutter, make_all, pack_made, pack_wants, unpack_made
from foveate.worker.loop import Worker

MAX_ROUNDS = 8
"""Plans made until nothing is wanted that is not there."""
MAX_TRIES = 6
"""Plans made, each for less room, until their texts fit; then the gradient shows the history, which always does."""
MAX_READS = 80
"""Times that a plan may ask for what is not read; older turns double with each, so no conversation is that long."""
BATCH_TURNS = 512
"""Turns that are read together to make something of them."""
MAX_REMEMBERED = 2_000
"""Artefacts made for previews that are kept in memory."""
MEANWHILE_TURNS = 1_000
"""A longer history is prepared in the background; until then the gradient shows it."""
USE_NOTED_SHARE = 0.05
"""A use of the plan is noted after this share of the cache's time to live: noting it writes the whole plan."""
FILE_SUMMARIES = "files"
"""The document with the summaries that a program gave for files, by path."""


@dataclass(frozen=True, slots=True)
class HistoryView:
    """A session's history as it is shown now."""

    blocks: list[BlockText]
    planned: PlanReport
    events: tuple[PlanEvent, ...] = ()
    """The plan's events, in order."""

    @property
    def framed_tokens(self) -> int:
        """Maximum tokens with the framing of messages."""
        return sum(block.framed_tokens for block in self.blocks)


@dataclass(frozen=True, slots=True)
class _Fitted:
    """A plan whose texts fit, written out."""

    plan: Plan
    state: State
    blocks: list[BlockText]
    seen: SizedSnapshot
    """What it was made from."""


@dataclass(slots=True)
class _StoredArtefacts:
    """The stored artefacts of one strategy."""

    mark: ArtefactsMark | None
    """None if the store has newer ones."""
    read_at: float
    """When they were read or saved, by `time.perf_counter`: an older snapshot has an outdated mark."""
    made: dict[str, Artefact]


class HistoryDriver:
    """Makes the histories of one session."""

    def __init__(
        self,
        store: Store,
        session_id: str,
        reader: TextReader,
        *,
        worker: Worker | None = None,
        writes: LateWrites | None = None,
    ) -> None:
        self._store = store
        self._session_id = session_id
        self._reader = reader
        self._worker = worker
        self._writes = writes or LateWrites()
        self._kept = KeptPlans(store, session_id, self._writes)
        self._building: dict[str, asyncio.Task[object]] = {}
        self._infos = Infos()
        self._pruned_us: int | None = None
        self._artefacts: dict[str, _StoredArtefacts] = {}
        self._remembered: BoundedCache[tuple[str, str], Artefact] = BoundedCache(MAX_REMEMBERED)
        self._offered: dict[str, bytes] = {}

    async def view(self, request: ContextRequest, ledger: Ledger) -> HistoryView:
        """The history within its room, as the strategy shows it now."""
        self._renew(request.snapshot)
        if not ledger.is_preview and self._is_unbuilt(request):
            view = await self._meanwhile(request, ledger)
        else:
            view = await self._view(request, ledger)
        return await self._with_newest_step(request, ledger, view) if request.is_pending else view

    async def state(self, name: str) -> State:
        """The state that a strategy keeps."""
        read_at = time.perf_counter()
        return self._kept.state(name, await self._store.artefacts.state(self._session_id, name), read_at)

    async def keep_state(self, name: str, state: State) -> None:
        """Set what a strategy keeps, as when a topic is sealed by hand."""
        await self._kept.keep_state(name, state)

    def _renew(self, snapshot: SessionSnapshot) -> None:
        """Drop what is in memory, if turns were pruned since it was read."""
        if self._pruned_us != snapshot.pruned_us:
            self._infos, self._artefacts, self._offered = Infos(), {}, {}
            self._remembered.clear()
            self._kept.forget()
            self._pruned_us = snapshot.pruned_us

    async def _view(self, request: ContextRequest, ledger: Ledger) -> HistoryView:
        seen, state = await self._seen(request, ledger.limit_tokens)
        fitted = await self._fitted(request, seen, state, ledger)
        if not ledger.is_preview and fitted.plan.reach:
            return await self._kept_view(request, fitted, ledger)
        view = _view_of(request, fitted)
        if ledger.is_preview:
            return view
        await self._save_later(request, fitted, state)
        return replace(view, events=fitted.plan.events)

    async def _meanwhile(self, request: ContextRequest, ledger: Ledger) -> HistoryView:
        """The gradient's view, while the strategy processes a long history in the background."""
        fitted = await self._by_gradient(request, ledger)
        name = request.name
        if self._worker and name not in self._building:  # after the plan, which it would hold up
            self._building[name] = self._worker.beside(self._build(self._worker, request, ledger))
        notes: dict[str, Json] = {"meanwhile": "gradient", "building": name}
        report = PlanReport(fitted.plan.bands, last_turn=request.session.last_turn, notes=notes)
        return HistoryView(fitted.blocks, report)

    async def _build(self, worker: Worker, request: ContextRequest, ledger: Ledger) -> None:
        """Process the history, once its turns are compressed: the worker does that in its own processes."""
        await worker.compress(self._session_id)
        snapshot = await self._store.snapshot(self._session_id, strategy=lambda _: request.name)
        await self._view(replace(request, snapshot=snapshot, read=ReadParts()), ledger)

    def _is_unbuilt(self, request: ContextRequest) -> bool:
        """Whether the strategy has yet to process a history that was there before it, or is still processing it."""
        if not request.strategy.builds or not self._worker:
            return False
        if task := self._building.get(request.name):
            # Once its state is saved the strategy is ready, even if the task has not ended: same store, same bytes.
            return not task.done() and not self._state(request)
        return request.session.last_turn > MEANWHILE_TURNS and not self._state(request)

    def _state(self, request: ContextRequest) -> State:
        return self._kept.state(request.name, request.snapshot.state, request.snapshot.read_at)

    async def _seen(self, request: ContextRequest, room_tokens: int) -> tuple[SizedSnapshot, State]:
        """The session as the strategy sees it, and the strategy's state."""
        snapshot, strategy = request.snapshot, request.strategy
        kept = await self._kept.plan(request.name, snapshot.plan, snapshot.read_at) if strategy.keeps_plan else None
        seen = SizedSnapshot(
            stored=snapshot,
            kept=kept.plan if kept else None,
            made=await self._made(request),
            retrieved=request.retrieved,
            agent=request.agent,
            read=request.read,
            room_tokens=room_tokens,
        )
        return seen, kept.state if kept else self._state(request)

    async def _made(self, request: ContextRequest) -> dict[str, Artefact]:
        """The strategy's stored artefacts by name."""
        name, mark, read_at = request.name, request.snapshot.made, request.snapshot.read_at
        known = self._artefacts.get(name)
        if known is None or (known.mark != mark and known.read_at <= read_at):
            rows = await self._store.artefacts.made(self._session_id, name) if mark.count else []
            made = {row.name: unpack_made(row) for row in rows}
            known = self._artefacts[name] = _StoredArtefacts(mark, read_at, made)
        return known.made

    async def _fitted(self, request: ContextRequest, seen: SizedSnapshot, state: State, ledger: Ledger) -> _Fitted:
        """A plan whose texts fit the room, written out; each try has less room."""
        first_goal: int | None = None
        while True:
            goal, tried = ledger.room_tokens, ledger
            for attempt in range(MAX_TRIES):
                plan, new_state, seen = await self._planned(request, seen, state, tried)
                if plan.is_kept:
                    return _Fitted(plan, new_state, [], seen)
                if not attempt and plan.target_tokens is not None:
                    goal = plan.target_tokens
                blocks = await self._write(request, plan, seen, ledger)
                excess = sum(block.tokens for block in blocks) - goal
                if excess <= 0:
                    break
                room = tried.room_tokens if attempt else goal
                tried = replace(ledger, target_tokens=max(0, min(room, plan.tokens) - excess))
            else:
                fitted = await self._by_gradient(request, ledger, seen.reach)
                return replace(fitted, state=state, plan=replace(fitted.plan, notes={"fallback": "gradient"}))
            limit, framed = plan.framed_limit_tokens, sum(block.framed_tokens for block in blocks)
            is_framed = first_goal is not None or limit is None or not 0 < limit < framed
            first_goal = goal if first_goal is None else first_goal
            if is_framed or limit is None:
                plan = replace(plan, target_tokens=first_goal) if plan.reach else plan
                return _Fitted(plan, new_state, blocks, seen)
            # Plans count their texts, without the framing of raw turns as messages.
            ledger = replace(ledger, target_tokens=max(0, goal - (framed - limit)))

    async def _by_gradient(self, request: ContextRequest, ledger: Ledger, reach: Reach | None = None) -> _Fitted:
        """The gradient's plan, which always comes to fit; nothing of it is saved."""
        assert type(request.strategy) is not Gradient, "the gradient's texts come to fit"
        request = _for_gradient(request)
        seen, state = await self._seen(request, ledger.limit_tokens)
        preview = replace(ledger, is_preview=True, target_tokens=None)
        return await self._fitted(request, replace(seen, reach=reach), state, preview)

    async def _planned(
        self, request: ContextRequest, seen: SizedSnapshot, state: State, ledger: Ledger
    ) -> tuple[Plan, State, SizedSnapshot]:
        """A plan whose wants are all there, its state, and what it was made from."""
        plan, new_state = await self._asked(request, seen, state, ledger)
        for _ in range(MAX_ROUNDS):
            lacking = [wanted for wanted in plan.wants if wanted.name not in seen.made]
            if not lacking:
                break
            made = await self._make(request, seen, lacking)
            seen = replace(seen, made={**seen.made, **{one.name: one for one in made}})
            plan, new_state = await self._asked(request, seen, state, ledger)
        return plan, new_state, seen

    async def _asked(
        self, request: ContextRequest, seen: SizedSnapshot, state: State, ledger: Ledger
    ) -> tuple[Plan, State]:
        """A plan for which everything is read that it asks for."""
        plan = request.strategy.plan
        in_thread = request.strategy.builds and request.session.last_turn > MEANWHILE_TURNS
        for _ in range(MAX_READS):
            try:
                return await asyncio.to_thread(plan, seen, state, ledger) if in_thread else plan(seen, state, ledger)
            except NotRead as lacking:
                await self._read(request, lacking, ledger)
        raise AssertionError(f"a plan of {request.name} asked for what is not read more than {MAX_READS} times")

    async def _read(self, request: ContextRequest, lacking: NotRead, ledger: Ledger) -> None:
        """Read what a plan lacks."""
        read, session, turn, step = request.read, request.session, lacking.turn, lacking.step
        match lacking.kind:
            case "sizes":
                room = ledger.limit_tokens
                survey = await self._reader.survey(session, room, last_turn=turn, last_step=step or None)
                read.surveys[turn, step, room] = survey
            case "appended":
                read.appended[turn, step] = await self._reader.appended(session, turn, step)
            case "raw":
                read.raw[turn] = await self._reader.raw_turn(session, turn)
            case "tokens":
                read.tokens[turn, step] = await self._store.raw_tokens(self._session_id, turn, step)
            case "turns":
                read.infos = await self._read_infos(session, turn, read.infos)

    async def _read_infos(self, session: SessionRow, turn: int, read: Infos | None) -> Infos:
        """The turns from this one on; those that are over stay in memory."""
        known = self._infos
        infos = read or await known.renewed(
            self._store, self._session_id, last_turn=session.last_turn, is_open=session.is_open
        )
        if turn < infos.first:
            infos = await infos.reaching(self._store, self._session_id, turn)
        if self._infos is known:  # else they were dropped, or read by another plan
            self._infos = infos
        return infos

    async def _write(self, request: ContextRequest, plan: Plan, seen: SizedSnapshot, ledger: Ledger) -> list[BlockText]:
        reached = seen.until(*plan.reach) if plan.reach else seen
        try:
            survey = reached.survey
        except NotRead as lacking:  # of a plan that asked for no sizes
            await self._read(request, lacking, ledger)
            survey = reached.survey
        return await self._reader.write(request.session, plan.rows, survey.costs, survey.steps, seen.made)

    async def _make(
        self, request: ContextRequest, seen: SizedSnapshot, lacking: Sequence[ArtefactSpec]
    ) -> list[Artefact]:
        """The missing artefacts, in the order they were requested; those made for a preview are taken from memory."""
        session, name, counter = request.session, request.name, request.session.exact
        known = {wanted.name: self._remembered.get((name, wanted.name)) for wanted in lacking}
        made = {one.name: one for one in known.values() if one}
        fresh = list({wanted.name: wanted for wanted in lacking if wanted.name not in made}.values())
        goals = [dict(_expanded(row.data)) for row in await self._store.artefacts.goals(self._session_id)]
        summaries = summaries_in(request.snapshot.documents)
        count, cut = counting("A", counter), cutter(counter)
        for batch in _batches(fresh):
            turns = sorted({turn for wanted in batch for turn in _turns_of(wanted, session.last_turn)})
            kind = request.strategy.artefacts.get(batch[0].kind, ArtefactKind())
            sources = await self._reader.sources(session, turns, messages=kind.reads_messages, units=kind.reads_units)
            materials = [
                Material(
                    wanted,
                    [source for source in sources if wanted.first <= source.number <= wanted.last],
                    count,
                    cut,
                    {**seen.made, **made},
                    goals,
                    session.model,
                    summaries,
                )
                for wanted in batch
            ]
            for one in await asyncio.to_thread(make_all, request.strategy, materials, counter):
                made[one.name] = one
                self._remembered[name, one.name] = one
        return [made[wanted.name] for wanted in lacking]

    async def _kept_view(self, request: ContextRequest, fitted: _Fitted, ledger: Ledger) -> HistoryView:
        """The plan in use or a new one, and behind it what came after it."""
        session, seen, plan, state = request.session, fitted.seen, fitted.plan, fitted.state
        if plan.is_kept:
            assert seen.kept, "the plan in use"
            kept, blocks = seen.kept, await self._kept_blocks(session, seen.kept)
        else:
            plan, state = request.strategy.join(seen, plan, state, ledger)
            written = await self._joined(session, seen.kept, plan, fitted.blocks)
            kept = written_plan(plan, written, seen.kept, now=ledger.now, turn=session.last_turn)
            await self._kept.keep_plan(request.name, Kept(state, kept))
            blocks = await self._kept_blocks(session, kept)  # as the next context shows them
        reach = (kept.last_turn, kept.last_step)
        if reach not in request.read.appended:
            await self._read(request, NotRead("appended", *reach), ledger)
        blocks += request.read.appended[reach]
        report = report_of(kept, plan)
        if sum(block.framed_tokens for block in blocks) > ledger.limit_tokens:
            # What came since is too large even for a new plan, such as one giant result: show it as it fits, this once.
            fresh = await self._fitted(request, seen, state, replace(ledger, is_preview=True, target_tokens=None))
            cause = "full" if plan.is_kept else kept.cause
            report = PlanReport(fresh.plan.bands, cause, True, session.last_turn, notes=plan.notes)
            blocks = fresh.blocks
        elif plan.is_kept:
            await self._note_use(request.name, Kept(state, kept), ledger)
        churn = 0.0 if plan.is_kept else kept.churn
        return HistoryView(blocks, report, tuple(_rebuild_events(report, blocks, churn, ledger)))

    async def _kept_blocks(self, session: SessionRow, kept: KeptPlan) -> list[BlockText]:
        """The blocks of a plan: texts as they were stored, raw turns from the log."""
        costs = overheads(session.last_turn, session.exact)
        raw_rows = [row for row, text in zip(kept.rows, kept.texts, strict=True) if text is None]
        raw = iter(await self._reader.write(session, raw_rows, costs))
        return [
            next(raw) if text is None else BlockText(row, text, tokens)
            for row, text, tokens in zip(kept.rows, kept.texts, kept.tokens, strict=True)
        ]

    async def _joined(
        self, session: SessionRow, old: KeptPlan | None, plan: Plan, written: list[BlockText]
    ) -> list[BlockText]:
        """The blocks of the old plan that are kept, and those of the new one behind them."""
        if not old or not plan.kept_blocks:
            return written
        rows = plan.rows[plan.kept_blocks :]
        behind = written[len(written) - len(rows) :]
        if behind[0].row != rows[0]:
            behind[:1] = await self._reader.write(session, rows[:1], overheads(session.last_turn, session.exact))
        return [*(await self._kept_blocks(session, old))[: plan.kept_blocks], *behind]

    async def _note_use(self, name: str, kept: Kept, ledger: Ledger) -> None:
        """Save that the plan was used, if the provider's cache goes by that."""
        ttl_seconds, plan = ledger.prices.ttl_seconds, kept.plan
        if plan and ttl_seconds and ledger.now - plan.used_at > ttl_seconds * USE_NOTED_SHARE:
            await self._kept.keep_plan(name, replace(kept, plan=replace(plan, used_at=ledger.now)))

    async def _save_later(self, request: ContextRequest, fitted: _Fitted, before: State) -> None:
        """Save what a plan made; if that fails, its state is used from memory until the next time."""
        name, stored = request.name, request.snapshot.state
        is_written = await self._writes.write(
            f"state of {name} in {self._session_id}", lambda: self._save(request, fitted, before)
        )
        if not is_written:
            self._kept.use_state(name, stored, fitted.state)

    async def _save(self, request: ContextRequest, fitted: _Fitted, before: State) -> None:
        name = request.name
        known = self._artefacts.get(name)
        fresh = [one for one in fitted.seen.made.values() if known is None or one.name not in known.made]
        if fresh:
            packed = [pack_made(made) for made in fresh]
            mark = await self._store.artefacts.keep_made(self._session_id, name, packed, request.snapshot.made)
            # Without a mark, others were stored since: the next context reads them all.
            self._artefacts[name] = _StoredArtefacts(mark, time.perf_counter(), dict(fitted.seen.made))
            for made in fresh:
                self._remembered.pop((name, made.name))
        if fitted.state != before or not self._kept.is_state_saved(name):
            await self._kept.keep_state(name, fitted.state)
        if request.strategy.artefacts:
            await self._offer(request, fitted.plan)

    async def _offer(self, request: ContextRequest, plan: Plan) -> None:
        """Save which of the artefacts that are shown now a model may word, and have it asked for those that are new."""
        name = request.name
        shown = {row.artefact for row in plan.rows if row.level in ("A", "M")}
        worded = {kind for kind, artefact in request.strategy.artefacts.items() if artefact.wording}
        packed = pack_wants([wanted for wanted in plan.wants if wanted.kind in worded and wanted.name in shown])
        if name not in self._offered:
            self._offered[name] = await self._store.derived.offer(self._session_id, name) or pack_wants(())
        if packed != self._offered[name]:
            await self._store.derived.keep_offer(self._session_id, name, packed)
            self._offered[name] = packed
            if self._worker:
                self._worker.reword(self._session_id)

    async def _with_newest_step(self, request: ContextRequest, ledger: Ledger, view: HistoryView) -> HistoryView:
        """The view with the step that waits for an answer as messages; unchanged if it is there already."""
        session, counter, limit = request.session, request.session.exact, ledger.free_tokens
        if not session.is_open:
            return view
        step = waiting_step(await self._reader.raw(session, session.last_turn), has_results=request.has_results)
        if step is None or is_native(session, view.blocks, step, limit):
            return view
        costs = overheads(session.last_turn, counter, last_step=step.number)
        (block,) = await self._reader.write(session, [step_row(session, step)], costs, steps=[step])
        block = replace(block, is_stable=False)
        older, left = blocks_before(view.blocks, session.last_turn), limit - native_tokens(block, counter)
        if step.number == 1 and older and sum(one.sent_tokens for one in older) <= left:
            return replace(view, blocks=[*older, block])
        if left < LEAST_ROOM_TOKENS:
            # In a thread: a message may have 50 MB.
            cut = await asyncio.to_thread(cut_step, session, step, int(limit * CUT_SHARE))
            if cut is None:
                return view
            block, left = cut, limit - native_tokens(cut, counter)
        return replace(view, blocks=[*await self._before(request, ledger, step, left), block])

    async def _before(self, request: ContextRequest, ledger: Ledger, step: Step, room_tokens: int) -> list[BlockText]:
        """What came before a step of the newest turn, within the room; nothing is saved."""
        strategy, last = request.strategy, request.session.last_turn
        room = replace(ledger, history_tokens=room_tokens, needed_tokens=0, spare_tokens=0)
        building = self._building.get(request.name)
        if not strategy.keeps_plan and (step.number == 1 or (building and not building.done())):
            request = _for_gradient(request)
        if request.strategy.keeps_plan:
            room = replace(room, is_preview=True)
        seen, state = await self._seen(request, room.limit_tokens)
        reach = (last - 1, 0) if step.number == 1 else (last, step.number - 1)
        return (await self._fitted(request, seen.until(*reach), state, room)).blocks


def _for_gradient(request: ContextRequest) -> ContextRequest:
    """The request for the gradient with its defaults, which has neither plan, state nor artefacts."""
    snapshot = replace(request.snapshot, plan=None, state=None, made=ArtefactsMark(0, 0))
    return replace(request, name="gradient", strategy=Gradient(), snapshot=snapshot)


async def read_summaries(store: Store, session_id: str) -> dict[str, str]:
    """The summaries that were given for files, by path."""
    return summaries_in({row.name: row.text for row in await store.artefacts.documents(session_id)})


def summaries_in(documents: Mapping[str, str]) -> dict[str, str]:
    """The summaries that were given for files, by path."""
    found: dict[str, str] = json.loads(documents.get(FILE_SUMMARIES) or "{}")
    return found


def _view_of(request: ContextRequest, fitted: _Fitted) -> HistoryView:
    """The view of a plan that is made anew for each context."""
    session, blocks = request.session, fitted.blocks
    if blocks and session.is_open and not request.strategy.keeps_plan:
        # The last block changes while its turn is open.
        blocks = [*blocks[:-1], replace(blocks[-1], is_stable=False)]
    return HistoryView(blocks, PlanReport(fitted.plan.bands, last_turn=session.last_turn, notes=fitted.plan.notes))


def _rebuild_events(
    report: PlanReport, blocks: Sequence[BlockText], churn: float, ledger: Ledger
) -> Iterator[PlanEvent]:
    """The events of a plan that is kept, if it is new."""
    if not report.is_new:
        return
    if report.cause == "full":
        yield PlanEvent("context-threshold-reached", {"room_tokens": ledger.limit_tokens})
    tokens = sum(block.tokens for block in blocks)
    yield PlanEvent("gradient-recalculated", {"cause": report.cause, "tokens": tokens, "churn": round(churn, 3)})


def _turns_of(wanted: ArtefactSpec, last_turn: int) -> range:
    return range(max(1, wanted.first), min(wanted.last, last_turn) + 1)


def _batches(wants: Sequence[ArtefactSpec]) -> Iterator[list[ArtefactSpec]]:
    """Wants whose turns are read together: as many as stay within the limit, one at least."""
    batch: list[ArtefactSpec] = []
    turns = 0
    for wanted in wants:
        size = wanted.last - wanted.first + 1
        alike = not batch or batch[-1].kind == wanted.kind
        if batch and (turns + size > BATCH_TURNS or not alike):
            yield batch
            batch, turns = [], 0
        batch.append(wanted)
        turns += size
    if batch:
        yield batch


def _expanded(data: bytes) -> Mapping[str, Json]:
    found: Any = bodies.expand(data)
    return dict(found)
