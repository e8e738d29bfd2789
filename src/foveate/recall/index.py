"""The index of one session, or of all sessions of a store, in memory: a keyword and a vector score for each passage.

The database finds the passages that have a word; how much a word counts is computed here, over everything that is
searched, so that scores are comparable. Turns that are not indexed yet are cut and searched directly.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foveate.cache import BoundedCache
from foveate.errors import ModelError
from foveate.recall.embed import Embedder, Recent, index_maker
from foveate.recall.passages import Passage, passage_text
from foveate.recall.rank import PassageScores, Scores
from foveate.recall.vectors import Floats, Mask, Places, Vectors, is_packed, unpack
from foveate.recall.words import query_phrases, word_count
from foveate.store import Store
from foveate.store.rows import (
    KEY_SHIFT,
    SPEAKERS,
    IndexedSession,
    IndexSnapshot,
    PassagesRow,
    PassageText,
    Postings,
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
"""Of a phrase that stands in most passages."""
MAX_LOOSE_TURNS = 32
"""Turns not indexed yet that a search looks through, the newest."""
LOOSE_KEY = 1 << 62
"""With the turn behind it where a row's id would be, the key of a passage that is not indexed yet."""
MAX_EMBEDDED_CHARS = 2_000
"""Of a query."""
QUICK_PASSAGES = 100_000
"""Up to so many are scored in about a millisecond, where a thread would cost more than it saves."""
MAX_STORE_POSTINGS = 20_000
"""The same where all sessions are searched."""
MAX_STORE_LOOSE_TURNS = 256
"""Turns not indexed yet that a search over all sessions reads, of the sessions used last."""
TURN_BITS = 28
"""In an index of all sessions a turn is known by its session's number with so many bits for the turn behind it."""
TURN_MASK = (1 << TURN_BITS) - 1

MARKS = np.dtype([("speaker", "u1"), ("words", "<u2")])
MAX_WORDS = 2**16 - 1
MAX_KNOWN_PHRASES = 1_024
"""Phrases whose passages are remembered, so that only newer ones are asked for."""


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
    sessions: frozenset[int] | None = None
    """Numbers of the sessions that count; only in an index of all sessions."""


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


def pack_marks(passages: Sequence[Passage]) -> bytes:
    marks = [
        (SPEAKERS.index(passage.speaker), min(MAX_WORDS, max(1, word_count(passage.text)))) for passage in passages
    ]
    return np.array(marks, MARKS).tobytes()


@dataclass(frozen=True, slots=True)
class KnownPhrase:
    """The passages that have a phrase, up to the newest key when it was last looked up."""

    places: Places
    newest: int
    is_common: bool
    """It is in so many passages that not all were read."""


class PassageTable:
    """The passages of an index by columns, in the order of their row ids. Not safe for threads.

    A later row of a turn replaces an earlier one. In a table of all sessions, turns are numbered as `TURN_BITS` says.
    """

    def __init__(self, maker: str, dimensions: int, *, is_store: bool = False) -> None:
        self.maker = maker
        self.is_store = is_store
        self.newest = 0
        """The highest row id up to which rows were added."""
        self.count = 0
        self.vectors = Vectors(dimensions)
        self.rows = 0
        self.epochs: dict[int, tuple[int, int]] = {}
        """By the number of each session: when it was created, and its epoch when its rows were read."""
        self.is_whole = True
        """No passage was replaced by a later one."""
        self._columns: dict[str, NDArray[Any]] = {
            "key": np.empty(0, np.int64),
            "turn": np.empty(0, np.int64),
            "at_us": np.empty(0, np.int64),
            "speaker": np.empty(0, np.uint8),
            "words": np.empty(0, np.uint16),
            "alive": np.empty(0, np.bool_),
        }
        self._words = 0
        self._turns: dict[int, tuple[int, int, int]] = {}
        self._pruned: set[int] = set()
        self._settled: Counter[int] = Counter()
        """Turns in the table or pruned, by session."""
        self._known: BoundedCache[str, KnownPhrase] = BoundedCache(MAX_KNOWN_PHRASES)

    def column(self, name: str) -> NDArray[Any]:
        return self._columns[name][: self.count]

    @property
    def mean_words(self) -> float:
        return max(1.0, self._words / max(1, self.count))

    def is_current(self, sessions: Sequence[IndexedSession]) -> bool:
        """Whether nothing that the table holds was removed from the store since it was read."""
        now = {each.number: (each.created_us, each.epoch) for each in sessions}
        return all(now.get(number) == known for number, known in self.epochs.items())

    def turn_key(self, session: IndexedSession, turn: int) -> int:
        return session.number << TURN_BITS | turn if self.is_store else turn

    def messages_of(self, turn_key: int) -> int | None:
        """How many messages of a turn are indexed; None if it is not in the table."""
        found = self._turns.get(turn_key)
        return None if found is None else found[0]

    def mark_pruned(self, turn_key: int) -> None:
        if turn_key not in self._pruned:
            self._pruned.add(turn_key)
            self._settled[turn_key >> TURN_BITS] += 1

    def missing_count(self, session: IndexedSession) -> int:
        """How many turns of a session are not in the table and not known to be pruned."""
        own = session.last_turn - session.first_turn + 1
        return max(0, own - self._settled[session.number if self.is_store else 0])

    def missing(self, session: IndexedSession, limit: int) -> list[int]:
        """The newest of those turns."""
        found: list[int] = []
        wanted = min(limit, self.missing_count(session))
        turn = session.last_turn
        while len(found) < wanted and turn >= session.first_turn:
            key = self.turn_key(session, turn)
            if key not in self._turns and key not in self._pruned:
                found.append(turn)
            turn -= 1
        return found

    def add(self, snapshot: IndexSnapshot) -> None:
        """Add the rows of a snapshot that are not in the table yet."""
        fresh = sorted((row for row in snapshot.rows if row.id > self.newest), key=lambda row: row.id)
        self.newest = max(self.newest, snapshot.newest)
        self.epochs = {each.number: (each.created_us, each.epoch) for each in snapshot.sessions}
        if not fresh:
            return
        marks = np.frombuffer(b"".join(row.marks for row in fresh), MARKS)
        counts = np.array([len(row.marks) // MARKS.itemsize for row in fresh])
        firsts = self.count + np.cumsum(counts) - counts
        numbers = np.arange(len(marks)) + self.count - np.repeat(firsts, counts)
        start, end = self.count, self.count + len(marks)
        self._grow(end)
        ids = np.array([row.id for row in fresh])
        self._columns["key"][start:end] = (np.repeat(ids, counts) << KEY_SHIFT) | numbers
        keys = [row.session << TURN_BITS | row.turn for row in fresh] if self.is_store else [row.turn for row in fresh]
        self._columns["turn"][start:end] = np.repeat(keys, counts)
        self._columns["at_us"][start:end] = np.repeat([row.at_us for row in fresh], counts)
        self._columns["speaker"][start:end] = marks["speaker"]
        self._columns["words"][start:end] = marks["words"]
        self._columns["alive"][start:end] = True
        self.count, self.rows = end, self.rows + len(fresh)
        self._words += int(marks["words"].sum())
        for row, key, first, count in zip(fresh, keys, firsts.tolist(), counts.tolist(), strict=True):
            self._place(key, row.messages, first, first + count)
        self._add_vectors(fresh, firsts)

    def _add_vectors(self, rows: Sequence[PassagesRow], firsts: Places) -> None:
        """Add the vectors of rows of the current model, given the place of each row's first passage."""
        width = self.vectors.dimensions
        is_own = np.array([row.maker == self.maker and is_packed(row.vectors, width) for row in rows])
        if not is_own.any():
            return
        data = [row.vectors for row, own in zip(rows, is_own, strict=True) if own]
        stored = unpack(b"".join(data), width)
        counts = np.array([len(vectors) for vectors in data]) // stored.itemsize
        self.vectors.add(stored["number"] + np.repeat(firsts[is_own], counts), stored)

    def since(self, phrase: str) -> int:
        """Up to which key it is known where a phrase stands; -1 if it is known to stand almost everywhere."""
        known = self._known.get(phrase)
        return 0 if known is None else -1 if known.is_common else known.newest

    def learn(self, phrase: str, postings: Postings, newest: int) -> KnownPhrase:
        """Where a phrase stands, given where it does since last time."""
        known = self._known.get(phrase)
        places = self.find(postings.keys)
        if known is not None:
            places = np.concatenate([known.places, places])
        learnt = KnownPhrase(
            places, (newest + 1 << KEY_SHIFT) - 1, postings.is_cut or (known is not None and known.is_common)
        )
        self._known[phrase] = learnt
        return learnt

    def find(self, keys: Sequence[int]) -> Places:
        """The places of those keys that are on the table."""
        wanted = np.array(keys, np.int64)
        if not len(wanted) or not self.count:
            return np.empty(0, np.int64)
        places = np.minimum(np.searchsorted(self.column("key"), wanted), self.count - 1)
        found: Places = places[self.column("key")[places] == wanted]
        return found

    def _place(self, turn_key: int, messages: int, first: int, end: int) -> None:
        older = self._turns.get(turn_key)
        if older is None:
            self._settled[turn_key >> TURN_BITS] += turn_key not in self._pruned
        else:
            self.is_whole = False
            if older[0] > messages:
                self._columns["alive"][first:end] = False
                return
            self._columns["alive"][older[1] : older[2]] = False
        self._turns[turn_key] = (messages, first, end)

    def _grow(self, size: int) -> None:
        capacity = len(self._columns["key"])
        if size > capacity:
            for name, column in self._columns.items():
                longer = np.zeros(max(size, 2 * capacity), column.dtype)
                longer[: self.count] = column[: self.count]
                self._columns[name] = longer


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
        self._loose: dict[tuple[int, int], Loose] = {}
        self._recent = Recent(embedder)

    @property
    def is_store(self) -> bool:
        """Whether it covers all sessions."""
        return self._session_id is None

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
            row, number = (key & ~LOOSE_KEY) >> KEY_SHIFT, key & ((1 << KEY_SHIFT) - 1)
            texts = stored.get(row) if key < LOOSE_KEY else loose[row].passages if row in loose else None
            if texts is not None and number < len(texts):
                found[key] = texts[number]
        return found

    async def _scores(self, asked: _Query, wanted: Filter | None = None) -> Scores:
        table, snapshot, phrases = await self._look(asked.phrases)
        allowed = await self._allowed(table, wanted or Filter())
        job = partial(self._score, table, snapshot, phrases, asked.vector, allowed)
        scores, weights = job() if table.count <= QUICK_PASSAGES else await asyncio.to_thread(job)
        loose = await self._loose_turns(table, snapshot)
        return await self._with_loose(scores, loose, asked, weights, wanted or Filter()) if loose else scores

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
        """Bring the table up to date and read the postings of phrases; common ones only if all are common."""
        while True:
            with self._lock:
                if self._table.maker != index_maker(self._embedder.name):  # its dimensions have just become known
                    self._table = self._new_table()
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
                    return table, snapshot, asked
                if table is self._table:  # something was removed: read all again
                    self._table = self._new_table()
                    self._loose.clear()

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
                allowed &= np.isin(table.column("turn") >> TURN_BITS, list(wanted.sessions))
        return allowed

    def _score(
        self,
        table: PassageTable,
        snapshot: IndexSnapshot,
        phrases: Sequence[str],
        vector: Floats | None,
        allowed: Mask | None,
    ) -> tuple[Scores, dict[str, float]]:
        """The scores of the passages in the table, and the weight of each phrase."""
        with self._lock:
            keyword, weights = _by_words(table, snapshot, phrases)
            mask = np.ones(table.count, np.bool_)
            if allowed is not None:
                mask[len(allowed) :] = False  # what came between the two looks counts the next time
                mask[: len(allowed)] = allowed
                keyword *= mask
            return Scores(
                turn=table.column("turn"),
                at_us=table.column("at_us"),
                speaker=table.column("speaker"),
                keyword=keyword,
                vector=None
                if vector is None
                else table.vectors.compare(vector, table.count, None if allowed is None else mask),
                allowed=mask,
                key=table.column("key"),
            ), weights

    def _missing(self, table: PassageTable, snapshot: IndexSnapshot) -> Iterator[tuple[IndexedSession, Sequence[int]]]:
        """The turns that are not indexed and are searched directly, by session."""
        left = MAX_STORE_LOOSE_TURNS
        for session in snapshot.sessions:
            turns = table.missing(session, min(left, MAX_LOOSE_TURNS))
            left -= len(turns)
            if turns:
                yield session, turns

    async def _loose_turns(self, table: PassageTable, snapshot: IndexSnapshot) -> dict[int, Loose]:
        """Turns that are searched directly: those not indexed yet, and open ones of which messages are missing."""
        wanted = [(session, turn) for session, turns in self._missing(table, snapshot) for turn in turns]
        for session in snapshot.sessions:
            held = table.messages_of(table.turn_key(session, session.last_turn))
            if held is not None and held != session.last_messages:
                wanted.append((session, session.last_turn))
        found: dict[int, Loose] = {}
        known = self._loose
        for session, turn in wanted:
            turn_key = table.turn_key(session, turn)
            key = (turn_key, session.last_messages if turn == session.last_turn else 0)
            read = known.get(key) or await self._read_loose(session.id, turn)
            if read is None:
                table.mark_pruned(turn_key)
            else:
                found[turn_key] = known[key] = read
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
        )


def _by_words(table: PassageTable, snapshot: IndexSnapshot, phrases: Sequence[str]) -> tuple[Floats, dict[str, float]]:
    """How well each passage answers by its words, and how much each phrase tells."""
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
        weight = float(np.log1p((table.count - len(places) + 0.5) / (len(places) + 0.5)))
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
        and (wanted.sessions is None or turn_key >> TURN_BITS in wanted.sessions)
    )
