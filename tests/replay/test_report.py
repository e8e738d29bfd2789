"""What a comparison says of its runs: levels, winners, and a line for a person."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape

import pytest

from foveate.context.context import Segment, SegmentName
from foveate.history.blocks import ONLY_NAMED
from foveate.plan import ShownLevel
from foveate.replay.page import write_page
from foveate.replay.replay import CallSample
from foveate.replay.report import FIGURES, Comparison, StrategyRun, parts_of, strip_of, tally

RUN = StrategyRun(
    strategy="gradient",
    budget_tokens=4_000,
    turns=10,
    calls_made=20,
    mean_tokens=3_000,
    max_tokens=3_900,
    overruns=0,
    strip="EETTTTSRRR",
    levels_on_average={"R": 1.0},
    facts_kept=0.5,
    facts_on_average=0.6,
    old_facts_kept=0.25,
    facts_by_age=(),
    needles=(),
    cached_share=0.9,
    price=0.215,
    model_tokens=0,
    cpu_ms_per_turn=10,
    notes={},
    points=(),
)
RIVAL = replace(RUN, strategy="standard", strip="-------RRR", facts_kept=0.2, old_facts_kept=0.0, price=1.0)
COMPARISON = Comparison(
    title="A talk",
    turns=10,
    raw_tokens=40_000,
    calls=20,
    sampling=CallSample(),
    facts=300,
    runs=(RUN, RIVAL),
    compress_seconds=1,
    seconds=2,
    processes=2,
)


SAID = "Ingrid moved the mooring invoices to Lindesnes harbour"


def part(level: ShownLevel | None, first: int, last: int, text: str = "x", name: SegmentName = "history") -> Segment:
    return Segment(name, 10, is_stable=True, first=first, last=last, level=level, text=text)


def figure(name: str) -> frozenset[str]:
    return next(COMPARISON.winners(one, 4_000) for one in FIGURES if one.name == name)


def test_a_turn_counts_as_the_level_that_says_most_of_it() -> None:
    segments = [part("A", 1, 4, SAID), part("U", 2, 3), part("R", 4, 4), part(None, 0, 0, name="system")]
    assert strip_of(segments, 5) == "AUUR-"
    assert tally("AUUR-") == {"R": 0.2, "U": 0.4, "A": 0.2, "-": 0.2}


def test_turns_that_are_only_named_are_absent() -> None:
    named = f"<T-1-through-4-E>\n{ONLY_NAMED}\n</T-1-through-4-E>\n"
    assert strip_of([part("E", 1, 4, named), part("E", 5, 6, f"T-5 {SAID}")], 6) == "----EE"
    assert strip_of([part("R", 1, 1, f"[user] what is {ONLY_NAMED}?")], 1) == "R"


def test_the_parts_of_a_prompt_add_up() -> None:
    segments = [part(None, 0, 0, name="system"), part(None, 0, 0, name="epic"), part("R", 1, 1), part("R", 2, 2)]
    assert parts_of(segments) == {"fixed": 10, "documents": 10, "R": 20}


def test_the_best_of_a_row_wins_and_where_all_are_equal_nobody_does() -> None:
    assert figure("facts at end") == {"gradient"}
    assert figure("price") == {"gradient"}
    assert figure("word for word") == frozenset()
    assert figure("over budget") == frozenset()
    assert figure("prompt, mean") == frozenset()


def test_what_the_text_does_not_tell_apart_is_a_tie() -> None:
    close = replace(COMPARISON, runs=(RUN, replace(RIVAL, facts_kept=0.501), replace(RIVAL, strategy="hybrid")))
    facts = next(one for one in FIGURES if one.name == "facts at end")
    assert close.winners(facts, 4_000) == {"gradient", "standard"}


def test_a_line_says_what_is_seen_what_is_kept_and_what_it_costs() -> None:
    said = COMPARISON.words(RUN)
    assert said.startswith(
        "3 of 10 turns word for word, the others shorter; 50% of the facts at the end, 60% on average"
    )
    assert "645 uncached tokens" in said
    assert "Best at: in sight, facts at end" in said
    assert "7 out of sight" in COMPARISON.words(RIVAL)
    assert COMPARISON.words(replace(RUN, overruns=2)).startswith("2 prompts exceeded the budget!")


@pytest.mark.parametrize(
    ("sampling", "said"),
    [
        (CallSample(), "all 20 calls"),
        (CallSample(5, 8), "one call in 5 of 20, and the newest 8 one by one; cached share and price are of those"),
    ],
)
def test_the_report_says_which_calls_were_made(sampling: CallSample, said: str) -> None:
    assert replace(COMPARISON, sampling=sampling).sampled() == said


def test_no_name_can_break_the_page_or_its_plots() -> None:
    name = "</script><script>alert(1)</script>\"'&"
    page = write_page(name, replace(COMPARISON, title=name, runs=(replace(RUN, strategy=name), RIVAL)))
    assert page.count("<script") == page.count("</script") == 1
    plots = re.findall(r'data-plot="([^"]*)"', page)
    assert json.loads(unescape(plots[0]))["lines"][0]["name"] == name


def test_a_summary_has_every_figure_and_no_single_prompts() -> None:
    summary = COMPARISON.summary()
    runs = summary["runs"]
    assert isinstance(runs, list)
    assert runs[0]["levels_at_end"]["T"] == 0.4
    assert runs[0]["best_at"][:2] == ["in sight", "facts at end"]
    assert "points" not in runs[0]


def test_no_strategy_is_recommended_if_all_show_everything() -> None:
    runs = [replace(run, strip="R" * COMPARISON.turns) for run in (RUN, RIVAL)]
    said = replace(COMPARISON, runs=tuple(runs), raw_tokens=2_780).recommendation
    assert said.startswith("No recommendation: every strategy shows every turn word for word.")
    assert "below the conversation's 2,780 tokens" in said


def test_the_cheapest_of_those_that_keep_the_most_facts_is_recommended_with_the_reason() -> None:
    assert COMPARISON.recommendation == (
        "Recommended at 4,000 tokens: gradient, because it keeps the most facts on average (60%), like standard, and "
        "costs the least of these per call (645 tokens, standard 3,000)."
    )
    alone = replace(COMPARISON, runs=(RUN, replace(RIVAL, facts_on_average=0.5)))
    assert alone.recommendation == (
        "Recommended at 4,000 tokens: gradient, because it keeps the most facts on average (60%), for 645 tokens "
        "per call."
    )


def test_a_strategy_that_keeps_more_at_the_end_is_named() -> None:
    said = replace(COMPARISON, runs=(RUN, replace(RIVAL, facts_kept=0.8))).recommendation
    assert said.endswith(" At the end standard keeps more (80%, gradient 50%).")


def test_no_strategy_is_clearly_better_if_a_cheaper_one_saves_more_than_it_loses() -> None:
    dear = replace(RIVAL, strategy="oneshot", facts_on_average=0.62, price=0.26)
    compared = replace(COMPARISON, runs=(RUN, dear))
    assert compared.recommended(4_000) is None
    assert compared.recommendation == (
        "No strategy is clearly better at 4,000 tokens: oneshot keeps the most facts on average (62%); gradient keeps "
        "60% and costs 17% less per call (645 tokens, oneshot 780)."
    )
    little = replace(COMPARISON, runs=(RUN, replace(dear, price=0.22)))
    assert little.recommended(4_000) is little.runs[1]


def test_no_strategy_is_clearly_better_if_two_show_the_same_figures() -> None:
    compared = replace(COMPARISON, runs=(RUN, replace(RUN, strategy="oneshot")))
    assert compared.recommended(4_000) is None
    assert compared.recommendation == (
        "No strategy is clearly better at 4,000 tokens: gradient and oneshot keep the most facts on average (60%), and "
        "a call costs 645 tokens."
    )


def test_a_strategy_that_exceeded_a_budget_is_not_recommended() -> None:
    over = replace(RIVAL, facts_on_average=0.9, overruns=1)
    assert replace(COMPARISON, runs=(RUN, over)).recommended(4_000) is RUN
    both = replace(COMPARISON, runs=(replace(RUN, overruns=1), over))
    assert both.recommendation == "No recommendation at 4,000 tokens: every strategy exceeded it."


def test_each_budget_has_a_sentence_and_one_strategy_alone_has_none() -> None:
    large = [replace(RUN, budget_tokens=8_000), replace(RIVAL, budget_tokens=8_000, facts_on_average=0.9, price=0.2)]
    said = replace(COMPARISON, runs=(RUN, RIVAL, *large)).recommendation
    assert "Recommended at 4,000 tokens: gradient, because" in said
    assert "Recommended at 8,000 tokens: standard, because it keeps the most facts on average (90%)" in said
    assert replace(COMPARISON, runs=(RUN,)).recommendation == "No recommendation: only gradient was replayed."


def test_rows_that_are_the_same_for_all_are_one_sentence() -> None:
    names = [one.name for one in COMPARISON.differing(4_000)]
    assert {"over budget", "model tokens", "word for word"}.isdisjoint(names)
    assert "facts at end" in names
    assert "over budget 0" in COMPARISON.alike(4_000)
    page = write_page("a", COMPARISON)
    assert page.count("over budget") == 1
    assert COMPARISON.recommendation in unescape(page)


def test_the_page_says_what_each_row_and_column_is() -> None:
    page = write_page("a", replace(COMPARISON, runs=(replace(RUN, what="Newest turns raw."), RIVAL)))
    assert "Newest turns raw." in page
    for one in COMPARISON.differing(4_000):
        assert f"<small>{one.what}</small>" in unescape(page)
