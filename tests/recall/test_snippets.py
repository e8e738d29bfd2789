"""The stretch of a passage that says it, and the words to mark in it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.recall.words import find_words, snippet


@pytest.mark.parametrize(
    ("text", "query", "marked"),
    [
        ("The ports were closed.", "port", ["ports"]),
        ("Look into src/auth/jwt.py now", "jwt.py", ["jwt", "py"]),
        ("the storage host and the harbour", "the storage port", ["storage"]),
        ("migrations migrate, migrants", "migration", ["migrations", "migrate"]),
        ("what is this", "is", ["is"]),
    ],
)
def test_words_of_the_query_are_found_in_other_forms(text: str, query: str, marked: list[str]) -> None:
    assert [text[start:end] for start, end in find_words(text, query)] == marked


def test_a_snippet_is_where_the_words_are() -> None:
    text = f"{'before ' * 100}the storage port is 9000{' after' * 100}"
    found = snippet(text, "storage port", 60)
    assert "storage port is 9000" in found
    assert found.startswith("… ")
    assert found.endswith(" …")


@given(st.text(max_size=400), st.text(max_size=50), st.integers(10, 100))
def test_a_snippet_is_on_one_line_and_not_longer_than_asked_for(text: str, query: str, chars: int) -> None:
    found = snippet(text, query, chars)
    assert len(found) <= chars + 4
    assert found.splitlines() in ([], [found])
