from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.errors import InputError, UnknownStrategy
from foveate.history.worth import pack_words
from foveate.plan import Block, Overheads, Plan, Sizes, TurnSizes
from foveate.strategy import load, names
from foveate.strategy.gradient import Gradient
from foveate.strategy.gradient.planner import ERA_SHARE, MIN_HISTORY_TOKENS
from foveate.strategy.gradient.steps import plan_steps
from foveate.strategy.layout import ERA_MINIMUM_TOKENS
from foveate.testing.histories import USUAL_OVERHEADS
from foveate.turn import Message, Text
from support.drawn_histories import BUDGETS, OVERHEADS, covered, histories, ordinary
from support.examples import times
from support.histories import EvenHistory, ListedHistory, sized

GRADIENT = Gradient(bands="documented")
FIDELITY = {"R": 4, "S": 3, "C": 2, "T": 1, "E": 0}
EXAMPLES = times(30)


def price(history: ListedHistory, row: Block, overheads: Overheads) -> int:
    """What a row of whole texts costs by the contract."""
    size = {"R": "raw", "S": "smoothed", "C": "compressed", "T": "tiny"}[row.level]
    texts: list[int] = [
        getattr(item, size)
        for item in history.items
        if row.first <= item.turn <= row.last and row.first_step <= item.step <= row.last_step
    ]
    assert row.is_range == (len(texts) > 1)
    return sum(texts) + (overheads.range + overheads.line * len(texts) if row.is_range else overheads.tag)


@settings(max_examples=EXAMPLES, deadline=None)
@given(histories(), BUDGETS, OVERHEADS)
def test_any_plan_fits_and_shows_each_turn_and_step_once_in_order(
    history: ListedHistory, budget: int, overheads: Overheads
) -> None:
    history = replace(history, overheads=overheads)
    plan = GRADIENT.levels(history, budget)
    assert plan.tokens == sum(row.tokens for row in plan.rows) <= budget
    assert sum(band.tokens for band in plan.bands) == plan.tokens
    assert plan == GRADIENT.levels(history, budget)
    whole = [row for row in plan.rows if row.level != "E" and not row.is_cut]
    assert all(row.tokens == price(history, row, overheads) for row in whole)
    wanted = [(item.turn, item.step) for item in history.items]
    if len(plan.rows) > 1 or (plan.rows and not plan.rows[0].is_cut):
        assert covered(plan.rows) == wanted
    elif plan.rows:
        assert (plan.rows[0].first, plan.rows[0].last) == (1, history.last_turn)
    else:
        assert budget < overheads.range + overheads.cut_note


@settings(max_examples=EXAMPLES, deadline=None)
@given(histories(), st.integers(MIN_HISTORY_TOKENS, 200_000))
def test_the_newest_item_is_raw_or_smoothed_or_cut_from_those(history: ListedHistory, budget: int) -> None:
    plan = GRADIENT.levels(history, budget)
    newest = plan.rows[-1]
    assert newest.level in ("R", "S")
    assert (newest.last, newest.last_step) == (history.items[-1].turn, history.items[-1].step)
    if newest.is_cut:
        assert newest.tokens >= budget // 4


@settings(max_examples=EXAMPLES, deadline=None)
@given(histories(), st.integers(MIN_HISTORY_TOKENS, 200_000))
def test_the_prompt_of_a_running_turn_stays_raw(history: ListedHistory, budget: int) -> None:
    plan = GRADIENT.levels(history, budget)
    prompt = next((item for item in history.items if item.is_kept), None)
    if prompt is not None:
        shown = next(row for row in plan.rows if row.first == prompt.turn and row.first_step == 1)
        assert shown.level == "R"
        assert not shown.is_cut or prompt.raw + USUAL_OVERHEADS.tag > budget // 4


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.data(), st.integers(1_000, 200_000))
def test_a_budget_that_the_raw_history_exceeds_is_used_to_95_percent(data: st.DataObject, budget: int) -> None:
    history = data.draw(ordinary(budget // 20 - USUAL_OVERHEADS.tag))
    plan = GRADIENT.levels(history, budget)
    raw = sum(item.raw for item in history.items)
    if raw > budget:
        assert plan.tokens >= 0.95 * budget
    elif raw + USUAL_OVERHEADS.tag * len(history.items) <= budget:
        assert {row.level for row in plan.rows} == {"R"}


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.data(), st.integers(1_000, 200_000))
def test_older_turns_are_seldom_shown_in_more_detail_than_newer_ones(data: st.DataObject, budget: int) -> None:
    history = data.draw(ordinary(budget // 20))
    rows = GRADIENT.levels(history, budget).rows
    risen = [newer for older, newer in pairwise(rows) if FIDELITY[newer.level] < FIDELITY[older.level]]
    assert len(risen) <= 0.05 * len(rows) + 3


def test_what_fits_raw_is_raw() -> None:
    plan = GRADIENT.levels(EvenHistory(20, sized(2_000, 1_200, 700, 45)), 100_000)
    assert [(row.first, row.level, row.tokens) for row in plan.rows] == [(turn, "R", 2_016) for turn in range(1, 21)]


def test_short_raw_turns_share_a_block_and_long_ones_stand_alone() -> None:
    items = [sized(raw, raw, raw, raw, turn=turn) for turn, raw in enumerate((30, 40, 500, 30, 600), 1)]
    rows = GRADIENT.levels(ListedHistory(items), 10_000).rows
    assert [(row.first, row.last, row.is_range) for row in rows] == [
        (1, 2, True),
        (3, 3, False),
        (4, 4, False),
        (5, 5, False),
    ]
    alone = Gradient(short_turn_tokens=0).levels(ListedHistory(items), 10_000)
    assert len(alone.rows) == 5


def test_the_documented_table_comes_out_as_documented() -> None:
    plan = GRADIENT.levels(EvenHistory(200, sized(2_000, 800, 500, 140)), 100_000)
    bands = [(band.level, band.first, band.last, round(band.tokens / 1_000)) for band in plan.bands]
    assert bands == [("R", 181, 200, 40), ("S", 160, 180, 17), ("C", 106, 159, 27), ("T", 1, 105, 15)]
    assert plan.tokens >= 99_500


@pytest.mark.parametrize(("budget", "turns"), [(100_000, 900), (200_000, 1_800)])
def test_capacity_counts_turns_that_are_individually_present(budget: int, turns: int) -> None:
    plan = GRADIENT.levels(EvenHistory(turns, sized(2_000, 1_200, 700, 45)), budget)
    assert not [row for row in plan.rows if row.level == "E"]


def test_deep_takes_from_background_before_it_takes_from_working() -> None:
    def spent(turns: int) -> dict[str, float]:
        plan = GRADIENT.levels(EvenHistory(turns, sized(2_000, 1_200, 700, 45)), 100_000)
        return {band.level: band.tokens / 100_000 for band in plan.bands}

    some, most = spent(600), spent(880)
    assert some["C"] < 0.30
    assert some["S"] > 0.14
    assert GRADIENT.background_minimum * 0.9 <= most["C"] < some["C"]
    assert 0.04 <= most["S"] < 0.14


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.data(), st.integers(4_000, 200_000))
def test_each_turn_keeps_its_tiny_as_long_as_that_fits(data: st.DataObject, budget: int) -> None:
    history = data.draw(ordinary(budget // 20))
    least = GRADIENT.recent + GRADIENT.background_minimum + GRADIENT.working_minimum
    higher = least * (1 + GRADIENT.tolerance) * budget + max(item.raw for item in history.items)
    tinies = sum((item.tiny or 0) + USUAL_OVERHEADS.line for item in history.items)
    plan = GRADIENT.levels(history, budget)
    if higher + tinies + 4 * USUAL_OVERHEADS.range <= budget:
        assert "E" not in {row.level for row in plan.rows}


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.data(), st.integers(4_000, 200_000))
def test_eras_take_no_more_of_deep_than_their_share_and_what_one_era_of_tinies_leaves(
    data: st.DataObject, budget: int
) -> None:
    history = data.draw(ordinary(budget // 20))
    rows = GRADIENT.levels(history, budget).rows
    eras = [row for row in rows if row.level == "E"]
    if eras and not any(row.is_cut for row in eras):
        one_era = history.fanout * (45 + USUAL_OVERHEADS.line) + USUAL_OVERHEADS.range
        count, smallest = eras[-1].last // history.fanout, 0
        while count:
            smallest += count % history.fanout * (ERA_MINIMUM_TOKENS + USUAL_OVERHEADS.range)
            count //= history.fanout
        assert sum(row.tokens for row in eras) <= max(ERA_SHARE * budget, smallest) + one_era


def test_2_500_turns_in_32_000_tokens_show_as_many_tinies_as_fit_before_the_eras_begin() -> None:
    drawn = random.Random(1)
    raws = [int(drawn.lognormvariate(0, 0.8) * 130) + 20 for _ in range(2_500)]
    items = [sized(raw, raw * 9 // 10, raw * 45 // 100, min(30, raw), turn=turn) for turn, raw in enumerate(raws, 1)]
    plan = GRADIENT.levels(ListedHistory(items, era_tokens=640), 32_000)
    turns = {band.level: band.turns for band in plan.bands}
    deep = 32_000 * (1 - GRADIENT.recent - GRADIENT.background_minimum - GRADIENT.tolerance)
    fitting = int(deep * (1 - ERA_SHARE)) // (30 + USUAL_OVERHEADS.line)
    assert turns["T"] + turns["C"] >= fitting - 32
    assert turns["T"] > 300
    assert not [row for row in plan.rows if row.is_cut]
    assert plan.tokens > 0.98 * 32_000
    levels = [row.era_level for row in plan.rows if row.level == "E"]
    assert levels == sorted(levels, reverse=True)


def test_documented_bands_begin_at_their_shares_of_the_turns() -> None:
    plan = GRADIENT.levels(EvenHistory(100, sized(100, 60, 35, 20)), 6_000)
    assert plan.bands[0].level == "R"
    assert plan.bands[0].turns == 10  # 22 turns would fit its share of the tokens
    assert plan.tokens > 5_900


@pytest.mark.parametrize("turns", [600, 880, 5_000])
def test_deep_leaves_the_bands_before_it_their_minimum(turns: int) -> None:
    gradient = Gradient(bands="documented", background_minimum=0.20, working_minimum=0.12)
    plan = gradient.levels(EvenHistory(turns, sized(2_000, 1_200, 700, 45)), 100_000)
    spent = {band.level: band.tokens / 100_000 for band in plan.bands}
    assert spent["C"] >= 0.20 * 0.9
    assert spent["S"] >= 0.12 * 0.9


def test_a_million_turns_fit_and_little_of_them_is_read() -> None:
    history = EvenHistory(1_000_000, sized(2_000, 1_200, 700, 45))
    plan = GRADIENT.levels(history, 100_000)
    assert 95_000 <= plan.tokens <= 100_000
    assert plan.rows[0].first == 1
    assert all(newer.first == older.last + 1 for older, newer in pairwise(plan.rows))
    assert history.reads["items"] <= 100_000 // 50 + 1
    assert history.reads["eras"] < 400
    levels = [row.era_level for row in plan.rows if row.level == "E"]
    assert levels == sorted(levels, reverse=True)
    assert levels[0] == 3


def test_the_cost_of_eras_grows_with_the_logarithm() -> None:
    shown = []
    for turns in (10**4, 10**6, 10**9, 10**12):
        plan = GRADIENT.levels(_endless(turns), 20_000)
        shown.append(sum(row.level == "E" for row in plan.rows))
        assert plan.tokens <= 20_000
        assert plan.rows[0].first == 1
        assert not [row for row in plan.rows if row.is_cut and row.level == "E"]
    assert shown[-1] < 200


def _endless(turns: int) -> Sizes:
    return EvenHistory(turns, sized(200, 120, 70, 30), fanout=10, era_tokens=60)


def test_eras_that_are_not_made_yet_are_replaced_by_their_children_or_named() -> None:
    items = [sized(2_000, 1_200, 700, 45, turn=turn) for turn in range(1, 5_001)]
    newest = frozenset({(2, 3), (2, 2), (1, 120), (1, 121)})
    made = GRADIENT.levels(ListedHistory(items, 32, 120, newest), 50_000)
    assert all(row.era_level or row.is_cut for row in made.rows if row.level == "E")
    none = GRADIENT.levels(ListedHistory(items, 32, None), 50_000)
    named = [row for row in none.rows if row.level == "E"]
    assert [(row.first, row.is_cut) for row in named] == [(1, True)]
    assert none.rows[1].first == named[0].last + 1


def test_few_questions_are_asked_about_eras_that_do_not_exist() -> None:
    history = EvenHistory(1_000_000, sized(2_000, 1_200, 700, 45), era_tokens=None)
    plan = GRADIENT.levels(history, 100_000)
    assert plan.rows[0].is_cut
    assert plan.rows[0].last == plan.rows[1].first - 1
    assert history.reads["eras"] < 300


def test_turns_without_renditions_are_shown_raw_or_cut_to_a_tiny() -> None:
    items = [sized(2_000, None, None, None, turn=turn) for turn in range(1, 300)]
    plan = GRADIENT.levels(ListedHistory(items), 100_000)
    assert {row.level for row in plan.rows} == {"R"}
    cut = [row for row in plan.rows if row.is_cut]
    assert cut
    assert sorted(row.tokens for row in cut)[len(cut) // 2] <= 50 + USUAL_OVERHEADS.tag


def test_a_giant_turn_does_not_push_its_neighbours_down() -> None:
    items = [sized(2_000, 1_200, 700, 45, turn=turn) for turn in range(1, 101)]
    items[95] = sized(90_000, 54_000, 31_000, 45, turn=96)
    rows = GRADIENT.levels(ListedHistory(items), 100_000).rows
    level = {turn: row.level for row in rows for turn in range(row.first, row.last + 1)}
    assert level[96] == "C"
    assert [level[turn] for turn in (94, 95, 97, 98, 99, 100)] == ["S", "R", "R", "R", "R", "R"]


def test_a_turn_larger_than_the_budget_is_cut_and_says_so() -> None:
    items = [sized(2_000, 1_200, 700, 45, turn=1), sized(900_000, 800_000, 300_000, 45, turn=2)]
    rows = GRADIENT.levels(ListedHistory(items), 10_000).rows
    assert [(row.first, row.level, row.is_cut) for row in rows] == [(1, "R", False), (2, "S", True)]
    assert sum(row.tokens for row in rows) == 10_000


def test_steps_of_a_running_turn_form_a_row_for_each_level() -> None:
    items = [sized(2_000, 1_200, 700, 45, turn=turn) for turn in range(1, 101)]
    items += [TurnSizes(101, step, 800, 400, 200, 30, is_kept=step == 1) for step in range(1, 301)]
    rows = GRADIENT.levels(ListedHistory(items), 100_000).rows
    steps = [(row.level, row.first_step, row.last_step) for row in rows if row.first == 101]
    assert [level for level, _, _ in steps] == ["R", "T", "C", "S", "R"]
    assert (steps[0][1], steps[-1][2]) == (1, 300)
    assert all(newer[1] == older[2] + 1 for older, newer in pairwise(steps))


def test_a_tiny_budget_names_the_range_and_shows_the_newest_turn_as_far_as_it_fits() -> None:
    history = EvenHistory(1_000, sized(2_000, 1_200, 700, 45))

    def shown(budget: int) -> list[tuple[str, int, int, bool]]:
        plan = GRADIENT.levels(history, budget)
        return [(row.level, row.first, row.last, row.is_cut) for row in plan.rows]

    assert shown(0) == shown(33) == []
    assert shown(34) == [("E", 1, 1_000, True)]
    assert shown(90) == [("E", 1, 999, True), ("T", 1_000, 1_000, True)]
    assert shown(95) == [("E", 1, 999, True), ("T", 1_000, 1_000, False)]
    assert shown(MIN_HISTORY_TOKENS)[-1] == ("S", 1_000, 1_000, True)


def test_no_history_is_an_empty_plan() -> None:
    assert GRADIENT.levels(ListedHistory([]), 1_000) == Plan((), (), 0, 1_000)


@pytest.mark.parametrize(
    "wrong",
    [{"recent": 0.6}, {"recent": 0.45}, {"background_minimum": 0.31}, {"interval_turns": 100}, {"schedule": "daily"}],
)
def test_wrong_settings_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, Gradient)


def test_strategies_are_found_by_name() -> None:
    assert load("gradient") is Gradient
    assert "gradient" in names()
    assert not {"schedule", "allotments"} & set(names())
    with pytest.raises(UnknownStrategy, match=r"no strategy 'none'; available: .*gradient") as caught:
        load("none")
    assert isinstance(caught.value, InputError)


def test_neighbouring_eras_of_the_finest_level_share_a_block() -> None:
    history = EvenHistory(600, sized(35, 33, 25, 14), era_tokens=200)
    plan = GRADIENT.levels(history, 4_000)
    eras = [row for row in plan.rows if row.level == "E" and not row.is_cut]
    assert len(eras) == 1
    assert eras[0].first == 1
    assert eras[0].last - eras[0].first + 1 > 10 * history.fanout
    assert plan.tokens <= plan.budget_tokens


def test_room_that_words_leave_is_used_newest_first() -> None:
    """Turns of tools whose tiny rendition has all their words: more of them tells nothing by words."""
    words = pack_words([Message("user", (Text("Repair the zones"),))], *["Repair the zones"] * 3)
    items = [TurnSizes(turn, 0, 100, 90, 50, 20, words=words) for turn in range(1, 7)]
    plan = Gradient().levels(ListedHistory(items), 500)
    assert plan.tokens > 0.8 * 500
    assert [row.level for row in plan.rows][-1] == "R"


def test_steps_that_fit_a_small_room_are_raw() -> None:
    steps = [TurnSizes(1, number, 20, 20, 10, 5) for number in (3, 2, 1)]
    rows = plan_steps(steps, 3 * (20 + USUAL_OVERHEADS.tag), USUAL_OVERHEADS)
    assert [(row.first_step, row.level) for row in rows] == [(1, "R"), (2, "R"), (3, "R")]
