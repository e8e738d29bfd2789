from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from foveate.history.plan_cache import PlanState, due, settings_key, target_tokens, wait_turns
from hypothesis import given
from hypothesis import strategies as st

from foveate.context.allotments import HistoryRoom
from foveate.plan import Cause
from foveate.strategy.gradient import Gradient

WATERMARK = Gradient()
INTERVAL = Gradient(schedule="interval")
ADAPTIVE = Gradient(schedule="adaptive")
ALLOTMENT = 65_000
ROOM = HistoryRoom(ALLOTMENT)


def state_of(settings: Gradient, **values: object) -> PlanState:
    state = PlanState(
        base_tokens=32_000,
        last_turn=100,
        last_step=0,
        budget_tokens=100_000,
        settings_key=settings_key(settings),
        made_at=0.0,
        used_at=1_000.0,
        low_tokens=32_500,
    )
    return replace(state, **values)  # type: ignore[arg-type]


def cause_of(
    settings: Gradient,
    state: PlanState | None,
    *,
    appended: int = 0,
    turns: int = 100,
    budget: int = 100_000,
    now: float = 1_010.0,
    ttl: float | None = 300.0,
) -> Cause | None:
    return due(
        settings,
        state,
        appended_tokens=appended,
        turns_now=turns,
        budget_tokens=budget,
        room=HistoryRoom(ALLOTMENT),
        now=now,
        cache_ttl_seconds=ttl,
    )


def test_the_first_plan_is_due_at_once() -> None:
    assert cause_of(WATERMARK, None) == "first"


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
    state = state_of(ADAPTIVE, churn=churn)
    assert wait_turns(ADAPTIVE.rebuild_schedule, churn) == turns
    assert cause_of(ADAPTIVE, state, turns=100 + turns - 1) is None
    assert cause_of(ADAPTIVE, state, turns=100 + turns) == "interval"


def test_a_full_history_is_rebuilt_whatever_the_schedule() -> None:
    for settings in (WATERMARK, INTERVAL, ADAPTIVE):
        assert cause_of(settings, state_of(settings, churn=1.0), appended=40_000, turns=101) == "full"


def test_a_cold_cache_is_a_reason_only_where_a_rebuild_frees_something() -> None:
    state = state_of(WATERMARK)
    late = 1_000.0 + 301.0
    assert cause_of(WATERMARK, state, appended=7_001, now=late) == "cold"
    assert cause_of(WATERMARK, state, appended=7_000, now=late) is None
    assert cause_of(WATERMARK, state, appended=9_000, now=late - 2) is None
    assert cause_of(WATERMARK, state, appended=9_000, now=late, ttl=None) is None
    assert cause_of(INTERVAL, state_of(INTERVAL), turns=100, now=late) is None
    assert cause_of(INTERVAL, state_of(INTERVAL), turns=101, now=late) == "cold"


def test_a_clock_that_jumps_back_makes_no_cache_cold() -> None:
    assert cause_of(WATERMARK, state_of(WATERMARK), appended=20_000, now=-5_000.0) is None


def test_a_rebuild_aims_at_the_low_water_mark_or_leaves_room_for_the_next_turns() -> None:
    assert target_tokens(WATERMARK.rebuild_schedule, "full", ROOM, low_tokens=32_500) == 32_500
    for settings in (INTERVAL, ADAPTIVE):
        schedule = settings.rebuild_schedule
        assert target_tokens(schedule, "interval", ROOM, low_tokens=32_500, average_tokens=500) == ALLOTMENT - 10 * 500
        assert target_tokens(schedule, "full", ROOM, low_tokens=32_500, average_tokens=50_000) == ALLOTMENT // 2


def test_a_history_that_fits_raw_stays_raw() -> None:
    assert (
        target_tokens(WATERMARK.rebuild_schedule, "first", ROOM, low_tokens=32_500, raw_tokens=ALLOTMENT) == ALLOTMENT
    )
    assert (
        target_tokens(WATERMARK.rebuild_schedule, "first", ROOM, low_tokens=32_500, raw_tokens=ALLOTMENT + 1) == 32_500
    )
    assert target_tokens(WATERMARK.rebuild_schedule, "full", ROOM, low_tokens=32_500, raw_tokens=10) == 32_500


@given(st.integers(0, 10**7), st.sampled_from([WATERMARK, INTERVAL, ADAPTIVE]))
def test_what_a_rebuild_aims_at_is_never_due_again_for_being_full(allotment: int, settings: Gradient) -> None:
    base = target_tokens(settings.rebuild_schedule, "full", HistoryRoom(allotment), low_tokens=allotment // 2)
    cause = due(
        settings,
        state_of(settings, base_tokens=base, low_tokens=base),
        appended_tokens=0,
        turns_now=100,
        budget_tokens=100_000,
        room=HistoryRoom(allotment),
        now=10**6,
        cache_ttl_seconds=300,
    )
    assert cause is None


def test_the_settings_key_is_the_same_for_equal_settings() -> None:
    assert settings_key(Gradient()) == settings_key(msgspec.convert({}, Gradient))
    assert settings_key(Gradient()) != settings_key(INTERVAL)
