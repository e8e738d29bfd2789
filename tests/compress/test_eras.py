"""Eras cover a whole range of turns, at any size, deterministically."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.compress.eras import era_text, roll_up
from foveate.compress.facts import find_facts
from foveate.renditions import Unit
from foveate.tokens import count_tokens

WORDS = st.sampled_from(
    ["deploy", "ledger", "40 minutes", "never", "Ingrid", "src/a.py", "hazelnuts", "failed", "QS-1192"]
)
texts = st.lists(WORDS, min_size=1, max_size=8).map(" ".join)
speakers = st.sampled_from(["", "[assistant] ", "Melanie: "])


def unit(turn: int, text: str, speaker: str = "") -> Unit:
    facts = find_facts(text)
    return Unit(turn, speaker + text, round(sum(facts.values()), 3) or 0.1, frozenset(facts))


units = st.lists(st.builds(unit, st.integers(1, 40), texts, speakers), max_size=40)


@settings(deadline=None)
@given(units, st.integers(0, 400))
def test_an_era_is_shown_at_any_size_and_fits(given_units: list[Unit], budget: int) -> None:
    rolled = roll_up(given_units, 400, count_tokens)
    assert count_tokens(era_text(rolled, budget, count_tokens)) <= budget
    assert set(rolled) <= set(given_units)


@settings(deadline=None)
@given(units)
def test_a_smaller_era_is_the_beginning_of_a_larger_one(given_units: list[Unit]) -> None:
    given_units = list(dict.fromkeys(given_units))  # the same clause twice can't be told apart below
    small, large = roll_up(given_units, 60, count_tokens), roll_up(given_units, 10_000, count_tokens)
    assert roll_up(given_units, 10_000, count_tokens) == large
    assert [one for one in large if one in small] == list(small)


def test_what_was_said_before_is_not_paid_for_twice() -> None:
    again = [unit(turn, "deploy ledger Friday") for turn in range(1, 20)]
    rolled = roll_up([*again, unit(20, "Ingrid hazelnuts allergy")], 1_000, count_tokens)
    assert unit(20, "Ingrid hazelnuts allergy") in rolled[:2]


def test_one_turn_cannot_take_everything() -> None:
    loud = [unit(1, f"alpha{n} beta{n} gamma{n}") for n in range(20)]
    quiet = [unit(turn, f"delta{turn} epsilon{turn}") for turn in range(2, 12)]
    assert len({one.turn for one in roll_up([*loud, *quiet], 1_000, count_tokens)[:10]}) > 5


def test_turns_come_in_order_with_references_and_marks() -> None:
    text = era_text(
        [unit(9, "ledger failed", "[assistant] "), unit(3, "deploy Friday"), unit(9, "why?")], 99, count_tokens
    )
    assert text == "T-3 deploy Friday; why? [assistant] ledger failed"


def test_a_range_of_eras_is_rolled_up_like_a_range_of_turns() -> None:
    children = [
        roll_up([unit(n * 10 + k, f"fact{n}x{k} done") for k in range(10)], 60, count_tokens) for n in range(1, 5)
    ]
    parent = roll_up([one for child in children for one in child], 60, count_tokens)
    assert {one.turn // 10 for one in parent} == {1, 2, 3, 4}


def test_nothing_makes_an_empty_era() -> None:
    assert roll_up([], 100, count_tokens) == ()
    assert era_text([], 100, count_tokens) == ""
    assert era_text([unit(1, "deploy Friday")], 0, count_tokens) == ""
