"""Decides when the gradient's plan is made again, and its target size. Pure.

Between two rebuilds the plan is kept: its blocks are repeated byte for byte, and new turns are appended raw. So each
prompt begins with the one before it, which is what provider caches match.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from foveate.plan import (
    NO_LINE,
    AppendedTurns,
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
from foveate.strategy.gradient.kept_prefix import best_seam
from foveate.strategy.gradient.low_water import Growth, low_water_tokens
from foveate.strategy.layout import bands_of
from foveate.turn import Json

if TYPE_CHECKING:
    from foveate.strategy.gradient import Gradient

MAKESHIFT_SHARE = 0.9
"""Maximum share of its room that a plan may fill if its turns are not compressed yet, appended turns included."""
MAKESHIFT = "turns that are not compressed yet are cut, or only named"
FULL_EARLY = "{} average turns did not fit: rebuilt as soon as the history was full"
AVERAGED_INTERVALS = 4
"""The size of the next turns is estimated from this many intervals before them."""
VARIANCE_FACTOR = 1.15
"""Margin on that estimate, because no ten turns are exactly average."""
NEWEST_TURNS = 40
"""Number of turns by which the growth of a history and the size of its next turn are estimated."""
LEAST_SHARE = 0.1
"""Minimum target of a rebuild next to a large open turn, as a share of its room."""
POSTPONED: tuple[Cause, ...] = ("made", "interval", "cold")
"""Causes that are postponed until the end of a turn in progress with signed thinking; no budget forces them."""
RESERVE_SHARE = 0.5
"""Maximum share of its room that a history reserves for a turn with signed thinking."""
RESERVE_QUANTILE = 0.9
"""Quantile of the newest turns' sizes that is reserved for a turn with signed thinking."""
COLD_GAIN_SHARE = 0.10
"""Minimum share of the allotment that a rebuild must free if a cold cache is its only cause."""


@dataclass(frozen=True, slots=True)
class RebuildState:
    """The gradient's state in addition to the current plan."""

    budget_tokens: int
    """The session's budget when the plan was made; `settings_key` identifies the settings of that time."""
    settings_key: str
    awaited_turn: int = 0
    """Turns up to this one had no renditions, so some are cut or only named; 0 if there are none."""
    low_tokens: int = 0
    """The low-water mark when the plan was made."""
    rewritten_share: float = 1.0
    """Share of the plan's tokens after the blocks kept from the plan before."""

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
        self._kept = snapshot.kept if state else None
        self._state = RebuildState.from_json(state) if self._kept else None

    def plan(self) -> tuple[Plan, State]:
        """Return the current plan, or a new one if a rebuild is due."""
        kept, state = self._kept, self._state
        cause = self._cause()
        if cause:
            return self._new(cause)
        assert kept, "without a plan, one is due"
        assert state, "a kept plan has its state"
        same = Plan(
            kept.rows,
            kept.bands,
            sum(kept.tokens),
            self._ledger.limit_tokens,
            cause=kept.cause,
            reach=(kept.last_turn, kept.last_step),
            notes=notes_of(self._settings, kept.cause, state.awaited_turn),
            is_kept=True,
        )
        return same, self._stored

    def joined(self, plan: Plan, state: State) -> tuple[Plan, State]:
        """Put a new plan after those blocks of the old one that are worth keeping."""
        made, kept = RebuildState.from_json(state), self._kept
        if kept and plan.cause in ("full", "interval"):
            left, target = plan.framed_limit_tokens or 0, plan.target_tokens or 0
            most = self._room.base_tokens if self._settings.schedule == "watermark" else target
            seam = best_seam(kept.rows, kept.tokens, plan.rows, room_tokens=left, most_tokens=min(left, most))
            rows = (*kept.rows[: seam.kept], *seam.rows)
            plan = replace(plan, rows=rows, bands=_bands(rows, plan.bands), kept_blocks=seam.kept)
            made = replace(made, rewritten_share=seam.rewritten_tokens / max(1, seam.tokens))
        settled = self._snapshot.settled_turn
        awaited = max((row.last for row in plan.rows if _is_makeshift(row, settled)), default=0)
        notes = notes_of(self._settings, plan.cause, awaited)
        return replace(plan, notes=notes), asdict(replace(made, awaited_turn=awaited))

    def _cause(self) -> Cause | None:
        ledger = self._ledger
        cause = due(self._settings, self._snapshot, self._state, ledger)
        if cause in POSTPONED and self._is_thinking():
            cause = None
        if cause or not self._kept:
            return cause
        used = self._kept.framed_tokens + self._since.framed_tokens
        # The reserve is at most this share, so it is computed only above it.
        if (
            used > ledger.limit_tokens - ledger.base_tokens * RESERVE_SHARE
            and used > ledger.limit_tokens - self._reserve
        ):
            return "full"
        return None

    @cached_property
    def _since(self) -> AppendedTurns:
        """The turns since the current plan was made."""
        kept = self._kept
        return self._snapshot.appended(kept.last_turn, kept.last_step) if kept else AppendedTurns(0, 0)

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
        most = min(sizes[int(len(sizes) * RESERVE_QUANTILE)], int(self._ledger.base_tokens * RESERVE_SHARE))
        return max(0, most - sum(info.tokens for info in begun))

    @cached_property
    def _room(self) -> Ledger:
        """The budget without the reserve."""
        return replace(self._ledger, history_tokens=self._ledger.history_tokens - self._reserve)

    def _new(self, cause: Cause) -> tuple[Plan, State]:
        snapshot, settings, room = self._snapshot, self._settings, self._room
        low_tokens = low_water_tokens(settings, room, self._growth())
        last_turn, last_step = self._reach(room.base_tokens)
        planned = snapshot.until(last_turn, last_step)
        whole_turns = last_turn - bool(last_step)
        raw_tokens = self._raw_tokens(whole_turns)
        appended = snapshot.appended(last_turn, last_step).framed_tokens
        target = self._ledger.target_tokens
        if target is None:
            open_tokens = snapshot.raw_tokens(whole_turns + 1, snapshot.last_turn)
            target = target_tokens(
                settings,
                cause,
                room,
                low_tokens=low_tokens,
                raw_tokens=raw_tokens + open_tokens,
                average_tokens=self._average_tokens(whole_turns, planned),
                open_tokens=appended,
            )
            if cause == "first" and snapshot.settled_turn < whole_turns - 1:
                # It is temporary: it is made again as soon as there are renditions.
                target = max(target, int(room.base_tokens * MAKESHIFT_SHARE) - open_tokens)
        shown = _levels(self._kept, last_turn) if cause == "interval" and self._kept else {}
        plan = settings.levels(planned, max(0, target), shown)
        plan = replace(
            plan,
            cause=cause,
            reach=(last_turn, last_step),
            raw_tokens=raw_tokens,
            target_tokens=target,
            framed_limit_tokens=room.limit_tokens - appended,
        )
        return plan, asdict(RebuildState(self._ledger.asked_tokens, settings_key(settings), low_tokens=low_tokens))

    def _growth(self) -> Growth:
        """Return the growth of the history per call since the plan was made, else per turn of the newest ones."""
        if self._state and self._since.calls:
            return Growth(self._since.framed_tokens / self._since.calls, self._state.rewritten_share)
        last = self._snapshot.last_turn
        first = max(1, last - NEWEST_TURNS + 1)
        return Growth(self._snapshot.raw_tokens(first, last) / max(1, last - first + 1))

    def _average_tokens(self, last_turn: int, planned: Snapshot) -> int:
        """Return the average raw tokens of the newest turns, tags included."""
        settings = self._settings
        if settings.schedule == "watermark" or not last_turn:
            return 0
        first = max(1, last_turn - AVERAGED_INTERVALS * settings.interval_turns + 1)
        raw = self._snapshot.raw_tokens(first, last_turn) / (last_turn - first + 1)
        return math.ceil(raw * VARIANCE_FACTOR) + planned.overheads.tag

    def _raw_tokens(self, last_turn: int) -> int:
        """Return the raw tokens of the whole turns: those of the last plan, and those since."""
        kept = self._kept
        known, counted = (kept.raw_tokens, kept.whole_turns) if kept else (0, 0)
        return known + self._snapshot.raw_tokens(counted + 1, last_turn)

    def _reach(self, room_tokens: int) -> tuple[int, int]:
        """Return where a plan made now ends: the last turn, and the last step of it if it is in progress.

        The open turn is appended later, unless it is large: then its answered steps are planned too.
        """
        last = self._snapshot.last_turn
        if not self._snapshot.is_open:
            return last, 0
        answered = self._snapshot.answered_steps(room_tokens)
        return (last, answered[-1]) if len(answered) > 1 else (last - 1, 0)


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
    used = kept.framed_tokens + snapshot.appended(kept.last_turn, kept.last_step).framed_tokens
    if used > ledger.limit_tokens:
        return "full"
    waited = snapshot.last_turn - (kept.trigger_turn or kept.last_turn)
    if settings.schedule != "watermark" and waited >= wait_turns(settings, kept.churn):
        return "interval"
    ttl_seconds = ledger.prices.ttl_seconds
    is_cold = ttl_seconds is not None and ledger.now - kept.used_at > ttl_seconds
    if is_cold and _gains(settings, snapshot, state, used, ledger):
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
    room: Ledger,
    *,
    low_tokens: int,
    raw_tokens: int | None = None,
    average_tokens: int = 0,
    open_tokens: int = 0,
) -> int:
    """Return the target size of a rebuild: the low-water mark, or what leaves room for the turns until the next
    rebuild.

    `open_tokens` are those of the open turn, which is appended to the plan. A history known to fit raw stays raw; there
    is nothing to rebuild.
    """
    fits_raw = raw_tokens is not None and raw_tokens <= room.limit_tokens
    if cause in ("first", "budget", "made") and fits_raw:
        return room.limit_tokens
    base = room.base_tokens
    target = low_tokens
    if settings.schedule != "watermark":
        target = max(target, base - open_tokens - settings.interval_turns * average_tokens)
    # Without room for the open turn, each context until its end would need its own plan.
    return min(target, max(int(base * LEAST_SHARE), room.limit_tokens - open_tokens))


def _gains(settings: Gradient, snapshot: Snapshot, state: RebuildState, used: int, room: Ledger) -> bool:
    """Return whether a rebuild would free enough, or, if its target is the whole allotment, change any level."""
    if settings.schedule != "watermark":
        return snapshot.kept is not None and snapshot.last_turn > snapshot.kept.last_turn
    return used - min(state.low_tokens, room.base_tokens) > COLD_GAIN_SHARE * room.base_tokens


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


def _bands(rows: Sequence[Block], planned: Sequence[Band]) -> tuple[Band, ...]:
    """Return the tokens that the rows spend on each level, with the planned shares."""
    shares = {band.level: band.target_share for band in planned}
    levels: tuple[ShownLevel, ...] = ("R", "S", "C", "T", "E")
    # Hidden steps are written as one line of Tiny.
    shown = [replace(row, level="T") if row.first_step and row.level == "E" else row for row in rows]
    return bands_of(shown, {level: shares.get(level, 0.0) for level in levels})


def _is_makeshift(row: Block, settled_turn: int) -> bool:
    """Return whether turns are cut, only named or without a line because nothing shorter is made yet."""
    if row.levels:
        return NO_LINE in row.levels[max(0, settled_turn + 1 - row.first) :]
    is_least = row.is_cut and not row.era_level and row.level in ("R", "E")
    return is_least and not row.first_step and row.last > settled_turn
