"""The final check of a rendition: it is rejected if it lost important content, or contains what the turn does not.

Reasons: too few of the weighted facts, a clause without its negation, condition or unit, text larger than its source,
no text; and, for a model's text, numbers and identifiers from nowhere or marks that only Foveate may set.
"""

# ruff: noqa: RUF001 (punctuation of many languages)

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from foveate.compress.clauses import sentences
from foveate.compress.cues import look_at
from foveate.compress.facts import Facts, find_facts
from foveate.renditions import Level
from foveate.text import MARK_WORDS

LEAST_FACTS, MOST_FACTS, FACT_TOKENS = 24, 150, 3
"""A rendition is measured by as many of the turn's facts, those with the most weight first, as its tokens could hold,
within these limits."""
MAX_LOST = 20
"""Limit of the lost facts that are named."""
MAX_CLAUSES = 1_500
"""Limit of the clauses of a turn, and of a rendition, that are compared with each other."""
SAME_CLAUSE = 0.75
"""Minimum share of a clause's words in a source clause for both to mean the same."""
CLAIMS = "#i/u"
"""Kinds of facts that a rendition may have only if its source has them."""

_MARK = re.compile(rf"\[(?<!\\\[)(?:{MARK_WORDS})\b[^\]\n]*\]")
_TAG = re.compile(r"<\s*/?\s*T-\d|(?<!\\)\bTurn \d+:", re.IGNORECASE)
_TOOLS_NOTE = re.compile(r"\{\d+ tools? called\}")
_PARTS = re.compile(r"\n|;\s|(?<!\\)\[(?:" + MARK_WORDS + r")\b[^\]\n]*\]")
_BREAK = re.compile(r"[,;:—–]\s|\sbut\s|\saber\s")


@dataclass(frozen=True, slots=True)
class Shares:
    """Minimum share of the weighted facts for each level."""

    compressed: float = 0.60
    tiny: float = 0.25

    def of(self, level: Level) -> float:
        return {"R": 1.0, "S": 0.8, "C": self.compressed, "T": self.tiny}[level]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a rendition is accepted."""

    ok: bool
    kept_share: float
    lost: tuple[str, ...] = ()
    """The lost facts with the most weight, by key."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Words:
    roots: frozenset[str]
    negated: bool
    conditioned: bool


@dataclass(frozen=True, slots=True)
class Pair:
    """A clause of the source and what was kept of it."""

    source: str
    kept: str


@dataclass
class GuardSource:
    """The facts and clauses of a turn, prepared for comparison."""

    facts: Facts
    """Weights by key, with the speaker's factor."""
    clauses: Sequence[str]

    @cached_property
    def heaviest(self) -> list[tuple[float, str, str]]:
        """Weight, key and normal form of each fact, the largest weight first."""
        return [(-weight, key, key[2:]) for weight, key in sorted((-weight, key) for key, weight in self.facts.items())]

    def turned_round(self, rendition: str) -> str:
        """Return the first clause of a rendition that lost its negation or condition; empty if there is none."""
        whole = [_words(sentence) for clause in self.clauses[:MAX_CLAUSES] for sentence in sentences(clause)]
        conditioned = [words for words in whole if words.conditioned]
        parts: list[_Words] = []
        if any(words.negated for words in whole):
            parts = [_words(part) for clause in self.clauses[:MAX_CLAUSES] for part in _finest(clause)]
        negated = [words for words in parts if words.negated]
        if not negated and not conditioned:
            return ""
        for clause in _clauses(rendition):
            words = _words(clause)
            if len(words.roots) < 2:  # noqa: PLR2004 - one word is in many clauses
                continue
            if not words.negated and _lost(words, negated, (part for part in parts if not part.negated)):
                return clause
            if not words.conditioned and _lost(words, conditioned, (one for one in whole if not one.conditioned)):
                return clause
        return ""


def keeps_cues(source: str, kept: str) -> bool:
    """Whether what is kept of a clause has all its negations and conditions."""
    return kept == source or _cues(source) <= _cues(kept)


def _cues(text: str) -> frozenset[str]:
    return frozenset(filter(None, map(_cue, text.split())))


@lru_cache(maxsize=50_000)
def _cue(word: str) -> str:
    look = look_at(word)
    return look.core if look.negates or look.limits else ""


def _finest(clause: str) -> list[str]:
    return [part for sentence in sentences(clause) for part in _BREAK.split(sentence)]


def _clauses(rendition: str) -> list[str]:
    parts = [part for part in _PARTS.split(rendition) if part.strip()]
    return [sentence for part in parts[:MAX_CLAUSES] for sentence in sentences(part)]


def _words(text: str) -> _Words:
    roots: list[str] = []
    negated = conditioned = False
    for word in map(look_at, text.split()):
        negated = negated or word.negates
        conditioned = conditioned or word.limits
        roots.append(word.root)
    return _Words(frozenset(filter(None, roots)), negated, conditioned)


def _lost(words: _Words, cued: Iterable[_Words], uncued: Iterable[_Words]) -> bool:
    """Return whether a clause without a cue repeats a statement that the source makes only with one."""
    size = len(words.roots)
    best = max((len(words.roots & other.roots) / size for other in cued), default=0.0)
    if best < SAME_CLAUSE:
        return False
    return all(len(words.roots & other.roots) / size < best for other in uncued)


def check(  # noqa: PLR0911 - each reason to refuse leaves at once
    level: Level,
    source: GuardSource,
    rendition: str,
    *,
    tokens: int,
    above_tokens: int,
    shares: Shares | None = None,
    pairs: Sequence[Pair] | None = None,
    written_by_model: bool = False,
) -> Verdict:
    """Check whether a rendition preserves what its level requires; `above_tokens` is the size of the next higher level.

    `pairs` are the clauses it was made of, without lines of tool output; if they are not known, each of its clauses is
    compared with the source's.
    """
    if not rendition.strip():
        return Verdict(False, 0.0, reason="it is empty")
    facts = find_facts(_TOOLS_NOTE.sub(" ", _MARK.sub(" ", rendition)))
    kept_share, lost = _kept(level, source, facts, tokens)
    found = Verdict(False, kept_share, lost)
    if tokens > above_tokens:
        return _refused(found, f"it takes {tokens} tokens, more than the {above_tokens} of the level above")
    if written_by_model and (_MARK.search(rendition) or _TAG.search(rendition)):
        return _refused(found, "it has a mark or a tag of its own")
    invented = _invented(source.facts, facts) if written_by_model else ""
    if invented:
        return _refused(found, f"it has {invented}, which the turn has not")
    unit = _lost_unit(source.facts, facts if pairs is None else find_facts("\n".join(pair.kept for pair in pairs)))
    if unit:
        return _refused(found, f"it lost a unit: {unit}")
    clause = (
        source.turned_round(rendition)
        if pairs is None
        else next((pair.kept for pair in pairs if not keeps_cues(pair.source, pair.kept)), "")
    )
    if clause:
        return _refused(found, f"a clause lost its negation or condition: {clause[:120]}")
    least = (shares or Shares()).of(level)
    if kept_share < least:
        return _refused(found, f"it keeps {kept_share:.2f} of the weighted facts, less than {least:.2f}")
    return Verdict(True, kept_share, lost)


def _refused(found: Verdict, reason: str) -> Verdict:
    return Verdict(False, found.kept_share, found.lost, reason)


def _kept(level: Level, source: GuardSource, facts: Facts, tokens: int) -> tuple[float, tuple[str, ...]]:
    ranked = source.heaviest
    heaviest = ranked if level == "S" else ranked[: min(MOST_FACTS, max(LEAST_FACTS, tokens // FACT_TOKENS))]
    total = sum([weight for weight, _, _ in heaviest])
    forms = {key[2:] for key in facts}
    kept = sum([weight for weight, _, form in ranked if form in forms])
    lost = tuple([key for _, key, form in heaviest if form not in forms][:MAX_LOST])
    return (min(1.0, kept / total) if total else 1.0), lost


def _invented(source: Facts, facts: Facts) -> str:
    forms = {key[2:] for key in source}
    return next((key[2:] for key in facts if key[0] in CLAIMS and key[2:] not in forms), "")


def _lost_unit(source: Facts, facts: Facts) -> str:
    """Return a number without its unit in the rendition that always has one in the source."""
    for key in facts:
        if key[0] == "#" and key not in source and key[-1:].isdigit():
            fuller = next((other for other in source if other.startswith(key) and not other[len(key)].isdigit()), "")
            if fuller and not re.match(r"[.,\d]", fuller[len(key) :]):
                return f"{key[2:]} instead of {fuller[2:]}"
    return ""
