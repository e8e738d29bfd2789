"""Decides when the gradient's plan is made again, and how much of it stays. Pure.

A context's history is a plan of the older turns, in tags, and the newest turns verbatim behind it. Between two rebuilds
the plan is repeated byte for byte and new turns are appended, so each prompt begins with the one before it, which is
what provider caches match. When the room is full, the oldest verbatim steps become part of the plan: in blocks behind
the others, as long as there is room and a new plan would not be worth clearly more. Otherwise only the oldest blocks
stay, as many as leave the plan that worth: the older a block, the rarer it changes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from foveate.plan import (
    NO_LINE,
    Band,
    Block,
    Cause,
    KeptPlan,
    Ledger,
    Plan,
    ShownLevel,
    Snapshot,
    State,
)
from foveate.strategy.gradient.tail import WORK_STEP, tail_start, verbatim_share, work_share
from foveate.turn import Json

if TYPE_CHECKING:
    from foveate.strategy.gradient import Gradient
    from foveate.strategy.gradient.knapsack import KnapsackPlanner

FILLED_SHARE = 0.85
"""Share of its room that a history fills after a rebuild by `watermark`."""
INTERVAL_SHARE = 0.5
"""The minimum of that share for schedules that rebuild by number of turns."""
UNUSED_SHARE = 0.05
"""Share of the room that older turns leave unused above which the verbatim part is made larger,"""
MAX_TAILS = 4
"""with at most this many attempts."""
KEPT_WORTH = 0.8
"""Worth of a plan that keeps old blocks, relative to a new plan, above which they are kept."""
APPENDED_SHARE = 0.5
"""Share of the free room that a plan which stays whole may use for new blocks, and of what is left of it each time."""
LEAST_ERA_TURNS = 32
"""Minimum turns of an era after which blocks can be divided."""
MOST_WORK = 0.5
"""Share of work with tools above which a history gives nothing back to memory: the work needs what it shows, and each
call of a turn would pay for it."""
MAKESHIFT = "turns that are not compressed yet are cut, or only named"
FULL_EARLY = "{} average turns did not fit: rebuilt as soon as the history was full"
AVERAGED_INTERVALS = 4
"""The size of the next turns is estimated from this many intervals before them."""
VARIANCE_FACTOR = 1.25
"""Margin on that estimate, for the framing of messages, and because no ten turns are exactly average."""
GROWING_SHARE = 0.65
"""Maximum share of what an open turn leaves that a rebuild by turns fills, since the turn goes on."""
NEWEST_TURNS = 40
"""Number of turns by which the size of the next turn is estimated."""
LEAST_SHARE = 0.1
"""Minimum share of the room for the turns before a large one that is not divided,"""
LEAST_OLDER_TOKENS = 256
"""or these tokens."""
POSTPONED: tuple[Cause, ...] = ("made", "interval", "cold")
"""Causes that are postponed until the end of a turn in progress with signed thinking; no budget forces them."""
RESERVE_SHARE = 0.65
"""Maximum share of its room that a history reserves for a turn with signed thinking."""
RESERVE_QUANTILE = 0.99
"""Quantile of the newest turns' sizes that is reserved for a turn with signed thinking."""


@dataclass(frozen=True, slots=True)
class RebuildState:
    """The gradient's state in addition to the current plan."""

    budget_tokens: int
    """The session's budget when the plan was made; `settings_key` identifies the settings of that time."""
    settings_key: str
    work: float = 0.0
    """The share of work with tools that the plan was made for."""
    awaited_turn: int = 0
    """Turns up to this one had no renditions, so some are cut or only named; 0 if there are none."""

    @classmethod
    def from_json(cls, state: State) -> RebuildState:
        values: Mapping[str, Any] = state
        return cls(**{name: values[name] for name in cls.__slots__ if name in values})


class Rebuild:
    """Keeps the current plan, or makes another one."""

    def __init__(self, settings: Gradient, snapshot: Snapshot, state: State, ledger: Ledger) -> None:
        self._settings = settings
        self._snapshot = snapshot
        self._ledger = ledger
        self._stored = state
        self._kept = snapshot.kept if state and not ledger.is_preview else None
        self._state = RebuildState.from_json(state) if self._kept else None

    def plan(self) -> tuple[Plan, State]:
        """Return the current plan, or a new one if a rebuild is due."""
        settings, ledger = self._settings, self._ledger
        if ledger.is_preview:
            plan = self._filled(None) if settings.fills else settings.levels(self._snapshot, ledger.room_tokens)
            return plan, self._stored
        cause = self._cause()
        if cause is None:
            return self._same(), self._stored
        plan = self._filled(cause) if settings.fills else self._by_turns(cause)
        settled = self._snapshot.settled_turn
        awaited = max((row.last for row in plan.rows if _is_makeshift(row, settled)), default=0)
        state = RebuildState(ledger.asked_tokens, settings_key(settings), self._work, awaited)
        return replace(plan, notes=notes_of(settings, cause, awaited)), asdict(state)

    def _same(self) -> Plan:
        kept, state = self._kept, self._state
        assert kept, "without a plan, one is due"
        assert state, "a kept plan has its state"
        return Plan(
            kept.rows,
            kept.bands,
            sum(kept.tokens),
            self._ledger.limit_tokens,
            cause=kept.cause,
            reach=(kept.last_turn, kept.last_step),
            notes=notes_of(self._settings, kept.cause, state.awaited_turn),
            is_kept=True,
        )

    def _cause(self) -> Cause | None:
        ledger = self._ledger
        cause = due(self._settings, self._snapshot, self._state, ledger)
        if cause in POSTPONED and self._is_thinking():
            cause = None
        if cause == "full" and self._used <= ledger.history_tokens and self._gives_nothing_back():
            return None
        if cause or not self._kept:
            return cause
        # The reserve is at most this share, so it is computed only above it.
        if self._used > ledger.limit_tokens * (1 - RESERVE_SHARE) and self._used > ledger.limit_tokens - self._reserve:
            return "full"
        return None

    @cached_property
    def _used(self) -> int:
        """Tokens of the current plan and of the turns since."""
        kept = self._kept
        if kept is None:
            return 0
        return kept.framed_tokens + self._snapshot.tokens_after(kept.last_turn, kept.last_step)

    @cached_property
    def _work(self) -> float:
        """The share of work with tools in the newest turns; that of the current plan until it is off by two steps.

        Between two steps it changes with every few turns, and with it the verbatim part and the room of all others.
        """
        share = work_share(self._snapshot)
        return self._state.work if self._state and abs(share - self._state.work) <= WORK_STEP else share

    def _gives_nothing_back(self) -> bool:
        """Return whether memory gets only what is free: for a turn that begins, in work with tools."""
        if not self._settings.fills or self._work <= MOST_WORK:
            return False
        last = self._snapshot.last_turn
        begun = self._snapshot.infos(last, last) if self._snapshot.is_open else ()
        return not any(message.role == "assistant" for info in begun for message in info.messages)

    @property
    def _verbatim_share(self) -> float:
        return verbatim_share(self._settings, self._work, 1 - (self._settings.low_water or FILLED_SHARE))

    def _is_thinking(self) -> bool:
        """Return whether the turn in progress has thinking that is signed for the request prefix."""
        return self._snapshot.is_open and self._snapshot.is_signed(self._snapshot.last_turn)

    @cached_property
    def _reserve(self) -> int:
        """Tokens to reserve for a turn that begins if the turn before it has signed thinking; else 0.

        A rebuild within a turn changes the prefix that its thinking is signed for.
        """
        snapshot = self._snapshot
        last = snapshot.last_turn - snapshot.is_open
        if last < 1 or not snapshot.is_signed(last):
            return 0
        turns = snapshot.infos(max(1, last - NEWEST_TURNS + 1), snapshot.last_turn)
        begun = [info for info in turns if info.turn > last]
        if any(message.role == "assistant" for info in begun for message in info.messages):
            return 0
        sizes = sorted(info.tokens for info in turns if info.turn <= last)
        most = min(sizes[int(len(sizes) * RESERVE_QUANTILE)], int(self._ledger.limit_tokens * RESERVE_SHARE))
        return max(0, most - sum(info.tokens for info in begun))

    def _filled(self, cause: Cause | None) -> Plan:
        """Plan the turns before the verbatim part, in the room that it leaves."""
        snapshot, settings, ledger = self._snapshot, self._settings, self._ledger
        limit = ledger.limit_tokens - (0 if ledger.is_preview else self._reserve)
        raw_tokens = self._raw_tokens(snapshot.last_turn)
        if raw_tokens <= limit and snapshot.tokens_after(0, 0) <= limit:
            return replace(self._tailed((0, 0), limit), cause=cause)
        share = self._verbatim_share
        for _ in range(MAX_TAILS):
            reach = tail_start(settings, snapshot, limit, share)
            plan = self._tailed(reach, limit)
            unused = (plan.target_tokens or 0) - plan.tokens
            if unused <= UNUSED_SHARE * limit or reach == (0, 0):
                break
            # All older turns are at their highest level: more of the newest are verbatim.
            share += unused / limit
        return replace(plan, cause=cause)

    def _tailed(self, reach: tuple[int, int], limit: int) -> Plan:
        """Plan the turns up to here, in the room that the verbatim ones after it leave."""
        snapshot, settings, ledger = self._snapshot, self._settings, self._ledger
        left = limit - snapshot.tokens_after(*reach)
        if left < (min(LEAST_OLDER_TOKENS, limit * LEAST_SHARE) if reach[0] else 0):
            # The newest turn leaves no room for the others: all are planned, for this context.
            return settings.levels(snapshot, ledger.room_tokens)
        room, most = ledger.target_tokens, 0
        if room is None:
            free = 0 if ledger.is_preview else limit - int(limit * (settings.low_water or FILLED_SHARE))
            room = max(left - free, min(left, int(limit * LEAST_SHARE)))
            most = max(room, left - int(free * APPENDED_SHARE))
        older_tokens = self._raw_tokens(reach[0] - bool(reach[1]))
        plan = self._appended(reach, room, most) or self._older(reach, room)
        bands = self._bands(plan, reach, limit - left)
        target = plan.target_tokens or room
        return replace(plan, bands=bands, reach=reach, raw_tokens=older_tokens, target_tokens=target)

    def _bands(self, plan: Plan, reach: tuple[int, int], tokens: int) -> tuple[Band, ...]:
        """Return the bands of a plan, with the verbatim turns after it."""
        last, first = self._snapshot.last_turn, reach[0] + (not reach[1])
        if first > last:
            return plan.bands
        raw = [band for band in plan.bands if band.level == "R"]
        share = self._verbatim_share
        turns = last - first + 1 + sum(band.turns for band in raw)
        tokens += sum(band.tokens for band in raw)
        tail = Band("R", min([first, *(band.first for band in raw)]), last, turns, share, tokens)
        return (tail, *(band for band in plan.bands if band.level != "R"))

    def _appended(self, reach: tuple[int, int], room: int, most: int) -> Plan | None:
        """Plan the turns after the current plan in blocks behind it; None if it can't stay whole, or loses its worth.

        The new blocks use a share of what is left up to `most`, so that those of the next rebuilds have room as well.
        """
        seams = list(_seams(self._kept)) if self._kept and most else []
        if not seams or self._ledger.needed_tokens or seams[-1].tokens >= most:
            return None
        rows, tokens = seams[-1].rows, seams[-1].tokens
        target = max(room, tokens + int((most - tokens) * APPENDED_SHARE))
        planner = self._planner(reach, target)
        plan = planner.plan_after(rows, tokens)
        if plan is None or planner.worth(plan.rows) < KEPT_WORTH * planner.worth(planner.plan().rows):
            return None
        return replace(plan, kept_blocks=len(rows), target_tokens=target)

    def _older(self, reach: tuple[int, int], room: int) -> Plan:
        """Plan the turns up to here, and keep as many of the oldest blocks of the current plan as leave its worth."""
        if not reach[0]:
            return Plan((), (), 0, room)
        planner = self._planner(reach, room)
        best = planner.plan()
        seams = list(_seams(self._kept)) if self._kept else []
        # Beside memory, the prefix that is cached counts more than the best choice of old turns.
        least = KEPT_WORTH * planner.worth(best.rows) if seams and not self._ledger.needed_tokens else 0.0
        low, high = 0, len(seams) - 1
        while low <= high:
            middle = (low + high) // 2
            joined = planner.plan_after(seams[middle].rows, seams[middle].tokens)
            if joined and planner.worth(joined.rows) >= least:
                best, low = replace(joined, kept_blocks=len(seams[middle].rows)), middle + 1
            else:
                high = middle - 1
        return best

    def _planner(self, reach: tuple[int, int], room: int) -> KnapsackPlanner:
        """Return the planner of the turns up to here."""
        from foveate.strategy.gradient.knapsack import KnapsackPlanner  # noqa: PLC0415 - numpy loads with the first plan

        snapshot = self._snapshot
        is_open = any(info.is_open for info in snapshot.infos(reach[0], reach[0]))
        return KnapsackPlanner(
            self._settings,
            snapshot.until(*reach),
            room,
            has_tail=reach < (snapshot.last_turn, 0) or bool(reach[1]),
            is_divided=bool(reach[1]) and not is_open,
            work=self._work,
        )

    def _by_turns(self, cause: Cause) -> Plan:
        """Plan all turns, with room for those until the next rebuild."""
        snapshot, settings, ledger = self._snapshot, self._settings, self._ledger
        room = ledger.limit_tokens - self._reserve
        last_turn, last_step = self._reach(room)
        planned = snapshot.until(last_turn, last_step)
        whole_turns = last_turn - bool(last_step)
        raw_tokens = self._raw_tokens(whole_turns)
        appended = snapshot.tokens_after(last_turn, last_step)
        target = ledger.target_tokens
        if target is None:
            open_tokens = snapshot.raw_tokens(whole_turns + 1, snapshot.last_turn)
            target = target_tokens(
                settings,
                cause,
                room,
                raw_tokens=raw_tokens + open_tokens,
                average_tokens=self._average_tokens(whole_turns, planned),
                open_tokens=appended,
            )
        kept = self._kept
        shown = _levels(kept, last_turn) if cause == "interval" and kept else {}
        plan = settings.levels(planned, max(0, target), shown)
        return replace(
            plan,
            cause=cause,
            reach=(last_turn, last_step),
            raw_tokens=raw_tokens,
            target_tokens=target,
            framed_limit_tokens=room - appended,
            kept_blocks=_same_blocks(kept.rows, plan.rows) if kept else 0,
        )

    def _average_tokens(self, last_turn: int, planned: Snapshot) -> int:
        """Return the average raw tokens of the newest turns, tags included."""
        if not last_turn:
            return 0
        first = max(1, last_turn - AVERAGED_INTERVALS * self._settings.interval_turns + 1)
        raw = self._snapshot.raw_tokens(first, last_turn) / (last_turn - first + 1)
        return math.ceil(raw * VARIANCE_FACTOR) + planned.overheads.tag

    def _raw_tokens(self, last_turn: int) -> int:
        """Return the raw tokens of the turns up to this one."""
        kept = self._kept
        known, counted = (kept.raw_tokens, kept.whole_turns) if kept and kept.whole_turns <= last_turn else (0, 0)
        return known + self._snapshot.raw_tokens(counted + 1, last_turn)

    def _reach(self, room_tokens: int) -> tuple[int, int]:
        """Return where a plan by turns ends: the last turn, and the last step of it if it is in progress.

        The open turn is appended later, unless it is large: then its answered steps are planned too.
        """
        last = self._snapshot.last_turn
        if not self._snapshot.is_open:
            return last, 0
        answered = self._snapshot.answered_steps(room_tokens)
        return (last, answered[-1]) if len(answered) > 1 else (last - 1, 0)


@dataclass(frozen=True, slots=True)
class Seam:
    """The oldest blocks of a plan, which can stay."""

    rows: tuple[Block, ...]
    tokens: int


def _seams(kept: KeptPlan) -> Iterator[Seam]:
    """Yield the runs of oldest blocks that can stay, from the shortest on. A small era is joined with what follows."""
    tokens = 0
    for count, (row, size) in enumerate(zip(kept.rows, kept.tokens, strict=True), 1):
        if row.level == "R" or (row.level == "E" and row.is_cut):  # sent as messages, or not compressed yet
            return
        tokens += size
        if row.level != "E" or row.last - row.first + 1 >= LEAST_ERA_TURNS:
            yield Seam(kept.rows[:count], tokens)


def _same_blocks(old: Sequence[Block], new: Sequence[Block]) -> int:
    """Return the number of oldest blocks that show the same turns at the same levels."""
    pairs = zip(old, new, strict=False)
    return next((count for count, (a, b) in enumerate(pairs) if a != b or a.is_cut), min(len(old), len(new)))


def notes_of(settings: Gradient, cause: Cause | None, awaited_turn: int = 0) -> dict[str, Json]:
    """Return notes on turns that are too large for the schedule, or not compressed yet."""
    is_early = settings.schedule != "watermark" and cause == "full"
    notes: dict[str, Json] = {"schedule": FULL_EARLY.format(settings.interval_turns)} if is_early else {}
    return {**notes, "uncompressed": MAKESHIFT} if awaited_turn else notes


def settings_key(settings: Gradient) -> str:
    """Return a key that changes with any setting."""
    return msgspec.json.encode(settings, order="sorted").decode()


def due(  # noqa: PLR0911 - each cause leaves at once
    settings: Gradient, snapshot: Snapshot, state: RebuildState | None, ledger: Ledger
) -> Cause | None:
    """Return why the plan is rebuilt; None: it is kept, and the turns since are appended."""
    kept = snapshot.kept
    if kept is None or state is None:
        return "first"
    if state.budget_tokens != ledger.asked_tokens or state.settings_key != settings_key(settings):
        return "budget"
    if 0 < state.awaited_turn <= snapshot.settled_turn:
        return "made"
    appended = snapshot.tokens_after(kept.last_turn, kept.last_step)
    if kept.framed_tokens + appended > ledger.limit_tokens:
        return "full"
    waited = snapshot.last_turn - (kept.trigger_turn or kept.last_turn)
    if settings.schedule != "watermark" and waited >= wait_turns(settings, kept.churn):
        return "interval"
    ttl_seconds = ledger.cache_ttl_seconds
    is_cold = ttl_seconds is not None and ledger.now - kept.used_at > ttl_seconds
    if is_cold and waited and (settings.schedule != "watermark" or _is_grown(settings, kept, appended, ledger)):
        return "cold"
    return None


def wait_turns(settings: Gradient, churn: float) -> int:
    """Return the turns between two rebuilds: for `adaptive` from `interval_turns` if the last one changed everything to
    `interval_limit_turns` if it changed nothing."""
    if settings.schedule != "adaptive":
        return settings.interval_turns
    waited = (1.0 - min(1.0, max(0.0, churn))) * (settings.interval_limit_turns - settings.interval_turns)
    return settings.interval_turns + round(waited)


def target_tokens(
    settings: Gradient,
    cause: Cause,
    room_tokens: int,
    *,
    raw_tokens: int | None = None,
    average_tokens: int = 0,
    open_tokens: int = 0,
) -> int:
    """Return the target size of a rebuild by turns: what leaves room for the turns until the next rebuild.

    `open_tokens` are those of the open turn, which is appended to the plan. A history known to fit raw stays raw; there
    is nothing to rebuild.
    """
    fits_raw = raw_tokens is not None and raw_tokens <= room_tokens
    if cause in ("first", "budget", "made") and fits_raw:
        return room_tokens
    if settings.schedule == "watermark":
        target = int(room_tokens * (settings.low_water or FILLED_SHARE))
    else:
        least = int(room_tokens * (settings.low_water or INTERVAL_SHARE))
        target = max(least, room_tokens - open_tokens - settings.interval_turns * average_tokens)
    if not open_tokens:
        return target
    # Without room for the open turn, each context until its end would need its own plan.
    return min(target, max(int(room_tokens * LEAST_SHARE), int((room_tokens - open_tokens) * GROWING_SHARE)))


def _is_grown(settings: Gradient, kept: KeptPlan, appended_tokens: int, ledger: Ledger) -> bool:
    """Return whether half of the room that the last rebuild left free is used."""
    filled = settings.low_water or FILLED_SHARE
    return kept.framed_tokens + appended_tokens > ledger.limit_tokens * (1 + filled) / 2


def _levels(kept: KeptPlan, last_turn: int) -> dict[int, ShownLevel]:
    """Return the current level of each turn; turns appended to the plan are raw."""
    shown: dict[int, ShownLevel] = {
        turn: span.level
        for row in kept.rows
        if not row.first_step
        for span in row.spans()
        for turn in range(span.first, span.last + 1)
    }
    return shown | dict.fromkeys(range(kept.last_turn + 1, last_turn + 1), "R")


def _is_makeshift(row: Block, settled_turn: int) -> bool:
    """Return whether turns are cut, only named or without a line because nothing shorter is made yet."""
    if row.levels:
        return NO_LINE in row.levels[max(0, settled_turn + 1 - row.first) :]
    is_least = row.level == "E" or (row.is_cut and row.level == "R")
    return is_least and not row.era_level and not row.first_step and row.last > settled_turn
