"""Searching one session: how well every passage it sees answers, by words and by vectors.

Words are looked for by the database, which knows where each stands; how much they tell is reckoned here, over this
session alone, so that the same session gives the same answer whatever else the store holds. Turns that nobody has
indexed yet are looked through directly.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from foveate.errors import ModelError
from foveate.recall.embed import Embedder, Recent, index_maker
from foveate.recall.maker import passage_text
from foveate.recall.passages import Passage
from foveate.recall.rank import PassageScores
from foveate.recall.scores import Scores, fused
from foveate.recall.table import PassageTable
from foveate.recall.vectors import Floats, Mask
from foveate.recall.words import query_phrases
from foveate.store import Store
from foveate.store.rows import KEY_SHIFT, SPEAKERS, IndexSnapshot, PassageText, Speaker
from foveate.text import encodable

_log = logging.getLogger(__name__)

K1 = 1.2
B = 0.75
"""BM25's, as everywhere. A passage is so short that how often it says a word tells nothing."""
MAX_POSTINGS = 1_000
"""A phrase that stands in more passages than this is too common to tell, beside others that are not."""
LEAST_WEIGHT = 1e-3
"""Of a phrase that stands in most passages."""
MAX_LOOSE_TURNS = 32
"""Turns not indexed yet that a search looks through, the newest."""
LOOSE_KEY = 1 << 62
"""With the turn behind it where a row's id would be, the key of a passage that is not indexed yet."""
MAX_EMBEDDED_CHARS = 2_000
"""Of a query."""
QUICK_PASSAGES = 100_000
"""Up to so many are scored in about a millisecond, where a thread would cost more than it saves."""
LEAST_DEPTH = 50
"""How many of the best by each measure are fused, at least;"""
TURN_DEPTH = 3
"""and for each turn that is asked for."""


@dataclass(frozen=True, slots=True)
class PassageHit:
    """A passage that was found. `keyword` is 0 where it has none of the words; `vector` the mean where it has none."""

    turn: int
    passage: int
    text: str
    keyword: float
    vector: float
    speaker: Speaker
    tool: str | None
    at_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which passages count; None: all do."""

    speaker: Speaker | None = None
    tool: str | None = None
    after_us: int | None = None
    before_us: int | None = None
    file: str | None = None
    """A turn counts if any of its passages names this path, or the end of it."""


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
        self._recent = Recent(embedder)

    async def search(
        self,
        query: str,
        *,
        limit: int = 20,
        wanted: Filter | None = None,
        is_by_turn: bool = False,
        least_alike: float = -1.0,
    ) -> list[PassageHit]:
        """The best passages by words and vectors, by how far they stand out, the best first; or the best of each turn.

        A passage that has none of the words counts only if its vector is at least as near as `least_alike`.
        """
        scores = await self.scores(query, wanted)
        depth = max(LEAST_DEPTH, TURN_DEPTH * limit if is_by_turn else limit)
        places = fused(scores, depth, least_alike)
        if is_by_turn:
            best: dict[int, int] = {}
            for place in places:
                best.setdefault(int(scores.turn[place]), place)
            places = list(best.values())
        return await self.read(scores, places[:limit])

    async def measure_words(self, query: str) -> PassageScores:
        """How well every passage answers by its words alone."""
        return (await self._scores(_Query(query_phrases(encodable(query)), None))).by_words()

    async def measure_vectors(self, query: str) -> PassageScores | None:
        """How well every passage answers by its vector alone; None if the question has none."""
        return (await self._scores(_Query((), await self._embed(query)))).by_vectors()

    async def scores(self, query: str, wanted: Filter | None = None) -> Scores:
        """How well every passage answers, by words and by vectors."""
        return await self._scores(_Query(query_phrases(encodable(query)), await self._embed(query)), wanted)

    async def unsearched(self) -> int:
        """How many turns a search does not look through: those not indexed yet, beyond the newest."""
        shelf, look, _ = await self._look(())
        missing = shelf.lacks(look.last_turn, look.last_turn)
        if len(missing) > MAX_LOOSE_TURNS:  # some may be pruned, which is known of those only that were looked through
            sizes = await self._store.derived.sizes_of(self._session_id, missing[-1], missing[0])
            shelf.gone.update({size.turn for size in sizes if size.is_pruned}.intersection(missing))
        return max(0, shelf.lacking(look.last_turn) - MAX_LOOSE_TURNS)

    async def texts(self, keys: Sequence[int]) -> dict[int, Passage | PassageText]:
        """The passages of these keys; those that were taken away meanwhile are left out."""
        stored = await self._store.passages.texts(
            list(dict.fromkeys(key >> KEY_SHIFT for key in keys if key < LOOSE_KEY))
        )
        loose = {turn: each for (turn, _), each in self._loose.items()}
        found: dict[int, Passage | PassageText] = {}
        for key in keys:
            row, number = (key & ~LOOSE_KEY) >> KEY_SHIFT, key & ((1 << KEY_SHIFT) - 1)
            texts = stored.get(row) if key < LOOSE_KEY else loose[row].passages if row in loose else None
            if texts is not None and number < len(texts):
                found[key] = texts[number]
        return found

    async def _scores(self, asked: _Query, wanted: Filter | None = None) -> Scores:
        shelf, look, phrases = await self._look(asked.phrases)
        allowed = await self._allowed(shelf, wanted or Filter())
        job = partial(self._score, shelf, look, phrases, asked.vector, allowed)
        scores, weights = job() if shelf.count <= QUICK_PASSAGES else await asyncio.to_thread(job)
        loose = await self._loose_turns(shelf, look)
        return await self._with_loose(scores, loose, asked, weights, wanted or Filter()) if loose else scores

    async def read(self, scores: Scores, places: Sequence[int]) -> list[PassageHit]:
        """The passages at these places, in this order; one that was taken away meanwhile is left out."""
        keys = scores.key[list(places)].tolist() if places else []
        texts = await self.texts(keys)
        alike = np.zeros(len(places), np.float32) if scores.vector is None else scores.vector.at(places)
        return [
            PassageHit(
                turn=int(scores.turn[place]),
                passage=key & ((1 << KEY_SHIFT) - 1),
                text=texts[key].text,
                keyword=float(scores.keyword[place]),
                vector=float(near),
                speaker=texts[key].speaker,
                tool=texts[key].tool,
                at_us=int(scores.at_us[place]),
            )
            for place, key, near in zip(places, keys, alike, strict=True)
            if key in texts
        ]

    async def _embed(self, query: str) -> Floats | None:
        text = query[:MAX_EMBEDDED_CHARS].strip()
        if not text:
            return None
        try:
            vector: Floats = (await self._embedder.embed([text]))[0]
        except ModelError as error:
            _log.warning("searching by words alone: %s", error)
            return None
        return vector if vector.any() else None

    async def _look(self, phrases: Sequence[str]) -> tuple[PassageTable, IndexSnapshot, list[str]]:
        """Bring the shelf up to date, and learn where phrases stand; those that stand everywhere only if all do."""
        while True:
            with self._lock:
                if self._shelf.maker != index_maker(self._embedder.name):  # it has just said how long its vectors are
                    self._shelf = self._new_shelf(self._shelf.epoch)
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
                if shelf is self._shelf and look.epoch == shelf.epoch:
                    shelf.add(look.rows, look.newest)
                    self._newest_of_all = look.newest
                    return shelf, look, asked
                if shelf is self._shelf:  # something was taken away: begin anew
                    self._shelf = self._new_shelf(look.epoch)
                    self._loose.clear()

    def _new_shelf(self, epoch: int) -> PassageTable:
        return PassageTable(index_maker(self._embedder.name), self._embedder.dimensions, epoch)

    async def _allowed(self, shelf: PassageTable, wanted: Filter) -> Mask | None:
        """Which places count; None: all."""
        if wanted == Filter() and shelf.is_whole:
            return None
        postings = self._store.passages.postings
        tool = await postings(self._session_id, wanted.tool, field="tool") if wanted.tool else None
        file = await postings(self._session_id, wanted.file, field="words") if wanted.file else None
        with self._lock:
            allowed: Mask = shelf.column("alive").copy()
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

    def _score(
        self,
        shelf: PassageTable,
        look: IndexSnapshot,
        phrases: Sequence[str],
        vector: Floats | None,
        allowed: Mask | None,
    ) -> tuple[Scores, dict[str, float]]:
        """What is on the shelf, and how much each phrase tells."""
        with self._lock:
            keyword, weights = _by_words(shelf, look, phrases)
            mask = np.ones(shelf.count, np.bool_)
            if allowed is not None:
                mask[len(allowed) :] = False  # what came between the two looks counts the next time
                mask[: len(allowed)] = allowed
                keyword *= mask
            return Scores(
                turn=shelf.column("turn"),
                at_us=shelf.column("at_us"),
                speaker=shelf.column("speaker"),
                keyword=keyword,
                vector=None
                if vector is None
                else shelf.vectors.compare(vector, shelf.count, None if allowed is None else mask),
                allowed=mask,
                key=shelf.column("key"),
            ), weights

    async def _loose_turns(self, shelf: PassageTable, look: IndexSnapshot) -> dict[int, Loose]:
        """The newest turns that are not indexed yet, or not all of their messages."""
        turns = shelf.lacks(look.last_turn, MAX_LOOSE_TURNS)
        if look.last_turn and shelf.messages_of(look.last_turn) not in (None, look.last_messages):
            turns.append(look.last_turn)
        found: dict[int, Loose] = {}
        known = self._loose
        for turn in turns:
            key = (turn, look.last_messages if turn == look.last_turn else 0)
            read = known.get(key) or await self._read_loose(turn)
            if read is None:
                shelf.gone.add(turn)
            else:
                found[turn] = known[key] = read
        self._loose = {key: value for key, value in known.items() if key[0] in found}
        return found

    async def _with_loose(
        self, scores: Scores, loose: dict[int, Loose], asked: _Query, weights: dict[str, float], wanted: Filter
    ) -> Scores:
        """The scores with those of turns that are looked through directly."""
        kept = [(turn, each, number) for turn, each in sorted(loose.items()) for number in range(len(each.passages))]
        if not kept:
            return scores
        passages = [each.passages[number] for _, each, number in kept]
        texts = [passage_text(each) for each in passages]
        keyword = np.zeros(len(kept), np.float32)
        for phrase, having in zip(asked.phrases, await self._store.passages.among(asked.phrases, texts), strict=True):
            # A phrase that is nowhere in the index tells as much as one that is there once.
            keyword[having] += weights.get(phrase, float(np.log1p(len(scores) + 1)))
        vector = scores.vector
        if vector is not None and asked.vector is not None and self._embedder.is_local:
            alike = await self._recent.embed([each.text for each in passages]) @ asked.vector
            places = np.concatenate([vector.places, np.arange(len(scores), len(scores) + len(kept))])
            vector = replace(
                vector, places=places, found=np.concatenate([vector.found, alike]), count=len(scores) + len(kept)
            )
        # A turn of which a part is indexed is told once, as it is now.
        allowed = scores.allowed & ~np.isin(scores.turn, list(loose))
        own = [_counts(each, number, wanted) for _, each, number in kept]
        words = np.concatenate([scores.keyword, keyword]) * np.concatenate([allowed, own])
        return Scores(
            turn=np.concatenate([scores.turn, [turn for turn, _, _ in kept]]),
            at_us=np.concatenate([scores.at_us, [each.at_us for _, each, _ in kept]]),
            speaker=np.concatenate([scores.speaker, [SPEAKERS.index(each.speaker) for each in passages]]),
            keyword=words,
            vector=vector,
            allowed=np.concatenate([allowed, own]),
            key=np.concatenate([scores.key, [LOOSE_KEY | turn << KEY_SHIFT | number for turn, _, number in kept]]),
        )


def _by_words(shelf: PassageTable, look: IndexSnapshot, phrases: Sequence[str]) -> tuple[Floats, dict[str, float]]:
    """How well each passage answers by its words, and how much each phrase tells."""
    scores = np.zeros(shelf.count, np.float32)
    learnt = {
        phrase: shelf.learn(phrase, postings, look.newest)
        for phrase, postings in zip(phrases, look.postings, strict=True)
    }
    is_all_common = all(known.is_common for known in learnt.values())
    words, weights = shelf.column("words"), {}
    for phrase, known in learnt.items():
        if known.is_common and not is_all_common:
            continue
        places = known.places
        weight = float(np.log1p((shelf.count - len(places) + 0.5) / (len(places) + 0.5)))
        weights[phrase] = max(weight, LEAST_WEIGHT)
        scores[places] += weights[phrase] * (K1 + 1) / (1 + K1 * (1 - B + B * words[places] / shelf.mean_words))
    return scores, weights


def _counts(loose: Loose, number: int, wanted: Filter) -> bool:
    passage = loose.passages[number]
    return (
        (wanted.speaker is None or passage.speaker == wanted.speaker)
        and (wanted.tool is None or (passage.tool or "").lower() == wanted.tool.lower())
        and (wanted.after_us is None or loose.at_us >= wanted.after_us)
        and (wanted.before_us is None or loose.at_us < wanted.before_us)
        and (wanted.file is None or any(wanted.file.lower() in each.text.lower() for each in loose.passages))
    )
