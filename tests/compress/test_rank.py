"""Any length of a ranked text is a rendition: within its tokens, in order, and never without a negation."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.compress.clauses import cut_text
from foveate.compress.cues import bare, is_negation, look_at
from foveate.compress.cut import PHRASES, Row
from foveate.compress.rank import MAX_CLAUSE_WORDS, Source, _parts, cut_clause, rank, written
from foveate.compress.reader import plain
from foveate.tokens import count_tokens

REQUEST = (
    "We have been running the billing service for about two years and it has mostly been fine. Since Tuesday it raises "
    "`decimal.InvalidOperation` whenever the amount is negative. Please do not touch the public API of `TaxEngine`. "
    "The nightly export takes 30 minutes, unless the cache is cold. I raised the precision to 12 digits. "
    "All 41 tests pass, and I did not change the API."
)
CUES = ["not", "never", "unless", "only", "if", "without", "until", "except", "don't", "no"]
sentences_with_cues = st.lists(
    st.sampled_from(
        [*CUES, "the", "a", "we", "deploy", "server", "on", "30", "minutes", "Friday", "is", "very", "off"]
    ),
    min_size=1,
    max_size=25,
).map(" ".join)


def cut_to(text: str, room: int, *, fill: bool = False) -> str:
    """The clauses of a text, ranked, in at most this many tokens."""
    sources = [Source(plain(clause.text)) for clause in cut_text(text)]

    def write(texts: dict[int, str]) -> str:
        return written(texts, [""] * len(sources))

    return write(rank(sources, PHRASES)[0].fit(room, count_tokens, write, fill=fill))


def cues(line: str) -> list[str]:
    return [word.core for word in map(look_at, line.split()) if word.negates or word.limits]


@given(sentences_with_cues, st.integers(1, 40))
def test_a_cut_clause_keeps_every_negation_and_condition(text: str, room: int) -> None:
    assert cues(cut_clause(text, room)) == cues(text)


@given(sentences_with_cues, st.integers(1, 40))
def test_a_negation_keeps_the_word_behind_it(text: str, room: int) -> None:
    kept = cut_clause(text, room).split()
    for word, behind in pairwise(text.split()):
        if is_negation(bare(word)):
            assert behind in kept


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("extraordinarily complicated maintenance takes 30 minutes", "30 minutes"),
        ("the money arrives after three to five working days somewhere far away", "five working days"),
        ("the extremely popular reading app is free since Tuesday", "since Tuesday"),
        ("the visitors do not touch the fragile exhibits anywhere in the building", "do not touch"),
        ("the electricians always switched the compressor off before the inspection", "compressor off"),
    ],
)
def test_numbers_keep_units_negations_their_helpers_and_verbs_their_particles(text: str, whole: str) -> None:
    kept = cut_clause(text, 6)
    assert whole in kept or whole.split(maxsplit=1)[0] not in kept.split()


@pytest.mark.parametrize("room", range(4, 110, 7))
def test_a_text_is_cut_to_any_number_of_tokens(room: int) -> None:
    cut = cut_to(REQUEST, room)
    assert cut == cut_to(REQUEST, room)
    assert count_tokens(cut) <= room
    words = iter(REQUEST.split())
    assert all(any(bare(word) == bare(other) for other in words) for word in cut.split())


def test_a_filled_cut_uses_what_estimates_of_long_words_left_free_and_no_more() -> None:
    text = "Responsibility for international transportation requirements. Documentation for administrators. "
    text += "Recommendation of environmental organisations. Communication between manufacturing departments."
    rooms = range(8, 30)
    filled = [count_tokens(cut_to(text, room, fill=True)) for room in rooms]
    others = [count_tokens(cut_to(text, room)) for room in rooms]
    assert all(other <= tokens <= room for other, tokens, room in zip(others, filled, rooms, strict=True))
    assert sum(filled) > 1.03 * sum(others)


@given(st.lists(sentences_with_cues, min_size=1, max_size=4), st.integers(1, 60))
def test_a_filled_cut_keeps_the_negations_and_conditions_of_each_clause_it_has(texts: list[str], room: int) -> None:
    kept = rank([Source(text) for text in texts], PHRASES)[0].fit(
        room, count_tokens, lambda own: ". ".join(own.values()), fill=True
    )
    assert all(cues(text) == cues(texts[clause]) for clause, text in kept.items())


def test_orders_and_prohibitions_come_before_the_story() -> None:
    cut = cut_to(REQUEST, 14)
    assert "do not touch" in cut
    assert "two years" not in cut


def test_longer_cuts_keep_what_shorter_ones_have() -> None:
    (ranking,) = rank([Source(line) for line in REQUEST.split(". ")], PHRASES)
    shorter, longer = ranking.texts(ranking.steps[:4]), ranking.texts(ranking.steps[:9])
    for clause, text in shorter.items():
        words = iter(longer[clause].split())
        assert all(any(bare(word) == bare(other) for other in words) for word in text.split())


@pytest.mark.parametrize(
    ("order", "kept"),
    [
        ("When you are done, open a request against develop.", "open a request"),
        ("Nothing may be logged on that host.", "Nothing may be logged"),
        ("You must leave the port closed.", "must leave the port closed"),
        ("Postpone the talk by a day.", "Postpone the talk"),
    ],
)
def test_an_order_in_plain_words_beats_rare_words(order: str, kept: str) -> None:
    story = "Yesterday the gardener admired several magnificent rhododendrons beside the dilapidated pavilion."
    assert kept in cut_to(f"{story} {order}", 16)


def test_in_a_clause_that_orders_only_the_part_with_the_order_counts_more() -> None:
    order = "Never restart the gateway, yesterday somebody from another department complained about interruptions."
    cut = cut_to(f"{order} The certificate expires on 14 May.", 18)
    assert "Never restart the gateway" in cut
    assert "14 May" in cut


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Rate limits of all our integrations count per partner, not per key.", "per partner"),
        ("The rounding helper in our module raises InvalidOperation whenever the amount is negative.", "negative"),
    ],
)
def test_a_rate_and_a_condition_keep_what_they_refer_to(text: str, kept: str) -> None:
    assert kept in cut_clause(text, 8)


def test_words_that_belong_together_enter_together() -> None:
    joins = [place in (11, 12) for place in range(20)]
    musts = [place == 12 for place in range(20)]
    first, *others = _parts(
        Row(
            0,
            0,
            np.ones(20, np.float32),
            np.ones(20, np.float32),
            [2.0] * 20,
            [1.0] * 20,
            [True] * 20,
            joins,
            [False] * 20,
            musts,
        ),
        range(20),
    )
    assert {10, 11, 12} <= set(first[1])
    assert sorted(place for _, part in (first, *others) for place in part) == list(range(20))


def test_the_last_word_of_a_long_clause_enters_alone() -> None:
    words = [f"word{number}" for number in range(MAX_CLAUSE_WORDS + 1)]
    (ranking,) = rank([Source(" ".join(words))], PHRASES)
    entered = [place for step in ranking.steps for place in step.words]
    assert sorted(entered) == list(range(len(words)))
