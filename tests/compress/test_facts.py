"""Facts are found by their form, whatever the language, and fast enough for any input."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.compress.facts import KINDS, base_weight, find_facts, number_key
from support.strategies import texts


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("set max_tokens now", "i:max_tokens"),
        ("call fooBar.baz() twice", "i:foobar.baz()"),
        ("the code is blue-otter-42", "i:blue-otter-42"),
        ("ticket QS-1192 is open", "i:qs-1192"),
        ("commit a1b2c3d4 broke it", "i:a1b2c3d4"),
        ("export FOV_HOME first", "i:fov_home"),
        ("use --dry-run here", "i:--dry-run"),
        ("wait 30 minutes", "#:30min"),
        ("it is 3.5 GB", "#:3.5gb"),
        ("costs $1,500", "#:1500$"),
        ("on 2026-11-15 we met", "@:2026-11-15"),
        ("at 14:30 sharp", "@:14:30"),
        ("we met last week", "@:last week"),
        ("see src/foveate/turn.py for it", "/:src/foveate/turn.py"),
        ("from https://example.org/a?b=1 today", "u:https://example.org/a?b=1"),
        ("my sister Ingrid came", "n:ingrid"),
        ("a ValueError was raised", "e:valueerror"),
        ("the build failed", "e:fail"),
        ("we decided on it", "!:decid"),
        ("never deploy it", "-:deploy"),
        ("he didn't deploy it", "-:deploy"),
        ("only if tests pass", "?:if test"),
        ('he said "ship it now"', "q:ship it now"),
        ("hazelnuts were bought", "w:hazelnut"),
        ("今日は東京に行きました", "w:東京"),
        ("שלום לכולם", "w:לכולם"),
    ],
)
def test_a_fact_is_found_with_its_normal_form(text: str, key: str) -> None:
    assert key in find_facts(text)


def test_a_number_with_a_unit_is_another_fact_than_the_bare_number() -> None:
    assert find_facts("30 minutes").keys() != find_facts("30 hours").keys() != find_facts("30").keys()
    assert "#:30" not in find_facts("30 minutes")


def test_a_code_that_begins_with_a_digit_is_no_number() -> None:
    assert number_key("2FBBAH") == ""
    assert "i:2fbbah" in find_facts("reservation 2FBBAH")


def test_a_word_in_capitals_is_no_identifier() -> None:
    assert not [key for key in find_facts("YOU SHOULD ALWAYS REMEMBER THIS") if key.startswith("i:")]


def test_words_everybody_says_weigh_nothing() -> None:
    assert not find_facts("the and of a to it is")


@given(texts | st.text(max_size=300))
def test_every_fact_has_a_kind_and_a_weight(text: str) -> None:
    for key, weight in find_facts(text).items():
        assert key[0] in KINDS
        assert weight > 0
        assert base_weight(key) > 0


@pytest.mark.parametrize("text", ["x" * 1_000_000, "/a" * 300_000, "a@" * 200_000, "." * 500_000, "漢字" * 200_000])
def test_a_run_without_spaces_is_read_in_bounded_pieces(text: str) -> None:
    assert len(find_facts(text)) < 100
