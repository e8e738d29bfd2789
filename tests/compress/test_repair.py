"""Repairs change the fault and nothing else: a correct sentence, a name, code or a quotation never."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from foveate.compress.cues import is_negation
from foveate.compress.repair import repair, typos
from foveate.compress.smooth import smooth_prose

LINES = tomllib.loads((Path(__file__).parents[2] / "bench" / "data" / "faults.toml").read_text("utf-8"))
FAULTS = [tuple(line.split(" => ")) for line in LINES["faults"]]
MIN_REPAIRED = 18
"""Misspellings and typing; grammar is not repaired."""


def test_most_faults_are_repaired_and_none_is_made_worse() -> None:
    results = [(fault, right, smooth_prose(fault)) for fault, right in FAULTS]
    assert [fault for fault, right, result in results if result not in (fault, right)] == []
    assert sum(result == right for _, right, result in results) >= MIN_REPAIRED


@pytest.mark.parametrize("text", LINES["correct"])
def test_a_correct_sentence_that_resembles_a_fault_stays(text: str) -> None:
    assert repair(text, is_sentence=True) == text


@pytest.mark.parametrize(
    ("text", "repaired"),
    [
        ("Teh the invoice is late , i think.", "The invoice is late, I think."),
        ("please keep the the key . it is mine", "Please keep the key. It is mine"),
    ],
)
def test_several_faults_of_a_sentence_are_repaired(text: str, repaired: str) -> None:
    assert smooth_prose(text) == repaired


@pytest.mark.parametrize(
    "text",
    [
        'The page says "they was late" and "a apple".',
        "The option `dont_care` is a `a error` in the log.",
        "This is the path /could/of/been and it is not mine.",
        "Plan a includes the roof, and plan b does not.",
        "Whoever did it paid for it.",
        "We hired more younger, cheaper people.",
        "I is the current, and it is 2 A where I is not zero.",
        "Missing marks (*dont*, *isnt*) are a quarter of the faults.",
        "Wir haben das Buch an den Mann gegeben, dont ist ein Wort.",
    ],
)
def test_code_quotations_labels_examples_and_other_languages_stay(text: str) -> None:
    assert smooth_prose(text) == text


@pytest.mark.parametrize("fault", [fault for fault, _ in FAULTS])
def test_a_repair_keeps_negations_and_the_number_of_statements(fault: str) -> None:
    result = repair(fault, is_sentence=True)
    assert _negations(result) == _negations(fault)
    assert result.count(".") == fault.count(".")


def _negations(text: str) -> int:
    return sum(map(is_negation, re.findall(r"[\w']+", text.lower())))


def test_no_repair_is_itself_a_typo() -> None:
    assert not {word for right in typos().values() for word in right.split()} & set(typos())
