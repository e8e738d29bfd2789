"""Eras cover a whole range of turns, at any size, deterministically."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.compress.eras import era_text, roll_up, with_all_lines
from foveate.compress.facts import find_facts
from foveate.compress.local import LocalCompressor
from foveate.renditions import LINE_TURNS, LINE_WORDS, Unit
from foveate.tokens import count_tokens
from foveate.turn import Message, Text
from foveate.words import content_words
from foveate.worker.eras import ERA_TOKENS

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
def test_an_era_depends_on_its_units_alone(given_units: list[Unit]) -> None:
    once = roll_up(given_units, 200, count_tokens)
    assert roll_up(list(given_units), 200, count_tokens) == once
    turns = range(1, 41)
    assert era_text(once, 100, count_tokens, turns=turns) == era_text(once, 100, count_tokens, turns=list(turns))


TALK = [
    unit(turn, f"harbour{turn} ledger{turn} mooring{turn} invoice{turn} season{turn} pier{turn}", "[assistant] ")
    for turn in range(1, 65)
]
NOISE = [unit(turn, f"alpha{n} Ingrid {n * 7}") for turn in range(1, 9) for n in range(40)]


def told(text: str) -> dict[int, int]:
    """Return the number of content words of each line, by its turn."""
    lines = (line.partition(" ") for line in text.splitlines())
    return {int(label[2:]): len(content_words(said.removeprefix("[assistant] "))) for label, _, said in lines}


def groups(turns: Iterable[int]) -> set[int]:
    return {(turn - 1) // LINE_TURNS for turn in turns}


def test_an_era_has_a_line_for_each_group_of_turns() -> None:
    lines = told(era_text(roll_up([*NOISE, *TALK], 1_000, count_tokens), 400, count_tokens))
    assert groups(lines) == set(range(8))
    assert min(lines.values()) >= LINE_WORDS


def test_an_era_too_small_for_all_lines_spreads_those_that_fit() -> None:
    lines = list(told(era_text(roll_up(TALK, 2_000, count_tokens), 90, count_tokens)))
    assert 2 <= len(lines) < 8
    gaps = [after - before for before, after in zip([1, *lines], [*lines, 64], strict=True)]
    assert max(gaps) <= 2 * 64 / len(lines)


def test_a_line_is_made_of_short_clauses_if_no_longer_one_has_enough_words() -> None:
    short = [unit(turn, f"crane{turn} works") for turn in range(1, 9)]
    assert told(era_text(roll_up(short, 100, count_tokens), 60, count_tokens))[1] >= LINE_WORDS


def test_more_room_adds_lines_and_each_shows_one_turn() -> None:
    units = roll_up(TALK, 2_000, count_tokens)
    small, large = (era_text(units, room, count_tokens).splitlines() for room in (300, 900))
    assert 8 < len(small) < len(large)
    assert set(small) <= set(large)
    shown = list(told("\n".join(large)))
    assert shown == sorted(shown)
    assert len(shown) == len(large)


def test_a_clause_with_few_words_comes_after_all_others() -> None:
    units = [unit(1, "thanks Ingrid 40 minutes"), *TALK[:8]]
    assert "Ingrid" not in era_text(units, 120, count_tokens)
    assert "Ingrid" in era_text(units, 1_000, count_tokens).splitlines()[0]


def test_a_text_about_some_turns_groups_these_and_says_nothing_of_the_others() -> None:
    turns = range(2, 65, 4)
    text = era_text(TALK, 1_000, count_tokens, turns=turns)
    assert list(told(text)) == list(turns)
    assert list(told(era_text(TALK, 44, count_tokens, turns=turns))) == [2, 34]


def test_a_models_era_gets_lines_for_the_turns_that_it_leaves_out() -> None:
    whole = with_all_lines(TALK[:12], TALK, range(1, 65))
    assert whole[:12] == tuple(TALK[:12])
    assert groups(told(era_text(whole, 1_000, count_tokens))) == set(range(8))


DAYS = {turn: f"{1 + turn // 20} May 2023" for turn in range(1, 65)}


def test_a_line_begins_with_its_day_if_that_is_another_than_before() -> None:
    lines = era_text(TALK, 2_000, count_tokens, days=DAYS).splitlines()
    dated = [line for line in lines if "May" in line]
    assert [line.split(": ")[0] for line in dated] == ["1 May 2023", "2 May 2023", "3 May 2023", "4 May 2023"]
    assert [line.split()[3] for line in dated] == ["T-1", "T-20", "T-40", "T-60"]
    assert era_text(TALK, 2_000, count_tokens, days={40: "3 May 2023"}).count("May") == 1


@settings(deadline=None)
@given(units, st.integers(0, 200))
def test_the_days_are_part_of_the_size(given_units: list[Unit], budget: int) -> None:
    days = {turn: f"{turn} September 2023" for turn in range(1, 41)}
    assert count_tokens(era_text(given_units, budget, count_tokens, days=days)) <= budget


SPOKEN = (
    "Wow, Anna! On Monday we moved {n} crates of Norwegian herring from Bergen to Stavanger. It was fun!",
    "So I decided to sell the older of the two trawlers, the one with engine {n}, because nobody repairs it.",
    "Thanks! Our accountant Petra found an unpaid invoice of {n} euros from the shipyard in Gdynia last Thursday.",
    "What do you think about it? I'm planning to visit the trade fair in Hamburg with {n} colleagues in September.",
)


def test_an_era_of_talk_reads_as_five_to_twelve_lines_of_whole_clauses() -> None:
    said = {turn: SPOKEN[turn % 4].format(n=100 + turn) for turn in range(1, 33)}
    made = [
        LocalCompressor().compress(turn, [Message("user", (Text(f"Olga: {text}"),))], count_tokens)
        for turn, text in said.items()
    ]
    rolled = roll_up([unit for one in made for unit in one.units], ERA_TOKENS, count_tokens, turns=range(1, 33))
    lines = era_text(rolled, ERA_TOKENS, count_tokens, turns=range(1, 33)).splitlines()
    assert 5 <= len(lines) <= 12
    for line in lines:
        turn, name, clause = line.split(" ", 2)
        assert name == "Olga:"
        assert clause in said[int(turn[2:])]
        assert len(content_words(clause)) >= LINE_WORDS
        assert clause[0].isupper() or clause.startswith("we ")
    assert groups(int(line.split()[0][2:]) for line in lines) == set(range(4))


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
    text = era_text([unit(9, "ledger failed"), unit(3, "deploy Friday")], 99, count_tokens, turns=range(1, 33))
    assert text == "T-3 deploy Friday\nT-9 ledger failed"


def test_a_range_of_eras_is_rolled_up_like_a_range_of_turns() -> None:
    children = [roll_up(TALK[first : first + 16], 60, count_tokens) for first in range(0, 64, 16)]
    parent = roll_up([one for child in children for one in child], 120, count_tokens)
    assert {(one.turn - 1) // 16 for one in parent} == {0, 1, 2, 3}


def test_nothing_makes_an_empty_era() -> None:
    assert roll_up([], 100, count_tokens) == ()
    assert era_text([], 100, count_tokens) == ""
    assert era_text([unit(1, "deploy Friday")], 0, count_tokens) == ""
