"""Places the parts of a picture on the page: percent of the width, pixels of the height. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from foveate.session.picture import (
    ABSENT,
    CAUSES,
    DOCUMENTS,
    HEIGHTS,
    LEVELS,
    MEANINGS,
    Column,
    Part,
    Picture,
    level_name,
)
from foveate.session.values import PlanReport

SHOWN = ("system", "explanation", *DOCUMENTS, "memory", "board")
"""Parts whose text the page shows."""
MAX_PART_CHARS = 20_000
"""Characters of a part's text that are shown."""
MAX_NOTE_CHARS = 120
UNIT = 14
"""Pixels per unit of `HEIGHTS`."""
CHART_HEIGHT = UNIT * max(HEIGHTS.values())
HOLLOW_HEIGHT = 7
MIN_COLUMNS = 24
"""Columns that have room at least, so that those of few turns are no wider than tall."""
COLUMN_SHARE = 0.86
"""Share of a column's place that is drawn; the rest is the gap."""
WIDE_PERCENT, NARROW_PERCENT = 11.0, 2.5
"""Minimum widths of a part of the bar with its name, and with its letter."""
LABEL_PERCENT, COUNT_PERCENT = 16.0, 1.2
"""Minimum widths of a run of turns without words with its number in words, and with the number alone."""
AXIS_NAMES = {"M": "partly short"}
"""Shorter names of levels beside the timeline."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the bar."""

    name: str
    colour: str
    tokens: int
    left: float
    width: float
    label: str
    """The name, or the letter of its level, or nothing, by the width."""


@dataclass(frozen=True, slots=True)
class Block:
    """The turns of a column at one level."""

    colour: str
    left: float
    width: float
    top: int
    height: int


@dataclass(frozen=True, slots=True)
class Place:
    """A column of the timeline."""

    name: str
    turn: int
    """The turn that a click selects: the last one."""
    left: float
    width: float
    blocks: tuple[Block, ...]
    is_on_board: bool


@dataclass(frozen=True, slots=True)
class Key:
    """A line of the legend."""

    name: str
    colour: str
    tokens: int
    turns: int
    meaning: str
    steps_of: int
    """Number of turns at another level of which it shows some steps."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture as the page draws it."""

    picture: Picture
    bar: tuple[Piece, ...]
    free: Piece
    places: tuple[Place, ...]
    labels: tuple[tuple[float, str], ...]
    """The numbers of turns without words, over the middle of each long run of them."""
    ticks: tuple[tuple[float, str, str], ...]
    """Position, text and alignment of each date."""
    levels: tuple[tuple[str, str, int], ...]
    """Level, name and height of each line of the axis."""
    keys: tuple[Key, ...]
    border: float
    """Where the columns of one turn each begin, in percent; 0 if all are."""
    cause: str
    notes: tuple[tuple[str, str], ...]
    height: int = CHART_HEIGHT

    @property
    def cached_percent(self) -> float:
        """The cached prefix, in percent of the budget."""
        return round(100 * self.picture.cached_tokens / max(1, self.picture.budget_tokens), 3)

    @property
    def cached_share(self) -> float:
        return self.picture.cached_tokens / max(1, self.picture.tokens)

    @property
    def shown_parts(self) -> tuple[Part, ...]:
        """The parts outside the history, with their texts."""
        return tuple(part for part in self.picture.parts if part.name in SHOWN and part.text)


def draw(picture: Picture, planned: PlanReport | None = None) -> Chart:
    """Place a picture on the page, with the notes of its plan."""
    planned = planned or PlanReport()
    columns = picture.columns
    scale = 100 / max(MIN_COLUMNS, len(columns))
    bar = tuple(_bar(picture))
    used = bar[-1].left + bar[-1].width if bar else 0.0
    places = tuple(_place(column, number * scale, scale) for number, column in enumerate(columns))
    shown = {level for column in columns for level in column.counts}
    return Chart(
        picture=picture,
        bar=bar,
        free=_piece("free", "free", picture.free_tokens, used, max(0.0, 100 - used)),
        places=places,
        labels=tuple(_labels(columns, scale)),
        ticks=tuple(_ticks(picture, scale)),
        levels=tuple(
            (level, AXIS_NAMES.get(level, level_name(level)), CHART_HEIGHT - UNIT * height)
            for level, height in HEIGHTS.items()
            if level in shown
        ),
        keys=tuple(_keys(picture)),
        border=round(picture.ranges * scale, 3),
        cause=CAUSES[planned.cause] if planned.cause else "",
        notes=tuple((name.replace("_", " "), _short(value)) for name, value in planned.notes.items()),
    )


def _bar(picture: Picture) -> Iterator[Piece]:
    scale = 100 / max(1, picture.budget_tokens, picture.tokens)
    left = 0.0
    for part in picture.parts:
        yield _piece(part.name, part.colour, part.tokens, left, part.tokens * scale)
        left += part.tokens * scale


def _piece(name: str, colour: str, tokens: int, left: float, width: float) -> Piece:
    letter = colour if colour in LEVELS else ""
    label = name if width >= WIDE_PERCENT else letter if width >= NARROW_PERCENT else ""
    return Piece(name, _class(colour), tokens, round(left, 3), round(width, 3), label)


def _class(colour: str) -> str:
    return "hollow" if colour == ABSENT else f"p-{colour}"


def _place(column: Column, left: float, width: float) -> Place:
    """Place a column; the turns of a range beside one another, the most detailed last, like the timeline itself."""
    shares = list(reversed(column.counts.items()))
    is_on_board = any(turn.is_on_board for turn in column.turns)
    drawn = width * COLUMN_SHARE
    blocks, start = [], left
    for level, count in shares:
        size = drawn * count / len(column.turns)
        height = HOLLOW_HEIGHT if level == ABSENT else UNIT * HEIGHTS[LEVELS[level]]
        blocks.append(Block(_class(level), round(start, 3), round(size, 3), CHART_HEIGHT - height, height))
        start += size
    return Place(column.name, column.last, round(left, 3), round(width, 3), tuple(blocks), is_on_board)


def _labels(columns: tuple[Column, ...], scale: float) -> Iterator[tuple[float, str]]:
    start = turns = 0
    for place, column in enumerate((*columns, None)):
        hollow = column.counts.get(ABSENT, 0) if column else 0
        if column and hollow == len(column.turns):
            start = start if turns else place
            turns += hollow
            continue
        width = (place - start) * scale
        if turns and width >= COUNT_PERCENT:
            words = " turns without words" if width >= LABEL_PERCENT else ""
            yield round((start + place) / 2 * scale, 3), f"{turns:,}{words}"
        turns = 0


def _ticks(picture: Picture, scale: float) -> Iterator[tuple[float, str, str]]:
    last = len(picture.columns) - 1
    ticks = picture.ticks if len(picture.columns) >= MIN_COLUMNS else picture.ticks[:1]
    for tick in ticks:
        anchor = "start" if not tick.place else "end" if tick.place == last else "middle"
        left = (tick.place + {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor]) * scale
        yield round(left, 3), tick.text, anchor


def _keys(picture: Picture) -> Iterator[Key]:
    """Yield the legend: one line for each part of the bar."""
    for part in picture.parts:
        meaning = MEANINGS[LEVELS[part.colour]] if part.colour in LEVELS else ""
        yield Key(part.name, _class(part.colour), part.tokens, len(part.turns), meaning, len(part.steps_of))


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= MAX_NOTE_CHARS else f"{text[: MAX_NOTE_CHARS - 1]}…"
