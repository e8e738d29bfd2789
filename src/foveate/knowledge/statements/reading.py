"""Look up the phrases of its languages in a sentence. Pure."""

# ruff: noqa: RUF001 (punctuation of many languages)

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

from foveate.compress.clauses import without_answers
from foveate.compress.model.checks import structure_in
from foveate.compress.orders import is_standing_order
from foveate.knowledge.statements.phrases import KINDS, LANGUAGES, StatementLanguage, load
from foveate.recall.questions import is_question, likely_languages
from foveate.words.grammar import QUESTION_MARKS

StatementKind = Literal["rule", "preference", "convention", "decision", "fact"]

LISTS = ("vetoes", "hearsay", "fiction", "own", "correction", "changed", "continued", "old")
"""Lists of phrases whose names are signals."""
MAX_CHARS = 400
MIN_WORDS, MAX_WORDS = 3, 60
MIN_UNSPACED_CHARS = 5
"""Minimum length in scripts without spaces."""
QUOTED = "Qq"
"""Stands for a quoted span while a clause is matched."""
COMMA = " , "
LEAD_END = re.compile(r":\s+|\s[–—-]{1,2}\s")
"""Ends words that announce a statement: `Two things for this repository: …`."""

_SPAN = re.compile(
    r"`[^`\n]+`|\"[^\"\n]+\"|“[^“”\n]+”|«[^«»\n]+»|„[^„“”\n]+[“”]|「[^「」\n]+」|(?<!\w)'[^'\n]+'(?!\w)|‘[^‘’\n]+’"
)
_PART_END = re.compile(r",\s+|;\s+|\s\(|\)|\s[–—-]{1,2}\s|:\s+|\.\s+|!\s+|\s(?=(?:and|und|et|y)\s)")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")


def is_readable(text: str) -> bool:
    """Return whether a clause is a sentence of ordinary length, and not a question."""
    words = len(text.split())
    is_unspaced = len(_UNSPACED.findall(text)) >= MIN_UNSPACED_CHARS
    if not (MIN_WORDS <= words <= MAX_WORDS or is_unspaced) or len(text) > MAX_CHARS:
        return False
    return not (any(mark in text for mark in QUESTION_MARKS) or text.endswith((":", "：")) or structure_in(text, ""))


class PhraseReading(NamedTuple):
    """What the phrases of its languages find in a sentence."""

    kind: StatementKind | None
    """What it states by its phrases alone; None for nothing."""
    is_standing: bool
    is_change: bool
    signals: tuple[str, ...]
    """Names of the lists that have a phrase of it: input of the model."""


@lru_cache(maxsize=10_000)
def read_phrases(text: str) -> PhraseReading:
    """Look up the phrases of a sentence; quoted spans are ignored."""
    unquoted = _SPAN.sub(QUOTED, text)
    languages = [load(name) for name in likely_languages(text) if name in LANGUAGES]
    by_language = [frozenset(_signals(language, language.read(unquoted))) for language in languages]
    signals = set[str]().union(*by_language)
    signals |= {"standing"} if is_standing_order(unquoted) else set()
    signals |= {"question"} if is_question(unquoted) else set()
    is_vetoed = any("vetoes" in each or ("hearsay" in each and "own" not in each) for each in by_language)
    kind, is_standing = None, "standing" in signals or "reminder" in signals
    if is_readable(text) and not is_vetoed:
        readings = (_reading(part, language) for language in languages for part in _parts(unquoted))
        found = next((one for one in readings if one), None)
        kind, is_standing = (found.kind, found.is_standing) if found else (None, is_standing)
    signals |= {"states", f"states {kind}"} if kind else set()
    return PhraseReading(kind, is_standing, "changes" in signals, tuple(sorted(signals - {"changes"})))


def _signals(language: StatementLanguage, read: str) -> Iterator[str]:
    """Yield the names of the lists of a language that have a phrase of a sentence."""
    bare, is_reminded = _bare(read, language)
    words = bare.lower().split()
    yield from (name for name in LISTS if getattr(language, name).search(read))
    forms = (read,) if bare == read else (bare, read)
    yield from (f"kind {each}" for each in KINDS if any(language.kinds[each].search(one) for one in forms))
    if is_reminded:
        yield "reminder"
    if words and words[0] in language.orders:
        yield "order"
    if not language.negations.isdisjoint(words):
        yield "negation"
    if language.correction.search(bare):
        yield "changes"


def _parts(unquoted: str) -> list[str]:
    parts = [part for part in _PART_END.split(unquoted) if len(part.split()) >= MIN_WORDS]
    leads = [unquoted[match.end() :] for match in LEAD_END.finditer(unquoted)]
    return [without_answers(unquoted), *reversed(leads), *parts]


class _Reading(NamedTuple):
    """How a clause was understood."""

    kind: StatementKind
    is_standing: bool


def _reading(clause: str, language: StatementLanguage) -> _Reading | None:
    read = language.read(clause)
    bare, is_reminded = _bare(read, language)
    if not bare:
        return None
    kind = _kind(read, language) or _kind(bare, language)
    is_order = is_standing_order(bare) or is_standing_order(clause)
    if kind is None and (is_reminded or is_order):
        kind = "rule" if is_order else "fact"
    if kind is None and all(each.search(bare) for each in (language.correction, language.changed, language.value)):
        kind = "fact"
    # "When you write SQL, use capitals" begins like a question.
    if kind is None or (is_question(bare) and not (kind == "rule" and COMMA in read)):
        return None
    return _Reading(kind, is_reminded or is_order)


def _bare(read: str, language: StatementLanguage) -> tuple[str, bool]:
    """Return a clause without the words before the statement, and whether they ask to remember it."""
    bare = language.openers.sub("", read, count=1)
    rest = language.reminders.sub("", bare, count=1)
    return (language.openers.sub("", rest, count=1), True) if rest != bare else (bare, False)


def _kind(bare: str, language: StatementLanguage) -> StatementKind | None:
    return next((kind for kind in KINDS if language.kinds[kind].search(bare)), None)
