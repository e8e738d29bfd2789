from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.plan import Cause, KeptPlan, Ledger
from foveate.strategy.gradient import Gradient
from foveate.strategy.gradient.rebuild import (
    FILLED_SHARE,
    GROWING_SHARE,
    LEAST_SHARE,
    RebuildState,
    due,
    settings_key,
    target_tokens,
    wait_turns,
)
from foveate.testing.histories import ListedSnapshot, exchange

WATERMARK = Gradient()
INTERVAL = Gradient(schedule="interval")
ADAPTIVE = Gradient(schedule="adaptive")
ALLOTMENT = 65_000
KEPT = KeptPlan(
    rows=(),
    tokens=(),
    texts=(),
    framed_tokens=32_000,
    last_turn=100,
    last_step=0,
    cause="first",
    bands=(),
    made_at=0.0,
    used_at=1_000.0,
)


@dataclass(frozen=True, slots=True)
class GrownSnapshot(ListedSnapshot):
    """A snapshot with so much appended to its plan."""

    appended_tokens: int = 0

    def tokens_after(self, turn: int, step: int) -> int:
        return self.appended_tokens


FILLED = int(ALLOTMENT * FILLED_SHARE)


def state_of(settings: Gradient) -> RebuildState:
    return RebuildState(100_000, settings_key(settings))


def cause_of(
    settings: Gradient,
    state: RebuildState | None,
    kept: KeptPlan | None = KEPT,
    *,
    appended: int = 0,
    turns: int = 100,
    budget: int = 100_000,
    allotment: int = ALLOTMENT,
    now: float = 1_010.0,
    ttl: float | None = 300.0,
) -> Cause | None:
    snapshot = GrownSnapshot([exchange(turns, 10)], kept=kept, appended_tokens=appended)
    ledger = Ledger(budget_tokens=budget, asked_tokens=budget, history_tokens=allotment, cache_ttl_seconds=ttl, now=now)
    return due(settings, snapshot, state, ledger)


def test_the_first_plan_is_due_at_once() -> None:
    assert cause_of(WATERMARK, None, None) == "first"


def test_the_watermark_schedule_lets_turns_append_until_the_allotment_is_full() -> None:
    state = state_of(WATERMARK)
    assert cause_of(WATERMARK, state, appended=33_000, turns=5_000) is None
    assert cause_of(WATERMARK, state, appended=33_001) == "full"


def test_a_changed_budget_or_setting_is_a_reason() -> None:
    state = state_of(WATERMARK)
    assert cause_of(WATERMARK, state, budget=90_000) == "budget"
    assert cause_of(Gradient(low_water=0.6), state) == "budget"


def test_the_interval_schedule_waits_its_turns() -> None:
    state = state_of(INTERVAL)
    assert cause_of(INTERVAL, state, turns=109) is None
    assert cause_of(INTERVAL, state, turns=110) == "interval"


@pytest.mark.parametrize(("churn", "turns"), [(0.0, 80), (0.5, 45), (1.0, 10), (7.0, 10), (-1.0, 80)])
def test_the_adaptive_schedule_comes_sooner_the_more_the_last_rebuild_changed(churn: float, turns: int) -> None:
    state, kept = state_of(ADAPTIVE), replace(KEPT, churn=churn)
    assert wait_turns(ADAPTIVE, churn) == turns
    assert cause_of(ADAPTIVE, state, kept, turns=100 + turns - 1) is None
    assert cause_of(ADAPTIVE, state, kept, turns=100 + turns) == "interval"


def test_a_full_history_is_rebuilt_whatever_the_schedule() -> None:
    for settings in (WATERMARK, INTERVAL, ADAPTIVE):
        assert cause_of(settings, state_of(settings), replace(KEPT, churn=1.0), appended=40_000, turns=101) == "full"


def test_a_cold_cache_is_a_reason_only_where_a_rebuild_frees_something() -> None:
    state = state_of(WATERMARK)
    late = 1_000.0 + 301.0
    assert cause_of(WATERMARK, state, appended=28_126, turns=101, now=late) == "cold"
    assert cause_of(WATERMARK, state, appended=28_126, turns=100, now=late) is None
    assert cause_of(WATERMARK, state, appended=28_125, turns=101, now=late) is None
    assert cause_of(WATERMARK, state, appended=32_000, turns=101, now=late - 2) is None
    assert cause_of(WATERMARK, state, appended=32_000, turns=101, now=late, ttl=None) is None
    assert cause_of(INTERVAL, state_of(INTERVAL), turns=100, now=late) is None
    assert cause_of(INTERVAL, state_of(INTERVAL), turns=101, now=late) == "cold"


def test_a_clock_that_jumps_back_makes_no_cache_cold() -> None:
    assert cause_of(WATERMARK, state_of(WATERMARK), appended=32_000, turns=101, now=-5_000.0) is None


def test_a_rebuild_by_turns_leaves_a_part_free_or_room_for_the_next_turns() -> None:
    assert target_tokens(WATERMARK, "full", ALLOTMENT) == FILLED
    assert target_tokens(Gradient(low_water=0.5), "full", ALLOTMENT) == ALLOTMENT // 2
    for settings in (INTERVAL, ADAPTIVE):
        assert target_tokens(settings, "interval", ALLOTMENT, average_tokens=500) == ALLOTMENT - 10 * 500
        assert target_tokens(settings, "full", ALLOTMENT, average_tokens=50_000) == ALLOTMENT // 2


def test_a_rebuild_by_turns_leaves_room_for_the_open_turn() -> None:
    assert target_tokens(WATERMARK, "full", ALLOTMENT, open_tokens=20_000) == int((ALLOTMENT - 20_000) * GROWING_SHARE)
    assert target_tokens(WATERMARK, "full", ALLOTMENT, open_tokens=ALLOTMENT) == ALLOTMENT * LEAST_SHARE


def test_a_history_that_fits_raw_stays_raw() -> None:
    assert target_tokens(WATERMARK, "first", ALLOTMENT, raw_tokens=ALLOTMENT) == ALLOTMENT
    assert target_tokens(WATERMARK, "first", ALLOTMENT, raw_tokens=ALLOTMENT + 1) == FILLED
    assert target_tokens(WATERMARK, "full", ALLOTMENT, raw_tokens=10) == FILLED


@given(st.integers(0, 10**7), st.sampled_from([WATERMARK, INTERVAL, ADAPTIVE]))
def test_what_a_rebuild_aims_at_is_never_due_again_for_being_full(allotment: int, settings: Gradient) -> None:
    kept = replace(KEPT, framed_tokens=target_tokens(settings, "full", allotment))
    assert cause_of(settings, state_of(settings), kept, allotment=allotment, now=10**6) is None


def test_the_settings_key_is_the_same_for_equal_settings() -> None:
    assert settings_key(Gradient()) == settings_key(msgspec.convert({}, Gradient))
    assert settings_key(Gradient()) != settings_key(INTERVAL)
