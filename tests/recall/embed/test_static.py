"""The bundled embedding model: near in meaning is near in space, and any text gets a vector."""

import unicodedata
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.recall.embed import static

MAX_BYTES = 8_000_000


def likeness(one: str, two: str) -> float:
    first, second = static.embed([one, two])
    return float(first @ second)


@pytest.mark.parametrize(
    ("question", "near", "far"),
    [
        ("Which database did we choose?", "We decided to use PostgreSQL for storage.", "The cat sat in the sun."),
        ("How do users log in?", "Authentication goes through OAuth tokens.", "The pasta needs ten minutes."),
        ("When is the trip?", "They leave for their holiday in June.", "The build fails on ARM."),
    ],
)
def test_what_is_near_in_meaning_is_near_in_space(question: str, near: str, far: str) -> None:
    assert likeness(question, near) > likeness(question, far) + 0.05


def test_words_are_cut_as_the_model_was_made_for() -> None:
    model = static._load()
    pieces = [model.names[number] for number in model.pieces("Don't re-embed naïve日本 café_bar")]
    assert pieces == ["don", "'", "t", "re", "-", "em", "##bed", "naive", "日", "本", "cafe", "_", "bar"]


@given(st.lists(st.text(max_size=200), max_size=5))
def test_any_text_gets_a_vector_of_length_one_or_none(texts: list[str]) -> None:
    vectors = static.embed(texts)
    assert vectors.shape == (len(texts), static.DIMENSIONS)
    lengths = np.linalg.norm(vectors, axis=1)
    assert all(abs(length - 1) < 1e-4 or length == 0 for length in lengths)
    assert np.array_equal(vectors, static.embed(texts))


def test_the_model_is_small() -> None:
    assert len(files("foveate.recall.embed").joinpath("static.npz").read_bytes()) <= MAX_BYTES


def _slowly(text: str) -> list[str]:
    """The words of a text, character by character: what the quick way must give too."""
    words: list[str] = []
    for token in text.lower().split():
        word = ""
        for char in token:
            if unicodedata.category(char).startswith("C"):
                continue
            if char.isalnum():
                word += char
            else:
                words += [word, char] if word else [char]
                word = ""
        words += [word] if word else []
    return words


@given(st.text(st.characters(max_codepoint=127), max_size=60))
def test_ascii_is_cut_as_everything_else_is(text: str) -> None:
    assert list(static._words(text)) == _slowly(text)
