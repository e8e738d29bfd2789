"""The model of worth computes with integers, follows the labels, and is small."""

from __future__ import annotations

from importlib.resources import files
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from foveate.compress.cut import PHRASES
from foveate.compress.local import LocalCompressor
from foveate.compress.rank import Source, rank
from foveate.compress.worth import UNIT, WEIGHT_UNIT, chances, load_worth
from foveate.compress.worth.features import Passage
from foveate.tokens import count_tokens
from foveate.turn import Message, Text

MOST_BYTES = 4_000_000
texts = st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=30)


def told(text: str) -> float:
    return float(chances(load_worth().score([Passage(text.split(" "))])).mean())


@given(st.lists(texts, min_size=1, max_size=6))
def test_scores_are_whole_numbers_of_a_fixed_unit_for_any_words(clauses: list[list[str]]) -> None:
    scores = load_worth().score([Passage(words, message=number) for number, words in enumerate(clauses)])
    units = scores * (UNIT * WEIGHT_UNIT)
    assert scores.shape == (sum(map(len, clauses)), 4)
    assert np.array_equal(units, np.rint(units))


def test_a_sentence_has_the_same_score_on_every_machine() -> None:
    scores = load_worth().score([Passage(["Please", "do", "not", "delete", "the", "backup", "before", "Friday."])])
    assert (scores[2:4, 1] * (UNIT * WEIGHT_UNIT)).astype(int).tolist() == [1754, 2671]


def test_a_courtesy_is_told_less_than_an_order_a_result_or_a_date() -> None:
    courtesies = ("Hi there, I hope you are well!", "Let me know if you have any questions.", "Vielen Dank im Voraus!")
    facts = ("Never push to main on Fridays.", "The export failed with exit code 17.", "Der Termin ist am 14. Mai.")
    assert max(map(told, courtesies)) < 0.75 * min(map(told, facts))


def test_the_model_is_small() -> None:
    assert len(files("foveate.compress.worth").joinpath("worth.npz").read_bytes()) < MOST_BYTES


def test_a_tense_or_a_doubt_is_not_cut_off_its_verb() -> None:
    sources = [Source("My sister Marta is getting married on the 14th of June in Porto, she might move there later.")]
    (ranking,) = rank(sources, PHRASES)
    for number in range(1, len(ranking.steps) + 1):
        words = ranking.texts(ranking.steps[:number]).get(0, "").replace(",", "").split()
        for first, second in pairwise(["is", "getting", "married"]):
            assert second not in words or first in words
        assert "move" not in words or "might" in words


def test_c_has_clauses_not_single_words() -> None:
    said = (
        "We have been running the billing service for about two years and it has mostly been fine, by the way. Since "
        "Tuesday it raises an error whenever the amount is negative. I raised the precision to 12 digits, which did "
        "not help at all, and then I went home because it was late. Could you have a look at it tomorrow morning?"
    )
    made = LocalCompressor().compress(1, [Message("user", (Text(said),))], count_tokens).compressed
    assert all(len(sentence.split()) >= 4 for sentence in made.rstrip(".").split(". "))
