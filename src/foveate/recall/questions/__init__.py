"""How questions, orders and small talk are put, by language: `LANGUAGE.txt` has the words, separated by commas.

    [openers]  what may precede a question           [asks]    what a question begins with, without a question mark
    [polite]   what may precede a request            [orders]  what it must also say, where the language has it
    [tells]    what an order to tell begins with     [memory]  what speaks of the past of the conversation
    [you]      what is asked of the other one        [order]   what asks for an order of events or for all mentions
    [whole]    what asks for a summary or a comparison

Small talk is what has only the `chat` words of `foveate.words`. A language without spaces has its words anywhere in
a sentence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from foveate.recall.words import STOP_WORDS
from foveate.words import stop_words

ENGLISH = "en"
SPACED = (ENGLISH, "de", "fr", "es", "it", "pt", "nl")
"""In the Latin alphabet; of two that fit as well, the earlier."""
SCRIPTS = (("ja", "\u3040-\u30ff"), ("zh", "\u3400-\u9fff"), ("ru", "\u0400-\u04ff"))
"""Languages that are detected by their letters, the most certain first."""
UNSPACED = ("ja", "zh")
MAX_OPENERS = 4
APOSTROPHE = "\u2019"

_SCRIPTS = tuple((language, re.compile(f"[{letters}]")) for language, letters in SCRIPTS)
_WORD = re.compile(rf"[^\W_]+(?:['{APOSTROPHE}][^\W_]+)*")
_NOTHING = re.compile(r"(?!)")


@dataclass(frozen=True, slots=True)
class Language:
    """How a language asks."""

    polite: re.Pattern[str]
    asks: re.Pattern[str]
    orders: re.Pattern[str] | None
    tells: re.Pattern[str]
    memory: re.Pattern[str]
    you: re.Pattern[str]
    order: re.Pattern[str]
    whole: re.Pattern[str]
    small: frozenset[str]
    small_in_runs: re.Pattern[str] | None
    """Of a language without spaces."""

    def telling_words(self, text: str) -> list[str]:
        """The words that say what a text is about."""
        words = [match[0].lower().replace(APOSTROPHE, "'") for match in _WORD.finditer(text)]
        if self.small_in_runs:
            # Two characters are about a word.
            runs = (run for word in words for run in self.small_in_runs.split(word))
            return [run[start : start + 2] for run in runs for start in range(0, len(run), 2)]
        return [word for word in words if word not in self.small and len(word) > 1]


def language_of(text: str) -> Language:
    """The language of a text: by its letters, or by its most common words; English if nothing tells."""
    for name, letters in _SCRIPTS:
        if letters.search(text):
            return load(name)
    words = Counter(match[0].lower().replace(APOSTROPHE, "'") for match in _WORD.finditer(text))
    return load(max(SPACED, key=lambda name: sum(words[word] for word in _known(name) & words.keys())))


@cache
def _known(name: str) -> frozenset[str]:
    """The words that tell that a text is in this language."""
    return _small(name).union(_sections(name)["asks"])


def _small(name: str) -> frozenset[str]:
    return stop_words("chat", name) | (STOP_WORDS if name == ENGLISH else frozenset())


@cache
def _sections(name: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    section: list[str] = []
    for line in files("foveate.recall").joinpath("questions", f"{name}.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            section = found.setdefault(line.strip("[]"), [])
        else:
            section += [entry.strip() for entry in line.split(",") if entry.strip()]
    return found


@cache
def load(name: str) -> Language:
    """A language with its patterns, which take a while to compile."""
    found, small = _sections(name), _small(name)
    is_spaced = name not in UNSPACED
    openers = _any(found.get("openers", ()))
    begins = rf"^[\u00bf\u00a1]*(?:(?:{openers}),?\s+){{0,{MAX_OPENERS}}}" if is_spaced else ""
    return Language(
        polite=_pattern(found.get("polite", ()), r"^[\u00bf\u00a1]*(?:(?:{})[\s,]+){{1,2}}"),
        asks=_pattern(found["asks"], rf"{_doubled(begins)}(?:{{}})" + (r"(?!\w)" if is_spaced else "")),
        orders=_pattern(found["orders"], r"\b(?:{})\b") if "orders" in found else None,
        tells=_pattern(found["tells"], r"^[\u00bf\u00a1]*(?:{})(?!\w)" if is_spaced else "(?:{})"),
        memory=_pattern(found["memory"], r"(?<!\w)(?:{})(?!\w)" if is_spaced else "(?:{})"),
        you=_pattern(found["you"], r"(?<!\w)(?:{})(?!\w)" if is_spaced else "(?:{})"),
        order=_pattern(found["order"], r"(?<!\w)(?:{})(?!\w)" if is_spaced else "(?:{})"),
        whole=_pattern(found["whole"], r"(?<!\w)(?:{})(?!\w)" if is_spaced else "(?:{})"),
        small=small,
        small_in_runs=None if is_spaced else re.compile(_any(small)),
    )


def _pattern(entries: Collection[str], form: str) -> re.Pattern[str]:
    return re.compile(form.format(_any(entries)), re.IGNORECASE) if entries else _NOTHING


def _any(entries: Collection[str]) -> str:
    """The longest first, so that none hides a longer one."""
    listed = sorted(entries, key=lambda entry: (-len(entry), entry))
    return (
        "|".join(re.escape(entry).replace(r"\ ", r"\s+").replace("'", f"['{APOSTROPHE}]") for entry in listed) or "(?!)"
    )


def _doubled(text: str) -> str:
    """With braces that `format` leaves as they are."""
    return text.replace("{", "{{").replace("}", "}}")
