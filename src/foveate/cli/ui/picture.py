"""Draws a context: a coloured cell for each turn, a bar of the budget, and the tokens of each level."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from foveate.cli.ui.terminal import Column, line, print_table
from foveate.session.picture import (
    CAUSES,
    HOLLOW_NAME,
    LEVEL_NAMES,
    Cell,
    bands_of,
    cells_of,
    fixed_tokens,
    silent_turns,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from foveate.plan import ShownLevel
    from foveate.session.values import Context, PlanReport
    from foveate.turn import Json

STYLES: dict[ShownLevel, str] = {
    "R": "black on color(221)",
    "S": "black on color(150)",
    "C": "black on color(73)",
    "T": "white on color(61)",
    "E": "white on color(239)",
    "U": "black on color(223)",
    "M": "black on color(115)",
    "A": "white on color(97)",
}
HOLLOW, HOLLOW_STYLE = "□", "color(245)"
"""A cell of turns without words, drawn without a background."""
USUAL: tuple[ShownLevel, ...] = ("R", "S", "C", "T", "E")
"""Levels that the legend always includes; others only if shown."""
MAX_NOTE_CHARS = 100
FIXED_STYLE = "white on color(95)"
FREE_STYLE = "color(240)"
COLUMNS = (
    Column(""),
    Column("level", expendable=1),
    Column("turns", "number"),
    Column("from"),
    Column("to"),
    Column("tokens", "number"),
    Column("of the history", "number", expendable=2),
    Column("target", "number", expendable=3),
)
MAX_CHANGES = 8
MAX_WIDTH = 120
FEW_ROWS = 3
"""Number of rows that the cells should fit into; determines their width."""
MAX_CELLS = 2_000
"""Maximum number of cells; of a longer conversation the newest turns are drawn."""


def draw(out: Console, context: Context, *, one_off: bool, is_other: bool = False) -> None:
    """Draw the whole picture; `one_off` marks a preview, `is_other` one with a strategy other than the session's."""
    cells = list(cells_of(context.segments))
    has_hollow = any(cell.is_hollow for cell in cells)
    out.print(_legend({segment.level for segment in context.segments}, has_hollow=has_hollow))
    out.print()
    if len(cells) > MAX_CELLS:
        out.print(line((f"the newest {MAX_CELLS:,} of {len(cells):,} cells", "dim")))
    for row in _rows(cells[-MAX_CELLS:], min(out.width, MAX_WIDTH)):
        out.print(row)
    out.print()
    out.print(_bar(context, min(out.width, MAX_WIDTH)))
    out.print(_total(context))
    out.print()
    print_table(out, COLUMNS, list(_bands(context)))
    out.print()
    _explain(out, context, one_off=one_off, is_other=is_other)


def _legend(shown: Collection[ShownLevel | None], *, has_hollow: bool) -> Text:
    parts: list[str | tuple[str, str]] = []
    for level, name in LEVEL_NAMES.items():
        if level in USUAL or level in shown:
            parts += [(f" {level} ", STYLES[level]), f" {name}   "]
    if has_hollow:
        parts += [(f" {HOLLOW} ", HOLLOW_STYLE), f" {HOLLOW_NAME}   "]
    return line(*parts, ("oldest first", "dim"))


def _label(cell: Cell, width: int) -> str:
    if cell.is_hollow:
        return f" {HOLLOW} {cell.turns:,} turns " if cell.turns > 1 else HOLLOW.center(width)
    if cell.turns > 1:
        return f" {cell.turns:,} turns "
    return cell.level.center(width)


def _rows(cells: Sequence[Cell], width: int) -> Iterator[Text]:
    """Yield the cells in rows that begin with the id of their first turn."""
    if not cells:
        yield line(("nothing yet", "dim"))
        return
    margin = len(f"T-{cells[-1].last}") + 2
    cell_width = next((size for size in (3, 2) if size * len(cells) <= FEW_ROWS * (width - margin)), 1)
    row: list[str | tuple[str, str]] = []
    used = width
    for cell in cells:
        gap = " " if cell.turns > 1 else ""
        label = _label(cell, cell_width)
        size = len(label) + len(gap)
        if used + size > width:
            if row:
                yield line(*row)
            row = [(f"T-{cell.first}".ljust(margin), "dim")]
            used = margin
        row += [(label, HOLLOW_STYLE if cell.is_hollow else STYLES[cell.level]), gap]
        used += size
    yield line(*row)


def _bar(context: Context, width: int) -> Text:
    """Return the budget as a bar, in the order of the context."""
    spent = [(STYLES[segment.level] if segment.level else FIXED_STYLE, segment.tokens) for segment in context.segments]
    parts: list[str | tuple[str, str]] = []
    position = tokens = 0
    for style, run in itertools.groupby(spent, key=lambda part: part[0]):
        tokens += sum(size for _, size in run)
        end = min(width, round(tokens * width / context.budget_tokens))
        parts.append((" " * (end - position), style))
        position = end
    return line(*parts, ("·" * (width - position), FREE_STYLE))


def _total(context: Context) -> Text:
    share = context.tokens / context.budget_tokens
    fixed = [f"{name} {tokens:,}" for name, tokens in fixed_tokens(context).items()]
    return line(
        (f"{context.tokens:,}", "bold"),
        f" of {context.budget_tokens:,} tokens ({share:.0%})",
        f"; {', '.join(fixed)}",
        *([(f"; {silent}", "yellow")] if (silent := silent_turns(context.planned.turns_without_words)) else []),
    )


def _bands(context: Context) -> Iterator[Sequence[str | Text]]:
    for band in bands_of(context):
        target = band["target_share"]
        yield (
            line((f" {band['level']} ", STYLES[band["level"]])),  # type: ignore[index]
            str(band["name"]),
            f"{band['turns']:,}",
            f"T-{band['first']}",
            f"T-{band['last']}",
            f"{band['tokens']:,}",
            f"{band['share']:.0%}",
            "" if target is None else f"{target:.0%}",
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
        when = "now" if planned.is_new else f"at T-{planned.last_turn}"
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
