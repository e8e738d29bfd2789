"""Histories of whole turns, listed or all alike, for tests of the gradient's planning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from foveate.plan import Era, Overheads, SizeTable, TurnSizes, WordWeights
from foveate.testing.histories import USUAL_OVERHEADS, table_of


@dataclass(frozen=True, slots=True)
class ListedHistory:
    """A history of the items given, oldest first; eras of one size, but for those said to be missing."""

    items: Sequence[TurnSizes]
    fanout: int = 32
    era_tokens: int | None = 120
    """None: no era is made yet."""
    missing_eras: frozenset[tuple[int, int]] = frozenset()
    overheads: Overheads = USUAL_OVERHEADS
    retrieved: Sequence[int] = ()

    @property
    def last_turn(self) -> int:
        return self.items[-1].turn if self.items else 0

    def newest(self) -> Iterator[TurnSizes]:
        return reversed(self.items)

    def table(self, limit: int, by: WordWeights) -> SizeTable:
        return table_of(self.newest(), limit, by)

    def era(self, level: int, index: int) -> Era | None:
        missing = self.era_tokens is None or (level, index) in self.missing_eras
        return None if missing else make_era(self, level, index, self.era_tokens or 0)


@dataclass(slots=True)
class EvenHistory:
    """Any number of turns like one, in no memory; counts what is read of it."""

    turns: int
    like: TurnSizes
    fanout: int = 32
    era_tokens: int | None = 120
    overheads: Overheads = USUAL_OVERHEADS
    retrieved: Sequence[int] = ()
    reads: dict[str, int] = field(default_factory=lambda: {"items": 0, "eras": 0})

    @property
    def last_turn(self) -> int:
        return self.turns

    def newest(self) -> Iterator[TurnSizes]:
        like, reads = self.like, self.reads
        for turn in range(self.turns, 0, -1):
            reads["items"] += 1
            yield TurnSizes(turn, 0, like.raw, like.smoothed, like.compressed, like.tiny, brief=like.brief)

    def table(self, limit: int, by: WordWeights) -> SizeTable:
        return table_of(self.newest(), limit, by)

    def era(self, level: int, index: int) -> Era | None:
        self.reads["eras"] += 1
        return None if self.era_tokens is None else make_era(self, level, index, self.era_tokens)


def make_era(history: ListedHistory | EvenHistory, level: int, index: int, tokens: int) -> Era | None:
    """The era, if all its turns exist."""
    size = history.fanout**level
    last = (index + 1) * size
    return Era(level, index, index * size + 1, last, tokens) if index >= 0 and last <= history.last_turn else None


def sized(raw: int, smoothed: int | None, compressed: int | None, tiny: int | None, *, turn: int = 1) -> TurnSizes:
    """A whole turn that takes this much at each level."""
    return TurnSizes(turn, 0, raw, smoothed, compressed, tiny)
