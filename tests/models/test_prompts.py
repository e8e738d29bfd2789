"""Composition of prompts: includes without cycles, tiers, and checked variables."""

from __future__ import annotations

import pytest

from foveate.errors import InvalidPrompt
from foveate.models.prompts import BUILT_IN, MAX_DEPTH, built_in, compose, fill, overridden, prompt_text, variables_of


def test_every_built_in_prompt_is_there_and_composes() -> None:
    for key in BUILT_IN:
        text = built_in(key)
        assert text
        assert text.endswith("\n")
        assert compose(key, built_in)


def test_literal_braces_are_no_variables() -> None:
    assert variables_of(built_in("compress/compress") or "") == set()
    assert variables_of(built_in("recall/choose") or "") == set()
    assert variables_of(built_in("compress/request") or "") == {"nonce", "source", "limits"}


def test_includes_are_filled_in() -> None:
    texts = {"a": "One {{include:b}} two.\n", "b": "{{include:c}}!\n", "c": "deep\n"}
    assert compose("a", texts.get) == "One deep! two.\n"


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        ({"a": "{{include:a}}"}, "'a' includes itself: a → a"),
        ({"a": "{{include:b}}", "b": "{{include:c}}", "c": "{{include:a}}"}, "includes itself: a → b → c → a"),
        ({"a": "{{include:b}}", "b": "{{include:nowhere}}"}, "'b' includes 'nowhere', which does not exist"),
        ({}, "'a' does not exist"),
        ({"a": "{{tier:9}}\nx"}, "tiers are 1 to 5"),
        ({"a": "{{include:b}}" * 10, "b": "x" * 150_000}, "has more than 1,000,000 characters"),
    ],
)
def test_what_can_not_be_composed_is_explained(texts: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidPrompt) as got:
        compose("a", texts.get)
    assert problem in str(got.value)


def test_a_long_chain_of_includes_ends() -> None:
    texts = {f"k{number}": f"{{{{include:k{number + 1}}}}}" for number in range(100)}
    with pytest.raises(InvalidPrompt, match=f"more than {MAX_DEPTH} deep"):
        compose("k0", texts.get)


def test_a_tier_has_its_lines_and_those_of_lower_ones() -> None:
    texts = {"a": "all\n{{tier:3}}\nthree\n{{include:b}}\n{{tier:5}}\nfive\n", "b": "b1\n{{tier:4}}\nb4\n"}
    assert compose("a", texts.get, tier=1) == "all\n"
    assert compose("a", texts.get, tier=3) == "all\nthree\nb1\n"
    assert compose("a", texts.get, tier=4) == "all\nthree\nb1\nb4\n"
    assert compose("a", texts.get) == compose("a", texts.get, tier=5) == "all\nthree\nb1\nb4\nfive\n"


def test_variables_are_checked_and_filled_once() -> None:
    text = "Review {language} for {who}; write {{name}}.\n"
    assert fill("k", text, {"language": "{who}", "who": "Ada"}) == "Review {who} for Ada; write {name}.\n"
    with pytest.raises(InvalidPrompt, match=r"needs \{who\} and has no \{whom\}; its variables: \{language\}, \{who\}"):
        fill("k", text, {"language": "C", "whom": "Ada"})
    with pytest.raises(InvalidPrompt, match=r"has no \{x\}; it has no variables"):
        fill("k", "plain", {"x": "y"})


def test_overrides_are_in_force_within_their_block_only() -> None:
    before = prompt_text("compress/tiny")
    with overridden({"compress/tiny": "Mine."}):
        assert prompt_text("compress/tiny") == "Mine."
        with overridden(None):
            assert prompt_text("compress/tiny") == before
    assert prompt_text("compress/tiny") == before
