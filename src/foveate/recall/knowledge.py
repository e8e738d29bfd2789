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
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from foveate.cache import BoundedCache
from foveate.recall.embed import Embedder
from foveate.recall.scopes import id_in_tenant, own_scopes
from foveate.recall.words import telling_words
from foveate.store import SessionRow, knowledge
from foveate.store.knowledge import KnowledgeKind, KnowledgeMark, KnowledgeRow
from foveate.store.sql import Connection
from foveate.words.grammar import index_borders

if TYPE_CHECKING:
    from foveate.recall.table import Floats

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
STANDING_FORMS = frozenset({"rule", "preference", "convention"})
LEAST_CUT_CHARS = 40
_ENDINGS = re.compile(r"(?:ings?|ed|es|s|ly)$")


@dataclass(frozen=True, slots=True)
class FoundItem:
    """An item that matches a prompt."""

    row: KnowledgeRow
    score: float


@dataclass(frozen=True, slots=True)
class ItemTable:
    """The lessons and references of some scopes at one moment, with their words."""

    mark: KnowledgeMark
    rows: Mapping[str, KnowledgeRow]
    """By their ids."""
    words: Mapping[str, frozenset[str]]
    counts: Counter[str]
    """Items that have each word."""

    @classmethod
    def of(cls, mark: KnowledgeMark, rows: Iterable[KnowledgeRow]) -> ItemTable:
        current = sorted((row for row in rows if row.state != "retired"), key=lambda row: (-row.weight, row.id))
        kept = {row.id: row for row in sorted(current[:MAX_ITEMS], key=lambda row: row.id)}
        words = {row.id: stems(_read(row)) for row in kept.values()}
        return cls(mark, kept, words, Counter(word for own in words.values() for word in own))

    def by_words(self, query: str) -> dict[str, float]:
        """The share of words that each item has in common with a prompt."""
        asked = stems(query) if self.rows else frozenset()
        return {each: _share(asked, self, each) for each in self.rows} if asked else {}

    def by_vectors(self, vectors: Sequence[Floats], asked: Floats) -> dict[str, float]:
        """The similarity of each item and a prompt, given the vectors of `texts`."""
        return {each: float(vector @ asked) for each, vector in zip(self.rows, vectors, strict=True)}

    @property
    def texts(self) -> list[str]:
        """The texts of the items that vectors are made of."""
        return [f"{row.title}. {row.text}"[:MAX_EMBEDDED_CHARS] for row in self.rows.values()]


class KnownItems:
    """The items of sessions' scopes, and the vectors of their texts, kept in memory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables: BoundedCache[tuple[str, tuple[str, ...]], ItemTable] = BoundedCache(MAX_SCOPES)
        self._vectors: BoundedCache[tuple[str, str], Floats] = BoundedCache(MAX_VECTORS)

    def read(self, connection: Connection, session: SessionRow) -> ItemTable:
        """The items of a session's scopes; those in memory, if none was added, replaced or removed since."""
        scopes = tuple(sorted(str(scope) for scope in own_scopes(session, session_id=id_in_tenant(session))))
        mark = knowledge.mark(connection, session.tenant, scopes)
        with self._lock:
            known = self._tables.get((session.tenant, scopes))
        if known is not None and known.mark == mark:
            return known
        rows: list[KnowledgeRow] = []
        for kind in SHOWN_KINDS if mark.count else ():
            rows += knowledge.list_items(connection, session.tenant, scopes=scopes, kind=kind)
        items = ItemTable.of(mark, rows)
        with self._lock:
            self._tables[session.tenant, scopes] = items
        return items

    async def vectors(self, embedder: Embedder, texts: Sequence[str]) -> list[Floats]:
        """A vector for each text; those of known texts are not made again."""
        self._vectors.reserve(len(texts))
        missing = [text for text in dict.fromkeys(texts) if (embedder.name, text) not in self._vectors]
        made = dict(zip(missing, await embedder.embed(missing), strict=True)) if missing else {}
        for text, vector in made.items():
            self._vectors[embedder.name, text] = vector
        found = ((text, self._vectors.get((embedder.name, text))) for text in texts)
        return [made[text] if vector is None else vector for text, vector in found]


def best_items(
    items: ItemTable,
    measured: Iterable[Mapping[str, float]],
    *,
    least: float,
    confidence: float,
    limit: int,
) -> list[FoundItem]:
    """The items that match from a score on, best first, given their scores by each measure.

    One that nobody decided on needs this confidence.
    """
    known = list(measured)
    found = []
    for item_id, row in items.rows.items() if known else ():
        score = sum(each.get(item_id, 0.0) for each in known)
        if score >= least and (row.state in DECIDED or row.confidence >= confidence):
            found.append(FoundItem(row, score))
    return sorted(found, key=lambda each: (-each.score - WEIGHT_SHARE * each.row.weight, each.row.id))[:limit]


def standing_items(items: ItemTable, *, confidence: float) -> list[KnowledgeRow]:
    """What the user stated, whatever a prompt is about: pinned items, then rules, preferences and conventions, then
    decisions and facts, each the heaviest first."""
    rows = (row for row in items.rows.values() if row.form or row.state == "pinned")
    held = [row for row in rows if row.kind == "lesson" and (row.state in DECIDED or row.confidence >= confidence)]

    def rank(row: KnowledgeRow) -> tuple[bool, bool, float, int, str]:
        return row.state != "pinned", row.form not in STANDING_FORMS, -row.weight, -row.last_seen_us, row.id

    return sorted(held, key=rank)


def fitting_passage(text: str, query: str, fits: Callable[[str], bool]) -> str:
    """The part of a long text that fits a prompt best, in the room that there is: whole sentences or lines.

    A text without words of the prompt is cut behind its beginning.
    """
    if fits(text):
        return text
    ends = dict.fromkeys([0, *index_borders(text), len(text)])
    pieces = [piece for start, end in pairwise(ends) if (piece := text[start:end]).strip()]
    asked = stems(query)
    counts = Counter(word for piece in pieces for word in stems(piece))
    scores = [sum(1 / counts[word] for word in sorted(asked & stems(piece))) for piece in pieces]
    best = max(range(len(pieces)), key=lambda place: (scores[place], -place), default=0)
    first = last = best

    def shown(first: int, last: int) -> str:
        joined = "".join(pieces[first : last + 1]).strip()
        return f"{'… ' if first else ''}{joined}{' …' if last < len(pieces) - 1 else ''}"

    if not pieces or not fits(shown(best, best)):
        return _cut(shown(best, best) if pieces else text, fits)
    while True:
        # What follows explains it; then the neighbour that fits the prompt better.
        around = [(first, last + 1)] * (last + 1 < len(pieces)) + [(first - 1, last)] * (first > 0)
        around = [each for each in around if fits(shown(*each))]
        if not around:
            return shown(first, last)
        first, last = max(around, key=lambda each: scores[each[0] if each[0] < first else each[1]])


def _cut(text: str, fits: Callable[[str], bool]) -> str:
    while not fits(text) and len(text) > LEAST_CUT_CHARS:
        cut = text[: max(LEAST_CUT_CHARS, len(text) * 4 // 5)]
        text = f"{cut.rpartition(' ')[0] or cut} …"
    return text


def stems(text: str) -> frozenset[str]:
    """The telling words of a text, without the commonest endings."""
    words = telling_words(text)
    return frozenset(
        cut if len(cut := _ENDINGS.sub("", word)) >= LEAST_STEM_CHARS and word.isalpha() else word for word in words
    )


def _share(asked: frozenset[str], items: ItemTable, item_id: str) -> float:
    own = items.words[item_id]
    both = asked & own
    if not both:
        return 0.0
    share = _weight(both, items) / _weight(asked, items)
    keywords = stems(" ".join(word for word, _ in items.rows[item_id].keywords[:MAX_KEYWORDS]))
    named = keywords & asked
    return max(share, _weight(named, items) / _weight(keywords, items)) if len(named) >= LEAST_KEYWORDS else share


def _weight(words: frozenset[str], items: ItemTable) -> float:
    count = max(LEAST_COUNT, len(items.rows))
    # Added up in order, so that the same words always have the same weight.
    return sum(math.log1p((count - items.counts[word] + 0.5) / (items.counts[word] + 0.5)) for word in sorted(words))


def _read(row: KnowledgeRow) -> str:
    return f"{row.title}\n{row.text}\n{' '.join(word for word, _ in row.keywords)} {' '.join(row.technologies)}"
