"""Whether an answer is in another language than its source; said only where that is clear."""

# ruff: noqa: RUF001 (letters of many languages)

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import lru_cache

from foveate.compress.lexicon import as_words

MIN_LETTERS = 20
"""Fewer letters tell nothing of a script."""
CLEAR_SHARE = 0.6
"""A text is in a script if so many of its letters are,"""
PRESENT_SHARE = 0.03
"""and a source has a script, or a language, if it makes up at least this share of it."""
MIN_COMMON_WORDS = 4
"""Fewer everyday words tell nothing of a language."""
MAX_CHARS = 50_000

_TECHNICAL = re.compile(r"[A-Za-z0-9_]*[\d/_\\.@-][A-Za-z0-9_/.\\@-]*|\b[a-z]+[A-Z]\w*|\b(?:[A-Z][a-z0-9]+){2,}\b")
"""Paths and identifiers, which are in no language."""
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_COMMON = {
    "English": as_words(
        """the and is are was were of to in that it for with as this be by on not or an from have has had but they you
        his her which will would their there been what when who"""
    ),
    "German": as_words(
        """der die das und ist sind war nicht ein eine einen einem einer mit auf den dem des von zu zum zur wir ich sie
        es für im auch als wird werden hat haben bei nach aus dass wurde oder noch nur aber"""
    ),
    "French": as_words(
        """le la les des du et est une un dans pour que qui pas sur avec au aux par ce cette il elle nous vous sont été
        mais ou ne se son sa ses être l'a d'un"""
    ),
    "Spanish": as_words(
        """el la los las y es en un una que de del por para con no se su lo como más pero al está este esta fue son
        hay muy también cuando"""
    ),
    "Italian": as_words(
        """il lo la gli le e è un una di del della che non per con sono nel nella da dal come più ma si questo questa
        anche ha"""
    ),
    "Portuguese": as_words(
        """o a os as e é um uma de do da dos das que não em no na nos nas para com por se mais mas foi são está ao
        também"""
    ),
    "Dutch": as_words(
        """de het een en van is niet op te dat die in met voor zijn er aan ook als bij door naar maar om wordt werd"""
    ),
}


def foreign_language(text: str, source: str) -> str:
    """The language or script that a text is clearly in and its source clearly is not; else nothing."""
    return _foreign_script(text, source[:MAX_CHARS]) or _foreign_words(text, source[:MAX_CHARS])


def _foreign_script(text: str, source: str) -> str:
    found = _scripts(text)
    letters = sum(found.values())
    if letters < MIN_LETTERS:
        return ""
    script, times = found.most_common(1)[0]
    own = _scripts(source)
    is_there = own[script] >= PRESENT_SHARE * sum(own.values())
    return "" if is_there or times < CLEAR_SHARE * letters else script


def _foreign_words(text: str, source: str) -> str:
    words = _WORD.findall(text.casefold().replace("’", "'"))
    known = {name: sum(word in common for word in words) for name, common in _COMMON.items()}
    language, times = max(known.items(), key=lambda item: item[1])
    if times < MIN_COMMON_WORDS or times < 2 * max(n for name, n in known.items() if name != language):
        return ""
    of_source = _WORD.findall(source.casefold().replace("’", "'"))
    own = {name: sum(word in common for word in of_source) for name, common in _COMMON.items()}
    enough = max(own.values()) >= MIN_COMMON_WORDS
    return language if enough and own[language] < max(own.values()) / 3 else ""


def _scripts(text: str) -> Counter[str]:
    return Counter(_script(letter) for letter in _TECHNICAL.sub(" ", text) if letter.isalpha())


@lru_cache(maxsize=10_000)
def _script(letter: str) -> str:
    """The first word of a letter's name: LATIN, CYRILLIC, CJK; Japanese and Chinese share one."""
    name = unicodedata.name(letter, "OTHER").split()[0].removesuffix("-")
    return "CJK" if name in ("HIRAGANA", "KATAKANA", "CJK", "IDEOGRAPHIC", "FULLWIDTH", "HALFWIDTH") else name
