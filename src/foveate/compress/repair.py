"""Repairs spelling and casing of English prose: unmistakable misspellings from a list, and four faults of typing.

The text is masked: code, paths, identifiers, numbers and quotations are single private characters, which nothing here
matches. No word that carries a meaning is added, dropped or swapped.
"""

# ruff: noqa: RUF001 (typographic quotes are what is looked for)

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from itertools import pairwise

from foveate.compress.lexicon import as_words
from foveate.words.grammar import ABBREVIATIONS, SMALL_START

__all__ = ["repair", "typos"]

_WORD = re.compile(r"(?<![\w'’*-])[A-Za-z]{3,}(?![\w'’*-])")
_PRONOUN = re.compile(
    r"(?<![\w'.(\[-])i(?='(?:m|ve|ll|d)(?!\w)| (?:am|was|have|had|think|need|want|will|can|don't)(?!\w))"
)
_DOUBLED = re.compile(r"(?i)(?<![\w'-])(the|an|to|of|and|for|with|we|they|this|these|your|our|my|be|are) \1(?![\w'-])")
"""Words that no grammar doubles; `that that`, `had had`, `is is` and `in in` can be intended."""
_LOOSE_MARK = re.compile(r"(?<![A-Za-z])([A-Za-z]+) ([,.;!?])(?=\s|\Z)")
_LOOSE_MARKS = (" ,", " .", " ;", " !", " ?")
_NO_END = (*ABBREVIATIONS, ".", "!", "?")
"""Characters and abbreviations after which a full stop ends no sentence."""
_NO_SPACE_AFTER = as_words(
    """a an the of on by with as and or use using add remove insert type press put escape replace strip drop append
    character separator delimiter symbol sign to in from than via is are be no not only split join than"""
)
"""Words after which a lone punctuation mark is mentioned, not used."""
_STARTERS = as_words(
    """the this that these those there it it's its we we're we've you you're they he she my our your can could please
    what how why when where which who should would will does did are was were but so also now yes no ok okay because
    however maybe let's i'm i'll i've i'd actually here after before since although instead perhaps once"""
)
"""Only these are capitalised: any other word might be a command, a name or the start of code."""


def repair(masked: str, *, is_sentence: bool) -> str:
    """Repair the faults of a text. A text that `is_sentence` also gets capital letters."""
    words = masked.lower().split()
    if not typos().keys().isdisjoint(word.strip(".,;:!?()") for word in words):
        masked = _WORD.sub(_spelled, masked)
    if "i" in masked:
        masked = _PRONOUN.sub("I", masked)
    if any(first == second for first, second in pairwise(words)):
        masked = _DOUBLED.sub(r"\1", masked)
    if any(mark in masked for mark in _LOOSE_MARKS):
        masked = _LOOSE_MARK.sub(_tightened, masked)
    return SMALL_START.sub(_capitalised, masked) if is_sentence else masked


@cache
def typos() -> dict[str, str]:
    """Return unmistakable misspellings and their corrections, from `typos.txt`."""
    pairs = files("foveate.compress").joinpath("typos.txt").read_text("utf-8").split("\n")
    return dict(line.split(" ", 1) for line in pairs if line and not line.startswith("#"))


def _spelled(found: re.Match[str]) -> str:
    word = found[0]
    right = typos().get(word.lower())
    if right is None or not (word.islower() or word.istitle()):
        return word
    return right[:1].upper() + right[1:] if word[:1].isupper() else right


def _tightened(found: re.Match[str]) -> str:
    return found[0] if found[1].lower() in _NO_SPACE_AFTER else f"{found[1]}{found[2]}"


def _capitalised(found: re.Match[str]) -> str:
    word, start = found[2], found.start()
    if word not in _STARTERS or found.string[max(start - 8, 0) : start].lower().endswith(_NO_END):
        return found[0]
    return found[0][: -len(word)] + word[0].upper() + word[1:]
