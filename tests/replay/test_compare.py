"""One history through strategies at budgets: what each run reports is what its contexts have."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conversation import make_conversation
from foveate.errors import InputError, SettingsError, UnknownStrategy
from foveate.replay.compare import MAX_CALLS, NEWEST_CALLS, compare, sampling_for
from foveate.replay.report import Comparison, StrategyRun
from foveate.replay.script import Surroundings
from support.docs_examples import python_examples, run_example
from support.engine import settings
from support.paths import ROOT

TURNS = 20
CONVERSATION = make_conversation(TURNS)
SIX = ("checkpoint", "gradient", "hybrid", "oneshot", "standard", "topics")
BUDGETS = (3_000, 200_000)
NEVER = "no such thing was ever said"


def compared(turns: int = 8, **options: Any) -> Comparison:
    given: dict[str, Any] = {"settings": settings(), "budgets_tokens": [BUDGETS[0]], **options}
    return asyncio.run(compare(CONVERSATION.turns[:turns], **given))


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    needles = [*(fact.needle for fact in CONVERSATION.facts), NEVER]
    return compared(TURNS, budgets_tokens=BUDGETS, needles=needles)


def run(comparison: Comparison, strategy: str, budget: int = BUDGETS[0]) -> StrategyRun:
    return next(one for one in comparison.at(budget) if one.strategy == strategy)


def test_every_strategy_is_played_at_every_budget_and_none_exceeds_it(comparison: Comparison) -> None:
    assert [(one.budget_tokens, one.strategy) for one in comparison.runs] == [(b, s) for b in BUDGETS for s in SIX]
    for one in comparison.runs:
        assert one.overruns == 0
        assert one.max_tokens <= one.budget_tokens
        assert one.mean_tokens <= one.max_tokens
        assert one.calls_made == comparison.calls == len(one.points)
        assert one.model_tokens == 0


def test_levels_add_up_at_the_end_and_on_average(comparison: Comparison) -> None:
    for one in comparison.runs:
        assert len(one.strip) == comparison.turns == TURNS
        assert sum(one.levels_at_end.values()) == pytest.approx(1)
        assert sum(one.levels_on_average.values()) == pytest.approx(1)


def test_where_all_fits_all_is_kept(comparison: Comparison) -> None:
    one = run(comparison, "standard", 200_000)
    assert one.strip == "R" * TURNS
    assert (one.facts_kept, one.facts_on_average, one.old_facts_kept) == (1, 1, 1)
    assert one.needles_found == len(CONVERSATION.facts)
    assert one.cached_share > 0.8


def test_standard_forgets_what_dropped_out_and_the_gradient_does_not(comparison: Comparison) -> None:
    standard, gradient = run(comparison, "standard"), run(comparison, "gradient")
    assert set(standard.strip) == {"-", "R"}
    assert gradient.seen_share > standard.seen_share
    assert gradient.old_facts_kept > standard.old_facts_kept
    assert gradient.cached_share > standard.cached_share


def test_the_facts_of_all_ages_are_those_of_the_history(comparison: Comparison) -> None:
    for one in comparison.runs:
        assert sum(share.facts for share in one.facts_by_age) == comparison.facts
        kept = [share.kept for share in one.facts_by_age]
        assert min(kept) <= one.facts_kept <= max(kept)


def test_needles_are_found_where_they_stand_and_one_that_was_never_said_is_nowhere(comparison: Comparison) -> None:
    needles = {needle.text: needle for needle in run(comparison, "gradient").needles}
    assert needles[NEVER].turn is None
    assert not any(needle.is_found for one in comparison.runs for needle in one.needles if needle.text == NEVER)
    fact = CONVERSATION.facts[0]
    assert needles[fact.needle].turn == fact.turn


def test_each_prompts_parts_are_all_of_it(comparison: Comparison) -> None:
    for one in comparison.runs:
        assert all(sum(point.parts.values()) == point.tokens for point in one.points)


def test_a_session_is_compared_with_its_title_pins_and_documents() -> None:
    around = Surroundings("Harbour works", ("Never on Sundays.",), {"epic": "Dig.", "tasks": "- [ ] dig deeper"})
    needles = ["Never on Sundays.", "dig deeper"]
    found = compared(strategies=["oneshot", "standard"], around=around, needles=needles)
    assert found.title == "Harbour works"
    assert [one.needles_found for one in found.runs] == [2, 1]


def test_a_strategy_has_the_settings_given_for_it() -> None:
    chosen = {"hybrid": {"protected_messages": 1}, "topics": {"enabled": False}}
    plain = compared(20, strategies=["topics", "standard"])
    given = compared(20, strategies=["topics", "standard"], strategy_settings=chosen)
    assert run(given, "topics").strip == run(given, "standard").strip
    assert run(plain, "topics").strip != run(plain, "standard").strip


def test_the_same_history_gives_the_same_figures_in_processes_of_their_own() -> None:
    one = compared(4, strategies=["gradient"])
    two = compared(4, strategies=["gradient"], settings=settings(compress={"processes": 1}))
    assert replace(one.runs[0], cpu_ms_per_turn=0) == replace(two.runs[0], cpu_ms_per_turn=0)


def test_settings_of_any_package_and_strategy_reach_the_processes() -> None:
    chosen: dict[str, Any] = {"compress": {"processes": 1}, "server": {"max_jobs": 3}, "topics": {"enabled": False}}
    given = compared(20, strategies=["topics", "standard"], settings=settings(**chosen))
    assert run(given, "topics").strip == run(given, "standard").strip


def test_progress_is_told_of_every_turn_compressed_and_played() -> None:
    told: list[int] = []
    compared(strategies=["standard"], budgets_tokens=[4_000, 8_000], progress=told.append)
    assert sum(told) == 8 * 3


@pytest.mark.parametrize(
    ("calls", "every", "makes"),
    [(MAX_CALLS, None, (1, 0)), (10_000, None, (25, NEWEST_CALLS)), (10, 4, (4, NEWEST_CALLS)), (10_000, 1, (1, 0))],
)
def test_a_long_conversation_is_sampled_unless_it_is_said_how(
    calls: int, every: int | None, makes: tuple[int, int]
) -> None:
    sampling = sampling_for(calls, every)
    assert (sampling.every, sampling.newest) == makes
    made = sum(sampling.makes(call, calls) for call in range(calls))
    assert every or made <= MAX_CALLS


def test_a_sampled_run_compares_only_neighbouring_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foveate.replay.compare.NEWEST_CALLS", 6)
    found = compared(20, strategies=["gradient"], every=10)
    (one,) = found.runs
    assert one.calls_made < found.calls
    assert [point.cached_share is not None for point in one.points][-6:].count(True) >= 5
    assert any(point.cached_share is None for point in one.points)
    assert one.cached_share > 0.5


def test_mistakes_are_told_before_any_work_is_done() -> None:
    with pytest.raises(UnknownStrategy, match=r"no strategy 'gradiant'; did you mean gradient\? available: checkpoint"):
        compared(strategies=["gradiant"])
    with pytest.raises(InputError, match="budgets must be different numbers"):
        compared(budgets_tokens=[4_000, 4_000])
    with pytest.raises(InputError, match="none of them empty"):
        compared(needles=[" "])
    with pytest.raises(InputError, match="more than 200 runs"):
        compared(budgets_tokens=range(1, 60))
    with pytest.raises(SettingsError, match="protected"):
        compared(strategy_settings={"hybrid": {"protectd": 1}})


def test_a_run_that_can_not_be_played_says_which_and_why() -> None:
    with pytest.raises(InputError, match=r"standard at 3,000 tokens: .*tokens"):
        compared(TURNS, strategies=["gradient", "standard"], strategy_settings={"standard": {"when_full": "fail"}})
    with pytest.raises(InputError, match="gradient at 50 tokens: the budget is 50 tokens"):
        compared(strategies=["gradient"], budgets_tokens=[50])


def test_an_empty_history_has_figures_too() -> None:
    found = compared(0)
    assert [one.facts_kept for one in found.runs] == [1.0] * 6
    assert found.facts == found.calls == 0


def test_the_docs_example_runs(tmp_path: Path) -> None:
    (example,) = python_examples(ROOT / "docs" / "concepts" / "strategies.md")
    shown = run_example(example, tmp_path)
    assert shown.startswith("gradient 1 of 1 turns word for word, nothing left out; 100% of the facts")
