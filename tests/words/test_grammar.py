"""Sentences, code fences and list items are recognised in one place."""

# ruff: noqa: RUF001 (punctuation of many languages)

import re
from pathlib import Path

import pytest

import foveate
from foveate.words.grammar import (
    FENCE,
    ITEM,
    LOOSE_ITEM,
    index_borders,
    is_fence,
    message_sentences,
    replace_fenced,
    unfence_json,
)

OWN_GRAMMAR = re.compile(r"re\.compile\(\s*rf?[\"'].*(?:```|~~~|\[-\*\+•|\[\.!\?…\]\)|\[。！？\])")


def test_no_other_module_has_patterns_of_fences_items_or_sentences() -> None:
    folder = Path(foveate.__file__).parent
    sources = [path for path in folder.rglob("*.py") if path.name != "grammar.py"]
    assert [path.name for path in sources if OWN_GRAMMAR.search(path.read_text("utf-8"))] == []


def test_index_borders_are_behind_sentences_and_lines() -> None:
    text = 'One. "Two!"  Three\n\n four。五！ e.g. six'
    assert [text[:end] for end in index_borders(text)] == [
        "One. ",
        'One. "Two!"  ',
        'One. "Two!"  Three\n\n ',
        'One. "Two!"  Three\n\n four。',
        'One. "Two!"  Three\n\n four。五！ ',
        'One. "Two!"  Three\n\n four。五！ e.g. ',
    ]


def test_the_sentences_of_a_message_lose_their_marks() -> None:
    assert message_sentences("Thanks! New topic: v1.2\nनया।") == ["Thanks", " New topic: v1.2", "नया", ""]


@pytest.mark.parametrize(
    ("line", "is_loose", "is_markdown"),
    [("```", True, True), ("   ~~~py", True, True), ("        ```", True, False), ("a ```", False, False)],
)
def test_fences(line: str, is_loose: bool, is_markdown: bool) -> None:
    assert is_fence(line) is is_loose
    assert bool(FENCE.match(line)) is is_markdown


@pytest.mark.parametrize(
    ("line", "is_loose", "is_markdown"),
    [
        ("- one", True, True),
        ("  12) two", True, True),
        ("• three", True, True),
        ("a) four", True, False),
        ("▪ five", True, False),
        ("2024. six", False, False),
        ("-seven", False, False),
    ],
)
def test_items(line: str, is_loose: bool, is_markdown: bool) -> None:
    assert bool(LOOSE_ITEM.match(line)) is is_loose
    assert bool(ITEM.match(line)) is is_markdown


def test_fenced_code_is_replaced_up_to_its_end() -> None:
    assert replace_fenced("a\n```\nb\n```\nc\n~~~\nd", "X") == "a\nX\nc\nX"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('```json\n{"a": 1}\n```', '{"a": 1}'),
        ('\n```JSON  \r\n\n{"a": "```"}\n  ```\n', '{"a": "```"}'),
        ("```\n```", ""),
        ('{"a": 1}', '{"a": 1}'),
        ("```python\n1\n```", "```python\n1\n```"),
        ("```json```", "```json```"),
        ("```\n1\n``` done", "```\n1\n``` done"),
    ],
)
def test_json_is_taken_out_of_its_fence(text: str, expected: str) -> None:
    assert unfence_json(text) == expected
