"""The passages of an index in memory: by columns, and their vectors.

Vectors are stored and held as whole numbers with a scale each. A search compares a question with every passage. Of a
long history that is dear, so all passages are first compared by signatures of one bit a number, and the nearest of
those by their vectors: measured on 67,000 passages, the best 50 are the same to 96 in 100.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foveate.cache import BoundedCache
from foveate.recall.embed import index_maker
from foveate.recall.passages import Passage
from foveate.recall.words import word_count
from foveate.store.rows import (
    KEY_SHIFT,
    SPEAKERS,
    IndexedSession,
    IndexSnapshot,
    PassageText,
    Postings,
    Speaker,
)
from foveate.store.sql import Connection, TextWords

TURN_BITS = 28
"""Bits for the turn in the key of an index of all sessions; the number of the session is above them."""
TURN_MASK = (1 << TURN_BITS) - 1

LOOSE_KEY = 1 << 62
"""With the turn behind it where a row's id would be, the key of a passage that is not indexed yet."""

MARKS = np.dtype([("speaker", "u1"), ("words", "<u2")])
MAX_WORDS = 2**16 - 1
MAX_KNOWN_PHRASES = 1_024
"""Phrases whose passages are remembered, so that only newer ones are asked for."""
MAX_LOOSE_TURNS = 32
"""Turns not indexed yet that a search looks through, the newest of a session,"""
MAX_STORE_LOOSE_TURNS = 256
"""and of all sessions, those used last first."""

EXACT_PASSAGES = 8_192
"""Up to this number, every vector is compared."""
NEAREST_SIGNATURES = 2_048
"""Beyond that, those of the nearest signatures are."""
SAMPLE = 512
"""Passages that the mean is taken from, then."""
CHUNK = 512
"""Vectors compared at a time, so that they stay in the processor's cache."""
MAX_HELD_BYTES = 300_000_000
"""Of vectors in memory for one session, a million of 256 numbers; beyond that, old passages are found by their words
only."""
EXACT = 2**24
"""Up to here whole numbers are exact in 32 bits, in whatever order they are added up."""
SPARE_ROWS = 256
"""Room that is kept free for the passages of the next turns."""
BITS = 64
MAX_SIGNATURE_BITS = 512
"""Of a longer vector the signature has fewer bits than the vector has numbers."""

Floats = NDArray[np.float32]
Places = NDArray[np.int64]
Mask = NDArray[np.bool_]


def pack_marks(passages: Sequence[Passage]) -> bytes:
    marks = [
        (SPEAKERS.index(passage.speaker), min(MAX_WORDS, max(1, word_count(passage.text)))) for passage in passages
    ]
    return np.array(marks, MARKS).tobytes()


def pack(vectors: Floats, numbers: Sequence[int]) -> bytes:
    """The vectors of the passages of these numbers, as bytes to store."""
    packed = np.zeros(len(numbers), _stored(vectors.shape[1]))
    scales = np.maximum(np.abs(vectors).max(axis=1, initial=0), 1e-9) / 127
    packed["number"], packed["scale"] = numbers, scales
    packed["row"] = np.round(vectors / scales[:, None])
    return packed.tobytes()


def unpack(data: bytes, dimensions: int) -> NDArray[Any]:
    """Stored vectors with their `number`, `scale` and `row`; none if they are of another size, or it is not known."""
    is_packed = dimensions > 0 and len(data) % _stored(dimensions).itemsize == 0
    return np.frombuffer(data if is_packed else b"", _stored(dimensions))


@cache
def _stored(dimensions: int) -> np.dtype[Any]:
    return np.dtype([("number", "<u2"), ("scale", "<f4"), ("row", "i1", (dimensions,))])


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


EVERYTHING = Filter()


@dataclass(frozen=True, slots=True)
class KnownPhrase:
    """The passages that have a phrase, up to the newest key when it was last looked up."""

    places: Places
    newest: int
    is_common: bool
    """Its passages are too many to read all of them."""


class PassageTable:
    """The passages of an index by columns, in the order of their row ids. Not safe for threads.

    A later row of a turn replaces an earlier one. In a table of all sessions, turns are numbered as `TURN_BITS` says.
    """

    def __init__(self, model: str, dimensions: int, *, is_store: bool = False) -> None:
        self.model = model
        self.maker = index_maker(model)
        self.is_store = is_store
        self.is_loaded = False
        """All rows of the store were read once."""
        self.newest = 0
        """The highest row id up to which rows were added."""
        self.count = 0
        self.mean_words = 1.0
        self.vectors = Vectors(dimensions)
        self.rows = 0
        self.epochs: dict[int, tuple[int, int]] = {}
        """By the number of each session: when it was created, and its epoch when its rows were read."""
        self.is_whole = True
        """No passage was replaced by a later one."""
        self._room: dict[str, NDArray[Any]] = {
            "key": np.empty(0, np.int64),
            "turn": np.empty(0, np.int64),
            "at_us": np.empty(0, np.int64),
            "speaker": np.empty(0, np.uint8),
            "words": np.empty(0, np.uint16),
        }
        self.columns = dict(self._room)
        """As long as there are passages."""
        self.alive = self._alive_room = np.empty(0, np.bool_)
        """Passages that were not replaced by later ones."""
        self.known: BoundedCache[str, KnownPhrase] = BoundedCache(MAX_KNOWN_PHRASES)
        self.turns: dict[int, tuple[int, int, int]] = {}
        """By the key of each turn: its indexed messages, its first place, and the one behind its last."""
        self._words = 0
        self._pruned: set[int] = set()
        self._settled: Counter[int] = Counter()
        """Turns in the table or pruned, by session."""

    def is_current(self, sessions: Sequence[IndexedSession]) -> bool:
        """Whether nothing that the table holds was removed from the store since it was read."""
        now = {each.number: (each.created_us, each.epoch) for each in sessions}
        return all(now.get(number) == known for number, known in self.epochs.items())

    def turn_key(self, session: IndexedSession, turn: int) -> int:
        return session.number << TURN_BITS | turn if self.is_store else turn

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
            if key not in self.turns and key not in self._pruned:
                found.append(turn)
            turn -= 1
        return found

    def loose_turns(
        self, sessions: Sequence[IndexedSession], last_turns: Mapping[int, int] | None
    ) -> list[tuple[IndexedSession, int]]:
        """The turns that are searched directly: the newest of those not indexed yet, and open ones of which messages
        are missing. With `last_turns`, those of these sessions."""
        found, opened = list[tuple[IndexedSession, int]](), list[tuple[IndexedSession, int]]()
        left = MAX_STORE_LOOSE_TURNS
        for session in sessions:
            number = session.number if self.is_store else 0
            is_wanted = last_turns is None or session.number in last_turns
            if is_wanted and session.last_turn - session.first_turn + 1 > self._settled[number]:
                turns = self.missing(session, min(left, MAX_LOOSE_TURNS))
                left -= len(turns)
                found += [(session, turn) for turn in turns]
            held = self.turns.get(number << TURN_BITS | session.last_turn)
            is_open = held is not None and held[0] != session.last_messages
            if is_open and (last_turns is None or session.last_turn <= last_turns.get(number, 0)):
                opened.append((session, session.last_turn))
        return found + opened

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
        keys = [row.session << TURN_BITS | row.turn for row in fresh] if self.is_store else [row.turn for row in fresh]
        start, end = self.count, self.count + len(marks)
        if end > len(self._room["key"]):
            self._room = {name: _longer(column, end) for name, column in self._room.items()}
            self._alive_room = _longer(self._alive_room, end)
        self.columns = {name: column[:end] for name, column in self._room.items()}
        self.columns["key"][start:] = (np.repeat([row.id for row in fresh], counts) << KEY_SHIFT) | numbers
        self.columns["turn"][start:] = np.repeat(keys, counts)
        self.columns["at_us"][start:] = np.repeat([row.at_us for row in fresh], counts)
        self.columns["speaker"][start:] = marks["speaker"]
        self.columns["words"][start:] = marks["words"]
        self.alive = alive = self._alive_room[:end]
        alive[start:] = True
        self.count, self.rows = end, self.rows + len(fresh)
        self._words += int(marks["words"].sum())
        self.mean_words = max(1.0, self._words / max(1, end))
        size = _stored(self.vectors.dimensions).itemsize if self.vectors.dimensions else 0
        stored: list[tuple[bytes, int]] = []  # rows' vectors of the current model, each with its first passage's place
        for row, key, first, count in zip(fresh, keys, firsts.tolist(), counts.tolist(), strict=True):
            if size and row.maker == self.maker and len(row.vectors) % size == 0:
                stored.append((row.vectors, first))
            older = self.turns.get(key)
            if older is None:
                self._settled[key >> TURN_BITS] += key not in self._pruned
            else:
                self.is_whole = False
                if older[0] > row.messages:
                    alive[first : first + count] = False
                    continue
                alive[older[1] : older[2]] = False
            self.turns[key] = (row.messages, first, first + count)
        if stored:
            vectors = np.frombuffer(b"".join(data for data, _ in stored), _stored(self.vectors.dimensions))
            offsets = np.repeat([first for _, first in stored], [len(data) // size for data, _ in stored])
            self.vectors.add(vectors["number"] + offsets, vectors)

    def learn(self, phrases: Sequence[str], postings: Sequence[Postings], newest: int) -> dict[str, KnownPhrase]:
        """The places of each phrase, given the passages found since it was last looked up."""
        learnt: dict[str, KnownPhrase] = {}
        end = (newest + 1 << KEY_SHIFT) - 1
        for phrase, found in zip(phrases, postings, strict=True):
            known = self.known.get(phrase)
            if known is None:
                places, is_common = self.find(found.keys), found.is_cut
            else:  # another search may have learned some of them meanwhile
                places, is_common = known.places, found.is_cut or known.is_common
                if fresh := [key for key in found.keys if key > known.newest]:
                    places = np.concatenate([places, self.find(fresh)])
            learnt[phrase] = self.known[phrase] = KnownPhrase(places, end, is_common)
        return learnt

    def allowed(self, wanted: Filter, having: Mapping[str, Sequence[int]]) -> Mask:
        """Which places count, given the keys of passages that have the tool and the file."""
        columns = self.columns
        allowed = self.alive.copy()
        if wanted.speaker is not None:
            allowed &= columns["speaker"] == SPEAKERS.index(wanted.speaker)
        if wanted.after_us is not None:
            allowed &= columns["at_us"] >= wanted.after_us
        if wanted.before_us is not None:
            allowed &= columns["at_us"] < wanted.before_us
        if "tool" in having:
            allowed &= np.isin(np.arange(self.count), self.find(having["tool"]))
        if "words" in having:
            allowed &= np.isin(columns["turn"], columns["turn"][self.find(having["words"])])
        if wanted.sessions is not None:
            allowed &= in_sessions(columns["turn"], wanted.sessions)
        return allowed

    def find(self, keys: Sequence[int]) -> Places:
        """The places of those keys that are on the table."""
        if not keys or not self.count:
            return np.empty(0, np.int64)
        wanted = np.array(keys, np.int64)
        places = np.minimum(np.searchsorted(self.columns["key"], wanted), self.count - 1)
        found: Places = places[self.columns["key"][places] == wanted]
        return found


@dataclass(frozen=True, slots=True)
class CutTurn:
    """A turn that is not indexed yet."""

    at_us: int
    passages: Sequence[Passage]
    texts: Sequence[PassageText]


class LoosePassages:
    """The passages of turns that are not indexed yet, by columns, and their words. None of it changes."""

    def __init__(self, connection: Connection, turns: Mapping[int, CutTurn]) -> None:
        self.turns = turns
        """By their keys, in order."""
        self.passages = [passage for each in turns.values() for passage in each.passages]
        counts = [len(each.passages) for each in turns.values()]
        keys = [
            LOOSE_KEY | turn << KEY_SHIFT | number
            for turn, count in zip(turns, counts, strict=True)
            for number in range(count)
        ]
        self.columns = {
            "turn": np.repeat(np.array(list(turns), np.int64), counts),
            "at_us": np.repeat(np.array([each.at_us for each in turns.values()], np.int64), counts),
            "speaker": np.array([SPEAKERS.index(each.speaker) for each in self.passages], np.uint8),
            "key": np.array(keys, np.int64),
            "words": np.array([word_count(each.text) for each in self.passages], np.uint16),
        }
        texts = [text for each in turns.values() for text in each.texts]
        self.words: TextWords = connection.words.index_texts(texts)
        self.vectors: Vectors | None = None
        """Of the passages, as the index will hold them; None: not made yet."""

    def add_vectors(self, vectors: Floats) -> None:
        """The vector of each passage."""
        numbers = np.arange(len(vectors))
        self.vectors = Vectors(vectors.shape[1])
        self.vectors.add(numbers, unpack(pack(vectors, range(len(vectors))), vectors.shape[1]))

    def allowed(self, wanted: Filter) -> list[bool]:
        """Which of the passages count."""
        return [
            (wanted.speaker is None or passage.speaker == wanted.speaker)
            and (wanted.tool is None or (passage.tool or "").lower() == wanted.tool.lower())
            and (wanted.after_us is None or each.at_us >= wanted.after_us)
            and (wanted.before_us is None or each.at_us < wanted.before_us)
            and (wanted.file is None or any(wanted.file.lower() in other.text.lower() for other in each.passages))
            and wanted.has_turn(turn)
            for turn, each in self.turns.items()
            for passage in each.passages
        ]


def in_sessions(turn_keys: NDArray[np.int64], sessions: Mapping[int, int]) -> Mask:
    """Which of these turns are of sessions that count."""
    if not sessions:
        return np.zeros(len(turn_keys), np.bool_)
    numbers = np.array(sorted(sessions), np.int64)
    last = np.array([sessions[number] for number in numbers.tolist()], np.int64)
    own = turn_keys >> TURN_BITS
    places = np.minimum(np.searchsorted(numbers, own), len(numbers) - 1)
    found: Mask = (numbers[places] == own) & (turn_keys & TURN_MASK <= last[places])
    return found


@dataclass(frozen=True, slots=True)
class Alike:
    """How much like a question passages are, from -1 to 1, with the mean and the deviation over all of them."""

    places: Places
    """Of those that were compared; they grow."""
    found: Floats
    count: int
    mean: float
    deviation: float
    is_exact: bool
    """Every vector was compared; else those of the nearest signatures, and mean and deviation are of a sample."""

    def at(self, places: Places | Sequence[int]) -> Floats:
        """For the passages at these places."""
        if not len(self.places):
            return np.full(len(places), self.mean, np.float32)
        near = np.minimum(np.searchsorted(self.places, places), len(self.places) - 1)
        found: Floats = np.where(self.places[near] == places, self.found[near], np.float32(self.mean))
        return found

    def compared(self, places: Places) -> list[float | None]:
        """For the passages at these places; None for one that was not compared."""
        if not len(self.places):
            return [None] * len(places)
        near = np.minimum(np.searchsorted(self.places, places), len(self.places) - 1)
        is_found = (self.places[near] == places).tolist()
        return [value if known else None for value, known in zip(self.found[near].tolist(), is_found, strict=True)]

    def joined(self, places: Places, found: Sequence[float]) -> Alike:
        """With passages that were compared elsewhere; those compared here stay as they are."""
        is_new = ~np.isin(places, self.places)
        every = np.concatenate([self.places, places[is_new]])
        order = np.argsort(every, kind="stable")
        values = np.concatenate([self.found, np.array(found, np.float32)[is_new]])
        return replace(self, places=every[order], found=values[order])


class Vectors:
    """The vectors of one session's passages; they are added as passages come, and never changed."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self.count = 0
        self._rows = np.empty((0, dimensions), np.int8)
        self._scales = np.empty(0, np.float32)
        self._places = np.empty(0, np.int64)
        self._most = MAX_HELD_BYTES // (dimensions + dimensions // 8 + 12)
        self._signatures = np.empty((signature_bits(dimensions) // BITS, 0), np.uint64)
        self._signed = 0
        self._floats = np.empty((0, dimensions), np.float32)
        self._sample: Floats | None = None
        self._sample_scales = np.empty(0, np.float32)
        self._centre: Floats | None = None

    @property
    def is_exact(self) -> bool:
        return self.count <= EXACT_PASSAGES

    def add(self, places: Places, stored: NDArray[Any]) -> None:
        """Vectors of the passages at these places, which lie beyond all that were added before."""
        end = self.count + len(places)
        if end > len(self._places):
            self._rows, self._scales, self._places = (
                _longer(held, end) for held in (self._rows, self._scales, self._places)
            )
            self._signatures = _longer(self._signatures.T, end).T.copy()
        self._rows[self.count : end] = stored["row"]
        self._scales[self.count : end] = stored["scale"]
        self._places[self.count : end] = places
        self.count = end
        if self.count > self._most:
            self._forget(self.count // 2)

    def compare(self, question: Floats, count: int, allowed: Mask | None = None) -> Alike:
        """How much like the question `count` passages are.

        Only passages that are allowed count, which is said by place; None: all do.
        """
        places = self._places[: self.count]
        own = None if allowed is None else allowed[places]
        if self.count > EXACT_PASSAGES:
            self._floats = self._floats[:0]
            chosen = self._nearest_signatures(question, own)
            assert self._sample is not None
            mean, deviation = moments(_products(self._sample, question) * self._sample_scales)
            return Alike(places[chosen], self._alike(question, chosen), count, mean, deviation, is_exact=False)
        known = len(self._floats)
        if known != self.count:  # few vectors are held as they are compared
            fresh = self._rows[known : self.count].astype(np.float32)
            self._floats = np.concatenate([self._floats[: self.count], fresh])
        alike = _products(self._floats, question) * self._scales[: self.count]
        if own is not None:
            alike, places = alike[own], places[own]
        return Alike(places, alike, count, *moments(alike), is_exact=True)

    def prepare(self) -> None:
        """Make in advance what the first comparison would make."""
        if not self.is_exact:
            self._sign()

    def _alike(self, question: Floats, chosen: Places) -> Floats:
        found = np.empty(len(chosen), np.float32)
        for start in range(0, len(chosen), CHUNK):
            some = chosen[start : start + CHUNK]
            found[start : start + CHUNK] = _products(self._rows.take(some, axis=0).astype(np.float32), question)
        found *= self._scales[chosen]
        return found

    def _nearest_signatures(self, question: Floats, own: Mask | None) -> Places:
        self._sign()
        assert self._centre is not None
        signature = _sign(question[None] - self._centre)
        distances = np.zeros(self.count, np.uint16)
        bits_of_all = signature_bits(self.dimensions)
        for bits, asked in zip(self._signatures, signature, strict=True):
            distances += np.bitwise_count(bits[: self.count] ^ asked[0])
        if own is not None:
            distances[~own] = bits_of_all + 1
        counts = np.cumsum(np.bincount(distances, minlength=bits_of_all + 2))
        reach = int(np.searchsorted(counts, NEAREST_SIGNATURES))
        return np.flatnonzero(distances <= min(reach, bits_of_all))

    def _sign(self) -> None:
        """Make the signatures that are lacking. What all passages have in common tells nothing, and is left out."""
        if self._sample is None or self._centre is None:
            every = slice(None, self.count, self.count // SAMPLE)
            self._sample, self._sample_scales = self._rows[every].astype(np.float32), self._scales[every]
            self._centre = (self._sample * self._sample_scales[:, None]).mean(axis=0)
        for start in range(self._signed, self.count, CHUNK):
            end = min(start + CHUNK, self.count)
            rows = self._rows[start:end].astype(np.float32) * self._scales[start:end, None]
            self._signatures[:, start:end] = _sign(rows - self._centre)
        self._signed = self.count

    def _forget(self, oldest: int) -> None:
        keep = slice(oldest, self.count)
        self._rows, self._scales, self._places = self._rows[keep], self._scales[keep], self._places[keep]
        self._signatures = np.zeros((len(self._signatures), self.count - oldest), np.uint64)
        self.count -= oldest
        self._signed = 0


def signature_bits(dimensions: int) -> int:
    return max(BITS, min(MAX_SIGNATURE_BITS, dimensions // BITS * BITS))


def _longer(array: NDArray[Any], size: int) -> NDArray[Any]:
    """With room for this many rows and some more."""
    longer = np.zeros((size + size // 4 + SPARE_ROWS, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer


def moments(values: Floats) -> tuple[float, float]:
    """The mean and the deviation, added up exactly enough that the order of the passages does not matter."""
    if not len(values):
        return 0.0, 0.0
    return float(values.mean(dtype=np.float64)), float(values.std(dtype=np.float64))


def _products(rows: Floats, question: Floats) -> Floats:
    """Of rows of whole numbers and a question: equal rows have equal products, wherever they stand.

    A sum of fractions depends on the order in which they are added, which is another at other places of a matrix. So
    the question is taken as whole numbers too, and what was rounded off as smaller ones.
    """
    most = EXACT / 127 - len(question) / 2
    coarse = most / max(float(np.abs(question).sum()), 1e-9)
    fine = most / (len(question) / 2)
    whole = np.round(question * coarse)
    rest = np.round((question * coarse - whole) * fine)
    products = (rows @ np.stack([whole, rest], axis=1)).astype(np.float64)
    found: Floats = ((products[:, 0] + products[:, 1] / fine) / coarse).astype(np.float32)
    return found


def _sign(rows: Floats) -> NDArray[np.uint64]:
    """On which side of random planes each row lies, a bit for each; one column a row."""
    bits = np.packbits(rows @ _planes(rows.shape[1]) > 0, axis=1)
    return np.ascontiguousarray(bits.view(np.uint64).T)


@cache
def _planes(dimensions: int) -> Floats:
    random = np.random.default_rng(0).standard_normal((dimensions, signature_bits(dimensions)))
    # A short vector has fewer numbers than its signature bits: its planes can't all be orthogonal.
    return (random if dimensions < BITS else np.linalg.qr(random)[0]).astype(np.float32)
