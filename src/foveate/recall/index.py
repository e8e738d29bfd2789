"""The index of one session, or of all sessions of a store, in memory: a keyword and a vector score for each passage.

The database finds the passages that have a word; how much a word counts is computed here, over everything that is
searched, so that scores are comparable. Turns that are not indexed yet are cut and searched directly.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from foveate.errors import ModelError
from foveate.recall.embed import Embedder, Recent, index_maker
from foveate.recall.passages import Passage, passage_text
from foveate.recall.rank import PassageScores, Scores
from foveate.recall.table import TURN_BITS, TURN_MASK, PassageTable
from foveate.recall.vectors import Floats, Mask
from foveate.recall.words import query_phrases, word_count
from foveate.store import Store
from foveate.store.rows import (
    KEY_SHIFT,
    NEWEST_ID,
    PASSAGE_MASK,
    SPEAKERS,
    IndexedSession,
    IndexSnapshot,
    PassageText,
    Speaker,
)
from foveate.text import encodable

_log = logging.getLogger(__name__)

K1 = 1.2
B = 0.75
"""BM25's, as everywhere. A passage is so short that how often it says a word tells nothing."""
MAX_POSTINGS = 1_000
"""A phrase that is in more passages than this is too common to count, unless all phrases of the query are."""
LEAST_WEIGHT = 1e-3
"""Of a phrase that is in most passages."""
MAX_LOOSE_TURNS = 32
"""Turns not indexed yet that a search looks through, the newest."""
LOOSE_KEY = 1 << 62
"""With the turn behind it where a row's id would be, the key of a passage that is not indexed yet."""
MAX_EMBEDDED_CHARS = 2_000
"""Of a query."""
QUICK_PASSAGES = 100_000
"""Up to this number, scoring takes about a millisecond and is not moved to a thread."""
MAX_STORE_POSTINGS = 20_000
"""The same where all sessions are searched."""
LOADED_ROWS = 8_192
"""Rows that are read together where a whole index is loaded."""
MAX_NEAREST = 200
"""Passages that the database is asked for, where it has an index of vectors."""
MAX_NAMED_SESSIONS = 1_000
"""Sessions that such a question names; of more, those that count are chosen afterwards."""
MAX_GLANCED_ROWS = 2_048
"""Rows that a glance reads for the words of a query, the newest,"""
GLANCED_TURNS = 512
"""and turns of the whole session, for what passages are like on average."""
MAX_STORE_LOOSE_TURNS = 256
"""Turns not indexed yet that a search over all sessions reads, of the sessions used last."""


@dataclass(frozen=True, slots=True)
class PassageHit:
    """A passage that was found. `keyword` is 0 where it has none of the words; `vector` the mean where it has none."""

    place: int
    """In the scores it was read from."""
    session: int
    """The session's number; 0 in an index of one session."""
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
    sessions: Mapping[int, int] | None = None
    """Numbers of the sessions that count, each with the last of its turns that does; only in an index of all. How much
    a word tells is then computed over these alone."""

    def has_turn(self, turn_key: int) -> bool:
        """Whether the turn of this key in an index of all sessions is of a session that counts."""
        return self.sessions is None or turn_key & TURN_MASK <= self.sessions.get(turn_key >> TURN_BITS, 0)


@dataclass(frozen=True, slots=True)
class Loose:
    """A turn that is not indexed yet."""

    at_us: int
    passages: Sequence[Passage]


ReadLoose = Callable[[str, int], Awaitable[Loose | None]]
"""Reads a turn of a session and cuts it; None if it was pruned."""


@dataclass(frozen=True, slots=True)
class _Query:
    phrases: Sequence[str]
    vector: Floats | None


class Index:
    """Of one session, or of all. Threads and tasks may share it; each search reads what other processes added."""

    def __init__(self, store: Store, session_id: str | None, embedder: Embedder, read_loose: ReadLoose) -> None:
        self._store = store
        self._session_id = session_id
        self._embedder = embedder
        self._read_loose = read_loose
        self._lock = threading.Lock()
        self._table = self._new_table()
        self._newest_of_all = 0
        self._sessions: Sequence[IndexedSession] = ()
        self._loose: dict[tuple[int, int], Loose] = {}
        self._recent = Recent(embedder)
        self._loading: asyncio.Task[None] | None = None

    @property
    def is_store(self) -> bool:
        """Whether it covers all sessions."""
        return self._session_id is None

    @property
    def is_loaded(self) -> bool:
        return self._table.newest > 0

    def session_ids(self, numbers: Collection[int]) -> dict[int, str]:
        """The ids of sessions by their numbers, as the last search saw them."""
        return {session.number: session.id for session in self._sessions if session.number in numbers}

    def load_soon(self) -> None:
        """Begin to load the index; nobody waits for it."""
        if self._loading is None or self._loading.done() or self._loading.get_loop() is not asyncio.get_running_loop():
            self._loading = asyncio.create_task(self._load())
            self._loading.add_done_callback(_note_failure)

    async def load_within(self, seconds: float | None) -> bool:
        """Whether the index is in memory after at most this time; if not, it is loaded in the background."""
        if not self.is_loaded:
            self.load_soon()
            assert self._loading is not None
            await asyncio.wait([self._loading], timeout=seconds)
        return self.is_loaded

    async def measure_words(self, query: str, wanted: Filter | None = None) -> PassageScores:
        """How well every passage answers by its words alone."""
        return (await self._scores(_Query(query_phrases(encodable(query)), None), wanted)).by_words()

    async def measure_phrases(self, phrases: Sequence[str], wanted: Filter | None = None) -> PassageScores:
        """The same by phrases that are given; 0 for a passage that has none of them."""
        return (await self._scores(_Query(phrases, None), wanted)).by_words()

    async def measure_vectors(self, query: str, wanted: Filter | None = None) -> PassageScores | None:
        """How well every passage answers by its vector alone; None if the question has none."""
        return (await self._scores(_Query((), await self._embed(query)), wanted)).by_vectors()

    async def glance(self, query: str, last_turn: int) -> tuple[PassageScores, PassageScores | None]:
        """How well passages answer by words and by vectors, without the index in memory.

        Only passages that have a word of the query come into question. The mean and the deviation are those of the
        whole session, as far as a sample of its turns tells.
        """
        assert self._session_id is not None, "a glance at one session"
        phrases, vector = query_phrases(encodable(query)), await self._embed(query)
        snapshot = await self._store.passages.look(
            self._session_id, after=NEWEST_ID, phrases=[(phrase, 0) for phrase in phrases], limit=MAX_POSTINGS
        )
        rare = [postings for postings in snapshot.postings if not postings.is_cut] or snapshot.postings
        ids = sorted({key >> KEY_SHIFT for postings in rare for key in postings.keys})[-MAX_GLANCED_ROWS:]
        turns = range(1, last_turn + 1, max(1, last_turn // GLANCED_TURNS))
        rows = await self._store.passages.rows(self._session_id, ids, turns)
        return await asyncio.to_thread(self._glance, replace(snapshot, rows=rows), phrases, vector, turns)

    def _glance(
        self, snapshot: IndexSnapshot, phrases: Sequence[str], vector: Floats | None, turns: range
    ) -> tuple[PassageScores, PassageScores | None]:
        table = self._new_table()
        table.add(snapshot)
        is_sampled = np.isin(table.column("turn"), turns)
        count = max(table.count, int(is_sampled.sum()) * turns.step)
        keyword, _ = _by_words(table, snapshot, phrases, count)
        alike = None if vector is None else table.vectors.compare(vector, table.count)
        scores = Scores(
            turn=table.column("turn"),
            at_us=table.column("at_us"),
            speaker=table.column("speaker"),
            keyword=keyword,
            vector=alike,
            allowed=table.column("alive"),
            key=table.column("key"),
            words=table.column("words"),
        )
        words, vectors = scores.by_words(), scores.by_vectors()
        sampled = is_sampled[scores.allowed]
        return words.within(count), vectors.like(sampled) if vectors else None

    async def scores(self, query: str, wanted: Filter | None = None) -> Scores:
        """How well every passage answers, by words and by vectors."""
        return await self._scores(_Query(query_phrases(encodable(query)), await self._embed(query)), wanted)

    async def unsearched(self) -> int:
        """How many turns a search does not cover: those not indexed yet, beyond the newest."""
        table, snapshot, _ = await self._look(())
        for session in snapshot.sessions:
            if table.missing_count(session) > MAX_LOOSE_TURNS:
                # Pruned turns are never indexed; of those beyond the newest it is not known yet.
                missing = table.missing(session, session.last_turn)
                sizes = await self._store.derived.sizes_of(session.id, missing[-1], missing[0])
                for turn in {size.turn for size in sizes if size.is_pruned}.intersection(missing):
                    table.mark_pruned(table.turn_key(session, turn))
        total = sum(map(table.missing_count, snapshot.sessions))
        return total - sum(len(turns) for _, turns in self._missing(table, snapshot))

    async def texts(self, keys: Sequence[int]) -> dict[int, Passage | PassageText]:
        """The passages of these keys; those that were taken away meanwhile are left out."""
        rows = list(dict.fromkeys(key >> KEY_SHIFT for key in keys if key < LOOSE_KEY))
        stored = await self._store.passages.texts(rows) if rows else {}
        loose = {turn: each for (turn, _), each in self._loose.items()}
        found: dict[int, Passage | PassageText] = {}
        for key in keys:
            row, number = (key & ~LOOSE_KEY) >> KEY_SHIFT, key & PASSAGE_MASK
            texts = stored.get(row) if key < LOOSE_KEY else loose[row].passages if row in loose else None
            if texts is not None and number < len(texts):
                found[key] = texts[number]
        return found

    async def _scores(self, asked: _Query, wanted: Filter | None = None) -> Scores:
        table, snapshot, phrases = await self._look(asked.phrases)
        allowed = await self._allowed(table, wanted or Filter())
        weighed = await self._allowed(table, Filter(sessions=wanted.sessions)) if wanted and wanted.sessions else None
        near = await self._nearest(table, asked.vector, wanted)
        job = partial(self._score, table, snapshot, phrases, asked.vector, allowed, weighed=weighed, near=near)
        scores, weights = job() if table.count <= QUICK_PASSAGES else await asyncio.to_thread(job)
        loose = await self._loose_turns(table, snapshot, wanted or Filter())
        return await self._with_loose(scores, loose, asked, weights, wanted or Filter()) if loose else scores

    async def _nearest(self, table: PassageTable, vector: Floats | None, wanted: Filter | None) -> Mapping[int, float]:
        """The passages that the database finds nearest, where not every vector is compared in memory: similarities by
        key."""
        if vector is None or not self.is_store or table.vectors.is_exact:
            return {}
        sessions = wanted.sessions if wanted else None
        numbers = None if sessions is None or len(sessions) > MAX_NAMED_SESSIONS else sorted(sessions)
        return dict(await self._store.passages.nearest(vector.tolist(), sessions=numbers, limit=MAX_NEAREST) or ())

    async def read(self, scores: Scores, places: Sequence[int]) -> list[PassageHit]:
        """The passages at these places, in this order; one that was taken away meanwhile is left out."""
        keys = scores.key[list(places)].tolist() if places else []
        texts = await self.texts(keys)
        alike = np.zeros(len(places), np.float32) if scores.vector is None else scores.vector.at(places)
        return [
            PassageHit(
                place=place,
                session=int(scores.turn[place]) >> TURN_BITS,
                turn=int(scores.turn[place]) & TURN_MASK,
                passage=key & PASSAGE_MASK,
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
        """Bring the table up to date and read the postings of phrases; common ones only if all are common."""
        while True:
            with self._lock:
                if self._table.maker != index_maker(self._embedder.name):  # its dimensions have just become known
                    self._table = self._new_table()
            if not self.is_loaded:
                self.load_soon()
                assert self._loading is not None
                await asyncio.shield(self._loading)  # a caller that gives up does not stop it for the others
            table = self._table
            since = {phrase: table.since(phrase) for phrase in phrases}
            asked = [phrase for phrase in phrases if since[phrase] >= 0] or list(phrases)
            snapshot = await self._store.passages.look(
                self._session_id,
                after=table.newest,
                phrases=[(phrase, max(0, since[phrase])) for phrase in asked],
                limit=MAX_STORE_POSTINGS if self.is_store else MAX_POSTINGS,
                is_most=table.rows * 2 > self._newest_of_all,
            )
            with self._lock:
                if table is self._table and table.is_current(snapshot.sessions):
                    table.add(snapshot)
                    self._newest_of_all = snapshot.newest
                    self._sessions = snapshot.sessions
                    return table, snapshot, asked
                if table is self._table:  # something was removed: read all again
                    self._table = self._new_table()
                    self._loose.clear()

    async def _load(self) -> None:
        """Read the whole index, in parts, off the event loop."""
        table = self._new_table()
        while True:
            until = table.newest + LOADED_ROWS
            part = await self._store.passages.look(
                self._session_id, after=table.newest, until=until, phrases=(), limit=0
            )
            if not table.is_current(part.sessions):  # something was removed: read all again
                table = self._new_table()
                continue
            end = min(until, part.newest)
            await asyncio.to_thread(table.add, replace(part, newest=end))
            if end == part.newest:
                break
        await asyncio.to_thread(table.vectors.prepare)
        with self._lock:
            if not self.is_loaded:
                self._table, self._newest_of_all = table, table.newest

    def _new_table(self) -> PassageTable:
        return PassageTable(index_maker(self._embedder.name), self._embedder.dimensions, is_store=self.is_store)

    async def _allowed(self, table: PassageTable, wanted: Filter) -> Mask | None:
        """Which places count; None: all."""
        if wanted == Filter() and table.is_whole:
            return None
        postings = self._store.passages.postings
        tool = await postings(self._session_id, wanted.tool, field="tool") if wanted.tool else None
        file = await postings(self._session_id, wanted.file, field="words") if wanted.file else None
        with self._lock:
            allowed: Mask = table.column("alive").copy()
            if wanted.speaker is not None:
                allowed &= table.column("speaker") == SPEAKERS.index(wanted.speaker)
            if wanted.after_us is not None:
                allowed &= table.column("at_us") >= wanted.after_us
            if wanted.before_us is not None:
                allowed &= table.column("at_us") < wanted.before_us
            if tool is not None:
                allowed &= np.isin(np.arange(table.count), table.find(tool))
            if file is not None:
                allowed &= np.isin(table.column("turn"), table.column("turn")[table.find(file)])
            if wanted.sessions is not None:
                allowed &= _in_sessions(table.column("turn"), wanted.sessions)
        return allowed

    def _score(
        self,
        table: PassageTable,
        snapshot: IndexSnapshot,
        phrases: Sequence[str],
        vector: Floats | None,
        allowed: Mask | None,
        *,
        weighed: Mask | None,
        near: Mapping[int, float],
    ) -> tuple[Scores, dict[str, float]]:
        """The scores of the passages in the table, and the weight of each phrase among those that are weighed."""
        with self._lock:
            keyword, weights = _by_words(table, snapshot, phrases, table.count, weighed)
            mask = np.ones(table.count, np.bool_)
            if allowed is not None:
                mask[len(allowed) :] = False  # what came between the two looks counts the next time
                mask[: len(allowed)] = allowed
                keyword *= mask
            alike = None
            if vector is not None:
                alike = table.vectors.compare(vector, table.count, None if allowed is None else mask)
                if near:
                    places = table.find(list(near))
                    places = places[mask[places]]
                    alike = alike.joined(places, [near[key] for key in table.column("key")[places].tolist()])
            return Scores(
                turn=table.column("turn"),
                at_us=table.column("at_us"),
                speaker=table.column("speaker"),
                keyword=keyword,
                vector=alike,
                allowed=mask,
                key=table.column("key"),
                words=table.column("words"),
            ), weights

    def _missing(
        self, table: PassageTable, snapshot: IndexSnapshot, wanted: Filter | None = None
    ) -> Iterator[tuple[IndexedSession, Sequence[int]]]:
        """The turns that are not indexed and are searched directly, by session."""
        left = MAX_STORE_LOOSE_TURNS
        for session in filter(table.missing_count, snapshot.sessions):
            if wanted and wanted.sessions is not None and session.number not in wanted.sessions:
                continue
            turns = table.missing(session, min(left, MAX_LOOSE_TURNS))
            left -= len(turns)
            if turns:
                yield session, turns

    async def _loose_turns(self, table: PassageTable, snapshot: IndexSnapshot, wanted: Filter) -> dict[int, Loose]:
        """Turns that are searched directly: those not indexed yet, and open ones of which messages are missing."""
        missing = [(session, turn) for session, turns in self._missing(table, snapshot, wanted) for turn in turns]
        for session in snapshot.sessions:
            newest = table.turn_key(session, session.last_turn)
            held = table.messages_of(newest)
            if held is not None and held != session.last_messages and wanted.has_turn(newest):
                missing.append((session, session.last_turn))
        found: dict[int, Loose] = {}
        known = self._loose
        for session, turn in missing:
            turn_key = table.turn_key(session, turn)
            key = (turn_key, session.last_messages if turn == session.last_turn else 0)
            read = known.get(key) or await self._read_loose(session.id, turn)
            if read is None:
                table.mark_pruned(turn_key)
            else:
                found[turn_key] = known[key] = read
        # Those of sessions that this search leaves out may be what another one is about to read.
        others = set([key for key in known if not wanted.has_turn(key[0])][-MAX_STORE_LOOSE_TURNS:])
        self._loose = {key: known[key] for key in known if key[0] in found or key in others}
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
        # A turn that is indexed in part is reported once, as it is now.
        allowed = scores.allowed & ~np.isin(scores.turn, list(loose))
        own = [_counts(turn, each, number, wanted) for turn, each, number in kept]
        words = np.concatenate([scores.keyword, keyword]) * np.concatenate([allowed, own])
        return Scores(
            turn=np.concatenate([scores.turn, [turn for turn, _, _ in kept]]),
            at_us=np.concatenate([scores.at_us, [each.at_us for _, each, _ in kept]]),
            speaker=np.concatenate([scores.speaker, [SPEAKERS.index(each.speaker) for each in passages]]),
            keyword=words,
            vector=vector,
            allowed=np.concatenate([allowed, own]),
            key=np.concatenate([scores.key, [LOOSE_KEY | turn << KEY_SHIFT | number for turn, _, number in kept]]),
            words=np.concatenate([scores.words, np.array([word_count(each.text) for each in passages], np.uint16)]),
        )


def _by_words(
    table: PassageTable, snapshot: IndexSnapshot, phrases: Sequence[str], count: int, weighed: Mask | None = None
) -> tuple[Floats, dict[str, float]]:
    """How well each passage answers by its words, and the weight of each phrase among `count` passages, or among those
    that are weighed."""
    if weighed is not None:
        weighed = np.pad(weighed, (0, table.count - len(weighed)))
        count = int(weighed.sum())
    scores = np.zeros(table.count, np.float32)
    learnt = {
        phrase: table.learn(phrase, postings, snapshot.newest)
        for phrase, postings in zip(phrases, snapshot.postings, strict=True)
    }
    is_all_common = all(known.is_common for known in learnt.values())
    words, weights = table.column("words"), {}
    for phrase, known in learnt.items():
        if known.is_common and not is_all_common:
            continue
        places = known.places
        having = len(places) if weighed is None else int(weighed[places].sum())
        weight = float(np.log1p((count - having + 0.5) / (having + 0.5)))
        weights[phrase] = max(weight, LEAST_WEIGHT)
        scores[places] += weights[phrase] * (K1 + 1) / (1 + K1 * (1 - B + B * words[places] / table.mean_words))
    return scores, weights


def _counts(turn_key: int, loose: Loose, number: int, wanted: Filter) -> bool:
    passage = loose.passages[number]
    return (
        (wanted.speaker is None or passage.speaker == wanted.speaker)
        and (wanted.tool is None or (passage.tool or "").lower() == wanted.tool.lower())
        and (wanted.after_us is None or loose.at_us >= wanted.after_us)
        and (wanted.before_us is None or loose.at_us < wanted.before_us)
        and (wanted.file is None or any(wanted.file.lower() in each.text.lower() for each in loose.passages))
        and wanted.has_turn(turn_key)
    )


def _in_sessions(turn_keys: NDArray[np.int64], sessions: Mapping[int, int]) -> Mask:
    """Which of these turns are of sessions that count."""
    if not sessions:
        return np.zeros(len(turn_keys), np.bool_)
    numbers = np.array(sorted(sessions), np.int64)
    last = np.array([sessions[number] for number in numbers.tolist()], np.int64)
    own = turn_keys >> TURN_BITS
    places = np.minimum(np.searchsorted(numbers, own), len(numbers) - 1)
    found: Mask = (numbers[places] == own) & (turn_keys & TURN_MASK <= last[places])
    return found


def _note_failure(loading: asyncio.Task[None]) -> None:
    """Whoever waits for it gets the error; without anybody it is only logged."""
    if not loading.cancelled() and (error := loading.exception()):
        _log.debug("the index was not loaded: %s", error)
