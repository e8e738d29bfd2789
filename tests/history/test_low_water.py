from __future__ import annotations

import pytest
from foveate.history.low_water import (
    LEAST_SHARE,
    MOST_SHARE,
    USUAL_PRICES,
    CachePrices,
    Growth,
    low_water_tokens,
)
from hypothesis import assume, given
from hypothesis import strategies as st

from foveate.context.allotments import HistoryRoom
from foveate.strategy import Schedule

ROOM = HistoryRoom(20_000, spare_tokens=7_000)


def mark(
    room: HistoryRoom = ROOM, prices: CachePrices = USUAL_PRICES, *, grown: float = 500, worth: float = 0.2
) -> int:
    return low_water_tokens(Schedule(token_worth=worth), room, Growth(grown, 0.6), prices)


def test_a_mark_that_is_set_is_used() -> None:
    assert low_water_tokens(Schedule(low_water=0.7), ROOM, Growth(500), USUAL_PRICES) == 9_100
    assert low_water_tokens(Schedule("interval"), ROOM, Growth(500), USUAL_PRICES) == 6_500


def test_a_history_that_grows_slowly_or_has_much_room_keeps_more() -> None:
    assert mark(grown=250) > mark(grown=400) > mark(grown=600)
    small, large = HistoryRoom(20_000, spare_tokens=7_000), HistoryRoom(100_000, spare_tokens=20_000)
    assert mark(large) / large.tokens > mark(small) / small.tokens


def test_rewriting_that_costs_more_lowers_the_mark_and_worth_raises_it() -> None:
    assert mark(prices=CachePrices(0.1, 1.0)) > mark() > mark(prices=CachePrices(0.1, 1.5))
    assert mark(worth=0.25) > mark()
    assert mark(worth=0.05) == int(ROOM.base_tokens * LEAST_SHARE)


def test_the_newest_turn_has_room() -> None:
    assert mark(grown=3_000) == 6_000
    assert mark(grown=30_000) == int(ROOM.base_tokens * MOST_SHARE)


@given(st.integers(2_000, 200_000), st.floats(1, 5_000), st.floats(0.11, 2))
def test_no_other_mark_is_worth_more(tokens: int, grown: float, worth: float) -> None:
    room = HistoryRoom(tokens)
    chosen = mark(room, grown=grown, worth=worth)
    assume(max(LEAST_SHARE * tokens, 2 * grown) + 1 < chosen < MOST_SHARE * tokens - 1)

    def value(low: float) -> float:
        in_view = (tokens + low) / 2
        return (worth - 0.1) * in_view - 1.15 * 0.6 * low * grown / (tokens - low)

    step = tokens / 100
    assert value(chosen) >= max(value(chosen - step), value(chosen + step))


@pytest.mark.parametrize("tokens", [0, 1, 10, 10**9])
def test_the_mark_stays_within_what_the_history_always_has(tokens: int) -> None:
    for grown in (0.0, 1.0, 10.0**9):
        room = HistoryRoom(tokens, spare_tokens=tokens // 3)
        assert 0 <= mark(room, grown=grown) <= room.base_tokens
