"""Lessons and references that a prompt brings up, from the scopes that a session is in.

    share = the weight of the prompt's words that an item has, of all the prompt's words; or, if that is more, the
            weight of the item's keywords that the prompt has, of all its keywords
    score = share + the similarity of their vectors

A word weighs the more the fewer items have it. A score hardly depends on how many items there are;
`recall.knowledge_score` says from which score on an item is shown.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foveate.cache import BoundedCache
from foveate.recall.embed import Embedder
from foveate.recall.scopes import id_in_tenant, own_scopes
from foveate.recall.words import telling_words
from foveate.store import SessionRow, Store
from foveate.store.knowledge_rows import KnowledgeKind, KnowledgeMark, KnowledgeRow

if TYPE_CHECKING:
    from foveate.recall.vectors import Floats

SHOWN_KINDS: tuple[KnowledgeKind, ...] = ("lesson", "reference")
DECIDED = frozenset({"approved", "pinned"})
"""States that a person gave."""
MAX_ITEMS = 2_000
"""Items of a session's scopes that are searched, the heaviest."""
MAX_SCOPES = 64
"""Sets of scopes whose items are kept in memory, those used last."""
MAX_VECTORS = 8_192
"""Vectors of items kept in memory."""
MAX_EMBEDDED_CHARS = 1_000
"""Of an item, and of a prompt its end."""
MAX_KEYWORDS = 8
LEAST_KEYWORDS = 2
"""Fewer of an item's keywords tell nothing about a prompt."""
LEAST_COUNT = 50
"""Words are weighed as if there were this many items at least."""
WEIGHT_SHARE = 0.1
"""How much an item's own weight counts among those that are shown."""
LEAST_STEM_CHARS = 4
_ENDINGS = re.compile(r"(?:ings?|ed|es|s|ly)$")


@dataclass(frozen=True, slots=True)
class FoundItem:
    """An item that matches a prompt."""

    row: KnowledgeRow
    score: float


@dataclass(frozen=True, slots=True)
class ItemScores:
    """How well items answer by one measure, by their ids."""

    rows: Mapping[str, KnowledgeRow]
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Items:
    mark: KnowledgeMark
    rows: Mapping[str, KnowledgeRow]
    words: Mapping[str, frozenset[str]]
    counts: Counter[str]
    """Items that have each word."""


class KnowledgeIndex:
    """The lessons and references of a store, by the scopes of sessions."""

    def __init__(self, store: Store, embedder: Callable[[], Embedder]) -> None:
        self._store = store
        self._embedder = embedder
        self._known: BoundedCache[tuple[str, tuple[str, ...]], _Items] = BoundedCache(MAX_SCOPES)
        self._vectors: BoundedCache[tuple[str, str], Floats] = BoundedCache(MAX_VECTORS)

    async def has_items(self, session: SessionRow) -> bool:
        """Whether anything was learned in the scopes of a session."""
        return bool((await self._store.knowledge.mark(session.tenant, _scopes(session))).count)

    async def are_current(self, session: SessionRow, item_ids: Sequence[str]) -> bool:
        """Whether none of these items was retired, replaced or removed."""
        return not item_ids or set(item_ids) <= (await self._items(session)).rows.keys()

    async def measure_words(self, session: SessionRow, query: str) -> ItemScores:
        """The share of words that each item has in common with a prompt."""
        items = await self._items(session)
        asked = stems(query)
        return ItemScores(items.rows, {each: _share(asked, items, each) for each in items.rows} if asked else {})

    async def measure_vectors(self, session: SessionRow, query: str) -> ItemScores:
        """The similarity of each item and a prompt."""
        items = await self._items(session)
        text = query[-MAX_EMBEDDED_CHARS:].strip()
        if not items.rows or not text:
            return ItemScores(items.rows, {})
        (asked,) = await self._embedder().embed([text])
        vectors = await self._vectors_of([_embedded(row) for row in items.rows.values()])
        alike = [float(vector @ asked) for vector in vectors]
        return ItemScores(items.rows, dict(zip(items.rows, alike, strict=True)))

    async def _items(self, session: SessionRow) -> _Items:
        scopes = _scopes(session)
        mark = await self._store.knowledge.mark(session.tenant, scopes)
        known = self._known.get((session.tenant, scopes))
        if known is None or known.mark != mark:
            rows: list[KnowledgeRow] = []
            for kind in SHOWN_KINDS if mark.count else ():
                rows += await self._store.knowledge.list_items(session.tenant, scopes=scopes, kind=kind)
            current = [row for row in rows if row.state != "retired"]
            current.sort(key=lambda row: (-row.weight, row.id))
            kept = {row.id: row for row in sorted(current[:MAX_ITEMS], key=lambda row: row.id)}
            words = {row.id: stems(_read(row)) for row in kept.values()}
            known = _Items(mark, kept, words, Counter(word for own in words.values() for word in own))
            self._known[session.tenant, scopes] = known
        return known

    async def _vectors_of(self, texts: Sequence[str]) -> list[Floats]:
        embedder = self._embedder()
        self._vectors.reserve(len(texts))
        missing = [text for text in dict.fromkeys(texts) if (embedder.name, text) not in self._vectors]
        made = dict(zip(missing, await embedder.embed(missing), strict=True)) if missing else {}
        for text, vector in made.items():
            self._vectors[embedder.name, text] = vector
        found = ((text, self._vectors.get((embedder.name, text))) for text in texts)
        return [made[text] if vector is None else vector for text, vector in found]


def best_items(
    words: ItemScores | None, vectors: ItemScores | None, *, least: float, confidence: float, limit: int
) -> list[FoundItem]:
    """The items that match from a score on, best first. One that nobody decided on needs this confidence."""
    measured = [each for each in (words, vectors) if each]
    rows = {item_id: row for each in measured for item_id, row in each.rows.items()}
    found = []
    for item_id, row in rows.items():
        score = sum(each.values.get(item_id, 0.0) for each in measured)
        if score >= least and (row.state in DECIDED or row.confidence >= confidence):
            found.append(FoundItem(row, score))
    return sorted(found, key=lambda each: (-each.score - WEIGHT_SHARE * each.row.weight, each.row.id))[:limit]


def stems(text: str) -> frozenset[str]:
    """The telling words of a text, without the commonest endings."""
    words = telling_words(text)
    return frozenset(
        cut if len(cut := _ENDINGS.sub("", word)) >= LEAST_STEM_CHARS and word.isalpha() else word for word in words
    )


def _scopes(session: SessionRow) -> tuple[str, ...]:
    return tuple(sorted(str(scope) for scope in own_scopes(session, session_id=id_in_tenant(session))))


def _share(asked: frozenset[str], items: _Items, item_id: str) -> float:
    own = items.words[item_id]
    both = asked & own
    if not both:
        return 0.0
    share = _weight(both, items) / _weight(asked, items)
    keywords = stems(" ".join(word for word, _ in items.rows[item_id].keywords[:MAX_KEYWORDS]))
    named = keywords & asked
    return max(share, _weight(named, items) / _weight(keywords, items)) if len(named) >= LEAST_KEYWORDS else share


def _weight(words: frozenset[str], items: _Items) -> float:
    count = max(LEAST_COUNT, len(items.rows))
    # Added up in order, so that the same words always have the same weight.
    return sum(math.log1p((count - items.counts[word] + 0.5) / (items.counts[word] + 0.5)) for word in sorted(words))


def _read(row: KnowledgeRow) -> str:
    return f"{row.title}\n{row.text}\n{' '.join(word for word, _ in row.keywords)} {' '.join(row.technologies)}"


def _embedded(row: KnowledgeRow) -> str:
    return f"{row.title}. {row.text}"[:MAX_EMBEDDED_CHARS]
