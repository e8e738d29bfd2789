"""Reading turns: their text at a level, their messages, or their sizes alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from foveate.context.tags import tag_turn
from foveate.errors import LevelNotReady, LevelUnknown, TurnNotFound, TurnPruned
from foveate.history.texts import TextReader
from foveate.renditions import LEVELS, Level
from foveate.session.values import TurnContent, TurnOutline
from foveate.store import MessageRow, SessionRow, Store
from foveate.store.codec import restore_message
from foveate.store.rows import RenditionSizes
from foveate.tokens import Counter
from foveate.turn import Turn, from_us, turn_id, turn_number

NEWEST = 2**62


class Reader:
    """Reads one session's turns, as it is at the moment."""

    def __init__(self, store: Store, row: SessionRow, counter: Counter, viewer: TextReader) -> None:
        self._store = store
        self._row = row
        self._counter = counter
        self._viewer = viewer

    def between(self, first: str | int, last: str | int | None) -> tuple[int, int]:
        """The numbers of the first and the last turn asked for; without a last one, up to the newest."""
        low = turn_number(first)
        high = NEWEST if last is None else turn_number(last)
        if low is None or high is None:
            raise TurnNotFound(self._row.id, str(first if low is None else last), self._row.last_turn)
        return low, high

    async def contents(self, low: int, high: int, level: str, shape: str) -> list[TurnContent]:
        """The turns' texts at a level, in their tags (`tagged`) or plain."""
        if level not in LEVELS:
            raise LevelUnknown(level, LEVELS)
        shown: Level = level
        sizes = await self._store.derived.sizes_of(self._row.id, low, high)
        texts = await self._viewer.texts(shown, low, high) if sizes else {}
        return [self._content(size, shown, texts, shape) for size in sizes]

    async def turns(self, low: int, high: int) -> list[Turn]:
        """The turns as the values they were recorded from."""
        rows = await self._store.read(self._row.id, low, high)
        return [self._restore(number, group) for number, group in _by_number(rows).items()]

    async def outlines(self, low: int, high: int) -> list[TurnOutline]:
        """Sizes and times, without reading the turns."""
        return [
            TurnOutline(
                id=turn_id(row.turn),
                number=row.turn,
                messages=row.messages,
                tokens=self._counter.scale(row.tokens, self._row.calibration),
                tool_calls=row.tool_calls,
                started_at=from_us(row.first_at_us),
                ended_at=from_us(row.last_at_us),
                raw_bytes=row.size,
                is_pruned=row.pruned,
            )
            for row in await self._store.turns(self._row.id, low, high)
        ]

    def _restore(self, number: int, rows: list[MessageRow]) -> Turn:
        if any(row.body is None for row in rows):
            raise TurnPruned(self._row.id, turn_id(number))
        tokens = self._counter.scale(sum(row.tokens for row in rows), self._row.calibration)
        return Turn(tuple(restore_message(row) for row in rows), number, tokens)

    def _content(self, size: RenditionSizes, level: Level, texts: Mapping[int, str], shape: str) -> TurnContent:
        available = LEVELS if size.tiny is not None else ("R",)
        if size.is_pruned:
            raise TurnPruned(self._row.id, turn_id(size.turn))
        if level not in available:
            raise LevelNotReady(turn_id(size.turn), level, available)
        text = texts[size.turn]
        content = tag_turn(size.turn, level, text) if shape == "tagged" else text
        known = {"R": size.raw, "S": size.smoothed, "C": size.compressed, "T": size.tiny}[level]
        tokens = known if level in ("R", "S") and known is not None else self._counter.base(text)
        scaled = self._counter.scale(tokens, self._row.calibration)
        return TurnContent(turn_id(size.turn), level, content, scaled, available)


def _by_number(rows: Iterable[MessageRow]) -> dict[int, list[MessageRow]]:
    groups: dict[int, list[MessageRow]] = {}
    for row in rows:
        groups.setdefault(row.turn, []).append(row)
    return groups
