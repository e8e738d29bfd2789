"""A rebuild by interval changes the level of few turns."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.plan import Plan, ShownLevel
from foveate.strategy.gradient import Gradient
from foveate.strategy.gradient.few_changes import CHANGED_SHARE, changed_share
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
@given(st.data(), st.integers(12_000, 100_000), st.sampled_from([8, 10, 32]), st.sampled_from([None, 40, 120, 640]))
def test_whatever_the_sizes_of_turns_at_most_a_fifth_of_the_tokens_change_level(
    data: st.DataObject, room: int, fanout: int, era_tokens: int | None
) -> None:
    """Of turns whose Tiny is at most half of C, ten of which take at most a quarter of the room."""
    raws = data.draw(st.lists(st.integers(260, room // 40), min_size=1, max_size=40))
    drawn = [raws[turn * turn % len(raws)] for turn in range(1, 301)]
    items = [sized(raw, raw * 6 // 10, raw * 35 // 100, min(45, raw * 35 // 100)) for raw in drawn]
    items = [replace(item, turn=turn) for turn, item in enumerate(items, 1)]
    target = room - 10 * sum(drawn) // len(drawn)
    shown: dict[int, ShownLevel] = {}
    for last in range(10, len(items), 10):
        plan = Gradient(schedule="interval").levels(ListedHistory(items[:last], fanout, era_tokens), target, shown)
        assert plan.tokens <= target
        assert not shown or changed_share(plan.rows, shown) <= CHANGED_SHARE, f"at T-{last}"
        shown = {turn: level for turn, (level, _) in _levels(plan).items()}
        shown |= dict.fromkeys(range(last + 1, last + 11), "R")


def test_no_turn_is_raised_again_by_a_rebuild_by_interval() -> None:
    items = [sized(400, 240, 140, 40, turn=turn) for turn in range(1, 101)]
    shown: dict[int, ShownLevel] = {turn: "T" if turn <= 90 else "R" for turn in range(1, 101)}
    plan = Gradient(schedule="interval").levels(ListedHistory(items), 20_000, shown)
    assert (plan.rows[0].first, plan.rows[0].last, plan.rows[0].level) == (1, 90, "T")
    assert changed_share(plan.rows, shown) == 0


def test_without_levels_to_keep_a_plan_is_the_same_as_ever() -> None:
    items = [sized(300, 180, 100, 40, turn=turn) for turn in range(1, 200)]
    plan = Gradient().levels(ListedHistory(items), 10_000)
    kept = Gradient().levels(ListedHistory(items), 10_000, {1: "E"})
    assert plan == kept
