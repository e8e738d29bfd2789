"""Items of knowledge: ids derived from their identity, and the similarity of two texts. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import fields
from functools import lru_cache
from typing import NamedTuple

from foveate.compress.facts import find_facts
from foveate.recall.scopes import Scope
from foveate.store.knowledge import KnowledgeKind, NewKnowledge

ID_DIGITS = 10
MAX_COMPARED_CHARS = 20_000
"""Only this beginning of a longer text is compared."""
KEPT_PROFILES = 4_096
NEGATION = "-"
MEASURES = "#@"
"""Kinds of facts that must be equal in two similar texts: numbers and dates."""
UNCOMPARED = "-?!"
"""Excluded kinds: negations, conditions and words of decision repeat a word that is compared anyway."""


def item_id(scope: Scope | str, kind: KnowledgeKind, identity: str) -> str:
    """Compute the id of an item, stable across runs, and independent of case and whitespace."""
    normalised = " ".join(identity.casefold().split())
    digest = hashlib.sha256("\0".join((str(scope), kind, normalised)).encode(errors="replace")).hexdigest()
    return f"{'t' if kind == 'topic' else 'k'}-{digest[:ID_DIGITS]}"


def same_words(one: str, two: str) -> float:
    """Return the share of content words that two texts have in common, from 0 to 1; 0 if they differ in a negation, a
    number or a date."""
    first, second = word_profile(one), word_profile(two)
    if first.fixed != second.fixed:
        return 0.0
    shared = first.weights.keys() & second.weights.keys()
    every = first.weights | second.weights
    total = sum(every.values())
    return sum(every[word] for word in shared) / total if total else float(_plain(one) == _plain(two))


class WordProfile(NamedTuple):
    """The compared words of a text."""

    weights: dict[str, float]
    """Content words by their stems."""
    fixed: frozenset[str]
    """Negated words, numbers and dates."""


@lru_cache(KEPT_PROFILES)
def word_profile(text: str) -> WordProfile:
    """Return the words that `same_words` compares; the result is cached and must not be modified."""
    weights: dict[str, float] = {}
    fixed = set()
    for key, weight in find_facts(text[:MAX_COMPARED_CHARS]).items():
        kind, _, word = key.partition(":")
        if kind == NEGATION or kind in MEASURES:
            fixed.add(key)
        if kind not in UNCOMPARED:
            weights[word] = max(weight, weights.get(word, 0.0))
    return WordProfile(weights, frozenset(fixed))


def as_new(row: NewKnowledge) -> NewKnowledge:
    """Return the content of a stored item."""
    values = {field.name: getattr(row, field.name) for field in fields(NewKnowledge)}
    return NewKnowledge(**{**values, "reason": ""})


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
