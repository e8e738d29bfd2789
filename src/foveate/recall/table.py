"""The passages of an index in memory, by columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foveate.cache import BoundedCache
from foveate.recall.passages import Passage
from foveate.recall.vectors import Mask, Places, Vectors, is_packed, unpack
from foveate.recall.words import word_count
from foveate.store.rows import KEY_SHIFT, SPEAKERS, IndexedSession, IndexSnapshot, PassagesRow, Postings

TURN_BITS = 28
"""Bits for the turn in the key of an index of all sessions; the number of the session is above them."""
TURN_MASK = (1 << TURN_BITS) - 1

MARKS = np.dtype([("speaker", "u1"), ("words", "<u2")])
MAX_WORDS = 2**16 - 1
MAX_KNOWN_PHRASES = 1_024
"""Phrases whose passages are remembered, so that only newer ones are asked for."""


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
    """Its passages are too many to read all of them."""


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
        """The last key that the places of a phrase are known for; -1 if it is known to be almost everywhere."""
        known = self._known.get(phrase)
        return 0 if known is None else -1 if known.is_common else known.newest

    def learn(self, phrase: str, postings: Postings, newest: int) -> KnownPhrase:
        """The places of a phrase, given those since the last call."""
        known = self._known.get(phrase)
        if known is None:
            places = self.find(postings.keys)
        else:  # another search may have learned some of them meanwhile
            places = np.concatenate([known.places, self.find([key for key in postings.keys if key > known.newest])])
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
