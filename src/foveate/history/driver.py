"""Plans of strategies that keep a state and have things made: planned, made, planned again, written until it fits.

    load the state → plan → make missing artefacts → plan again → write → plan with less room, if the
    texts turned out larger → store the state and the artefacts, and publish events

Only at the session's own budget is anything stored or published; a preview leaves no trace.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from foveate.cache import BoundedCache
from foveate.context.assemble import BlockText
from foveate.context.context import PlanReport
from foveate.context.costs import counting
from foveate.history.late_writes import LateWrites
from foveate.history.plan_cache import HistoryView
from foveate.history.sizes import Infos, Step, StoredHistory
from foveate.history.texts import Survey, TextReader
from foveate.plan import Artefact, ArtefactSpec, Era, Frame, Plan, ShownLevel, SizeTable, TurnInfo, TurnSizes
from foveate.store import SessionRow, Store, bodies
from foveate.store.rows import ArtefactsMark
from foveate.strategy import Strategy
from foveate.strategy.build import ArtefactKind, Material
from foveate.strategy.gradient import Gradient
from foveate.turn import Json
from foveate.worker.artefacts import cutter, make_all, pack_made, pack_wants, unpack_made
from foveate.worker.loop import Worker

MAX_ROUNDS = 8
"""Plans made until nothing is wanted that is not there."""
MAX_TRIES = 6
"""Plans made, each for less room, until their texts fit; then the gradient shows the history, which always does."""
MAX_READS = 64
"""Times that a plan may request older turns; each one doubles the turns read, so no conversation is that long."""
BATCH_TURNS = 512
"""Turns that are read together to make something of them."""
MAX_REMEMBERED = 2_000
"""Artefacts made for previews that are kept in memory."""
MEANWHILE_TURNS = 1_000
"""A longer history is prepared in the background; until then the gradient shows it."""


@dataclass(frozen=True, slots=True)
class StoredStory:
    """A `foveate.plan.Story` in memory; older turns are read when a plan requests them."""

    gathered: StoredHistory
    read: Infos
    frame: Frame
    state: Mapping[str, Json]
    made: Mapping[str, Artefact]

    @property
    def last_turn(self) -> int:
        return self.gathered.last_turn

    @property
    def fanout(self) -> int:
        return self.gathered.fanout

    @property
    def shown(self) -> Mapping[int, ShownLevel]:
        return self.gathered.shown

    @property
    def retrieved(self) -> Sequence[int]:
        return self.frame.retrieved

    def newest(self) -> Iterator[TurnSizes]:
        return self.gathered.newest()

    def table(self, limit: int, answer_weight: float) -> SizeTable:
        return self.gathered.table(limit, answer_weight)

    def era(self, level: int, index: int) -> Era | None:
        return self.gathered.era(level, index)

    @property
    def first_read(self) -> int:
        return self.read.first

    def infos(self, first: int, last: int) -> Sequence[TurnInfo]:
        return self.read.between(first, last)


@dataclass(frozen=True, slots=True)
class _Task:
    """Who plans for which session, and with what."""

    session: SessionRow
    name: str
    """The strategy's."""
    strategy: Strategy
    seen: Survey


@dataclass(frozen=True, slots=True)
class _Unsaved:
    """A strategy's state that could not be saved yet."""

    stored: bytes | None
    """What the store had instead."""
    state: Mapping[str, Json]


@dataclass(slots=True)
class _Kept:
    """The stored artefacts of one strategy."""

    mark: ArtefactsMark
    made: dict[str, Artefact]


FILE_SUMMARIES = "files"
"""The document with the summaries that a program gave for files, by path."""


async def read_summaries(store: Store, session_id: str) -> dict[str, str]:
    """The summaries that were given for files, by path."""
    kept = {row.name: row.text for row in await store.artefacts.documents(session_id)}
    found: dict[str, str] = json.loads(kept.get(FILE_SUMMARIES) or "{}")
    return found


class StatefulDriver:
    """Makes one session's views by strategies that keep a story."""

    def __init__(self, store: Store, session_id: str, viewer: TextReader, *, worker: Worker | None = None) -> None:
        self._store = store
        self._session_id = session_id
        self._viewer = viewer
        self._worker = worker
        self._building: dict[str, asyncio.Task[object]] = {}
        self._infos = Infos()
        self._pruned: int | None = None
        self._kept: dict[str, _Kept] = {}
        self._remembered: BoundedCache[tuple[str, str], Artefact] = BoundedCache(MAX_REMEMBERED)
        self._offered: dict[str, bytes] = {}
        self._writes = LateWrites()
        self._unsaved: dict[str, _Unsaved] = {}

    async def view(
        self, session: SessionRow, name: str, strategy: Strategy, frame: Frame, room_tokens: int, *, keep: bool
    ) -> HistoryView:
        """The history within its room, as the strategy of this name shows it now."""
        if keep and await self._is_unbuilt(session, name, strategy):
            plan, blocks = await self._viewer.plan(
                session, Gradient(), room_tokens, last_turn=session.last_turn, retrieved=frame.retrieved
            )
            if self._worker and name not in self._building:  # after the plan, which it would hold up
                work = self._build(self._worker, name, strategy, frame, room_tokens)
                self._building[name] = self._worker.beside(work)
            notes: dict[str, Json] = {"meanwhile": "gradient", "building": name}
            return HistoryView(blocks, PlanReport(plan.bands, last_turn=session.last_turn, notes=notes))
        return await self._view(session, name, strategy, frame, room_tokens, keep=keep)

    async def _build(self, worker: Worker, name: str, strategy: Strategy, frame: Frame, room_tokens: int) -> None:
        """Process the history, once its turns are compressed: the worker does that in its own processes."""
        await worker.compress(self._session_id)
        session = await self._store.get_session(self._session_id)
        await self._view(session, name, strategy, frame, room_tokens, keep=True)

    async def _is_unbuilt(self, session: SessionRow, name: str, strategy: Strategy) -> bool:
        """Whether the strategy has yet to process a history that was there before it, or is still processing it."""
        if task := self._building.get(name):
            # Once its state is saved the strategy is ready, even if the task has not ended: same store, same bytes.
            return not task.done() and not await self.state(name)
        is_new = session.last_turn > MEANWHILE_TURNS and strategy.builds
        return is_new and self._worker is not None and not await self.state(name)

    async def _view(
        self, session: SessionRow, name: str, strategy: Strategy, frame: Frame, room_tokens: int, *, keep: bool
    ) -> HistoryView:
        self._renew()
        is_open = session.is_open
        known = self._infos
        infos = await known.renewed(self._store, self._session_id, last_turn=session.last_turn, is_open=is_open)
        seen = await self._viewer.survey(session, room_tokens, last_turn=session.last_turn)
        stored = await self._load(name)
        story = StoredStory(seen.history, infos, frame, await self.state(name), dict(stored.made))
        task = _Task(session, name, strategy, seen)
        plan, blocks, story = await self._fitted(task, story, room_tokens)
        if self._infos is known:  # else they were forgotten, or renewed by another plan
            self._infos = story.read
        if keep:
            await self._keep_later(task, plan, story, stored)
        planned = PlanReport(plan.bands, last_turn=session.last_turn, notes=plan.notes)
        return HistoryView(_stable(blocks, is_open=is_open), planned, events=plan.events if keep else ())

    async def before(
        self, session: SessionRow, name: str, strategy: Strategy, frame: Frame, room_tokens: int, *, step: Step
    ) -> list[BlockText]:
        """The history up to a step of the turn in progress, within the room; nothing is saved."""
        last_turn, last_step = session.last_turn, step.number - 1
        building = self._building.get(name)
        if building and not building.done():
            _, blocks = await self._viewer.plan(
                session,
                Gradient(),
                room_tokens,
                last_turn=last_turn,
                last_step=last_step,
                retrieved=frame.retrieved,
            )
            return blocks
        infos = await self._infos.renewed(self._store, self._session_id, last_turn=last_turn, is_open=True)
        seen = await self._viewer.survey(session, room_tokens, last_turn=last_turn, last_step=last_step)
        stored = await self._load(name)
        story = StoredStory(seen.history, infos.before(step), frame, await self.state(name), dict(stored.made))
        _, blocks, _ = await self._fitted(_Task(session, name, strategy, seen), story, room_tokens, last_step=last_step)
        return blocks

    async def _fitted(
        self, task: _Task, story: StoredStory, room_tokens: int, *, last_step: int | None = None
    ) -> tuple[Plan, list[BlockText], StoredStory]:
        """A plan whose texts fit the room, written out; each try has less room."""
        seen, room = task.seen, room_tokens
        for _ in range(MAX_TRIES):
            plan, story = await self._plan(task, story, room)
            blocks = await self._viewer.write(plan.rows, seen.counter, seen.costs, seen.steps, story.made)
            excess = sum(block.tokens for block in blocks) - room_tokens
            if excess <= 0:
                return plan, blocks, story
            room = max(0, min(room, plan.tokens) - excess)
        # Whatever the strategy does, a context is given and it fits.
        last_turn = task.session.last_turn
        plan, blocks = await self._viewer.plan(
            task.session,
            Gradient(),
            room_tokens,
            last_turn=last_turn,
            last_step=last_step,
            retrieved=story.retrieved,
        )
        return replace(plan, notes={"fallback": "gradient"}), blocks, story

    async def state(self, name: str) -> Mapping[str, Json]:
        """The stored state of a strategy."""
        packed = await self._store.artefacts.state(self._session_id, name)
        unsaved = self._unsaved.get(name)
        if unsaved and unsaved.stored == packed:
            return unsaved.state
        self._unsaved.pop(name, None)
        return _expanded(packed) if packed is not None else {}

    async def keep_state(self, name: str, state: Mapping[str, Json]) -> None:
        """Set what a strategy keeps, as when a topic is sealed by hand."""
        self._unsaved.pop(name, None)
        await self._store.artefacts.keep_state(self._session_id, name, bodies.squeeze(dict(state)))

    def _renew(self) -> None:
        """Drop the cache, if turns were pruned since it was read."""
        if self._pruned != self._viewer.pruned:
            self._infos, self._kept, self._offered, self._unsaved = Infos(), {}, {}, {}
            self._remembered.clear()
            self._pruned = self._viewer.pruned

    async def _load(self, name: str) -> _Kept:
        mark = await self._store.artefacts.mark(self._session_id, name)
        kept = self._kept.get(name)
        if kept is None or kept.mark != mark:
            rows = await self._store.artefacts.made(self._session_id, name) if mark.count else []
            kept = self._kept[name] = _Kept(mark, {row.name: unpack_made(row) for row in rows})
        return kept

    async def _plan(self, task: _Task, story: StoredStory, room_tokens: int) -> tuple[Plan, StoredStory]:
        """A plan whose wants are all there, and the story it was made from."""
        plan, story = await self._asked(task, story, room_tokens)
        for _ in range(MAX_ROUNDS):
            lacking = [wanted for wanted in plan.wants if wanted.name not in story.made]
            if not lacking:
                break
            made = await self._make(task, story, lacking)
            story = replace(story, made={**story.made, **{one.name: one for one in made}})
            plan, story = await self._asked(task, story, room_tokens)
        return plan, story

    async def _asked(self, task: _Task, story: StoredStory, room_tokens: int) -> tuple[Plan, StoredStory]:
        """A plan that has all the turns it needs, and the story with these turns."""
        for _ in range(MAX_READS):
            if story.last_turn <= MEANWHILE_TURNS:
                plan = task.strategy.plan(story, room_tokens, task.seen.costs)
            else:
                plan = await asyncio.to_thread(task.strategy.plan, story, room_tokens, task.seen.costs)
            missing = plan.missing_from(story)
            if missing is None:
                return plan, story
            infos = await story.read.reaching(self._store, self._session_id, missing)
            story = replace(story, read=infos)
        raise AssertionError(f"a plan of {task.name} requested older turns more than {MAX_READS} times")

    async def _make(self, task: _Task, story: StoredStory, lacking: Sequence[ArtefactSpec]) -> list[Artefact]:
        """The missing artefacts, in the order they were requested; those made for a preview are taken from memory."""
        session, counter = task.session, task.seen.counter
        known = {wanted.name: self._remembered.get((task.name, wanted.name)) for wanted in lacking}
        made = {one.name: one for one in known.values() if one}
        fresh = list({wanted.name: wanted for wanted in lacking if wanted.name not in made}.values())
        goals = [dict(_expanded(row.data)) for row in await self._store.artefacts.goals(self._session_id)]
        summaries = await read_summaries(self._store, self._session_id)
        count, cut = counting("A", counter), cutter(counter)
        for batch in _batches(fresh):
            turns = sorted({turn for wanted in batch for turn in _turns_of(wanted, session.last_turn)})
            kind = task.strategy.artefacts.get(batch[0].kind, ArtefactKind())
            sources = await self._viewer.sources(session, turns, messages=kind.reads_messages, units=kind.reads_units)
            materials = [
                Material(
                    wanted,
                    [source for source in sources if wanted.first <= source.number <= wanted.last],
                    count,
                    cut,
                    {**story.made, **made},
                    goals,
                    session.model,
                    summaries,
                )
                for wanted in batch
            ]
            for one in await asyncio.to_thread(make_all, task.strategy, materials, counter):
                made[one.name] = one
                self._remembered[task.name, one.name] = one
        return [made[wanted.name] for wanted in lacking]

    async def _keep_later(self, task: _Task, plan: Plan, story: StoredStory, stored: _Kept) -> None:
        """Save the plan; if that fails, its state is used from memory until the next time."""
        before = await self._store.artefacts.state(self._session_id, task.name)
        if not await self._writes.write(lambda: self._keep(task, plan, story, stored)):
            state = story.state if plan.state is None else plan.state
            self._unsaved[task.name] = _Unsaved(before, state)

    async def _keep(self, task: _Task, plan: Plan, story: StoredStory, stored: _Kept) -> None:
        name = task.name
        fresh = [made for made in story.made.values() if made.name not in stored.made]
        if fresh:
            await self._store.artefacts.keep_made(self._session_id, name, [pack_made(made) for made in fresh])
            mark = await self._store.artefacts.mark(self._session_id, name)
            self._kept[name] = _Kept(mark, dict(story.made))
            for made in fresh:
                self._remembered.pop((name, made.name))
        unsaved = self._unsaved.get(name)
        state = unsaved.state if plan.state is None and unsaved else plan.state
        if state is not None and (unsaved or state != story.state):
            await self.keep_state(name, state)
        await self._offer(task, plan)

    async def _offer(self, task: _Task, plan: Plan) -> None:
        """Keep which of the things that are shown now a model may word, and have it asked for those that are new."""
        name = task.name
        shown = {row.artefact for row in plan.rows if row.level in ("A", "M")}
        worded = {kind for kind, artefact in task.strategy.artefacts.items() if artefact.wording}
        packed = pack_wants([wanted for wanted in plan.wants if wanted.kind in worded and wanted.name in shown])
        if name not in self._offered:
            self._offered[name] = await self._store.derived.offer(self._session_id, name) or pack_wants(())
        if packed != self._offered[name]:
            self._offered[name] = packed
            await self._store.derived.keep_offer(self._session_id, name, packed)
            if self._worker:
                self._worker.reword(self._session_id)


async def load_state(store: Store, session_id: str, strategy: str) -> Mapping[str, Json]:
    """The stored state of a session's strategy."""
    packed = await store.artefacts.state(session_id, strategy)
    return _expanded(packed) if packed is not None else {}


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


def _stable(blocks: Sequence[BlockText], *, is_open: bool) -> list[BlockText]:
    """The blocks, of which the last one changes while its turn is open."""
    if not blocks or not is_open:
        return list(blocks)
    return [*blocks[:-1], replace(blocks[-1], is_stable=False)]


def _expanded(data: bytes) -> Mapping[str, Json]:
    found: Any = bodies.expand(data)
    return dict(found)
