"""A rebuild by interval changes the level of few turns."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.plan import Plan, ShownLevel
from foveate.strategy.gradient import Gradient
from foveate.strategy.gradient.few_changes import CHANGED_SHARE, changed_share
from support.drawn_histories import ordinary
from support.examples import times
from support.histories import ListedHistory, sized


def _levels(plan: Plan) -> dict[int, tuple[ShownLevel, float]]:
    return {
        turn: (row.level, row.tokens / (row.last - row.first + 1))
        for row in plan.rows
        for turn in range(row.first, row.last + 1)
    }


@pytest.mark.parametrize(("mean", "allotment"), [(200, 30_000), (400, 30_000), (400, 65_000), (800, 65_000)])
def test_at_most_a_fifth_of_the_tokens_change_level_every_ten_turns(mean: int, allotment: int) -> None:
    drawn = random.Random(mean + allotment)
    items = []
    for turn in range(1, 501):
        raw = int(drawn.lognormvariate(0, 0.8) * mean * 0.73) + 20
        items.append(sized(raw, raw * 6 // 10, raw * 35 // 100, min(raw, 40), turn=turn))
    target = allotment - 10 * sum(item.raw for item in items) // len(items)
    shown: dict[int, ShownLevel] = {}
    for last in range(100, 500, 10):
        plan = Gradient(schedule="interval").levels(ListedHistory(items[:last]), target, shown)
        assert plan.tokens <= target
        now = _levels(plan)
        changed = sum(tokens for turn, (level, tokens) in now.items() if shown.get(turn, level) != level)
        assert changed <= 0.2 * plan.tokens, f"{changed} of {plan.tokens} at T-{last}"
        shown = {turn: level for turn, (level, _) in now.items()} | dict.fromkeys(range(last + 1, last + 11), "R")


@settings(max_examples=times(30), deadline=None)
@given(st.data(), st.integers(4_000, 100_000))
def test_whatever_the_turns_are_at_most_a_fifth_of_the_tokens_change_level(data: st.DataObject, room: int) -> None:
    """If ten average turns take at most a quarter of the room, none of them much more than the others."""
    history = data.draw(ordinary(room // 40))
    items = history.items
    average = sum(item.raw for item in items) / len(items)
    target = int(room - 10 * average)
    shown: dict[int, ShownLevel] = {}
    for last in range(10, min(len(items), 400), 10):
        listed = ListedHistory(items[:last], history.fanout, history.era_tokens)
        plan = Gradient(schedule="interval").levels(listed, target, shown)
        assert plan.tokens <= target
        if shown:
            assert changed_share(plan.rows, shown) <= CHANGED_SHARE, f"at T-{last}"
        shown = {turn: level for turn, (level, _) in _levels(plan).items()}
        shown |= dict.fromkeys(range(last + 1, last + 11), "R")


def test_without_levels_to_keep_a_plan_is_the_same_as_ever() -> None:
    items = [sized(300, 180, 100, 40, turn=turn) for turn in range(1, 200)]
    plan = Gradient().levels(ListedHistory(items), 10_000)
    kept = Gradient().levels(ListedHistory(items), 10_000, {1: "E"})
    assert plan == kept
