"""What the index has of a text, and what a query looks for."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.recall.words import MAX_PHRASES, STOP_WORDS, extra_words, query_phrases


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("getUserById", "get User By Id"),
        ("HTTPServer", "HTTP Server"),
        ("ISO8601 and v2beta", "ISO 8601 v 2 beta"),
        ("0x5e 9f3 c0ffee19d4", ""),
        ("plain Words and snake_case", ""),
        ("日本語", "日 本 語"),
        ("日本語test", "日 本 語 test"),
        ("fine 😀", "u1f600"),
    ],
)
def test_what_a_tokenizer_would_not_find_is_added(text: str, expected: str) -> None:
    assert extra_words(text) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("blue-otter-42", ["blue otter 42", "42", "otter", "blue"]),
        ("src/auth/jwt.py", ["src auth jwt py", "auth", "src", "jwt", "py"]),
        ("getUserById", ["get user by id", "getuserbyid", "user", "id"]),
        ("Which port did we choose?", ["choose", "port"]),
        ("check-in", ["check"]),
        ("0x5e9f", ["0x5e9f"]),
        ("日本語", ["日 本", "本 語"]),
        ("猫", ["猫"]),
        ("😀", ["u1f600"]),
        ("don't OR NEAR(", ["near"]),
        ("to be or not to be", ["not", "to", "be", "or"]),
        ("it's", ["it s"]),
        ("x", ["x"]),
        ("", []),
        ('"*^(){}:-+', []),
    ],
)
def test_a_query_is_looked_for_by_its_most_telling_words(query: str, expected: list[str]) -> None:
    assert query_phrases(query) == expected


def test_of_a_huge_query_the_most_telling_words_are_taken() -> None:
    words = " ".join(f"word{'x' * (number % 7)}" for number in range(20_000))
    found = query_phrases(f"{words} quay-7731")
    assert len(found) <= MAX_PHRASES
    assert "quay 7731" in found


def test_words_that_say_nothing_are_looked_for_only_if_there_are_no_others() -> None:
    assert not set(query_phrases("what is the port of this")) & STOP_WORDS
    assert set(query_phrases("what is the")) == {"what", "is", "the"}


@given(st.text(max_size=500))
def test_no_phrase_has_anything_but_words(query: str) -> None:
    for phrase in query_phrases(query):
        assert re.fullmatch(r"[^\W_][^\s_]*( [^\W_][^\s_]*)*", phrase)
    extra_words(query)
