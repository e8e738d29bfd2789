"""Searching one session: candidates by words and by vectors, each with both scores, from every turn it sees.

Words are looked for by the database, which knows where each stands; how much they tell is reckoned here, over this
session alone, so that the same session gives the same answer whatever else the store holds. Turns that nobody has
indexed yet are looked through directly.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from foveate.recall.embedding import Embedder, index_maker
from foveate.recall.passages import SPEAKERS, Passage, Speaker
from foveate.recall.shelf import Shelf
from foveate.recall.vectors import Floats, Places
from foveate.recall.words import extra_words, query_phrases, word_count
from foveate.store import Store
from foveate.store.passages import KEY_SHIFT, Look, PassageText
from foveate.text import encodable

K1 = 1.2
B = 0.75
"""BM25's, as everywhere. A passage is so short that how often it says a word tells nothing."""
MAX_POSTINGS = 2_000
"""A phrase that stands in more passages than this is too common to tell, beside others that are not."""
MAX_LOOSE_TURNS = 32
"""Turns not indexed yet that a search looks through, the newest."""
MAX_EMBEDDED_CHARS = 2_000
"""Of a query."""
FUSION_RANKS = 60
"""Reciprocal rank fusion's constant: how little the very first ranks count for more than the next."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that was found. Scores are 0 where it has none of the words, or no vector."""

    turn: int
    passage: int
    text: str
    keyword: float
    vector: float
    speaker: Speaker
    tool: str | None
    at_us: int
    fused: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which passages count; None: all do."""

    speaker: Speaker | None = None
    tool: str | None = None
    after_us: int | None = None
    before_us: int | None = None
    file: str | None = None
    """A turn counts if any of its passages names this path, or the end of it."""

    @property
    def is_empty(self) -> bool:
        return self == Filter()


@dataclass(frozen=True, slots=True)
class Loose:
    """A turn that is not indexed yet."""

    at_us: int
    passages: Sequence[Passage]


ReadLoose = Callable[[int], Awaitable[Loose | None]]
"""Reads a turn and cuts it; None if it was pruned."""


@dataclass(frozen=True, slots=True)
class _Query:
    phrases: Sequence[str]
    vector: Floats | None
    weights: Mapping[str, float]
    """How much each phrase tells."""


class Index:
    """One session's. Threads and tasks may share it; what other processes add is noticed at the next search."""

    def __init__(self, store: Store, session_id: str, embedder: Embedder, read_loose: ReadLoose) -> None:
        self._store = store
        self._session_id = session_id
        self._embedder = embedder
        self._read_loose = read_loose
        self._lock = threading.Lock()
        self._shelf = self._new_shelf(0)
        self._newest_of_all = 0
        self._loose: dict[tuple[int, int], Loose] = {}

    @property
    def is_exact(self) -> bool:
        """Whether every vector is compared; in long sessions, those of the nearest signatures are."""
        return self._shelf.vectors.is_exact

    async def search(self, query: str, *, limit: int = 20, wanted: Filter | None = None) -> list[Hit]:
        """The best `limit` passages by words and the best `limit` by vectors, fused by their ranks, the best first."""
        wanted = wanted or Filter()
        phrases = query_phrases(encodable(query))
        vector = await self._embed(query)
        look, asked = await self._look(phrases)
        allowed = await self._allowed(wanted)
        places, found, weights = await asyncio.to_thread(
            self._found, look, asked, _Query(phrases, vector, {}), limit, allowed
        )
        hits = await self._read(places, found)
        loose = await self._search_loose(look, _Query(phrases, vector, weights), wanted)
        return fuse([*hits, *loose])

    async def _embed(self, query: str) -> Floats | None:
        text = query[:MAX_EMBEDDED_CHARS].strip()
        if not text:
            return None
        vector: Floats = (await self._embedder.embed([text]))[0]
        return vector if vector.any() else None

    async def _look(self, phrases: Sequence[str]) -> tuple[Look, list[str]]:
        """Bring the shelf up to date, and learn where phrases stand; those that stand everywhere only if all do."""
        while True:
            shelf = self._shelf
            since = {phrase: shelf.since(phrase) for phrase in phrases}
            asked = [phrase for phrase in phrases if since[phrase] >= 0] or list(phrases)
            look = await self._store.passages.look(
                self._session_id,
                after=shelf.newest,
                phrases=[(phrase, max(0, since[phrase])) for phrase in asked],
                limit=MAX_POSTINGS,
                is_most=shelf.rows * 2 > self._newest_of_all,
            )
            with self._lock:
                if look.epoch == self._shelf.epoch and shelf is self._shelf:
                    shelf.add(look.rows, look.newest)
                    self._newest_of_all = look.newest
                    return look, asked
                if shelf is self._shelf:  # something was taken away: begin anew
                    self._shelf = self._new_shelf(look.epoch)
                    self._loose.clear()

    def _new_shelf(self, epoch: int) -> Shelf:
        return Shelf(index_maker(self._embedder.name), self._embedder.dimensions, epoch)

    async def _allowed(self, wanted: Filter) -> NDArray[np.bool_] | None:
        """Which places count; None: all."""
        shelf = self._shelf
        if wanted.is_empty and shelf.is_whole:
            return None
        postings = self._store.passages.postings
        tool = await postings(self._session_id, wanted.tool, field="tool") if wanted.tool else None
        file = await postings(self._session_id, wanted.file, field="words") if wanted.file else None
        with self._lock:
            allowed = shelf.column("alive").copy()
            if wanted.speaker is not None:
                allowed &= shelf.column("speaker") == SPEAKERS.index(wanted.speaker)
            if wanted.after_us is not None:
                allowed &= shelf.column("at_us") >= wanted.after_us
            if wanted.before_us is not None:
                allowed &= shelf.column("at_us") < wanted.before_us
            if tool is not None:
                allowed &= np.isin(np.arange(shelf.count), shelf.find(tool))
            if file is not None:
                allowed &= np.isin(shelf.column("turn"), shelf.column("turn")[shelf.find(file)])
        return allowed

    def _found(
        self, look: Look, asked: Sequence[str], query: _Query, limit: int, allowed: NDArray[np.bool_] | None
    ) -> tuple[Places, list[tuple[int, float, float]], dict[str, float]]:
        """The places of the candidates and their scores, and how much each phrase tells."""
        with self._lock:
            shelf = self._shelf
            count = shelf.count
            mask = np.ones(count, np.bool_) if allowed is None else np.resize(allowed, count)
            scores, weights = self._keyword_scores(shelf, look, asked, mask)
            by_words = _best(scores, limit)
            by_vector = np.empty(0, np.int64)
            if query.vector is not None and shelf.vectors.count:
                by_vector, _ = shelf.vectors.nearest(query.vector, limit, None if allowed is None else mask)
            places = np.union1d(by_words, by_vector)
            alike = np.zeros(len(places), np.float32)
            if query.vector is not None:
                alike = shelf.vectors.alike(query.vector, places)
            keys = shelf.column("key")[places]
            found = list(zip(keys.tolist(), scores[places].tolist(), alike.tolist(), strict=True))
            return places, found, weights

    def _keyword_scores(
        self, shelf: Shelf, look: Look, asked: Sequence[str], mask: NDArray[np.bool_]
    ) -> tuple[Floats, dict[str, float]]:
        scores = np.zeros(shelf.count, np.float32)
        weights: dict[str, float] = {}
        learnt = {
            phrase: shelf.learn(phrase, postings, look.newest)
            for phrase, postings in zip(asked, look.postings, strict=True)
        }
        is_all_common = all(is_common for _, is_common in learnt.values())
        words = shelf.column("words")
        mean_words = float(words.mean()) if shelf.count else 1.0
        for phrase, (places, is_common) in learnt.items():
            if is_common and not is_all_common:
                continue
            weight = float(np.log1p((shelf.count - len(places) + 0.5) / (len(places) + 0.5)))
            weights[phrase] = max(weight, 1e-3)
            seen = places[mask[places]]
            scores[seen] += weights[phrase] * (K1 + 1) / (1 + K1 * (1 - B + B * words[seen] / mean_words))
        return scores, weights

    async def _read(self, places: Places, found: Sequence[tuple[int, float, float]]) -> list[Hit]:
        shelf = self._shelf
        texts = await self._store.passages.texts(list(dict.fromkeys(key >> KEY_SHIFT for key, _, _ in found)))
        turns, moments = shelf.column("turn"), shelf.column("at_us")
        hits = []
        for place, (key, keyword, vector) in zip(places.tolist(), found, strict=True):
            row = texts.get(key >> KEY_SHIFT)
            if row is None:
                continue  # taken away meanwhile
            number = key & ((1 << KEY_SHIFT) - 1)
            text = row[number]
            hits.append(
                Hit(
                    turn=int(turns[place]),
                    passage=number,
                    text=text.text,
                    keyword=keyword,
                    vector=vector,
                    speaker=text.speaker,
                    tool=text.tool,
                    at_us=int(moments[place]),
                )
            )
        return hits

    async def _search_loose(self, look: Look, query: _Query, wanted: Filter) -> list[Hit]:
        """What the newest turns have that are not indexed yet."""
        loose = await self._loose_turns(look)
        kept = [
            (turn, number, each.at_us, passage)
            for turn, each in loose.items()
            for number, passage in enumerate(each.passages)
        ]
        if not kept:
            return []
        texts = [PassageText(each.speaker, each.text, each.tool, extra_words(each.text)) for *_, each in kept]
        scores = np.zeros(len(kept), np.float32)
        for phrase, places in zip(query.phrases, await self._store.passages.among(query.phrases, texts), strict=True):
            # A phrase that is nowhere in the index tells as much as one that is there once.
            scores[places] += query.weights.get(phrase, float(np.log1p(self._shelf.count + 1)))
        alike = np.zeros(len(kept), np.float32)
        if query.vector is not None:
            alike = await self._embedder.embed([each.text for *_, each in kept]) @ query.vector
        hits = [
            Hit(turn, number, each.text, score, near, each.speaker, each.tool, at_us)
            for (turn, number, at_us, each), score, near in zip(kept, scores.tolist(), alike.tolist(), strict=True)
        ]
        return [hit for hit in hits if _counts(hit, wanted, [each.text for each in loose[hit.turn].passages])]

    async def _loose_turns(self, look: Look) -> dict[int, Loose]:
        shelf = self._shelf
        turns = shelf.lacks(look.last_turn, MAX_LOOSE_TURNS)
        if look.last_turn and shelf.messages_of(look.last_turn) not in (None, look.last_messages):
            turns.append(look.last_turn)
        found: dict[int, Loose] = {}
        for turn in turns:
            key = (turn, look.last_messages if turn == look.last_turn else 0)
            if key not in self._loose:
                read = await self._read_loose(turn)
                if read is None:
                    shelf.gone.add(turn)
                    continue
                self._loose[key] = read
            found[turn] = self._loose[key]
        self._loose = {key: value for key, value in self._loose.items() if key[0] in found}
        return found


def fuse(hits: Sequence[Hit]) -> list[Hit]:
    """The hits by the sum of their reciprocal ranks, the best first; the newer of equals comes first."""
    gains: dict[int, float] = dict.fromkeys(range(len(hits)), 0.0)
    for score in ("keyword", "vector"):
        ranked = [place for place in gains if getattr(hits[place], score) > 0]
        ranked.sort(key=lambda place: (-getattr(hits[place], score), -hits[place].turn, hits[place].passage))  # noqa: B023
        for rank, place in enumerate(ranked):
            gains[place] += 1 / (FUSION_RANKS + rank)
    order = sorted(gains, key=lambda place: (-gains[place], -hits[place].turn, hits[place].passage))
    return [replace(hits[place], fused=gains[place]) for place in order]


def _best(scores: Floats, limit: int) -> Places:
    """The places of the highest scores above 0."""
    found = np.flatnonzero(scores)
    if len(found) > limit:
        # The place is added in, so that of equals always the same ones are taken.
        found = found[np.lexsort((-found, -scores[found]))[:limit]]
    return found


def _counts(hit: Hit, wanted: Filter, texts: Sequence[str]) -> bool:
    return (
        (wanted.speaker is None or hit.speaker == wanted.speaker)
        and (wanted.tool is None or (hit.tool or "").lower() == wanted.tool.lower())
        and (wanted.after_us is None or hit.at_us >= wanted.after_us)
        and (wanted.before_us is None or hit.at_us < wanted.before_us)
        and (wanted.file is None or any(wanted.file.lower() in text.lower() for text in texts))
    )
