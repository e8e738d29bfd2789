"""The labels of kept words have words of their texts only, and none is in both files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from labels import SECOND, SET_APART, TRAINING, Label, faults, read_labels


@pytest.mark.parametrize("path", [TRAINING, SET_APART])
def test_each_length_of_a_label_has_words_of_the_longer_one_in_their_order(path: Path) -> None:
    assert {label.id: found for label in read_labels(path) if (found := faults(label))} == {}


def test_a_word_that_is_not_in_the_text_is_a_fault() -> None:
    assert faults(Label("x", "en", "note", "The tests fail.", "The tests fail.", "tests fail", "tests pass")) != []


def test_no_label_is_in_both_files_or_twice() -> None:
    labels = [*read_labels(TRAINING), *read_labels(SET_APART)]
    assert len({label.id for label in labels}) == len({label.text for label in labels}) == len(labels)


def test_the_second_reader_kept_words_of_the_same_texts() -> None:
    labels = {label.id: label for path in (TRAINING, SET_APART) for label in read_labels(path)}
    marks = [json.loads(line) for line in SECOND.read_text("utf-8").splitlines()]
    assert len({mark["id"] for mark in marks}) == len(marks) == 60
    seconds = [replace(labels[mark["id"]], s=mark["s"], c=mark["c"], t=mark["t"]) for mark in marks]
    assert {label.id: found for label in seconds if (found := faults(label))} == {}
