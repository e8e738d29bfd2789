"""The model of worth computes with integers, follows the labels, and is small."""

from __future__ import annotations

from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.compress import worth
from foveate.compress.cut import PHRASES
from foveate.compress.local import LocalCompressor
from foveate.compress.rank import Source, rank
from foveate.compress.settings import CompressSettings
from foveate.compress.worth import UNIT, WEIGHT_UNIT, chances, load_worth
from foveate.compress.worth.features import Passage
from foveate.errors import SettingsError
from foveate.tokens import count_tokens
from foveate.turn import Message, Text

MOST_BYTES = 4_000_000
LONG = (
    "We have been running the billing service for about two years and it has mostly been fine, by the way. Since "
    "Tuesday it raises an error whenever the amount is negative. I raised the precision to 12 digits, which did "
    "not help at all, and then I went home because it was late. Could you have a look at it tomorrow morning?"
)
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


def shipped_arrays() -> dict[str, Any]:
    with files("foveate.compress.worth").joinpath("worth.npz").open("rb") as file:
        return dict(np.load(file))


def test_a_model_of_ones_own_chooses_the_words(tmp_path: Path) -> None:
    arrays = shipped_arrays()
    arrays["out_weights"], own = -arrays["out_weights"], tmp_path / "own.npz"
    np.savez_compressed(own, **arrays)
    turn = [Message("user", (Text(LONG),))]
    shipped = LocalCompressor().compress(1, turn, count_tokens)
    other = LocalCompressor.of(CompressSettings(worth_model=str(own))).compress(1, turn, count_tokens)
    assert other.compressed != shipped.compressed
    assert other.smoothed != shipped.smoothed


@pytest.mark.parametrize("made", ["missing", "text", "shape"])
def test_a_file_that_is_no_model_is_named_with_its_setting(tmp_path: Path, made: str) -> None:
    path = tmp_path / "own.npz"
    if made == "text":
        path.write_text("not a model")
    if made == "shape":
        arrays = shipped_arrays()
        arrays["table_hash"] = arrays["table_hash"][:10]
        np.savez_compressed(path, **arrays)
    with pytest.raises(SettingsError, match=r"compress\.worth_model: .*own\.npz is not a model of worth"):
        load_worth(str(path))


def test_large_products_are_made_in_pieces_with_the_same_result() -> None:
    words = [f"word{number}" for number in range(700)]
    passages = [Passage(words[start : start + 70]) for start in range(0, 700, 70)]
    scores = load_worth().score(passages)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worth, "MAX_PRODUCT", 10**9)
        assert np.array_equal(load_worth().score(passages), scores)


def test_an_order_a_condition_and_what_is_said_of_a_name_stay_whole() -> None:
    sources = [
        Source('Keep it under 180 words, no exclamation marks, and please never call the pupils "users".'),
        Source("Mira pays 430 euros for the hall and Anton, who joined later, pays 215 for the music."),
    ]
    (ranking,) = rank(sources, PHRASES)
    for number in range(1, len(ranking.steps) + 1):
        texts = ranking.texts(ranking.steps[:number])
        assert "call" not in texts.get(0, "") or 'never call the pupils "users"' in texts[0]
        assert "215" not in texts.get(1, "") or "Anton, who joined later, pays 215" in texts[1]


def test_a_tense_or_a_doubt_is_not_cut_off_its_verb() -> None:
    sources = [Source("My sister Marta is getting married on the 14th of June in Porto, she might move there later.")]
    (ranking,) = rank(sources, PHRASES)
    for number in range(1, len(ranking.steps) + 1):
        words = ranking.texts(ranking.steps[:number]).get(0, "").replace(",", "").split()
        for first, second in pairwise(["is", "getting", "married"]):
            assert second not in words or first in words
        assert "move" not in words or "might" in words


def test_c_has_clauses_not_single_words() -> None:
    made = LocalCompressor().compress(1, [Message("user", (Text(LONG),))], count_tokens).compressed
    assert all(len(sentence.split()) >= 4 for sentence in made.rstrip(".").split(". "))


def test_chances_are_exact_fractions_that_no_processor_rounds_differently() -> None:
    scores = np.linspace(-20, 20, 997, dtype=np.float32)[:, None].repeat(3, axis=1)
    found = chances(scores)
    assert np.all(found[1:] >= found[:-1])
    assert (found * 65536 == np.rint(found * 65536)).all()
    assert abs(float(chances(np.zeros((1, 3), np.float32))[0]) - 0.5) < 1e-9
    exact = 1 / (1 + np.exp(-scores[:, 0].astype(np.float64)))
    assert np.abs(found - exact).max() < 0.003
