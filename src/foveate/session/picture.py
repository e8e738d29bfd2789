"""The picture of a context: a cell for each turn, the tokens of each level, and the other parts of the context.

Each time a plan changes the cells are stored, so that people can see how the picture changed.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from foveate.context.coverage import turns_without_words
from foveate.plan import NO_LINE, Cause, ShownLevel
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
HOLLOW_NAME = "without words"
"""The name of turns of which the context says nothing."""
SUM_LEVELS: tuple[ShownLevel, ...] = ("E", "A")
"""Levels at which a cell is a range of turns."""
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
    """A turn, or a range of turns that is shown as one text."""

    first: int
    last: int
    level: ShownLevel
    is_cached: bool = False
    """Whether the text is part of the stable prefix, which a provider may have cached."""
    is_hollow: bool = False
    """Whether the context says nothing of its turns."""

    @property
    def turns(self) -> int:
        return self.last - self.first + 1

    @property
    def name(self) -> str:
        """The cell in words."""
        turns = f"T-{self.first}" if self.first == self.last else f"T-{self.first} to T-{self.last}"
        shown = HOLLOW_NAME if self.is_hollow else LEVEL_NAMES[self.level]
        return f"{turns}: {shown}{', cached' if self.is_cached else ''}"


def cells_of(segments: Sequence[Segment]) -> Iterator[Cell]:
    """Make one cell per turn or range, oldest first; turns without words are hollow cells of their own."""
    hollow = list(reversed(turns_without_words(segments)))
    reached = 0
    for cell in _shown_cells(segments):
        start = max(cell.first, reached + 1) if cell.level in SUM_LEVELS else cell.first
        while hollow and hollow[-1].start <= cell.last:
            run = hollow.pop()
            if run.start > start:
                yield replace(cell, first=start, last=run.start - 1)
            yield Cell(run.start, run.stop - 1, "E", cell.is_cached, is_hollow=True)
            reached = run.stop - 1
            start = max(start, run.stop)
        if start <= cell.last:
            yield replace(cell, first=start)


def _shown_cells(segments: Sequence[Segment]) -> Iterator[Cell]:
    """Make one cell per turn, oldest first. A turn with steps at several levels gets its largest step's level."""
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
                # A turn without a line of its own counts as part of its block's summary, like a turn of an era.
                yield Cell(turn, turn, LEVELS.get(letter, "E"), largest.is_stable)
        else:
            yield from (Cell(turn, turn, largest.level, largest.is_stable) for turn in range(first, last + 1))


def silent_turns(turns: int) -> str:
    """Name the number of turns without words; empty for none."""
    return f"{turns:,} {'turn' if turns == 1 else 'turns'} {HOLLOW_NAME}" if turns else ""


def joined(cells: Sequence[Cell]) -> Iterator[Cell]:
    """Merge neighbouring cells of the same level."""
    looks = itertools.groupby(cells, key=lambda cell: (cell.level, cell.is_cached, cell.is_hollow))
    for (level, is_cached, is_hollow), group in looks:
        same = list(group)
        yield Cell(same[0].first, same[-1].last, level, is_cached, is_hollow)


@dataclass(frozen=True, slots=True)
class PastPicture:
    """What a context showed after a change of the plan."""

    at: datetime
    turn: int
    """The newest turn at that time."""
    strategy: str
    cause: str
    tokens: int
    budget_tokens: int
    cells: tuple[Cell, ...]
    """Ranges of turns at one level, oldest first."""


_LINE = re.compile(r"^Turn (\d{1,9}): ", re.MULTILINE)
"""The beginning of a turn's line in a block."""
_RANGE = re.compile(r"([A-Za-z])(\d+)-(\d+)")
"""A range of turns and its level; a hollow one has a small letter."""


def keep_row(context: Context, turn: int) -> PictureRow:
    """Make the row that stores the picture of a context."""
    cells = joined([replace(cell, is_cached=False) for cell in cells_of(context.segments)])
    strip = " ".join(
        f"{cell.level.lower() if cell.is_hollow else cell.level}{cell.first}-{cell.last}" for cell in cells
    )
    planned = context.planned
    at_us = to_us(datetime.now(UTC))
    cause = planned.cause or ""
    return PictureRow(at_us, turn, planned.strategy, cause, context.tokens, context.budget_tokens, strip)


def past_picture(row: PictureRow) -> PastPicture:
    """Restore a picture from its row."""
    found = (
        Cell(int(first), int(last), LEVELS[letter.upper()], is_hollow=letter.islower())
        for letter, first, last in _RANGE.findall(row.strip)
    )
    cause = next((text for name, text in CAUSES.items() if name == row.cause), "the strategy changed what it shows")
    return PastPicture(from_us(row.made_us), row.turn, row.strategy, cause, row.tokens, row.budget_tokens, tuple(found))


def fixed_tokens(context: Context) -> dict[str, int]:
    """Sum the tokens of each part other than the history."""
    parts: dict[str, int] = {}
    for segment in context.segments:
        if segment.name != "history":
            parts[segment.name] = parts.get(segment.name, 0) + segment.tokens
    return parts


def _spent(history: Iterable[Segment]) -> Iterator[tuple[ShownLevel, range, int]]:
    """Yield the turns of each part of the history with one level, and their tokens."""
    for part in history:
        first, last, level = part.first or 0, part.last or 0, part.level
        assert level, "each part of the history has a level"
        if not part.levels:
            yield level, range(first, last + 1), part.tokens
            continue
        hidden = [turn for turn, letter in enumerate(part.levels, first) if letter == NO_LINE]
        lines = [line for line in _LINE.finditer(part.text) if first <= int(line[1]) <= last]
        # The lines of a block are counted together: each has a share of the tokens by its length.
        ends = [*(line.start() for line in lines), len(part.text)]
        tokens = [part.tokens * end // max(1, len(part.text)) for end in ends]
        for turn in hidden:
            yield "E", range(turn, turn + 1), 0
        yield "E" if hidden else level, range(0), tokens[0]
        for line, start, end in zip(lines, tokens, tokens[1:], strict=False):
            turn = int(line[1])
            yield LEVELS.get(part.levels[turn - first], "E"), range(turn, turn + 1), end - start


def bands_of(context: Context) -> list[dict[str, object]]:
    """Return tokens, share and target share of each level of the history, most detailed level first."""
    history = [segment for segment in context.segments if segment.level]
    targets = {band.level: band.target_share for band in context.planned.bands}
    total = sum(segment.tokens for segment in history)
    spent = list(_spent(history))
    bands: list[dict[str, object]] = []
    for level, name in LEVEL_NAMES.items():
        turns = {turn for shown, run, _ in spent if shown == level for turn in run}
        tokens = sum(size for shown, _, size in spent if shown == level)
        if not turns:
            continue
        bands.append(
            {
                "level": level,
                "name": name,
                "turns": len(turns),
                "first": min(turns),
                "last": max(turns),
                "tokens": tokens,
                "share": tokens / total if total else 0.0,
                "target_share": targets.get(level),
            }
        )
    return bands
