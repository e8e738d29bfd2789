"""The stretch of a passage that says it, and the words to mark in it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.recall.words import find_words, gist, snippet


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


FILLER = "The office was quiet on that day. " * 20


def test_a_snippet_is_whole_sentences() -> None:
    found = snippet(
        f"{FILLER}The storage port is 9000, see src/store.py. It moved in May. {FILLER}", "storage port", 120
    )
    assert "The storage port is 9000, see src/store.py." in found
    for sentence in found.strip("… ").split(". "):
        assert sentence.rstrip(".") in f"{FILLER}The storage port is 9000, see src/store.py. It moved in May."
    assert found.removeprefix("… ")[0].isupper()
    assert found.removesuffix(" …").endswith(".")


@pytest.mark.parametrize("chars", range(30, 90))
def test_a_number_or_inline_code_is_never_cut_in_half(chars: int) -> None:
    words = "and so on " * 30
    text = f"{words}the total of 1 250 000 euros is printed by `npm run report --all` at night {words}"
    found = snippet(text, "total printed", chars)
    assert found.count("`") in (0, 2)
    assert "1 250 000" in found or not any(map(str.isdigit, found))


def test_a_gist_keeps_the_sentence_of_the_query_and_those_with_numbers() -> None:
    text = f"{FILLER}My rent is 1,250 euros. {FILLER}What do you think? The cat is called Momo."
    assert "My rent is 1,250 euros." in gist(text, "", 100)
    assert "The cat is called Momo." in gist(text, "cat", 80)
    assert "What do you think?" not in gist(text, "", 100)


@given(st.text(max_size=400), st.text(max_size=50), st.integers(10, 100))
def test_a_gist_is_on_one_line_and_not_longer_than_asked_for(text: str, query: str, chars: int) -> None:
    found = gist(text, query, chars)
    assert len(found) <= chars + 4
    assert found.splitlines() in ([], [found])
