"""Draws the picture of a context in a terminal: a bar of the budget, the turns as a timeline, and a table of levels."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from foveate.cli.ui.terminal import MAX_PICTURE_WIDTH, PICTURE_MARGIN, Column, line, print_table, timeline_width
from foveate.session.picture import ABSENT, CAUSES, HEIGHTS, LEVELS, MEANINGS, level_name
from foveate.session.picture import Column as TimelineColumn

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from foveate.plan import ShownLevel
    from foveate.session.picture import Part, Picture
    from foveate.session.values import Context, PlanReport
    from foveate.session.why import TurnReason
    from foveate.turn import Json

COLOURS: Mapping[ShownLevel, tuple[str, str]] = {
    "R": ("black", "color(221)"),
    "S": ("black", "color(150)"),
    "C": ("black", "color(73)"),
    "T": ("white", "color(62)"),
    "E": ("white", "color(243)"),
    "U": ("black", "color(223)"),
    "M": ("black", "color(115)"),
    "A": ("white", "color(97)"),
}
"""Colour of the letter on a level, and of the level."""
STYLES: Mapping[ShownLevel, str] = {level: f"{ink} on {colour}" for level, (ink, colour) in COLOURS.items()}
HOLLOW, HOLLOW_STYLE = "□", "color(245)"
"""A column of turns without words."""
FIXED_STYLE = "white on color(95)"
FREE, FREE_STYLE = "·", "color(240)"
MAX_NOTE_CHARS = 100
TABLE = (
    Column(""),
    Column("level"),
    Column("means", expendable=1),
    Column("turns", "number"),
    Column("from", expendable=2),
    Column("to", expendable=2),
    Column("tokens", "number"),
)
MAX_CHANGES = 8
ROWS = 4
"""Rows of the timeline: two levels each."""
EIGHTHS = " ▁▂▃▄▅▆▇█"
MAX_COLUMN_WIDTH = 4
"""Characters of a column of a short conversation, with the gap after it."""
AXIS = ("raw", "smoothed", "compressed", "tiny, eras")
"""Names beside the rows, the uppermost first."""


def draw(
    out: Console,
    context: Context,
    picture: Picture,
    *,
    one_off: bool,
    is_other: bool = False,
    call: str = "",
) -> None:
    """Draw the whole picture; `one_off` marks a preview, `is_other` one with a strategy other than the session's.

    `call` is the command that explains a turn.
    """
    draw_picture(out, picture)
    _explain(out, context, one_off=one_off, is_other=is_other)
    if call and picture.columns:
        out.print(line("Why is a turn shown as it is? ", (f"{call} --why T-{picture.columns[-1].last}", "bold")))


def draw_picture(out: Console, picture: Picture) -> None:
    """Draw the bar, the timeline and the table of levels."""
    out.print(line((picture.headline, "bold")))
    out.print()
    out.print(_bar(picture, min(out.width, MAX_PICTURE_WIDTH)))
    out.print(line(*_fixed(picture)))
    out.print()
    if picture.columns:
        for row in _timeline(picture, timeline_width(out.width)):
            out.print(row)
        out.print()
        print_table(out, TABLE, list(_levels(picture)))
        out.print()
    else:
        out.print(line(("nothing yet", "dim")))


def draw_reason(out: Console, turn: TurnReason, call: str) -> None:
    """Explain a turn, and how to show more of it."""
    style = HOLLOW_STYLE if turn.level == ABSENT else STYLES[turn.level]
    letter = HOLLOW if turn.level == ABSENT else turn.level
    out.print(line((f" {letter} ", style), (f" {turn.id}: {turn.name}", "bold"), f", {turn.started_at:%Y-%m-%d %H:%M}"))
    cached = "cached" if turn.is_cached else "not cached yet"
    size = f"{turn.tokens:,} tokens" if turn.level == "R" else f"{turn.tokens:,} of its {turn.raw_tokens:,} tokens"
    out.print(f"{size}: {turn.meaning}; {cached}.")
    out.print(turn.why)
    if turn.on_board:
        out.print(f"On the board as {turn.on_board}.")
    if turn.displaced:
        out.print(turn.displaced)
    if turn.raise_by:
        out.print(line(("To show more of it:", "bold")))
        for way in turn.raise_by:
            out.print(f"- {way}")
    out.print(line("Read it at all levels: ", (call, "bold")))


def _bar(picture: Picture, width: int) -> Text:
    """Return the budget as a bar, with the letters of its levels."""
    scale = width / max(1, picture.budget_tokens, picture.tokens)
    pieces: list[str | tuple[str, str]] = []
    position = tokens = 0
    for part in picture.parts:
        tokens += part.tokens
        end = min(width, round(tokens * scale))
        letter = part.colour if part.colour in LEVELS else ""
        pieces.append(
            (letter.center(end - position) if end - position > len(letter) else " " * (end - position), _on(part))
        )
        position = end
    return line(*pieces, (FREE * (width - position), FREE_STYLE))


def _on(part: Part) -> str:
    return STYLES[LEVELS[part.colour]] if part.colour in LEVELS else FIXED_STYLE


def _fixed(picture: Picture) -> Iterator[str | tuple[str, str]]:
    """Yield the tokens of the parts outside the history, and the free ones."""
    share = picture.tokens / max(1, picture.budget_tokens)
    yield f"{picture.tokens:,} of {picture.budget_tokens:,} tokens ({share:.0%})"
    if fixed := ", ".join(f"{part.name} {part.tokens:,}" for part in picture.parts if not part.shown_turns):
        yield f"; {fixed}"
    yield (f", free {picture.free_tokens:,}", "dim")


def _timeline(picture: Picture, width: int) -> Iterator[Text]:
    """Yield the rows of the timeline: the taller a column, the more of its turns is shown."""
    columns = picture.columns
    size = max(1, min(MAX_COLUMN_WIDTH, width // len(columns)))
    wide, gap = max(1, size - 1), " " * (size > 1)
    top = ROWS * (len(EIGHTHS) - 1)
    heights = [round(column.height * top / max(HEIGHTS.values())) for column in columns]
    styles = [_column_style(column) for column in columns]
    for row in range(ROWS - 1, -1, -1):
        pieces: list[str | tuple[str, str]] = [(f"{AXIS[ROWS - 1 - row].rjust(PICTURE_MARGIN - 1)} ", "dim")]
        for column, height, style in zip(columns, heights, styles, strict=True):
            mark = EIGHTHS[min(max(height - row * (len(EIGHTHS) - 1), 0), len(EIGHTHS) - 1)]
            is_hollow = not row and ABSENT in column.counts and not column.height
            pieces += [(HOLLOW * wide, HOLLOW_STYLE) if is_hollow else (mark * wide, style), gap]
        yield line(*pieces)
    yield line((_dates(picture, size, width), "dim"))
    if picture.ranges:
        turns = len(columns[0].turns)
        border = f"T-{columns[picture.ranges].first}" if picture.ranges < len(columns) else "the end"
        yield line((f"{' ' * PICTURE_MARGIN}up to {border} a column is {turns:,} turns, at their mean height", "dim"))


def _column_style(column: TimelineColumn) -> str:
    """Return the colour of the level that most turns of a column have."""
    level = max(column.counts.items(), key=lambda item: item[1])[0]
    return HOLLOW_STYLE if level == ABSENT else COLOURS[LEVELS[level]][1]


def _dates(picture: Picture, size: int, width: int) -> str:
    """Return the line below the timeline: the first and the last tick, and those that have room between them."""
    last = len(picture.columns) - 1
    text = " " * (PICTURE_MARGIN + width)
    for tick in sorted(picture.ticks, key=lambda one: (one.place not in (0, last), one.place)):
        start = PICTURE_MARGIN + tick.place * size
        if tick.place == last and last:
            start = max(start - len(tick.text) + size, PICTURE_MARGIN)
        stop = start + len(tick.text)
        if stop <= len(text) and not text[max(0, start - 2) : stop + 2].strip():
            text = f"{text[:start]}{tick.text}{text[stop:]}"
    return text.rstrip()


def _levels(picture: Picture) -> Iterator[Sequence[str | Text]]:
    """Yield the rows of the table, the most detailed level first."""
    for part in reversed(picture.parts):
        shown = part.shown_turns
        if not shown:
            continue
        is_hollow = part.colour == ABSENT
        yield (
            line((f" {HOLLOW if is_hollow else part.colour} ", HOLLOW_STYLE if is_hollow else _on(part))),
            level_name(part.colour),
            "" if is_hollow else MEANINGS[LEVELS[part.colour]],
            f"{len(part.turns):,}" if part.turns else "in part",
            f"T-{shown[0]}",
            f"T-{shown[-1]}",
            f"{part.tokens:,}",
        )


def _explain(out: Console, context: Context, *, one_off: bool, is_other: bool) -> None:
    """Print the strategy's notes, what changed since the last plan, and what stays cached."""
    planned = context.planned
    if planned.strategy != "gradient":
        out.print(line("Strategy: ", (planned.strategy, "bold"), "."))
    for name, value in planned.notes.items():
        out.print(line((f"{name.replace('_', ' ')} ", "dim"), _note(value)))
    if context.board.prefetched:
        names = ", ".join(entry.name for entry in context.board.prefetched)
        out.print(line(f"Prefetched for this prompt: {names}."))
    if one_off:
        other = "with a different strategy" if is_other else "at a different budget"
        out.print(f"Preview {other}, planned from scratch; nothing is saved.")
        return
    out.print(line(("Live", "bold"), ": what a model gets now, at the session's own budget."))
    if planned.cause:
        when = "now" if planned.is_new else f"at T-{planned.last_turn}" if planned.last_turn else "before T-1"
        out.print(line(f"Plan made {when}: {CAUSES[planned.cause]}. ", _changed(planned)))
        history = sum(segment.tokens for segment in context.segments if segment.name == "history")
        room = f"History: {history:,} of {planned.room_tokens:,} tokens."
        out.print(line(f"{room} New turns are appended until it is full, then older ones are compressed."))
    share = context.stable_tokens / max(1, context.tokens)
    out.print(line((f"{share:.0%}", "bold"), " of this prompt is the beginning of the next one and stays cached."))


def _note(value: Json) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_NOTE_CHARS else f"{text[: MAX_NOTE_CHARS - 1]}…"


def _changed(planned: PlanReport) -> str:
    if not planned.changes:
        return "No turn changed its level."
    turns = sum(change.last - change.first + 1 for change in planned.changes)
    newest = planned.changes[-MAX_CHANGES:]
    named = [f"{_range(change.first, change.last)} {change.before}→{change.after}" for change in newest]
    others = "the newest: " if len(newest) < len(planned.changes) else ""
    counted = "1 turn changed its level" if turns == 1 else f"{turns:,} turns changed their level"
    return f"{counted}; {others}{', '.join(named)}."


def _range(first: int, last: int) -> str:
    return f"T-{first}" if first == last else f"T-{first}…{last}"
