"""Values for drawing a context: cells, a bar of the budget, and the parts outside the history. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from foveate.session.picture import CAUSES, LEVEL_NAMES, Cell, bands_of, cells_of, joined, silent_turns
from foveate.session.values import Context

MAX_CELLS = 600
"""Maximum number of single-turn cells; older turns are drawn as ranges of one level."""
DOCUMENTS = ("pins", "goals", "epic", "tasks", "client-texts")
BOARDS = ("memory", "board")
SHOWN = ("system", "explanation", *DOCUMENTS, *BOARDS)
"""Parts whose text the page shows."""
MAX_NOTE_CHARS = 120


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the context on the bar."""

    name: str
    colour: str
    tokens: int
    left: float
    """Left edge, in percent of the budget."""
    width: float
    """Width, in percent of the budget."""
    text: str


@dataclass(frozen=True, slots=True)
class PartCell:
    """A part outside the history, e.g. pins or the board, at its position between the turns."""

    name: str
    colour: str
    tokens: int
    place: int
    """Index among the parts whose texts are shown."""
    is_cached: bool


@dataclass(frozen=True, slots=True)
class Picture:
    """The picture of a context."""

    context: Context
    strip: tuple[Cell | PartCell, ...]
    """Turns and other parts, in the order in which they are sent."""
    bar: tuple[Part, ...]
    bands: tuple[dict[str, object], ...]
    cause: str
    notes: tuple[tuple[str, str], ...]

    @property
    def cached_share(self) -> float:
        return self.context.stable_tokens / max(1, self.context.tokens)

    @property
    def used_share(self) -> float:
        return self.context.tokens / max(1, self.context.budget_tokens)

    @property
    def silent(self) -> str:
        """The number of turns without words, named; empty for none."""
        return silent_turns(self.context.planned.turns_without_words)

    @property
    def shown_parts(self) -> tuple[Part, ...]:
        """The parts outside the history, with their texts."""
        return tuple(part for part in self.bar if part.text)


def draw(context: Context) -> Picture:
    """Return the picture of a context."""
    cells = list(cells_of(context.segments))
    if len(cells) > MAX_CELLS:
        cells = [*joined(cells[:-MAX_CELLS]), *cells[-MAX_CELLS:]]
    planned = context.planned
    return Picture(
        context,
        tuple(_strip(context, cells)),
        tuple(_bar(context)),
        tuple(bands_of(context)),
        CAUSES[planned.cause] if planned.cause else "",
        tuple((name.replace("_", " "), _short(value)) for name, value in planned.notes.items()),
    )


def _strip(context: Context, cells: Sequence[Cell]) -> Iterator[Cell | PartCell]:
    left = list(reversed(cells))
    place = 0
    for (name, _), group in itertools.groupby(context.segments, key=lambda part: (part.name, part.level)):
        parts = list(group)
        newest = max((part.last or 0 for part in parts), default=0)
        while left and left[-1].first <= newest:
            yield left.pop()
        if name in SHOWN and any(part.text for part in parts):
            tokens = sum(part.tokens for part in parts)
            yield PartCell(name, _colour(name), tokens, place, all(part.is_stable for part in parts))
            place += 1
    yield from reversed(left)


def _colour(name: str) -> str:
    return "documents" if name in DOCUMENTS else "board" if name in BOARDS else "fixed"


def _bar(context: Context) -> Iterator[Part]:
    """Yield the parts of the bar, in the order in which they are sent."""
    scale = 100 / max(1, context.budget_tokens)
    left = 0.0
    for (name, level), group in itertools.groupby(context.segments, key=lambda part: (part.name, part.level)):
        parts = list(group)
        tokens = sum(part.tokens for part in parts)
        colour = level or _colour(name)
        text = "\n".join(part.text for part in parts) if name in SHOWN else ""
        label = LEVEL_NAMES[level] if level else name
        yield Part(label, colour, tokens, round(left, 3), round(tokens * scale, 3), text)
        left += tokens * scale


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= MAX_NOTE_CHARS else f"{text[: MAX_NOTE_CHARS - 1]}…"
