"""The plan that a session keeps between calls: what was shown is shown again byte for byte, until a rebuild.

The plan's texts are stored with it, raw turns by their number; what comes after it is appended raw. So a prompt is
the one before it and something more, which is what provider caches match.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec

from foveate.context.allotments import HistoryRoom
from foveate.context.assemble import BlockText
from foveate.context.context import LevelChange, PlanReport
from foveate.context.costs import overheads
from foveate.context.signatures import is_signed
from foveate.history.kept_prefix import Seam, best_seam
from foveate.history.late_writes import LateWrites
from foveate.history.low_water import USUAL_PRICES, CachePrices, Growth, low_water_tokens
from foveate.history.texts import TextReader, is_from_log
from foveate.plan import NO_LINE, Band, Block, Cause, PlanEvent, ShownLevel
from foveate.store import SessionRow, Store, bodies
from foveate.strategy import Schedule, Strategy
from foveate.strategy.layout import bands_of
from foveate.turn import Json

MAKESHIFT_SHARE = 0.9
"""How much of its room a plan made before its turns are compressed may fill, counting the turns appended to it."""
MAKESHIFT = "turns that are not compressed yet are cut, or only named"
FULL_EARLY = "{} average turns did not fit: rebuilt as soon as the history was full"
AVERAGED_INTERVALS = 4
"""The size of the next turns is taken from this many intervals before them,"""
VARIANCE_FACTOR = 1.15
"""and a little more, because no ten turns are exactly average."""
NEWEST_TURNS = 40
"""Turns by which the growth of a history and the size of its next turn are estimated."""
LEAST_SHARE = 0.1
"""What a rebuild aims at at least, of its room, beside a large open turn."""
POSTPONED: tuple[Cause, ...] = ("made", "interval", "cold")
"""Causes that wait for the end of a turn in progress with signed thinking; no budget forces them."""
RESERVE_SHARE = 0.5
"""The most of its room that a history keeps free for a turn with signed thinking,"""
RESERVE_QUANTILE = 0.9
"""which is what this share of the newest turns took at most."""
USE_NOTED_SHARE = 0.05
"""A use of the plan is noted after this share of the cache's time to live: noting it writes the whole plan."""


@dataclass(frozen=True, slots=True)
class KeptPlan:
    """A plan with its texts, as it is stored."""

    state: PlanState
    cause: Cause
    rows: tuple[Block, ...]
    texts: tuple[str | None, ...]
    """Of each row; None where it is raw and made from the log."""
    tokens: tuple[int, ...]
    bands: tuple[Band, ...]
    raw_tokens: int
    """What the whole turns it reaches take raw."""
    changes: tuple[LevelChange, ...] = ()
    """Which levels it changed."""

    def pack(self) -> bytes:
        return bodies.squeeze(asdict(self))

    @classmethod
    def unpack(cls, data: bytes) -> KeptPlan:
        kept: Any = bodies.expand(data)
        return cls(
            PlanState(**kept["state"]),
            kept["cause"],
            tuple(Block(**{**row, "sizes": tuple(row.get("sizes", ()))}) for row in kept["rows"]),
            tuple(kept["texts"]),
            tuple(kept["tokens"]),
            tuple(Band(**band) for band in kept["bands"]),
            kept["raw_tokens"],
            tuple(LevelChange(**change) for change in kept.get("changes", ())),
        )


@dataclass(frozen=True, slots=True)
class HistoryView:
    """A session's history as it is shown now."""

    blocks: list[BlockText]
    planned: PlanReport
    churn: float = 0.0
    """The share of tokens that a plan made in this call changed."""
    events: tuple[PlanEvent, ...] = ()
    """The plan's events, in order."""


class PlanCache:
    """Decides when a kept plan is made again, and keeps it."""

    def __init__(self, store: Store, session_id: str, viewer: TextReader, strategy: str = "gradient") -> None:
        self._name = strategy
        self._store = store
        self._session_id = session_id
        self._viewer = viewer
        self._writes = LateWrites()
        self._stored: bytes | None = None
        """What the store had when it was last read or written."""
        self._packed: bytes | None = None
        """The plan in use; the store does not have it yet where it differs from `_stored`."""
        self._plan: KeptPlan | None = None
        self._pruned: int | None = None

    async def view(
        self,
        session: SessionRow,
        strategy: Strategy,
        room: HistoryRoom,
        *,
        prices: CachePrices = USUAL_PRICES,
        retrieved: Sequence[int] = (),
        cache_ttl_seconds: float | None = None,
        now: float | None = None,
    ) -> HistoryView:
        """The history within its room, the same as in the last call as far as possible."""
        limit = room.limit_tokens
        moment = time.time() if now is None else now
        plan = await self.load()
        appended = await self._appended(session, plan)
        appended_tokens = sum(block.framed_tokens for block in appended)
        is_awaiting = plan is not None and plan.state.awaited_turn > 0
        cause = due(
            strategy,
            plan.state if plan else None,
            appended_tokens=appended_tokens,
            turns_now=session.last_turn,
            budget_tokens=session.budget_tokens,
            room=room,
            now=moment,
            cache_ttl_seconds=cache_ttl_seconds,
            settled_turn=await self._store.derived.settled(self._session_id) if is_awaiting else 0,
        )
        churn = 0.0
        if cause in POSTPONED and await self._is_thinking(session):
            cause = None
        used = appended_tokens + (plan.state.base_tokens if plan else 0)
        reserve = 0
        if cause or used > limit - room.base_tokens * RESERVE_SHARE:
            reserve = await self._reserve(session, room)
            cause = cause or ("full" if used > limit - reserve else None)
        if cause:
            growth = await self._growth(session, plan, appended)
            left = replace(room, tokens=room.tokens - reserve)
            low = low_water_tokens(schedule_of(strategy), left, growth, prices)
            plan = await self._rebuild(
                session,
                strategy,
                left,
                cause=cause,
                moment=moment,
                old=plan,
                low_tokens=low,
                retrieved=retrieved,
            )
            appended = await self._appended(session, plan)
            churn = plan.state.churn
        assert plan is not None
        blocks = [*await self._base(session, plan), *appended]
        if sum(block.framed_tokens for block in blocks) > limit:
            # What came since is too large even for a new plan, such as one giant result: show it as it fits, this once.
            fresh, blocks = await self._viewer.plan(
                session, strategy, limit, last_turn=session.last_turn, retrieved=retrieved
            )
            notes = _schedule_notes(schedule_of(strategy), cause or "full")
            report = PlanReport(fresh.bands, cause or "full", True, session.last_turn, notes=notes)
            return HistoryView(blocks, report, churn)
        if not cause and cache_ttl_seconds and moment - plan.state.used_at > cache_ttl_seconds * USE_NOTED_SHARE:
            await self._keep(replace(plan, state=replace(plan.state, used_at=moment)))
        return HistoryView(blocks, _report(plan, schedule_of(strategy), is_new=cause is not None), churn)

    async def _is_thinking(self, session: SessionRow) -> bool:
        """Whether the turn in progress has thinking that is signed for the request prefix."""
        if not session.is_open:
            return False
        return any(map(is_signed, await self._viewer.raw(session.last_turn)))

    async def _reserve(self, session: SessionRow, room: HistoryRoom) -> int:
        """What a turn that begins may still take, where the turn before it has signed thinking; else 0.

        A rebuild within a turn changes the prefix that its thinking is signed for.
        """
        is_open = session.is_open
        last = session.last_turn - is_open
        if last < 1 or (is_open and any(each.role == "assistant" for each in await self._viewer.raw(last + 1))):
            return 0
        if not any(map(is_signed, await self._viewer.raw(last))):
            return 0
        turns = await self._store.turns(self._session_id, max(1, last - NEWEST_TURNS + 1), session.last_turn)
        sizes = sorted(turn.tokens for turn in turns if turn.turn <= last)
        taken = sum(turn.tokens for turn in turns if turn.turn > last)
        most = min(sizes[int(len(sizes) * RESERVE_QUANTILE)], int(room.base_tokens * RESERVE_SHARE))
        return max(0, most - taken)

    async def load(self) -> KeptPlan | None:
        """The plan in use; one that could not be saved is saved now, unless another process has made one since."""
        packed = await self._store.derived.plan(self._session_id, self._name)
        if packed != self._stored or self._pruned != self._viewer.pruned:
            self._stored = self._packed = packed
            self._plan = None if packed is None else KeptPlan.unpack(packed)
            self._pruned = self._viewer.pruned
        elif self._packed != self._stored:
            await self._save()
        return self._plan

    async def _keep(self, plan: KeptPlan) -> None:
        self._packed = plan.pack()
        self._plan = plan
        await self._save()

    async def _save(self) -> None:
        packed = self._packed
        assert packed is not None, "there is a plan to save"
        if await self._writes.write(lambda: self._store.derived.keep_plan(self._session_id, self._name, packed)):
            self._stored = packed

    async def _base(self, session: SessionRow, plan: KeptPlan) -> list[BlockText]:
        """The plan's rows: texts as they were stored, raw turns from the log."""
        counter = session.exact
        costs = overheads(session.last_turn, counter)
        raw_rows = [row for row, text in zip(plan.rows, plan.texts, strict=True) if text is None]
        raw = iter(await self._viewer.write(raw_rows, counter, costs))
        return [
            next(raw) if text is None else BlockText(row, text, tokens)
            for row, text, tokens in zip(plan.rows, plan.texts, plan.tokens, strict=True)
        ]

    async def _appended(self, session: SessionRow, plan: KeptPlan | None) -> list[BlockText]:
        if plan is None:
            return []
        counter = session.exact
        costs = overheads(session.last_turn, counter)
        return await self._viewer.appended(session, plan.state.last_turn, plan.state.last_step, counter, costs)

    async def _rebuild(
        self,
        session: SessionRow,
        strategy: Strategy,
        room: HistoryRoom,
        *,
        cause: Cause,
        moment: float,
        old: KeptPlan | None,
        low_tokens: int,
        retrieved: Sequence[int],
    ) -> KeptPlan:
        last_turn, last_step = await self._reach(session, room.base_tokens)
        whole_turns = last_turn - bool(last_step)
        raw_tokens = await self._raw_tokens(whole_turns, old)
        open_tokens = await self._store.raw_tokens(self._session_id, whole_turns + 1, session.last_turn)
        settled = await self._store.derived.settled(self._session_id)
        schedule = schedule_of(strategy)
        counter = session.exact
        costs = overheads(session.last_turn, counter)
        average = await self._average_tokens(whole_turns, schedule, costs.tag)
        appended = await self._viewer.appended(session, last_turn, last_step, counter, costs)
        target = target_tokens(
            schedule,
            cause,
            room,
            low_tokens=low_tokens,
            raw_tokens=raw_tokens + open_tokens,
            average_tokens=average,
            open_tokens=sum(block.framed_tokens for block in appended),
        )
        if cause == "first" and settled < whole_turns - 1:
            # It need not last: it is made again as soon as there are renditions.
            target = max(target, int(room.base_tokens * MAKESHIFT_SHARE) - open_tokens)
        make = partial(
            self._viewer.plan,
            session,
            strategy,
            last_turn=last_turn,
            last_step=last_step or None,
            shown=_levels(old, last_turn) if cause == "interval" and old else None,
            retrieved=retrieved,
        )
        left = room.limit_tokens - sum(block.framed_tokens for block in appended)
        plan, blocks = await make(target)
        if 0 < left < (tokens := sum(block.framed_tokens for block in blocks)):
            # Plans count their texts, without the framing of raw turns as messages.
            plan, blocks = await make(max(0, target - (tokens - left)))
        rewritten = 1.0
        if old and cause in ("full", "interval"):
            most = room.base_tokens if schedule.mode == "watermark" else target
            seam = best_seam(old.rows, old.tokens, plan.rows, room_tokens=left, most_tokens=min(left, most))
            blocks = await self._joined(session, old, seam, blocks)
            rows = tuple(block.row for block in blocks)
            plan = replace(plan, rows=rows, bands=_bands(rows, plan.bands))
            rewritten = seam.rewritten_tokens / max(1, seam.tokens)
        texts = tuple(None if is_from_log(block.row) else block.text for block in blocks)
        kept = KeptPlan(
            PlanState(
                base_tokens=sum(block.framed_tokens for block in blocks),
                last_turn=last_turn,
                last_step=last_step,
                budget_tokens=session.budget_tokens,
                settings_key=settings_key(strategy),
                made_at=moment,
                used_at=moment,
                trigger_turn=session.last_turn,
                churn=_churn(old, blocks, texts),
                awaited_turn=max((row.last for row in plan.rows if _is_makeshift(row, settled)), default=0),
                low_tokens=low_tokens,
                rewritten_share=rewritten,
            ),
            cause,
            tuple(block.row for block in blocks),
            texts,
            tuple(block.tokens for block in blocks),
            plan.bands,
            raw_tokens,
            tuple(_changes(old, plan.rows)) if old else (),
        )
        await self._keep(kept)
        return kept

    async def _joined(self, session: SessionRow, old: KeptPlan, seam: Seam, blocks: list[BlockText]) -> list[BlockText]:
        """The old plan's blocks up to the seam, and those of the new plan behind it."""
        if not seam.kept:
            return blocks
        kept = (await self._base(session, old))[: seam.kept]
        behind = blocks[len(blocks) - len(seam.rows) :]
        if behind[0].row != seam.rows[0]:
            counter = session.exact
            behind[:1] = await self._viewer.write(seam.rows[:1], counter, overheads(session.last_turn, counter))
        return [*kept, *behind]

    async def _growth(self, session: SessionRow, plan: KeptPlan | None, appended: Sequence[BlockText]) -> Growth:
        """How the history grew with each call since the plan was made, else with each of the newest turns."""
        messages = (message for block in appended for message in block.messages or ())
        # Each answer is of one call.
        calls = sum(message.role == "assistant" and message.kind == "message" for message in messages)
        if plan and calls:
            return Growth(sum(block.framed_tokens for block in appended) / calls, plan.state.rewritten_share)
        first = max(1, session.last_turn - NEWEST_TURNS + 1)
        raw = await self._store.raw_tokens(self._session_id, first, session.last_turn)
        return Growth(raw / max(1, session.last_turn - first + 1))

    async def _average_tokens(self, last_turn: int, schedule: Schedule, tag_tokens: int) -> int:
        """What a turn takes raw on average, of the newest ones, with its tag."""
        if schedule.mode == "watermark" or not last_turn:
            return 0
        first = max(1, last_turn - AVERAGED_INTERVALS * schedule.interval_turns + 1)
        raw = await self._store.raw_tokens(self._session_id, first, last_turn) / (last_turn - first + 1)
        return math.ceil(raw * VARIANCE_FACTOR) + tag_tokens

    async def _raw_tokens(self, last_turn: int, old: KeptPlan | None) -> int:
        """What the whole turns take raw: what the last plan's took, and those since."""
        counted = old.state.last_turn - bool(old.state.last_step) if old else 0
        known = old.raw_tokens if old else 0
        return known + await self._store.raw_tokens(self._session_id, counted + 1, last_turn)

    async def _reach(self, session: SessionRow, room_tokens: int) -> tuple[int, int]:
        """How far a plan made now reaches: the last turn, and the last step of it if it is in progress.

        The open turn is left to be appended, unless it is large: then its answered steps are planned too.
        """
        is_open = session.is_open
        if not is_open or not session.last_turn:
            return session.last_turn, 0
        steps = await self._viewer.running(session, session.last_turn, room_tokens)
        # The newest step waits for the model's answer: it is appended verbatim.
        answered = [step.number for step in steps[:-1] if step.is_answered]
        if len(answered) > 1:
            return session.last_turn, answered[-1]
        return session.last_turn - 1, 0


def _schedule_notes(schedule: Schedule, cause: Cause | None) -> dict[str, Json]:
    """Says so where turns are too large for the schedule."""
    is_early = schedule.mode != "watermark" and cause == "full"
    return {"schedule": FULL_EARLY.format(schedule.interval_turns)} if is_early else {}


def _report(plan: KeptPlan, schedule: Schedule, *, is_new: bool) -> PlanReport:
    state = plan.state
    notes = _schedule_notes(schedule, plan.cause)
    if state.awaited_turn:
        notes["uncompressed"] = MAKESHIFT
    return PlanReport(
        plan.bands,
        plan.cause,
        is_new,
        state.last_turn,
        plan.changes,
        notes=notes,
        tokens=sum(plan.tokens),
        raw_tokens=plan.raw_tokens,
        changed_share=state.churn,
        made_at=datetime.fromtimestamp(state.made_at, UTC),
        trigger_turn=state.trigger_turn or state.last_turn,
    )


def _levels(old: KeptPlan, last_turn: int) -> dict[int, ShownLevel]:
    """The level that each turn is shown at now; turns appended to the plan are raw."""
    shown: dict[int, ShownLevel] = {
        turn: span.level
        for row in old.rows
        if not row.first_step
        for span in row.spans()
        for turn in range(span.first, span.last + 1)
    }
    return shown | dict.fromkeys(range(old.state.last_turn + 1, last_turn + 1), "R")


def _bands(rows: Sequence[Block], planned: Sequence[Band]) -> tuple[Band, ...]:
    """What the rows spend on each level, with the shares that were planned for it."""
    shares = {band.level: band.target_share for band in planned}
    levels: tuple[ShownLevel, ...] = ("R", "S", "C", "T", "E")
    return bands_of(rows, {level: shares.get(level, 0.0) for level in levels})


def _is_makeshift(row: Block, settled_turn: int) -> bool:
    """Whether turns are cut, only named or without a line because nothing shorter is made of them yet."""
    if row.levels:
        return NO_LINE in row.levels[max(0, settled_turn + 1 - row.first) :]
    is_least = row.is_cut and not row.era_level and row.level in ("R", "E")
    return is_least and not row.first_step and row.last > settled_turn


def _churn(old: KeptPlan | None, blocks: Sequence[BlockText], texts: Sequence[str | None]) -> float:
    """The share of tokens that were not shown so before."""
    total = sum(block.tokens for block in blocks)
    if old is None or not total:
        return 0.0
    shown = {text for text in old.texts if text is not None}
    raw = {row.first for row, text in zip(old.rows, old.texts, strict=True) if text is None}
    same = sum(
        block.tokens
        for block, text in zip(blocks, texts, strict=True)
        if (text in shown if text is not None else block.row.first in raw or block.row.first > old.state.last_turn)
    )
    return 1 - same / total


def _changes(old: KeptPlan, rows: Sequence[Block]) -> Iterator[LevelChange]:
    """Ranges of turns that went from one level to another; turns appended to the old plan were raw."""
    appended = Block(old.state.last_turn + 1, rows[-1].last if rows else 0, "R", 0)
    before = [span for row in (*old.rows, appended) if not row.first_step for span in row.spans()]
    start = 0
    held: LevelChange | None = None
    for row in (span for planned in rows for span in planned.spans()):
        while start < len(before) and before[start].last < row.first:
            start += 1
        index = start
        while index < len(before) and before[index].first <= row.last and not row.first_step:
            was = before[index]
            index += 1
            if was.level == row.level:
                continue
            change = LevelChange(max(was.first, row.first), min(was.last, row.last), was.level, row.level)
            if held and (held.last + 1, held.before, held.after) == (change.first, change.before, change.after):
                held = replace(held, last=change.last)
                continue
            if held:
                yield held
            held = change
    if held:
        yield held


COLD_GAIN_SHARE = 0.10
"""A cold cache alone is reason enough for a rebuild that frees more than this share of the allotment."""


@dataclass(frozen=True, slots=True)
class PlanState:
    """Properties of the plan in use."""

    base_tokens: int
    """What the plan's rows cost."""
    last_turn: int
    """The plan reaches up to this turn, which was the newest when it was made,"""
    last_step: int
    """and up to this step of it; 0 where the turn was over."""
    budget_tokens: int
    """The session's budget and settings when it was made."""
    settings_key: str
    made_at: float
    used_at: float
    """The last time a context of this plan was asked for, in seconds like `made_at`."""
    churn: float = 0.0
    """The share of tokens that the plan changed when it was made, 0 to 1."""
    trigger_turn: int = 0
    """The newest turn when it was made."""
    awaited_turn: int = 0
    """Turns up to this one had no renditions, so that some are cut or only named; 0 where none had to be."""
    low_tokens: int = 0
    """The low-water mark when it was made."""
    rewritten_share: float = 1.0
    """The share of its tokens behind what it kept of the plan before."""


def schedule_of(strategy: Strategy) -> Schedule:
    schedule = strategy.rebuild_schedule
    assert schedule is not None, "only a strategy with a schedule has its plans kept"
    return schedule


def settings_key(strategy: Strategy) -> str:
    """Changes when any setting does."""
    return msgspec.json.encode(strategy, order="sorted").decode() if isinstance(strategy, msgspec.Struct) else ""


def due(  # noqa: PLR0911 - each cause leaves at once
    strategy: Strategy,
    state: PlanState | None,
    *,
    appended_tokens: int,
    turns_now: int,
    budget_tokens: int,
    room: HistoryRoom,
    now: float,
    cache_ttl_seconds: float | None,
    settled_turn: int = 0,
) -> Cause | None:
    """Why the plan is rebuilt, or None: it is kept, and the turns since are appended.

    Turns up to `settled_turn` have their renditions.
    """
    if state is None:
        return "first"
    schedule = schedule_of(strategy)
    if state.budget_tokens != budget_tokens or state.settings_key != settings_key(strategy):
        return "budget"
    if 0 < state.awaited_turn <= settled_turn:
        return "made"
    used = state.base_tokens + appended_tokens
    if used > room.limit_tokens:
        return "full"
    if schedule.mode != "watermark" and turns_now - (state.trigger_turn or state.last_turn) >= wait_turns(
        schedule, state.churn
    ):
        return "interval"
    is_cold = cache_ttl_seconds is not None and now - state.used_at > cache_ttl_seconds
    if is_cold and _gain(schedule, state, used, turns_now, room):
        return "cold"
    return None


def wait_turns(schedule: Schedule, churn: float) -> int:
    """Turns between two rebuilds: for `adaptive` from `interval_turns` where the last one changed everything to
    `interval_limit_turns` where it changed nothing."""
    if schedule.mode != "adaptive":
        return schedule.interval_turns
    waited = (1.0 - min(1.0, max(0.0, churn))) * (schedule.interval_limit_turns - schedule.interval_turns)
    return schedule.interval_turns + round(waited)


def target_tokens(
    schedule: Schedule,
    cause: Cause,
    room: HistoryRoom,
    *,
    low_tokens: int,
    raw_tokens: int | None = None,
    average_tokens: int = 0,
    open_tokens: int = 0,
) -> int:
    """What a rebuild aims at: the low-water mark, or what leaves room for the turns until the next rebuild.

    `open_tokens` are those of the open turn, which is appended to the plan. A history known to fit raw is left so;
    there is nothing to rebuild.
    """
    fits_raw = raw_tokens is not None and raw_tokens <= room.limit_tokens
    if cause in ("first", "budget", "made") and fits_raw:
        return room.limit_tokens
    base = room.base_tokens
    target = low_tokens
    if schedule.mode != "watermark":
        target = max(target, base - open_tokens - schedule.interval_turns * average_tokens)
    # Without room for the open turn each context until its end would need a plan of its own.
    return min(target, max(int(base * LEAST_SHARE), room.limit_tokens - open_tokens))


def _gain(schedule: Schedule, state: PlanState, used: int, turns_now: int, room: HistoryRoom) -> bool:
    """Whether a rebuild would free enough, or, where it aims at the whole allotment, level anything new."""
    if schedule.mode != "watermark":
        return turns_now > state.last_turn
    return used - min(state.low_tokens, room.base_tokens) > COLD_GAIN_SHARE * room.base_tokens
