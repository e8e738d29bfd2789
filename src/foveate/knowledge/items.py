"""Items of knowledge: ids computed from what they are about, and how much two texts say the same. Pure."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import NamedTuple

from foveate.compress.facts import find_facts
from foveate.recall.scopes import Scope
from foveate.store.knowledge import KnowledgeKind

ID_DIGITS = 10
MAX_COMPARED_CHARS = 20_000
"""Of a longer text the beginning is compared."""
KEPT_PROFILES = 4_096
NEGATION = "-"
MEASURES = "#@"
"""Kinds of facts in which two texts may not differ: numbers and dates."""
UNCOMPARED = "-?!"
"""Negations, conditions and words of decision repeat a word that is compared anyway."""


def item_id(scope: Scope | str, kind: KnowledgeKind, identity: str) -> str:
    """The id of an item: the same in every run, whatever the case and the spaces of its identity."""
    said = " ".join(identity.casefold().split())
    digest = hashlib.sha256("\0".join((str(scope), kind, said)).encode(errors="replace")).hexdigest()
    return f"{'t' if kind == 'topic' else 'k'}-{digest[:ID_DIGITS]}"


def same_words(one: str, two: str) -> float:
    """The share of telling words that two texts have in common, from 0 to 1; 0 if they differ in a negation, a number
    or a date."""
    first, second = word_profile(one), word_profile(two)
    if first.fixed != second.fixed:
        return 0.0
    shared = first.weights.keys() & second.weights.keys()
    every = first.weights | second.weights
    total = sum(every.values())
    return sum(every[word] for word in shared) / total if total else float(_plain(one) == _plain(two))


class WordProfile(NamedTuple):
    """The words of a text that are compared."""

    weights: dict[str, float]
    """Telling words by their stems."""
    fixed: frozenset[str]
    """Negated words, numbers and dates."""


@lru_cache(KEPT_PROFILES)
def word_profile(text: str) -> WordProfile:
    """The words that `same_words` compares; do not change what is returned."""
    weights: dict[str, float] = {}
    fixed = set()
    for key, weight in find_facts(text[:MAX_COMPARED_CHARS]).items():
        kind, _, word = key.partition(":")
        if kind == NEGATION or kind in MEASURES:
            fixed.add(key)
        if kind not in UNCOMPARED:
            weights[word] = max(weight, weights.get(word, 0.0))
    return WordProfile(weights, frozenset(fixed))


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
