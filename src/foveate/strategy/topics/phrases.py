"""Phrases that end a topic, at the beginning of a user's message or sentence and followed by a pause.

`words/LANGUAGE.txt` has the phrases of a language, and the openers that may precede one. Quotations and code
in a message are ignored.
"""

# ruff: noqa: RUF001 (punctuation of many languages)

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

from foveate.words.grammar import message_sentences, replace_fenced

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

MAX_CHARS = 2_000
"""Characters that are read at the beginning of a message."""
MAX_SENTENCES = 3
"""Sentences that are read in them; later ones do not end the topic before."""
MAX_OPENERS = 4
"""Limit of the openers before a phrase: `okay, great, thanks, and now: …`"""

_QUOTED_LINE = re.compile(r"^[ \t]*>.*$|^(?: {4}|\t).*$", re.MULTILINE)
_QUOTED = re.compile(
    r"`[^`\n]*`|\"[^\"\n]*\"|“[^“”\n]*”|„[^„“”\n]*[“”]|«[^«»\n]*»|「[^「」\n]*」|『[^『』\n]*』|‹[^‹›\n]*›"
    r"|(?<!\w)'[^'\n]*'(?!\w)|(?<!\w)‘[^‘’\n]*’(?!\w)"
)
_MARKS = r",.;:!?…\-–—，、。：；！？،؛؟।()"
_SPACES = re.compile(r"\s+")
_EMPHASIS = re.compile(r"\*{1,3}|__")


@dataclass(frozen=True, slots=True)
class Phrases:
    """The phrases that end a topic, and openers before them."""

    phrases: frozenset[str]
    openers: frozenset[str]


def languages() -> tuple[str, ...]:
    """Return the languages that have a list."""
    return tuple(sorted(entry.name.removesuffix(".txt") for entry in _folder().iterdir() if entry.name[-4:] == ".txt"))


@lru_cache(maxsize=64)
def load_phrases(chosen: tuple[str, ...] | None = None, own: tuple[str, ...] = ()) -> Phrases:
    """Load the phrases of these languages (None: of all) and additional ones; a language without a list has none."""
    known = languages()
    lists = [_read(language) for language in (known if chosen is None else chosen) if language in known]
    return Phrases(
        frozenset().union(*(one.phrases for one in lists), map(_plain, own)),
        frozenset().union(*(one.openers for one in lists)),
    )


def find_phrase(text: str, phrases: Phrases) -> str:
    """Return the phrase by which a message ends the topic before it; empty if there is none."""
    said = _QUOTED.sub(" \u0000 ", _QUOTED_LINE.sub("\u0000", replace_fenced(text[:MAX_CHARS], "\u0000")))
    for sentence in message_sentences(said.strip())[:MAX_SENTENCES]:
        rest = _plain(sentence)
        for _ in range(MAX_OPENERS + 1):
            found = _begins(rest, phrases.phrases)
            if found:
                return found
            opener = _begins(rest, phrases.openers, may_go_on=True)
            if not opener:
                break
            rest = _strip(rest[len(opener) :])
    return ""


def _begins(text: str, wanted: frozenset[str], *, may_go_on: bool = False) -> str:
    """Return the longest of some phrases that a text begins with, followed by a pause; a space is enough after an
    opener."""
    pattern = _pattern(wanted, may_go_on)
    match = pattern.match(text) if pattern else None
    return match.group(1) if match else ""


@lru_cache(maxsize=256)
def _pattern(wanted: frozenset[str], may_go_on: bool) -> re.Pattern[str] | None:
    if not wanted:
        return None
    listed = "|".join(re.escape(phrase) for phrase in sorted(wanted, key=lambda phrase: (-len(phrase), phrase)))
    pause = rf"[\s{_MARKS}]" if may_go_on else rf"\s*[{_MARKS}]"
    return re.compile(rf"({listed})(?=$|{pause})")


@cache
def _read(language: str) -> Phrases:
    found: dict[str, set[str]] = {"phrases": set(), "openers": set()}
    section = "phrases"
    for line in _folder().joinpath(f"{language}.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line.strip():
            found[section].add(_plain(line))
    return Phrases(frozenset(found["phrases"]), frozenset(found["openers"]))


def _plain(text: str) -> str:
    return _strip(_SPACES.sub(" ", _EMPHASIS.sub("", text.casefold().replace("’", "'"))))


def _strip(text: str) -> str:
    return text.strip(" ,.;:!?…-–—，、。：；！？،؛؟।()¿¡*_#")


def _folder() -> Traversable:
    return files("foveate.strategy.topics").joinpath("words")
