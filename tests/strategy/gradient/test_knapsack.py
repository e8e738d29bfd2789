from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.history.worth import pack_words
from foveate.plan import BRIEF_LINE, NO_LINE, Overheads, Plan, TurnSizes, WordWeights
from foveate.strategy.gradient import Gradient
from foveate.strategy.gradient.knapsack import LEAST_BLOCK_TURNS, KnapsackPlanner
from foveate.strategy.gradient.planner import MIN_HISTORY_TOKENS
from foveate.testing.histories import USUAL_OVERHEADS
from foveate.turn import Message, Text
from support.drawn_histories import BUDGETS, OVERHEADS, covered, histories, ordinary
from support.examples import times
from support.histories import EvenHistory, ListedHistory, sized

GRADIENT = Gradient()
EXAMPLES = times(16)
SIZES = {"R": "raw", "S": "smoothed", "C": "compressed", "T": "tiny", "c": "brief"}


def turns_at(plan: Plan) -> dict[int, str]:
    """The level of each whole turn that has a text of its own."""
    return {
        turn: span.level
        for row in plan.rows
        if not row.first_step and not row.is_cut and row.level != "E"
        for span in row.spans()
        for turn in range(span.first, span.last + 1)
    }


def told(turn: int, user: str, answer: str = "", **sizes: int) -> TurnSizes:
    """A turn with these words; its C keeps what the user said, its T nothing."""
    messages = [Message("user", (Text(user),)), Message("assistant", (Text(answer),))]
    words = pack_words(messages, f"{user} {answer}", user, "")
    item = {"raw": 100, "smoothed": 95, "compressed": 40, "tiny": 15} | sizes
    return TurnSizes(turn, 0, item["raw"], item["smoothed"], item["compressed"], item["tiny"], words=words)


@settings(max_examples=EXAMPLES, deadline=None)
@given(histories(), BUDGETS, OVERHEADS)
def test_any_plan_fits_and_has_each_turn_and_step_once_in_order(
    history: ListedHistory, budget: int, overheads: Overheads
) -> None:
    history = replace(history, overheads=overheads)
    plan = GRADIENT.levels(history, budget)
    assert plan.tokens == sum(row.tokens for row in plan.rows) <= budget
    assert sum(band.tokens for band in plan.bands) == plan.tokens
    assert plan == GRADIENT.levels(history, budget)
    items = {item.turn: item for item in history.items if not item.step}
    for row in plan.rows:
        for turn, level, size in zip(range(row.first, row.last + 1), row.levels, row.sizes, strict=False):
            assert size == (0 if level == "-" else getattr(items[turn], SIZES[level]) + overheads.line)
        tags = overheads.range if row.is_range else overheads.tag - overheads.line
        assert not row.levels or row.tokens == sum(row.sizes) + tags + row.era_tokens
        assert len(row.levels) in (0, row.last - row.first + 1)
    if len(plan.rows) > 1 or (plan.rows and not plan.rows[0].is_cut):
        assert covered(plan.rows) == [(item.turn, item.step) for item in history.items]


BOUNDARY = range(-20, 21)
"""How far around a size that decides something plans are made."""
DATED = Overheads(line=5, tag=14, range=22, cut_note=12, date=9)


def dated(sizes: list[int]) -> ListedHistory:
    """Turns of these raw tokens, each of another day."""
    items = [
        replace(sized(raw, raw * 6 // 10, raw * 35 // 100, min(raw, 40), turn=turn), is_later=True)
        for turn, raw in enumerate(sizes, 1)
    ]
    return ListedHistory(items, overheads=DATED)


@pytest.mark.parametrize("has_tail", [False, True])
@pytest.mark.parametrize("sizes", [[9] * 34, [30] * 12, [9, 400, 9, 9, 400, 30, 30], [2_000], [5] * 80, [120, 30] * 8])
def test_a_plan_fits_at_every_budget_around_the_size_of_the_turns(sizes: list[int], *, has_tail: bool) -> None:
    history, raw, count = dated(sizes), sum(sizes), len(sizes)
    tags, lines = count * DATED.dated.tag, count * DATED.line + DATED.range
    for size in (raw, raw + tags, raw + count * DATED.tag, raw + lines, raw // 2):
        for budget in (max(0, size + off) for off in BOUNDARY):
            planner = KnapsackPlanner(GRADIENT, history, budget, has_tail=has_tail)
            plan = planner.plan()
            assert sum(row.tokens for row in plan.rows) == plan.tokens <= budget
            if rows := plan.rows[:1]:
                after = planner.plan_after(rows, rows[0].tokens)
                assert after is None or after.tokens <= budget


@settings(max_examples=EXAMPLES, deadline=None)
@given(histories(), st.integers(MIN_HISTORY_TOKENS, 200_000))
def test_the_newest_item_is_raw_or_smoothed_or_cut_from_those(history: ListedHistory, budget: int) -> None:
    newest = GRADIENT.levels(history, budget).rows[-1]
    assert newest.level in ("R", "S")
    assert (newest.last, newest.last_step) == (history.items[-1].turn, history.items[-1].step)


@settings(max_examples=EXAMPLES, deadline=None)
@given(histories(), st.integers(MIN_HISTORY_TOKENS, 200_000))
def test_the_prompt_of_a_running_turn_stays_raw(history: ListedHistory, budget: int) -> None:
    plan = GRADIENT.levels(history, budget)
    prompt = next((item for item in history.items if item.is_kept), None)
    if prompt is not None:
        shown = next(row for row in plan.rows if row.first == prompt.turn and row.first_step == 1)
        assert shown.level == "R"


def test_the_prompt_of_a_running_turn_stays_raw_in_the_smallest_budget() -> None:
    turns = [TurnSizes(turn, 0, 18, None, None, None) for turn in range(1, 38)]
    steps = [TurnSizes(38, step, 0, None, None, None, is_kept=step == 1) for step in (1, 2)]
    plan = GRADIENT.levels(ListedHistory([*turns, *steps]), MIN_HISTORY_TOKENS)
    assert [(row.first_step, row.level) for row in plan.rows if row.first_step] == [(1, "R"), (2, "R")]


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


def test_a_turn_that_was_retrieved_counts_more_than_the_same_words_elsewhere() -> None:
    items = [told(turn, f"pier{turn} crane{turn} berth{turn}", tiny=20) for turn in range(1, 41)]
    alike = turns_at(GRADIENT.levels(ListedHistory(items), 1_500))
    plan = GRADIENT.levels(ListedHistory(items, retrieved=(3,)), 1_500)
    assert 3 not in alike
    assert turns_at(plan)[3] == "C"


@cache
def chat() -> tuple[TurnSizes, ...]:
    """300 turns of 3 to 60 words."""
    drawn = random.Random(600)
    vocabulary = [f"word{number}" for number in range(900)]
    items = []
    for turn in range(1, 301):
        user = " ".join(drawn.choices(vocabulary, k=drawn.randint(3, 60)))
        raw = len(user.split()) * 2 + 6
        items.append(told(turn, user, raw=raw, smoothed=raw - 2, compressed=raw * 2 // 3, tiny=min(raw, 12)))
    return tuple(items)


@pytest.mark.parametrize("budget", [600, 1_000, 4_000, 16_000, 32_000])
def test_a_plan_tells_at_least_what_the_newest_turns_alone_tell(budget: int) -> None:
    items = chat()
    history = ListedHistory(items)
    table = history.table(300, WordWeights(GRADIENT.answer_weight))
    worths = dict(zip(table.turns.tolist(), table.worths, strict=True))
    plan = GRADIENT.levels(history, budget)
    shown = sum(worths[turn]["RSCT".index(level)] for turn, level in turns_at(plan).items())
    alone, left = 0.0, budget - USUAL_OVERHEADS.range
    for item in reversed(items):
        left -= item.raw + USUAL_OVERHEADS.line
        if left < 0:
            break
        alone += worths[item.turn][0]
    assert shown >= 0.98 * alone


def test_a_turn_with_rare_words_has_more_detail_than_one_that_repeats_others() -> None:
    turns = [told(turn, "thanks that sounds great really great thanks") for turn in range(1, 200)]
    turns[20] = told(21, "the backup of harbour Lindesnes runs at 03:40 with key kestrel-7")
    levels = turns_at(GRADIENT.levels(ListedHistory(turns), 4_000))
    assert levels[21] in ("R", "S", "C")
    assert sum(level in ("R", "S", "C") for turn, level in levels.items() if turn < 150) == 1


def test_a_brief_form_is_shown_where_it_tells_more_per_token_than_the_levels() -> None:
    said = [f"harbour{turn} kestrel{turn} lantern{turn} anchor{turn}" for turn in range(61)]
    turns = [told(turn, said[turn], raw=60, smoothed=58, compressed=40) for turn in range(1, 61)]
    messages = [Message("user", (Text(said[20]),))]
    words = pack_words(messages, said[20], "harbour20", "", said[20])
    turns[19] = replace(turns[19], words=words, brief=38)
    plan = GRADIENT.levels(ListedHistory(turns), 1_500)
    (row,) = [row for row in plan.rows if row.first <= 20 <= row.last]
    assert row.levels[20 - row.first] == BRIEF_LINE
    assert row.sizes[20 - row.first] == 38 + USUAL_OVERHEADS.line
    assert turns_at(plan)[20] == "C"


def test_what_the_user_said_weighs_more_than_an_answer() -> None:
    turns = []
    for turn in range(1, 101):
        words = " ".join(f"{name}{turn}" for name in ("alpha", "beta", "gamma", "delta"))
        turns.append(told(turn, words) if turn % 2 else told(turn, "", words))
    levels = turns_at(GRADIENT.levels(ListedHistory(turns), 2_500))
    assert sum(turn % 2 for turn in levels if turn < 90) > 0.9 * sum(turn < 90 for turn in levels)
    table = ListedHistory(turns).table(100, WordWeights())
    assert np.allclose(table.worths[0, 0], table.worths[1, 0])


def test_age_weight_moves_tokens_to_newer_turns() -> None:
    history = EvenHistory(400, sized(100, 90, 40, 15))

    def newer_half(settings: Gradient) -> int:
        plan = settings.levels(history, 12_000)
        return sum(sum(row.sizes) or row.tokens for row in plan.rows if row.last > 200)

    assert newer_half(Gradient(age_weight=3.0)) > newer_half(Gradient(age_weight=0.0))


def test_the_newest_turns_have_their_share_verbatim() -> None:
    history = EvenHistory(400, sized(100, 90, 20, 15))
    plan = Gradient(raw_share=0.3).levels(history, 10_000)
    recent = [row for row in plan.rows if row.level == "R"]
    assert recent
    assert recent[-1].last == 400
    assert sum(row.tokens for row in recent) >= 0.3 * 10_000 - 4 * 116


def test_a_block_of_lines_ends_at_a_multiple_of_a_power_of_two() -> None:
    plan = GRADIENT.levels(EvenHistory(400, sized(100, 90, 40, 15)), 9_000)
    lines = [row for row in plan.rows if row.is_range and row.level in ("C", "T")]
    assert len(lines) > 5
    assert all(row.last % LEAST_BLOCK_TURNS == 0 for row in lines[:-1])


@pytest.mark.parametrize("budget", [4_000, 6_000, 8_000])
def test_turns_without_a_line_are_told_in_an_era_beside_the_lines(budget: int) -> None:
    rows = [row for row in GRADIENT.levels(ListedHistory(chat()), budget).rows if NO_LINE in row.levels]
    assert rows
    assert all(row.era_tokens > USUAL_OVERHEADS.range for row in rows)


def test_a_block_whose_turns_all_have_lines_has_no_era() -> None:
    rows = [row for row in GRADIENT.levels(ListedHistory(chat()), 8_000).rows if NO_LINE not in row.levels]
    assert not any(row.era_tokens for row in rows)


def test_a_million_turns_fit_and_little_of_them_is_read() -> None:
    history = EvenHistory(1_000_000, sized(2_000, 1_200, 700, 45))
    plan = GRADIENT.levels(history, 100_000)
    assert plan.rows[0].first == 1
    assert 90_000 <= plan.tokens <= 100_000
    assert history.reads["items"] <= 100_000 // (USUAL_OVERHEADS.line + 1) + 2
    assert any(row.level == "E" and row.era_level for row in plan.rows)
