"""Rows of words that read as a sentence."""

from __future__ import annotations

import pytest

from foveate.compress.binding import looks_of
from foveate.compress.phrases import rows_of, statement_of


def rows(text: str) -> set[str]:
    words = text.split(" ")
    return {" ".join(words[start:end]) for start, end in rows_of(looks_of(words), words)}


def test_a_row_ends_where_another_statement_begins() -> None:
    text = "The old loop did not retry on 401, and we never noticed it in the logs."
    assert "The old loop did not retry on 401," in rows(text)
    assert "The old loop did" not in rows(text)


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("I would take between 40 and 60 of them for the first round.", "I would take between 40"),
        ("She is the one of us who wrote the report last year.", "She is the one of us"),
        ("When the gate is open for an hour, we get a text.", "When the gate is open for an hour,"),
        ('The label says "cold, dry and dark" in red letters.', 'The label says "cold,'),
    ],
)
def test_no_row_ends_in_the_middle_of_a_statement(text: str, broken: str) -> None:
    assert broken not in rows(text)
    assert text in rows(text)


def test_a_sentence_of_two_words_is_a_row() -> None:
    assert "Not yet." in rows("Not yet. The parcel is still in the depot at Graz.")


@pytest.mark.parametrize("mark", ["", ":"])
def test_no_row_ends_with_a_preposition_whose_object_is_a_block_of_code(mark: str) -> None:
    assert rows(f"Run 38708 stops in the job browser with{mark}") == {"Run 38708 stops in the job browser"}


@pytest.mark.parametrize(
    ("row", "statement"),
    [
        ("The cause is known:", "The cause is known:"),
        ("the oil was too cold.", "The cause is known: the oil was too cold."),
        ("Nobody saw it.", "Nobody saw it."),
    ],
)
def test_a_row_belongs_to_its_sentence_up_to_a_colon_behind_it(row: str, statement: str) -> None:
    words = ["The", "cause", "is", "known:", "the", "oil", "was", "too", "cold.", "Nobody", "saw", "it."]
    start = words.index(row.split(" ", maxsplit=1)[0])
    found = statement_of(looks_of(words), words, start, start + row.count(" ") + 1)
    assert " ".join(found) == statement
