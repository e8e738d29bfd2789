"""Plots as SVG, small enough for a phone: lines, stacked areas and strips. Colours are named by the page's style."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 420
HEIGHT = 236
LEFT = 40
RIGHT = 84
"""Room for the names at the ends of lines."""
TOP = 12
BOTTOM = 34
LABEL_GAP = 13
"""No two names at the ends of lines are nearer."""
LOWEST_END = HEIGHT - BOTTOM - 1.0
STRIP_HEIGHT = 16
STRIP_ROW = 38
MAX_COLOURS = 8
MAX_DOTS = 16
"""A line of no more points has a dot at each."""
MIN_RUN = 0.4
"""A run of turns in a strip is drawn at least so wide."""


@dataclass(frozen=True, slots=True)
class PlotLine:
    """A named line; both coordinates are from 0 to 1, and a point may be missing."""

    name: str
    colour: int
    points: Sequence[tuple[float, float | None]]


@dataclass(frozen=True, slots=True)
class Tick:
    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Tip:
    """What is said when a place from `left` to `right`, of 0 to 1, is pointed at."""

    left: float
    right: float
    text: str


@dataclass(frozen=True, slots=True)
class StackLayer:
    """One part of a stack: its heights, of 0 to 1, at each place."""

    part: str
    heights: Sequence[float]


def line_plot(name: str, lines: Sequence[PlotLine], x_ticks: Sequence[Tick], x_name: str, tips: Sequence[Tip]) -> str:
    """Lines from 0 to 100 %, each named at its end."""
    ticks = [Tick(share, f"{share:.0%}") for share in (0, 0.25, 0.5, 0.75, 1)]
    drawn = [_axes(x_ticks, ticks, x_name, right=RIGHT)]
    ends = []
    for line in lines:
        there = [(x, y) for x, y in line.points if y is not None]
        if not there:
            continue
        path = "M" + "L".join(f"{_x(x):.1f} {_y(y):.1f}" for x, y in there)
        dots = "".join(
            f'<circle cx="{_x(x):.1f}" cy="{_y(y):.1f}" r="2.4"/>' for x, y in there if len(there) <= MAX_DOTS
        )
        style = f'class="line s{line.colour % MAX_COLOURS}" data-strategy="{escape(line.name)}"'
        drawn.append(f'<g {style}><path d="{path}"/>{dots}</g>')
        ends.append((line, there[-1][1]))
    drawn += _named_ends(ends)
    return _svg(name, HEIGHT, [*drawn, *_hits(tips, right=RIGHT)])


def stack_plot(
    name: str,
    places: Sequence[float],
    *,
    layers: Sequence[StackLayer],
    x_ticks: Sequence[Tick],
    y_ticks: Sequence[Tick],
    tips: Sequence[Tip],
) -> str:
    """Layers on one another; the line at 1 is the budget."""
    drawn = [_axes(x_ticks, y_ticks, "turn", right=12)]
    below = [0.0] * len(places)
    for layer in layers:
        above = [low + height for low, height in zip(below, layer.heights, strict=True)]
        upper = [f"{_x(x, 12):.1f} {_y(y):.1f}" for x, y in zip(places, above, strict=True)]
        lower = [f"{_x(x, 12):.1f} {_y(y):.1f}" for x, y in zip(places, below, strict=True)]
        drawn.append(f'<path class="p-{escape(layer.part)}" d="M{"L".join([*upper, *reversed(lower)])}Z"/>')
        below = above
    drawn.append(f'<path class="budget" d="M{LEFT} {_y(1):.1f}H{WIDTH - 12}"/>')
    return _svg(name, HEIGHT, [*drawn, *_hits(tips, right=12)])


def strip_plot(name: str, strips: Mapping[str, str], levels: Mapping[str, str]) -> str:
    """A row of turns for each name, oldest left, coloured by level; `levels` has what each is called."""
    drawn = []
    for place, (label, strip) in enumerate(strips.items()):
        top = place * STRIP_ROW
        drawn.append(f'<text class="name" x="0" y="{top + 13}">{escape(label)}</text>')
        for level, first, last in _runs(strip):
            x = (first - 1) / len(strip) * WIDTH
            width = max(MIN_RUN, (last - first + 1) / len(strip) * WIDTH)
            turns = f"T-{first}" if first == last else f"T-{first} to T-{last}"
            tip = f"{label}: {turns} {levels.get(level, level)}"
            shape = f'x="{x:.2f}" y="{top + 18}" width="{width:.2f}" height="{STRIP_HEIGHT}"'
            drawn.append(f'<rect class="p-{_class(level)} tip" {shape}{_tip(tip)}</rect>')
    bottom = len(strips) * STRIP_ROW + 14
    newest = len(next(iter(strips.values()), ""))
    drawn.append(f'<text class="tick" x="0" y="{bottom}">T-1, the oldest</text>')
    drawn.append(f'<text class="tick" x="{WIDTH}" y="{bottom}" text-anchor="end">T-{newest}</text>')
    return _svg(name, bottom + 6, drawn)


def _svg(name: str, height: float, drawn: Iterable[str]) -> str:
    head = f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(name)}">'
    return f"{head}{''.join(drawn)}</svg>"


def _x(share: float, right: int = RIGHT) -> float:
    return LEFT + share * (WIDTH - LEFT - right)


def _y(share: float) -> float:
    return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)


def _axes(x_ticks: Sequence[Tick], y_ticks: Sequence[Tick], x_name: str, *, right: int) -> str:
    drawn = []
    for tick in y_ticks:
        y = _y(tick.at)
        drawn.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - right}"/>')
        drawn.append(f'<text class="tick" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(tick.label)}</text>')
    for tick in x_ticks:
        x = _x(tick.at, right)
        y = HEIGHT - BOTTOM + 15
        drawn.append(f'<text class="tick" x="{x:.1f}" y="{y}" text-anchor="middle">{escape(tick.label)}</text>')
    middle = (LEFT + WIDTH - right) / 2
    drawn.append(f'<text class="axis" x="{middle:.0f}" y="{HEIGHT - 4}" text-anchor="middle">{escape(x_name)}</text>')
    return "".join(drawn)


def _named_ends(ends: Sequence[tuple[PlotLine, float]]) -> list[str]:
    """The lines' names beside their ends, moved apart where they would touch."""
    placed: list[tuple[PlotLine, float]] = []
    for line, y in sorted(ends, key=lambda end: -end[1]):
        wanted = _y(y) + 4
        placed.append((line, max(wanted, placed[-1][1] + LABEL_GAP) if placed else wanted))
    over = placed[-1][1] - LOWEST_END if placed else 0
    if over > 0:
        placed = _moved_up(placed)
    return [
        f'<text class="end s{line.colour % MAX_COLOURS}" data-strategy="{escape(line.name)}" '
        f'x="{WIDTH - RIGHT + 6}" y="{y:.1f}">{escape(line.name)}</text>'
        for line, y in placed
    ]


def _moved_up(placed: Sequence[tuple[PlotLine, float]]) -> list[tuple[PlotLine, float]]:
    """From the lowest up, none below the plot."""
    limit = LOWEST_END
    moved: list[tuple[PlotLine, float]] = []
    for line, y in reversed(placed):
        moved.append((line, min(y, limit)))
        limit = moved[-1][1] - LABEL_GAP
    return moved[::-1]


def _hits(tips: Sequence[Tip], *, right: int) -> list[str]:
    """Places that can be pointed at."""
    drawn = []
    for tip in tips:
        x, width = _x(tip.left, right), (tip.right - tip.left) * (WIDTH - LEFT - right)
        drawn.append(
            f'<rect class="hit tip" x="{x:.1f}" y="{TOP}" width="{width:.1f}" height="{HEIGHT - TOP - BOTTOM}"'
            f"{_tip(tip.text)}</rect>"
        )
    return drawn


def _runs(strip: str) -> Iterable[tuple[str, int, int]]:
    """Each run of one level with its first and last turn."""
    turn = 1
    for level, group in itertools.groupby(strip):
        count = len(list(group))
        yield level, turn, turn + count - 1
        turn += count


def _class(level: str) -> str:
    return level if level.isalpha() else "absent"


def _tip(text: str) -> str:
    """What is shown at a shape: by the page's script, or by the browser where there is none."""
    return f"><title>{escape(text)}</title>"
