"""What a picture of a context shows: a cell for each turn, what each level takes, and the parts beside the history.

Each time a plan changes, the cells are kept, so that people can see how the picture changed.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from foveate.plan import Cause, ShownLevel
from foveate.session.values import Context, Segment
from foveate.store.pictures import PictureRow
from foveate.turn import from_us, to_us

LEVEL_NAMES: Mapping[ShownLevel, str] = {
    "R": "raw",
    "S": "smoothed",
    "C": "compressed",
    "T": "tiny",
    "E": "eras",
    "U": "user's words",
    "M": "some messages short",
    "A": "summaries",
}
SUM_LEVELS: tuple[ShownLevel, ...] = ("E", "A")
"""Levels whose cell is a range of turns."""
CAUSES: Mapping[Cause, str] = {
    "first": "the first one",
    "budget": "the budget or the settings changed",
    "made": "turns that were cut are now compressed",
    "full": "the history was full",
    "interval": "the interval was over",
    "cold": "the provider's cache expired",
}
"""Why a plan was made."""


LEVELS: Mapping[str, ShownLevel] = {level: level for level in LEVEL_NAMES}


@dataclass(frozen=True, slots=True)
class Cell:
    """A turn, or a range of turns that are shown together."""

    first: int
    last: int
    level: ShownLevel
    is_cached: bool = False
    """The next context begins with the same text."""

    @property
    def turns(self) -> int:
        return self.last - self.first + 1

    @property
    def name(self) -> str:
        """The cell in words."""
        turns = f"T-{self.first}" if self.first == self.last else f"T-{self.first} to T-{self.last}"
        return f"{turns}: {LEVEL_NAMES[self.level]}{', cached' if self.is_cached else ''}"


def cells_of(segments: Sequence[Segment]) -> Iterator[Cell]:
    """One for each turn, oldest first. A turn shown in steps is drawn at the level that takes most of it."""
    history = [segment for segment in segments if segment.level and segment.first and segment.last]
    for (first, is_summary), group in itertools.groupby(history, key=lambda part: (part.first, part.level == "A")):
        parts = list(group)
        largest = max(parts, key=lambda segment: segment.tokens)
        assert first is not None
        assert largest.level is not None
        last = parts[-1].last or first
        if largest.level == "E" or is_summary:
            yield Cell(first, last, largest.level, largest.is_stable)
        elif largest.levels:
            for turn, letter in enumerate(largest.levels, first):
                # A turn without a line is in the range of its block only, as in an era's.
                yield Cell(turn, turn, LEVELS.get(letter, "E"), largest.is_stable)
        else:
            yield from (Cell(turn, turn, largest.level, largest.is_stable) for turn in range(first, last + 1))


def joined(cells: Sequence[Cell]) -> Iterator[Cell]:
    """The same with neighbours of one level as one cell."""
    for (level, is_cached), group in itertools.groupby(cells, key=lambda cell: (cell.level, cell.is_cached)):
        same = list(group)
        yield Cell(same[0].first, same[-1].last, level, is_cached)


@dataclass(frozen=True, slots=True)
class PastPicture:
    """What a context showed when the plan had just changed."""

    at: datetime
    turn: int
    """The newest turn at that time."""
    strategy: str
    cause: str
    tokens: int
    budget_tokens: int
    cells: tuple[Cell, ...]
    """Ranges of turns at one level, oldest first."""


_RANGE = re.compile(r"([A-Z])(\d+)-(\d+)")


def keep_row(context: Context, turn: int) -> PictureRow:
    """What is kept of a context."""
    cells = joined([Cell(cell.first, cell.last, cell.level) for cell in cells_of(context.segments)])
    strip = " ".join(f"{cell.level}{cell.first}-{cell.last}" for cell in cells)
    planned = context.planned
    at_us = to_us(datetime.now(UTC))
    cause = planned.cause or ""
    return PictureRow(at_us, turn, planned.strategy, cause, context.tokens, context.budget_tokens, strip)


def past_picture(row: PictureRow) -> PastPicture:
    """A kept picture."""
    found = (Cell(int(first), int(last), LEVELS[level]) for level, first, last in _RANGE.findall(row.strip))
    cause = next((said for name, said in CAUSES.items() if name == row.cause), "the strategy changed what it shows")
    return PastPicture(from_us(row.made_us), row.turn, row.strategy, cause, row.tokens, row.budget_tokens, tuple(found))


def fixed_tokens(context: Context) -> dict[str, int]:
    """What the parts beside the history take."""
    parts: dict[str, int] = {}
    for segment in context.segments:
        if segment.name != "history":
            parts[segment.name] = parts.get(segment.name, 0) + segment.tokens
    return parts


def _planned(context: Context) -> Iterator[tuple[ShownLevel, int, int, int, int]]:
    bands = {band.level: band for band in context.planned.bands}
    for level in LEVEL_NAMES:
        if band := bands.get(level):
            yield level, band.turns, band.first, band.last, band.tokens


def _shown(history: Sequence[Segment]) -> Iterator[tuple[ShownLevel, int, int, int, int]]:
    for level in LEVEL_NAMES:
        own = [segment for segment in history if segment.level == level]
        if own:
            turns = {turn for part in own for turn in range(part.first or 0, (part.last or 0) + 1)}
            yield level, len(turns), own[0].first or 0, own[-1].last or 0, sum(part.tokens for part in own)


def bands_of(context: Context) -> list[dict[str, object]]:
    """What each level takes of the history, newest first, and what it was to take."""
    history = [segment for segment in context.segments if segment.level]
    targets = {band.level: band.target_share for band in context.planned.bands}
    # The text of blocks with several levels is one: of these there is what the plan has for each level.
    is_mixed = any(segment.levels for segment in history)
    spent = list(_planned(context) if is_mixed else _shown(history))
    total = sum(tokens for *_, tokens in spent)
    bands: list[dict[str, object]] = []
    for level, turns, first, last, tokens in spent:
        bands.append(
            {
                "level": level,
                "name": LEVEL_NAMES[level],
                "turns": turns,
                "first": first,
                "last": last,
                "tokens": tokens,
                "share": tokens / total if total else 0.0,
                "target_share": targets.get(level),
            }
        )
    return bands
