"""The driver of histories: plans a history from a snapshot, writes it, plans again until the texts fit, and saves it.

    load plan and state → plan → read missing data, make missing artefacts → plan again → write
    → plan with less room if the texts are larger than planned → save, return the events

Plans are saved only at the session's own budget; a preview saves nothing.
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
from foveate.store.rows import ArtefactsMark, Origin
from foveate.store.snapshot import SessionSnapshot
from foveate.strategy.build import ArtefactKind, Material
from foveate.strategy.gradient import Gradient
from foveate.turn import Json
from foveate.worker.artefacts import cutter, make_all, pack_made, pack_wants, unpack_made
from foveate.worker.loop import Worker

MAX_ROUNDS = 8
"""Maximum plans until all artefacts that a plan requests are made."""
MAX_TRIES = 6
"""Maximum plans, each with less room, until the texts fit. The fallback is the gradient, whose texts always fit."""
MAX_READS = 80
"""Maximum reads for a plan. Each read of older turns doubles their number, so no conversation needs as many."""
BATCH_TURNS = 512
"""Maximum turns that are read together to make artefacts."""
MAX_UNSAVED = 2_000
"""Maximum unsaved artefacts in memory, e.g. of previews."""
MEANWHILE_TURNS = 1_000
"""A strategy processes a longer history in the background; the gradient shows it meanwhile."""
USE_NOTED_SHARE = 0.05
"""Share of the cache's lifetime after which a use of the plan is saved: that writes the whole plan."""
BEFORE_NEWEST = "the turns before the step that waits for an answer are shortened, so that it fits"
FILE_SUMMARIES = "files"
"""The document with summaries of files by path, which programs provide."""


@dataclass(frozen=True, slots=True)
class HistoryView:
    """A written history."""

    blocks: list[BlockText]
    planned: PlanReport
    events: tuple[PlanEvent, ...] = ()
    """The plan's events, in order."""

    @property
    def framed_tokens(self) -> int:
        """Maximum tokens, including the framing of messages."""
        return sum(block.framed_tokens for block in self.blocks)


@dataclass(frozen=True, slots=True)
class _Fitted:
    """A written plan whose texts fit."""

    plan: Plan
    state: State
    blocks: list[BlockText]
    seen: SizedSnapshot
    """The snapshot that the plan was made from."""


@dataclass(slots=True)
class _StoredArtefacts:
    """The stored artefacts of one strategy."""

    mark: ArtefactsMark | None
    """The store's mark; None if the store has newer artefacts."""
    read_at: float
    """When they were read or saved (`time.perf_counter`); the mark of an older snapshot is outdated."""
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
        self._origin: Origin | None = None
        self._artefacts: dict[str, _StoredArtefacts] = {}
        self._unsaved: BoundedCache[tuple[str, str], Artefact] = BoundedCache(MAX_UNSAVED)
        self._offered: dict[str, bytes] = {}

    async def view(self, request: ContextRequest, ledger: Ledger) -> HistoryView:
        """Plan and write the history within the ledger's room."""
        self._renew(request.snapshot)
        if not ledger.is_preview and self._is_unbuilt(request):
            view = await self._meanwhile(request, ledger)
        else:
            view = await self._view(request, ledger)
        return await self._with_newest_step(request, ledger, view) if request.is_pending else view

    async def state(self, name: str) -> State:
        """Return the state that a strategy keeps."""
        read_at = time.perf_counter()
        return self._kept.state(name, await self._store.artefacts.state(self._session_id, name), read_at)

    async def keep_state(self, name: str, state: State, origin: Origin | None = None) -> None:
        """Save the state of a strategy, e.g. after a topic was sealed by hand, unless turns were removed since."""
        await self._kept.keep_state(name, state, origin)

    def _renew(self, snapshot: SessionSnapshot) -> None:
        """Drop all cached data if turns were pruned since it was read, or the session was created again."""
        if self._origin != snapshot.origin:
            self._infos, self._artefacts, self._offered = Infos(), {}, {}
            self._unsaved.clear()
            self._kept.forget(snapshot.origin)
            self._origin = snapshot.origin

    async def _view(self, request: ContextRequest, ledger: Ledger) -> HistoryView:
        seen, state = await self._seen(request, ledger.limit_tokens)
        keeps, name = request.strategy.keeps_plan and not ledger.is_preview, request.name
        if keeps and ledger.needed_tokens:
            beside = await self._beside_memory(request)
            if beside.plan:
                seen, state, name = replace(seen, kept=beside.plan), beside.state, _beside(name)
        fitted = await self._fitted(request, seen, state, ledger)
        if keeps and fitted.plan.reach:
            return await self._kept_view(request, name, fitted, ledger)
        view = _view_of(request, fitted)
        if keeps or ledger.is_preview:
            return view
        await self._save_later(request, fitted, state)
        return replace(view, events=fitted.plan.events)

    async def _beside_memory(self, request: ContextRequest) -> Kept:
        """Return the plan beside the memory of the turn that is asked for, if there is one."""
        name, read_at = _beside(request.name), time.perf_counter()
        kept = await self._kept.plan(name, await self._store.derived.plan(self._session_id, name), read_at)
        return kept if kept.plan and kept.plan.trigger_turn == _asking_turn(request) else Kept({})

    async def _meanwhile(self, request: ContextRequest, ledger: Ledger) -> HistoryView:
        """Return the gradient's view, and start processing a long history in the background."""
        fitted = await self._by_gradient(request, ledger)
        name = request.name
        if self._worker and name not in self._building:  # after planning, which it would delay
            self._building[name] = self._worker.beside(self._build(self._worker, request, ledger))
        notes: dict[str, Json] = {"meanwhile": "gradient", "building": name}
        report = PlanReport(fitted.plan.bands, last_turn=request.session.last_turn, notes=notes)
        return HistoryView(fitted.blocks, report)

    async def _build(self, worker: Worker, request: ContextRequest, ledger: Ledger) -> None:
        """Process the history once the worker has compressed its turns, in its own processes."""
        await worker.compress(self._session_id)
        snapshot = await self._store.snapshot(self._session_id, strategy=lambda _: request.name)
        await self._view(replace(request, snapshot=snapshot, read=ReadParts()), ledger)

    def _is_unbuilt(self, request: ContextRequest) -> bool:
        """Return whether the strategy has not yet processed a history that was recorded before it was chosen."""
        if not request.strategy.builds or not self._worker:
            return False
        if task := self._building.get(request.name):
            # The strategy is ready once its state is saved, even if the task has not ended.
            return not task.done() and not self._state(request)
        return request.session.last_turn > MEANWHILE_TURNS and not self._state(request)

    def _state(self, request: ContextRequest) -> State:
        return self._kept.state(request.name, request.snapshot.state, request.snapshot.read_at)

    async def _seen(self, request: ContextRequest, room_tokens: int) -> tuple[SizedSnapshot, State]:
        """Return the session as the strategy sees it, and the strategy's state."""
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
        """Return the strategy's stored artefacts by name."""
        name, mark, read_at = request.name, request.snapshot.made, request.snapshot.read_at
        known = self._artefacts.get(name)
        if known is None or (known.mark != mark and known.read_at <= read_at):
            rows = await self._store.artefacts.made(self._session_id, name) if mark.count else []
            made = {row.name: unpack_made(row) for row in rows}
            known = self._artefacts[name] = _StoredArtefacts(mark, read_at, made)
        return known.made

    async def _fitted(self, request: ContextRequest, seen: SizedSnapshot, state: State, ledger: Ledger) -> _Fitted:
        """Plan and write until the texts fit the room; each try has less room."""
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
            if first_goal is None:
                first_goal = goal
                limit, framed = plan.framed_limit_tokens, sum(block.framed_tokens for block in blocks)
                if limit is not None and 0 < limit < framed:
                    # Plans count texts only, not the framing of raw turns as messages: plan once more, with less room.
                    ledger = replace(ledger, target_tokens=max(0, goal - (framed - limit)))
                    continue
            if ledger.is_preview and plan.reach:
                blocks = [*blocks, *await self._appended(request, seen, plan.reach, ledger)]
            return _Fitted(replace(plan, target_tokens=first_goal) if plan.reach else plan, new_state, blocks, seen)

    async def _by_gradient(self, request: ContextRequest, ledger: Ledger, reach: Reach | None = None) -> _Fitted:
        """Plan and write with the gradient, whose texts always fit; nothing is saved."""
        assert type(request.strategy) is not Gradient, "the gradient's texts always fit"
        request = _for_gradient(request)
        seen, state = await self._seen(request, ledger.limit_tokens)
        preview = replace(ledger, is_preview=True, target_tokens=None)
        return await self._fitted(request, replace(seen, reach=reach), state, preview)

    async def _planned(
        self, request: ContextRequest, seen: SizedSnapshot, state: State, ledger: Ledger
    ) -> tuple[Plan, State, SizedSnapshot]:
        """Plan until all requested artefacts are made; return the plan, its state and its snapshot."""
        plan, new_state = await self._plan(request, seen, state, ledger)
        for _ in range(MAX_ROUNDS):
            missing = [spec for spec in plan.wants if spec.name not in seen.made]
            if not missing:
                break
            made = await self._make(request, seen, missing)
            seen = replace(seen, made={**seen.made, **{one.name: one for one in made}})
            plan, new_state = await self._plan(request, seen, state, ledger)
        return plan, new_state, seen

    async def _plan(
        self, request: ContextRequest, seen: SizedSnapshot, state: State, ledger: Ledger
    ) -> tuple[Plan, State]:
        """Plan, and read the data that the plan requests."""
        plan = request.strategy.plan
        in_thread = request.strategy.builds and request.session.last_turn > MEANWHILE_TURNS
        for _ in range(MAX_READS):
            try:
                return await asyncio.to_thread(plan, seen, state, ledger) if in_thread else plan(seen, state, ledger)
            except NotRead as missing:
                await self._read(request, missing, ledger)
        raise AssertionError(f"a plan of {request.name} needed more than {MAX_READS} reads")

    async def _read(self, request: ContextRequest, missing: NotRead, ledger: Ledger) -> None:
        """Read data that a plan requests."""
        read, session, turn, step = request.read, request.session, missing.turn, missing.step
        match missing.kind:
            case "sizes":
                room = ledger.limit_tokens
                survey = await self._reader.survey(session, room, last_turn=turn, last_step=step or None)
                read.surveys[turn, step, room] = survey
            case "appended":
                read.appended[turn, step, *missing.until] = await self._reader.appended(
                    session, turn, step, missing.until
                )
            case "raw":
                read.raw[turn] = await self._reader.raw_turn(session, turn)
            case "tokens":
                read.tokens[turn, step] = await self._store.raw_tokens(self._session_id, turn, step)
            case "turns":
                read.infos = await self._read_infos(session, turn, read.infos)

    async def _read_infos(self, session: SessionRow, turn: int, read: Infos | None) -> Infos:
        """Return the outlines of the turns from this one on; closed turns are cached."""
        known = self._infos
        infos = read or await known.renewed(
            self._store, self._session_id, last_turn=session.last_turn, is_open=session.is_open
        )
        if turn < infos.first:
            infos = await infos.reaching(self._store, self._session_id, turn)
        if self._infos is known:  # else the cache was dropped, or another plan has read more
            self._infos = infos
        return infos

    async def _write(self, request: ContextRequest, plan: Plan, seen: SizedSnapshot, ledger: Ledger) -> list[BlockText]:
        """Write the blocks of a plan; those that stay from the current plan have their texts already."""
        kept = await self._kept_blocks(request.session, seen.kept, plan.kept_blocks) if seen.kept else []
        rows = plan.rows[len(kept) :]
        if not rows:
            return kept
        reached = seen.until(*plan.reach) if plan.reach else seen
        try:
            survey = reached.survey
        except NotRead as missing:  # by a plan that needed no sizes
            await self._read(request, missing, ledger)
            survey = reached.survey
        return [*kept, *await self._reader.write(request.session, rows, survey.costs, survey.steps, seen.made)]

    async def _make(
        self, request: ContextRequest, seen: SizedSnapshot, specs: Sequence[ArtefactSpec]
    ) -> list[Artefact]:
        """Make missing artefacts, in the order of their specs; those of an earlier preview are in memory."""
        session, name, counter = request.session, request.name, request.session.exact
        known = {spec.name: self._unsaved.get((name, spec.name)) for spec in specs}
        made = {one.name: one for one in known.values() if one}
        fresh = list({spec.name: spec for spec in specs if spec.name not in made}.values())
        goals = [dict(_expanded(row.data)) for row in await self._store.artefacts.goals(self._session_id)]
        summaries = summaries_in(request.snapshot.documents)
        count, cut = counting("A", counter), cutter(counter)
        for batch in _batches(fresh):
            turns = sorted({turn for spec in batch for turn in _turns_of(spec, session.last_turn)})
            kind = request.strategy.artefacts.get(batch[0].kind, ArtefactKind())
            sources = await self._reader.sources(session, turns, messages=kind.reads_messages, units=kind.reads_units)
            materials = [
                Material(
                    spec,
                    [source for source in sources if spec.first <= source.number <= spec.last],
                    count,
                    cut,
                    {**seen.made, **made},
                    goals,
                    session.model,
                    summaries,
                )
                for spec in batch
            ]
            for one in await asyncio.to_thread(make_all, request.strategy, materials, counter):
                made[one.name] = one
                self._unsaved[name, one.name] = one
        return [made[spec.name] for spec in specs]

    async def _kept_view(self, request: ContextRequest, name: str, fitted: _Fitted, ledger: Ledger) -> HistoryView:
        """Return the view of the kept plan or a new one, with the turns since it was made appended."""
        session, seen, plan, state = request.session, fitted.seen, fitted.plan, fitted.state
        if plan.is_kept:
            assert seen.kept, "the plan in use"
            kept = seen.kept
        else:
            turn = session.last_turn
            if ledger.needed_tokens:
                name, turn = _beside(request.name), _asking_turn(request)
            kept = written_plan(plan, fitted.blocks, seen.kept, now=ledger.now, turn=turn)
            await self._kept.keep_plan(name, Kept(state, kept), request.snapshot.origin)
        blocks = await self._kept_blocks(session, kept)  # of a new plan, the same bytes as in the next context
        assert plan.reach, "a kept plan has a reach"
        blocks = [*blocks, *await self._appended(request, seen, plan.reach, ledger)]
        report = report_of(kept, plan)
        # A kept plan may give nothing back to memory.
        limit = ledger.history_tokens if plan.is_kept else ledger.limit_tokens
        if sum(block.framed_tokens for block in blocks) > limit:
            # Even a new plan leaves too little room for what came since, e.g. a giant result: plan everything, once.
            once = await self._fitted(request, seen, state, replace(ledger, is_preview=True, target_tokens=None))
            cause = "full" if plan.is_kept else kept.cause
            report = PlanReport(once.plan.bands, cause, True, session.last_turn, notes=plan.notes)
            blocks = once.blocks
        elif plan.is_kept:
            await self._note_use(name, request, Kept(state, kept), ledger)
        churn = kept.churn if report.is_new else 0.0
        return HistoryView(blocks, report, tuple(_rebuild_events(report, blocks, churn, ledger)))

    async def _appended(
        self, request: ContextRequest, seen: SizedSnapshot, reach: Reach, ledger: Ledger
    ) -> list[BlockText]:
        """Return the blocks of the turns after a reach."""
        try:
            return seen.appended_blocks(*reach)
        except NotRead as missing:
            await self._read(request, missing, ledger)
            return seen.appended_blocks(*reach)

    async def _kept_blocks(self, session: SessionRow, kept: KeptPlan, count: int | None = None) -> list[BlockText]:
        """Return the oldest blocks of a kept plan, all if `count` is None: stored texts, and raw turns from the log."""
        stored = list(zip(kept.rows, kept.texts, kept.tokens, strict=True))[:count]
        costs = overheads(session.last_turn, session.exact)
        raw = iter(await self._reader.write(session, [row for row, text, _ in stored if text is None], costs))
        return [next(raw) if text is None else BlockText(row, text, tokens) for row, text, tokens in stored]

    async def _note_use(self, name: str, request: ContextRequest, kept: Kept, ledger: Ledger) -> None:
        """Save that the plan was used, if the lifetime of the provider's cache is known."""
        ttl_seconds, plan = ledger.cache_ttl_seconds, kept.plan
        if plan and ttl_seconds and ledger.now - plan.used_at > ttl_seconds * USE_NOTED_SHARE:
            used = replace(kept, plan=replace(plan, used_at=ledger.now))
            await self._kept.keep_plan(name, used, request.snapshot.origin)

    async def _save_later(self, request: ContextRequest, fitted: _Fitted, before: State) -> None:
        """Save artefacts and state of a plan; if that fails, the state stays in memory until the next context."""
        name, stored = request.name, request.snapshot.state
        is_written = await self._writes.write(
            f"state of {name} in {self._session_id}", lambda: self._save(request, fitted, before)
        )
        if not is_written and request.snapshot.origin == self._origin:
            self._kept.use_state(name, stored, fitted.state)

    async def _save(self, request: ContextRequest, fitted: _Fitted, before: State) -> None:
        name = request.name
        known = self._artefacts.get(name)
        fresh = [one for one in fitted.seen.made.values() if known is None or one.name not in known.made]
        if fresh:
            packed = [pack_made(made) for made in fresh]
            mark = await self._store.artefacts.keep_made(
                self._session_id, name, packed, known=request.snapshot.made, origin=request.snapshot.origin
            )
            # Without a mark, other artefacts were stored since: the next context reads all of them.
            if request.snapshot.origin == self._origin:
                self._artefacts[name] = _StoredArtefacts(mark, time.perf_counter(), dict(fitted.seen.made))
            for made in fresh:
                self._unsaved.pop((name, made.name))
        if fitted.state != before or not self._kept.is_state_saved(name):
            await self._kept.keep_state(name, fitted.state, request.snapshot.origin)
        if request.strategy.artefacts:
            await self._offer(request, fitted.plan)

    async def _offer(self, request: ContextRequest, plan: Plan) -> None:
        """Save which of the shown artefacts a model may word, and request the new ones."""
        name = request.name
        shown = {row.artefact for row in plan.rows if row.level in ("A", "M")}
        worded = {kind for kind, artefact in request.strategy.artefacts.items() if artefact.wording}
        packed = pack_wants([spec for spec in plan.wants if spec.kind in worded and spec.name in shown])
        if name not in self._offered:
            self._offered[name] = await self._store.derived.offer(self._session_id, name) or pack_wants(())
        if packed != self._offered[name]:
            await self._store.derived.keep_offer(self._session_id, name, packed, request.snapshot.origin)
            self._offered[name] = packed
            if self._worker:
                self._worker.reword(self._session_id)

    async def _with_newest_step(self, request: ContextRequest, ledger: Ledger, view: HistoryView) -> HistoryView:
        """Show the step that waits for an answer as messages, unless the view does so already."""
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
        blocks, notes = [*await self._before(request, ledger, step, left), block], view.planned.notes
        if not request.strategy.keeps_plan:
            notes = {**notes, "before_newest": BEFORE_NEWEST}
        return replace(view, blocks=blocks, planned=replace(view.planned, notes=notes))

    async def _before(self, request: ContextRequest, ledger: Ledger, step: Step, room_tokens: int) -> list[BlockText]:
        """Plan and write the history before a step of the newest turn, within the room; nothing is saved."""
        strategy, last = request.strategy, request.session.last_turn
        room = replace(ledger, history_tokens=room_tokens, needed_tokens=0)
        building = self._building.get(request.name)
        if not strategy.keeps_plan and (step.number == 1 or (building and not building.done())):
            request = _for_gradient(request)
        if request.strategy.keeps_plan:
            room = replace(room, is_preview=True)
        seen, state = await self._seen(request, room.limit_tokens)
        reach = (last - 1, 0) if step.number == 1 else (last, step.number - 1)
        return (await self._fitted(request, seen.until(*reach), state, room)).blocks


def _beside(strategy: str) -> str:
    """Return the name of a strategy's plan beside memory."""
    return f"{strategy}+memory"


def _asking_turn(request: ContextRequest) -> int:
    """Return the turn of the prompt: the one in progress, or the next."""
    return request.session.last_turn + (not request.session.is_open)


def _for_gradient(request: ContextRequest) -> ContextRequest:
    """Return the request for the gradient with default settings, without plan, state and artefacts."""
    snapshot = replace(request.snapshot, plan=None, state=None, made=ArtefactsMark(0, 0))
    return replace(request, name="gradient", strategy=Gradient(), snapshot=snapshot)


async def read_summaries(store: Store, session_id: str) -> dict[str, str]:
    """Read the summaries of files, by path."""
    return summaries_in({row.name: row.text for row in await store.artefacts.documents(session_id)})


def summaries_in(documents: Mapping[str, str]) -> dict[str, str]:
    """Return the summaries of files, by path."""
    found: dict[str, str] = json.loads(documents.get(FILE_SUMMARIES) or "{}")
    return found


def _view_of(request: ContextRequest, fitted: _Fitted) -> HistoryView:
    """Return the view of a plan that is made again for each context."""
    session, blocks = request.session, fitted.blocks
    if blocks and session.is_open and not request.strategy.keeps_plan:
        # The last block changes while its turn is open.
        blocks = [*blocks[:-1], replace(blocks[-1], is_stable=False)]
    plan = fitted.plan
    return HistoryView(blocks, PlanReport(plan.bands, last_turn=session.last_turn, notes=plan.notes, rows=plan.rows))


def _rebuild_events(
    report: PlanReport, blocks: Sequence[BlockText], churn: float, ledger: Ledger
) -> Iterator[PlanEvent]:
    """Yield the events of a kept plan, if it is new."""
    if not report.is_new:
        return
    if report.cause == "full":
        yield PlanEvent("context-threshold-reached", {"room_tokens": ledger.limit_tokens})
    tokens = sum(block.tokens for block in blocks)
    yield PlanEvent("gradient-recalculated", {"cause": report.cause, "tokens": tokens, "churn": round(churn, 3)})


def _turns_of(spec: ArtefactSpec, last_turn: int) -> range:
    return range(max(1, spec.first), min(spec.last, last_turn) + 1)


def _batches(specs: Sequence[ArtefactSpec]) -> Iterator[list[ArtefactSpec]]:
    """Group specs of one kind whose turns are read together: up to the limit, at least one."""
    batch: list[ArtefactSpec] = []
    turns = 0
    for spec in specs:
        size = spec.last - spec.first + 1
        is_same_kind = not batch or batch[-1].kind == spec.kind
        if batch and (turns + size > BATCH_TURNS or not is_same_kind):
            yield batch
            batch, turns = [], 0
        batch.append(spec)
        turns += size
    if batch:
        yield batch


def _expanded(data: bytes) -> Mapping[str, Json]:
    found: Any = bodies.expand(data)
    return dict(found)
