"""The oldest turns as eras: fine ones next to the turns still shown, coarser ones the older they are."""

from __future__ import annotations

from dataclasses import dataclass, replace

from foveate.strategy import Era, History, Overheads, Row

ERA_MINIMUM_TOKENS = 24
"""An era says nothing in less."""
ERA_GUESS_TOKENS = 100
"""What an era is taken to need before any has been made."""
LEVEL_SHARES = (0.9, 0.8, 0.7, 0.6, 0.5, 0.25)
"""Each level of eras may spend this share of what the finer ones leave: the first with which all levels fit."""
MAX_LEVELS = 40
MAX_JOINED_ERAS = 32
"""As many eras of the finest level stand in one block at most, so that opening it is one step."""
MAX_MISSING_ERAS = 200
"""A missing era is looked for among its children; when this many were missing, the rest is only named."""


@dataclass(frozen=True, slots=True)
class Cover:
    """Eras and named ranges that together stand for the turns 1 to some boundary, newest first."""

    eras: tuple[Era | Row, ...]
    """An era that exists, or the row of a range that is only named."""
    overheads: Overheads

    @property
    def least(self) -> int:
        """What they cost at their smallest."""
        return sum(self._fixed(era) + self._smallest(era) for era in self.eras)

    @property
    def full(self) -> int:
        """What they cost in full."""
        return sum(self._fixed(era) + self._largest(era) for era in self.eras)

    def rows(self, room_tokens: int) -> list[Row]:
        """Oldest first, together as large as the room allows: none is cut while a larger one could be."""
        spare = room_tokens - self.least
        assert spare >= 0, "a cover is made to fit"
        sizes = [self._smallest(era) for era in self.eras]
        level = _water_level(sizes, [self._largest(era) for era in self.eras], spare)
        rows: list[Row] = []
        for era, size in zip(self.eras, sizes, strict=True):
            grown = min(self._largest(era), max(size, level))
            spare -= grown - size
            rows.append(self._row(era, grown))
        for index, era in enumerate(self.eras):
            if spare > 0 and isinstance(era, Era) and rows[index].tokens < self._fixed(era) + era.tokens:
                rows[index] = replace(rows[index], tokens=rows[index].tokens + 1)
                spare -= 1
        rows.reverse()
        return _joined(rows)

    def _row(self, era: Era | Row, size: int) -> Row:
        if isinstance(era, Row):
            return era
        return Row(era.first, era.last, "E", self.overheads.range + size, era_level=era.level)

    def _fixed(self, era: Era | Row) -> int:
        return era.tokens if isinstance(era, Row) else self.overheads.range

    @staticmethod
    def _smallest(era: Era | Row) -> int:
        return 0 if isinstance(era, Row) else min(ERA_MINIMUM_TOKENS, era.tokens)

    @staticmethod
    def _largest(era: Era | Row) -> int:
        return 0 if isinstance(era, Row) else era.tokens


def _joined(rows: list[Row]) -> list[Row]:
    """Neighbouring eras of the finest level in one block: what their tags would take goes to what they say."""
    joined: list[Row] = []
    eras = 0
    for row in rows:
        last = joined[-1] if joined else None
        if last and row.era_level == last.era_level == 1 and eras < MAX_JOINED_ERAS:
            joined[-1] = replace(last, last=row.last, tokens=last.tokens + row.tokens)
            eras += 1
        else:
            joined.append(row)
            eras = 1
    return joined


def _water_level(sizes: list[int], limits: list[int], spare: int) -> int:
    """The largest level to which all sizes can grow, each up to its limit, within the spare tokens."""
    low, high = 0, max(limits, default=0)
    while low < high:
        level = (low + high + 1) // 2
        needed = sum(
            min(limit, level) - size for size, limit in zip(sizes, limits, strict=True) if min(limit, level) > size
        )
        low, high = (level, high) if needed <= spare else (low, level - 1)
    return low


def stub_row(first: int, last: int, overheads: Overheads) -> Row:
    """A range that is only named, so that its turns can still be asked for."""
    return Row(first, last, "E", overheads.range + overheads.cut_note, is_cut=True)


def finest_tokens(history: History) -> int:
    """The size of an era of the finest level, by the newest or the oldest; 0 where none is made."""
    blocks = history.last_turn // history.fanout
    sample = (history.era(1, blocks - 1) or history.era(1, 0)) if blocks else None
    return sample.tokens if sample else 0


def make_cover(history: History, boundary: int, last: int, room_tokens: int, overheads: Overheads) -> Cover:
    """Stands for the turns 1 to `last`: eras up to `boundary`, where one of the finest ends, the others only named.

    Its least cost fits the room if that of one named range does.
    """
    assert boundary <= last, "eras stand for turns that are not shown"
    reader = _Reader(history)
    found: list[Era | Row] = [stub_row(boundary + 1, last, overheads)] if boundary < last else []
    for level, index in _blocks(history, boundary, room_tokens, overheads):
        for piece in reader.resolve(level, index):
            if isinstance(piece, Era):
                found.append(piece)
            elif found and isinstance(found[-1], Row):
                found[-1] = stub_row(piece[0], found[-1].last, overheads)
            else:
                found.append(stub_row(*piece, overheads))
    cover = Cover(tuple(found), overheads)
    least = cover.least
    dropped = 0
    stub = overheads.range + overheads.cut_note
    while dropped < len(found) and least + (stub if dropped else 0) > room_tokens:
        least -= Cover((found[dropped],), overheads).least
        dropped += 1
    if not dropped:
        return cover
    if dropped < len(found) and isinstance(found[dropped], Row):
        dropped += 1
    return Cover((stub_row(found[dropped - 1].first, found[0].last, overheads), *found[dropped:]), overheads)


def _blocks(history: History, boundary: int, room_tokens: int, overheads: Overheads) -> list[tuple[int, int]]:
    """Which eras to show, newest first: as much of the finest levels as the room allows."""
    counts: list[int] = []
    if not boundary:
        return []
    for share in LEVEL_SHARES:
        counts, cost = _level_counts(history, boundary // history.fanout, room_tokens, share, overheads)
        if cost <= room_tokens:
            break
    blocks: list[tuple[int, int]] = []
    left = boundary // history.fanout
    for level, taken in enumerate(counts, 1):
        blocks.extend((level, index) for index in range(left - 1, left - 1 - taken, -1))
        left = (left - taken) // history.fanout
    return blocks


def _level_counts(
    history: History, count: int, room_tokens: int, share: float, overheads: Overheads
) -> tuple[list[int], int]:
    """How many eras of each level, finest first, and their cost in full.

    Each level reaches back to where one of the next begins, the last to turn 1; beyond that it takes whole groups
    while it spends no more than `share` of what the finer ones left.
    """
    fanout, counts, spent = history.fanout, list[int](), 0
    for level in range(1, MAX_LEVELS):
        sample = history.era(level, count - 1) or history.era(level, 0)
        each = overheads.range + (sample.tokens if sample else ERA_GUESS_TOKENS)
        left = room_tokens - spent
        taken = count % fanout
        if count < fanout or (sample and count * each <= left):
            taken = count
        elif sample:
            groups = int((left * share - taken * each) // (fanout * each))
            taken += fanout * max(0, min(groups, count // fanout))
        counts.append(taken)
        spent += taken * each
        count = (count - taken) // fanout
        if not count:
            break
    return counts, spent


class _Reader:
    """Finds what stands for an era that is not made yet."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.misses_left = MAX_MISSING_ERAS

    def resolve(self, level: int, index: int) -> list[Era | tuple[int, int]]:
        """The era, or its children, newest first; a range of turns where there is none."""
        era = self.history.era(level, index) if self.misses_left else None
        if era is not None:
            return [era]
        self.misses_left = max(0, self.misses_left - 1)
        fanout = self.history.fanout
        if level == 1 or not self.misses_left:
            return [(index * fanout**level + 1, (index + 1) * fanout**level)]
        return [
            piece
            for child in range((index + 1) * fanout - 1, index * fanout - 1, -1)
            for piece in self.resolve(level - 1, child)
        ]
