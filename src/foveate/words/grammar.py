"""Patterns of sentence ends, code fences and list items. Pure.

The marks are listed here only. How strictly a text is read depends on the purpose, so there are several patterns made
of the same marks: compression must not cut inside `e.g. this`, a search index must always cut in the same places.
"""

# ruff: noqa: RUF001 (punctuation of many languages)

from __future__ import annotations

import re
from collections.abc import Iterator

ENDS = ".!?…"
"""Characters that end a sentence if white space follows."""
WIDE_ENDS = "。！？"
"""Characters that end a sentence in Chinese and Japanese, where no space follows."""
OTHER_ENDS = "؟۔।"
"""Characters that end a sentence in Arabic, Urdu and Hindi."""
QUESTION_MARKS = ("?", "？", "؟")
ABBREVIATIONS = ("e.g", "i.e", "etc", "vs", "cf", "approx")
"""Abbreviations whose dot ends no sentence, in every kind of text."""

SENTENCE_END = re.compile(
    rf"[{ENDS}{WIDE_ENDS}{OTHER_ENDS}](?:(?<=[{ENDS}])[{ENDS}]{{0,7}}[\"'”’)\]*_»]{{0,4}}\s+"
    rf"|(?<=[{WIDE_ENDS}])[{WIDE_ENDS}]{{0,7}}[」』”]?\s*|(?<=[{OTHER_ENDS}])[{OTHER_ENDS}]{{0,7}}\s*)"
)
"""The end of a sentence in one paragraph, with closing quotes and the space after it; may be that of an
abbreviation."""
SENTENCE_GAP = re.compile(rf"((?<=[{ENDS}])\s+)")
"""The space between two sentences of a Western text, as a group, so that splitting keeps it."""
CAPITAL_GAP = re.compile(r"(?<=[.!?])\s+(?=[^a-z])")
"""The space between two sentences if the next one does not begin with a small letter."""
SMALL_START = re.compile(r"(?:\A|([.!?])\s+)([a-z][a-z']*)(?=[\s,])")
"""A sentence that begins with a small letter: its first word is the second group."""

_INDEX_BORDER = re.compile(rf"(?<=[{ENDS}])[\"'”’)\]]*\s+|[{WIDE_ENDS}]+\s*|\n\s*")
_PROMPT_ENDS = f"!.?{WIDE_ENDS}؟"
PROMPT_SENTENCE = re.compile(rf"[^{_PROMPT_ENDS}\n]*[{_PROMPT_ENDS}]*\s*")
"""A sentence of a prompt with its marks; a dot ends one wherever it is."""
_MESSAGE_ENDS = f"{ENDS}{WIDE_ENDS}؟।"
_MESSAGE_BORDER = re.compile(rf"(?<![{_MESSAGE_ENDS}])[{_MESSAGE_ENDS}]+(?=\s|$|[^\x00-\x7f])|\n+")

FENCE = re.compile(r"^ {0,3}(```+|~~~+)")
"""The line that opens or closes fenced code in Markdown; the group is its mark."""
INDENTED_FENCE = re.compile(r"[ \t]{0,12}(```+|~~~+)")
"""The same at a position, with the indentation of a list item."""
_LOOSE_FENCE = re.compile(r"\A\s*(?:```|~~~)")
_FENCED = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1|\Z)", re.MULTILINE | re.DOTALL)
_BACKTICKS = "```"

_BULLETS = "-*+•"
ITEM = re.compile(rf"^\s*(?:[{_BULLETS}]|\d{{1,3}}[.)]) +")
"""The mark of a list item in Markdown."""
LOOSE_ITEM = re.compile(rf"\A\s*(?:[{_BULLETS}▪]|\d{{1,3}}[.)]|[a-z]\))\s+(?=\S)")
"""The mark of a list item in less strict notation: `a) first`."""
TASK_MARK = rf"(?:[{_BULLETS}]|\d{{1,4}}[.)])"
"""The mark of an item in a list of tasks, which may be a long one; part of a pattern."""


def index_borders(text: str) -> Iterator[int]:
    """Yield the positions after each sentence and each line. Stored indexes depend on them."""
    return (match.end() for match in _INDEX_BORDER.finditer(text))


def message_sentences(text: str) -> list[str]:
    """Split a message into sentences and lines without their marks."""
    return _MESSAGE_BORDER.split(text)


def is_fence(line: str) -> bool:
    """Return whether a line opens or closes fenced code, at any indentation."""
    return _LOOSE_FENCE.match(line) is not None


def replace_fenced(text: str, replacement: str) -> str:
    """Replace each fenced code block; one that is never closed extends to the end."""
    return _FENCED.sub(lambda _: replacement, text)


def unfence_json(text: str) -> str:
    """Return a model's JSON without the code fence that some models put around it."""
    first, newline, rest = text.strip().partition("\n")
    is_fenced = first.rstrip().lower() in (_BACKTICKS, f"{_BACKTICKS}json") and newline and rest.endswith(_BACKTICKS)
    return rest.removesuffix(_BACKTICKS).strip() if is_fenced else text
