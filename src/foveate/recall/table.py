"""The passages of one session in memory, as a search needs them: where each stands, who spoke, and its vector.

Rows are put on the shelf in the order of their ids. A later row of a turn takes the place of an earlier one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foveate.recall.passages import Passage
from foveate.recall.vectors import Places, Vectors, unpack
from foveate.recall.words import word_count
from foveate.store.rows import KEY_SHIFT, SPEAKERS, PassagesRow, Postings

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
    """Where a phrase stands, as far as the shelf went when it was last looked for."""

    places: Places
    newest: int
    is_common: bool
    """It stands in so many passages that not all were looked for."""


class PassageTable:
    """Not safe for threads by itself; `newest` and `epoch` say what was put on it."""

    def __init__(self, maker: str, dimensions: int, epoch: int = 0) -> None:
        self.maker = maker
        self.epoch = epoch
        self.newest = 0
        self.count = 0
        self.vectors = Vectors(dimensions)
        self.rows = 0
        self.gone: set[int] = set()
        """Turns that were pruned."""
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
        self._known: OrderedDict[str, KnownPhrase] = OrderedDict()

    def column(self, name: str) -> NDArray[Any]:
        return self._columns[name][: self.count]

    @property
    def mean_words(self) -> float:
        return max(1.0, self._words / max(1, self.count))

    def messages_of(self, turn: int) -> int | None:
        """How many messages of a turn are on the shelf; None if it is not there."""
        found = self._turns.get(turn)
        return None if found is None else found[0]

    def lacking(self, last_turn: int) -> int:
        """How many turns are not on the shelf, and can be read."""
        return last_turn - len(self._turns) - len(self.gone)

    def lacks(self, last_turn: int, limit: int) -> list[int]:
        """The newest turns that are not on the shelf, and can be read."""
        missing: list[int] = []
        wanted = min(limit, self.lacking(last_turn))
        turn = last_turn
        while len(missing) < wanted and turn > 0:
            if turn not in self._turns and turn not in self.gone:
                missing.append(turn)
            turn -= 1
        return missing

    def add(self, rows: Sequence[PassagesRow], newest: int) -> None:
        """Put rows on the shelf; those that are there already are left out."""
        fresh = sorted((row for row in rows if row.id > self.newest), key=lambda row: row.id)
        self.newest = max(self.newest, newest)
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
        self._columns["turn"][start:end] = np.repeat([row.turn for row in fresh], counts)
        self._columns["at_us"][start:end] = np.repeat([row.at_us for row in fresh], counts)
        self._columns["speaker"][start:end] = marks["speaker"]
        self._columns["words"][start:end] = marks["words"]
        self._columns["alive"][start:end] = True
        self.count, self.rows = end, self.rows + len(fresh)
        self._words += int(marks["words"].sum())
        for row, first, count in zip(fresh, firsts.tolist(), counts.tolist(), strict=True):
            self._place(row, first, first + count)
        own = [(row, first) for row, first in zip(fresh, firsts, strict=True) if row.maker == self.maker]
        stored = [unpack(row.vectors, self.vectors.dimensions) for row, _ in own]
        if stored:
            places = [vectors["number"] + first for vectors, (_, first) in zip(stored, own, strict=True)]
            self.vectors.add(np.concatenate(places), np.concatenate(stored))

    def since(self, phrase: str) -> int:
        """Up to which key it is known where a phrase stands; -1 if it is known to stand almost everywhere."""
        known = self._known.get(phrase)
        return 0 if known is None else -1 if known.is_common else known.newest

    def learn(self, phrase: str, postings: Postings, newest: int) -> KnownPhrase:
        """Where a phrase stands, given where it does since last time."""
        known = self._known.pop(phrase, None)
        places = self.find(postings.keys)
        if known is not None:
            places = np.concatenate([known.places, places])
        learnt = KnownPhrase(
            places, (newest + 1 << KEY_SHIFT) - 1, postings.is_cut or (known is not None and known.is_common)
        )
        self._known[phrase] = learnt
        while len(self._known) > MAX_KNOWN_PHRASES:
            self._known.popitem(last=False)
        return learnt

    def find(self, keys: Sequence[int]) -> Places:
        """The places of those keys that are on the shelf."""
        wanted = np.array(keys, np.int64)
        if not len(wanted) or not self.count:
            return np.empty(0, np.int64)
        places = np.minimum(np.searchsorted(self.column("key"), wanted), self.count - 1)
        found: Places = places[self.column("key")[places] == wanted]
        return found

    def _place(self, row: PassagesRow, first: int, end: int) -> None:
        older = self._turns.get(row.turn)
        if older is not None:
            self.is_whole = False
            if older[0] > row.messages:
                self._columns["alive"][first:end] = False
                return
            self._columns["alive"][older[1] : older[2]] = False
        self._turns[row.turn] = (row.messages, first, end)

    def _grow(self, size: int) -> None:
        capacity = len(self._columns["key"])
        if size > capacity:
            for name, column in self._columns.items():
                longer = np.zeros(max(size, 2 * capacity), column.dtype)
                longer[: self.count] = column[: self.count]
                self._columns[name] = longer
