"""Properties of words without their context: which negate, limit or count, and their approximate tokens."""

# ruff: noqa: RUF001 (punctuation of many languages)

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple

from foveate.compress.lexicon import (
    CJK_CONDITIONS,
    CJK_NEGATIONS,
    NEGATIONS,
    NUMBER_WORDS,
    SPEECHLESS,
    STRICT_CONDITIONS,
    stem,
)

_BARE = re.compile(r"^[^\w$€£¥#@/~+<-]+|(?<![^\w%)°$€£])[^\w%)°$€£]+$")
MAX_WORD_CHARS = 64
"""Only this much of a longer run of characters is read."""
_PIECE = re.compile(r"[A-Za-z]{1,8}|\d{1,3}|[^\W\d_a-zA-Z]{1,2}|[^\w\s]{1,2}|_")
_PAIRS = re.compile(r"\([^()\n]{0,80}\)|`[^`\n]{0,2000}`|\"[^\"\n]{0,2000}\"|“[^”\n]{0,2000}”|«[^»\n]{0,2000}»")


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text without a tokenizer."""
    words = text.split()
    if max(map(len, words), default=0) > MAX_WORD_CHARS:
        return len(_PIECE.findall(text))
    return sum(map(_word_tokens, words))


@lru_cache(maxsize=50_000)
def _word_tokens(word: str) -> int:
    return len(_PIECE.findall(word))


@lru_cache(maxsize=50_000)
def bare(word: str) -> str:
    """Return a word without the punctuation around it, casefolded."""
    return _BARE.sub("", word[:MAX_WORD_CHARS]).casefold().replace("’", "'")


class Word(NamedTuple):
    """Properties of a word without its context."""

    core: str
    """The word without punctuation, casefolded."""
    root: str
    """The stem; empty for a word without a fact."""
    negates: bool
    limits: bool
    """The word is a condition that may never be lost."""
    counts: bool
    """The word is a number, which must keep the word after it."""


@lru_cache(maxsize=50_000)
def look_at(word: str) -> Word:
    core = bare(word)
    return Word(
        core,
        stem(core) if core and core not in SPEECHLESS else "",
        is_negation(core),
        core in STRICT_CONDITIONS or _has(core, CJK_CONDITIONS),
        core[:1].isdigit() or core in NUMBER_WORDS,
    )


@lru_cache(maxsize=50_000)
def is_negation(word: str) -> bool:
    return word in NEGATIONS or word.endswith("n't") or _has(word, CJK_NEGATIONS)


def _has(word: str, cues: tuple[str, ...]) -> bool:
    return not word.isascii() and any(cue in word for cue in cues)


def quoted_places(text: str, words: int) -> Collection[int]:
    """Return which words are inside quotes, code spans or short parentheses, where nothing may be left out."""
    if not any(mark in text for mark in '(`"“«'):
        return ()
    places: set[int] = set()
    for match in _PAIRS.finditer(text):
        first = text.count(" ", 0, match.start())
        places.update(range(first, min(words, first + match.group().count(" ") + 1)))
    return places
