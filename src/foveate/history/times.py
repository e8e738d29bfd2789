"""When turns began, and the dates that are shown before them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from foveate.cache import BoundedCache
from foveate.context.assemble import BlockText
from foveate.context.dates import Dates, begins, is_known, is_other_day, later_text, span_text
from foveate.context.tags import SUMS, TagEntry
from foveate.plan import Block, ShownLevel
from foveate.store import SessionRow, Store
from foveate.turn import day_text

MAX_CACHED_TIMES = 20_000
"""Maximum times in memory; more if one context needs more."""
MADE_FROM_LOG: tuple[ShownLevel, ...] = ("R", "U", "M")
"""Levels whose texts are not stored with a plan."""
READ_GAP_TURNS = 8
"""Maximum gap between turns that are read in one query: more rows cost less than more queries."""


@dataclass(frozen=True, slots=True)
class TurnDates:
    """The times of turns, for the dates before them."""

    times: Mapping[int, int]
    """When turns began, by number."""
    is_dated: bool
    """The conversation has dates; otherwise only a turn of another day than the one before it."""
    dates: Dates

    def entries(self, row: Block, entries: Sequence[TagEntry]) -> list[TagEntry]:
        """Add the dates of a row: at its beginning and where the day changes. Raw turns have only the latter, because
        they are written again for each context."""
        if row.first_step or not (self.is_dated or row.level in MADE_FROM_LOG):
            return list(entries)
        if row.level in SUMS:
            (entry,) = entries
            ends = self.times.get(row.first, 0), self.times.get(row.last, 0)
            return [replace(entry, date=span_text(*ends) if all(map(is_known, ends)) else "")]
        found: list[TagEntry] = []
        shown_us = 0
        for entry in entries:
            at_us = self.times.get(entry.number, 0)
            if row.level in MADE_FROM_LOG:
                date = day_text(at_us) if self.is_new_day(entry.number) else ""
            elif not is_known(at_us):
                date = ""
            elif not shown_us:
                date = day_text(at_us)
            else:
                is_later = is_other_day(at_us, shown_us) or begins(at_us, self.times.get(entry.number - 1, at_us))
                date = later_text(at_us, shown_us) if is_later else ""
            shown_us = at_us if is_known(at_us) else shown_us
            found.append(replace(entry, date=date) if date else entry)
        return found

    def is_new_day(self, turn: int) -> bool:
        """Return whether a turn is of another day than the one before it."""
        at_us, before_us = self.times.get(turn, 0), self.times.get(turn - 1, 0)
        if self.dates == "never" or not is_known(at_us):
            return False
        return is_other_day(at_us, before_us) if is_known(before_us) else self.dates == "always" and turn == 1

    def block(self, block: BlockText) -> BlockText:
        """Add the day of a block that can be sent as messages."""
        row = block.row
        if block.messages is None or not is_known(self.times.get(row.first, 0)):
            return block
        is_new = not row.first_step and self.is_new_day(row.first)
        date = day_text(self.times[row.first]) if is_new or self.is_dated else ""
        return replace(block, date=date, is_new_day=is_new)


class TurnTimes:
    """When the turns of a session began. The times are read once."""

    def __init__(self, store: Store, session_id: str, dates: Dates) -> None:
        self._store = store
        self._session_id = session_id
        self._dates = dates
        self._known: BoundedCache[int, int] = BoundedCache(MAX_CACHED_TIMES)
        self._is_dated = dates == "always"

    def anew(self) -> TurnTimes:
        """Return the same without what was read."""
        return TurnTimes(self._store, self._session_id, self._dates)

    async def is_dated(self, session: SessionRow) -> bool:
        """Return whether the blocks of a conversation have dates: `auto` from its second day on, and if it was
        imported on a later day."""
        if self._is_dated or self._dates == "never" or not session.last_turn:
            return self._is_dated
        times = await self._read([1, session.last_turn])
        first_us = times.get(1, 0)
        others = (times.get(session.last_turn, 0), session.created_us)
        self._is_dated = is_known(first_us) and any(is_other_day(each, first_us) for each in others)
        return self._is_dated

    async def days(self, session: SessionRow, turns: Collection[int]) -> dict[int, str]:
        """Return the days of turns, if the conversation has dates."""
        if not await self.is_dated(session):
            return {}
        return {turn: day_text(at_us) for turn, at_us in (await self._read(turns)).items() if is_known(at_us)}

    async def read(self, session: SessionRow, rows: Sequence[Block]) -> TurnDates:
        """Read the times that the dates of rows need."""
        is_dated = await self.is_dated(session)
        wanted: set[int] = set()
        for row in rows if self._dates != "never" else ():
            if row.level in SUMS or row.era_tokens:
                wanted |= {row.first, row.last} if is_dated else set()
            if row.level not in SUMS and (is_dated or row.level in MADE_FROM_LOG):
                wanted |= set(range(max(1, row.first - 1), row.last + 1))
        return TurnDates(await self._read(wanted), is_dated, self._dates)

    async def _read(self, turns: Collection[int]) -> dict[int, int]:
        self._known.reserve(len(turns))
        found = {turn: at_us for turn in turns if (at_us := self._known.get(turn)) is not None}
        for first, last in runs_of((turn for turn in turns if turn not in found), gap=READ_GAP_TURNS):
            for row in await self._store.turns(self._session_id, first, last):
                found[row.turn] = self._known[row.turn] = row.first_at_us
        return found


def runs_of(numbers: Iterable[int], gap: int = 0) -> Iterator[tuple[int, int]]:
    """Group numbers into ranges, one query each; gaps up to `gap` are included."""
    start = previous = None
    for number in sorted(set(numbers)):
        if start is None or previous is None or number > previous + 1 + gap:
            if start is not None and previous is not None:
                yield start, previous
            start = number
        previous = number
    if start is not None and previous is not None:
        yield start, previous
