"""Output for people (tables, progress, colours) and for programs (JSON)."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, is_dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

import click

from foveate.text import for_terminal, several

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.text import Text

    from foveate.errors import FoveateError
    from foveate.session.values import Reliability, SessionStats

GAP = 2
END = 1
"""Cells of the gap that are not needed after the last column."""
MAX_WIDTH = 10_000
"""Width of a table that is printed to a file or a pipe."""
LEAST_CUT = 16
"""Minimum width of a truncated column before others are dropped."""
TIGHT_CUT = 8
"""Minimum width of a truncated column once no column can be dropped."""
DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}
LONG_LINES = 40
LONG_CHARS = 6000
MOST_WHOLE = 40
"""An id up to this length is never wrapped, so that it can be copied."""

_SURROGATE = re.compile(r"[\ud800-\udfff]")


def console(*, stderr: bool = False) -> Console:
    from foveate.cli.ui.wrapping import HangingConsole

    return HangingConsole(highlight=False, markup=False, emoji=False, stderr=stderr)


@dataclass(frozen=True, slots=True)
class Column:
    """A table column. `number` and `fixed` are never shortened; `cut` truncates with an ellipsis; `fold` wraps."""

    name: str
    shape: Literal["number", "fixed", "cut", "fold"] = "fixed"
    expendable: int = 0
    """On a narrow terminal the column with the highest number is dropped first; 0 is never dropped."""

    def least(self, width: int) -> int:
        return min(width, {"cut": LEAST_CUT, "fold": MOST_WHOLE}.get(self.shape, width))


def print_table(out: Console, columns: Sequence[Column], rows: Sequence[Sequence[str | Text]]) -> None:
    """Print a table that fits the terminal. A `str` cell is printed verbatim; only a `Text` has a style.

    If no table fits, each row is printed as lines. Nothing is cut where the output is not a terminal of known width.
    """
    from rich import box
    from rich.table import Table

    cells = {column: _cells(rows, index) for index, column in enumerate(columns)}
    if not out.is_terminal and "COLUMNS" not in os.environ:
        out = type(out)(file=out.file, highlight=False, markup=False, emoji=False, width=MAX_WIDTH)
    widths = {column: max(cell.cell_len for cell in [*cells[column], _cell(column.name)]) for column in columns}
    shown = _fitting([column for column in columns if any(cells[column])], widths, room=out.width)
    narrowest = sum(_narrowest(column, cells[column], width=widths[column]) + GAP for column in shown)
    if narrowest - END > out.width:
        _print_rows(out, cells, len(rows))
        return
    cut = _cut_widths(shown, widths, room=out.width)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, GAP - 1, 0, 0))
    for column in shown:
        table.add_column(
            column.name,
            justify="right" if column.shape == "number" else "left",
            no_wrap=column.shape != "fold",
            overflow="ellipsis" if column in cut else "fold",
            max_width=cut.get(column),
        )
    for row in zip(*(cells[column] for column in shown), strict=True):
        table.add_row(*row)
    out.print(table)


def print_pairs(out: Console, rows: Iterable[tuple[str | Text, str | Text]]) -> None:
    """Print names with texts beside them; a text that wraps stays in its column."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(_cell(name), _cell(text))
    out.print(table)


def print_diff(out: Console, lines: Iterable[str]) -> None:
    for text in lines:
        out.print(line((text, DIFF_STYLES.get(text[:1], ""))), soft_wrap=True)


def _print_rows(out: Console, cells: Mapping[Column, Sequence[Text]], count: int) -> None:
    """Print each row as lines of `name: value`, for a terminal that is too narrow for columns."""
    for index in range(count):
        if index:
            out.print()
        for column, values in cells.items():
            if values[index]:
                name = line((f"{column.name}: " if column.name else "", "bold"))
                is_cut = column.shape == "cut"
                out.print(name.append_text(values[index]), no_wrap=is_cut, overflow="ellipsis" if is_cut else "fold")


def _cells(rows: Sequence[Sequence[str | Text]], index: int) -> list[Text]:
    return [_cell(row[index]) for row in rows]


def _cell(value: str | Text) -> Text:
    return line(value) if isinstance(value, str) else value


def _fitting(columns: list[Column], widths: Mapping[Column, int], *, room: int) -> list[Column]:
    """Drop expendable columns until the table fits."""
    while _least(columns, widths) > room:
        most = max(columns, key=lambda column: column.expendable)
        if not most.expendable:
            break
        columns = [column for column in columns if column is not most]
    return columns


def _cut_widths(columns: Sequence[Column], widths: Mapping[Column, int], *, room: int) -> dict[Column, int]:
    """Return the width of each `cut` column: narrow ones keep theirs, the others share the remaining space."""
    spare = room - _least(columns, widths)
    cut = sorted((column for column in columns if column.shape == "cut"), key=lambda column: widths[column])
    allotted: dict[Column, int] = {}
    for place, column in enumerate(cut):
        least = column.least(widths[column])
        more = max(min(widths[column], TIGHT_CUT) - least, min(widths[column] - least, spare // (len(cut) - place)))
        allotted[column] = least + more
        spare -= more
    return allotted


def _least(columns: Sequence[Column], widths: Mapping[Column, int]) -> int:
    """Return the minimum width of a table of these columns."""
    return sum(column.least(widths[column]) + GAP for column in columns)


def _narrowest(column: Column, cells: Sequence[Text], *, width: int) -> int:
    """Return the minimum readable width of a column; `fold` columns break only between words or in very long ones."""
    if column.shape != "fold":
        return min(width, TIGHT_CUT) if column.shape == "cut" else width
    words = [_cell(word).cell_len for cell in [*cells, _cell(column.name)] for word in cell.plain.split()]
    return min(MOST_WHOLE, max(words, default=0))


@contextmanager
def progress_bar(*, shown: bool, is_bytes: bool = False) -> Iterator[Progress]:
    """Show a progress bar on standard error; none if that is not a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    watched = Console(stderr=True)
    with Progress(
        TextColumn("[progress.description]{task.description}"),
        BarColumn(),
        DownloadColumn() if is_bytes else MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=watched,
        transient=True,
        disable=not (shown and watched.is_terminal),
    ) as progress:
        yield progress


def whole_error(error: FoveateError) -> str:
    """Return the error's message and its notes, e.g. why the fallback models failed too."""
    return "; ".join([str(error), *getattr(error, "__notes__", ())])


def reliable(trust: Reliability | None) -> str:
    """Return the reliability, e.g. `38.5 % critical`; empty without a score."""
    return f"{100 * trust.score:.1f} % {trust.level}" if trust else ""


STORE_KEY = "foveate.store"
"""Key of the store that a command was given by `--db`, in click's `meta`."""


def to_copy(*words: str) -> str:
    """Return a foveate command, quoted for a shell, with the store that this command was given."""
    context = click.get_current_context(silent=True)
    store = context.meta.get(STORE_KEY) if context else None
    return shlex.join(("foveate", *(("--db", store) if store else ()), *words))


MAX_PICTURE_WIDTH = 120
PICTURE_MARGIN = 12
"""Columns beside the timeline, for the names of its levels."""


def timeline_width(width: int | None = None) -> int:
    """Return the number of columns of a picture's timeline in this terminal."""
    return max(1, min(width or console().width, MAX_PICTURE_WIDTH) - PICTURE_MARGIN)


def not_compressed(turns: int, session_id: str | None = None) -> str:
    """Say how many turns are not compressed yet, and which command compresses them."""
    return f"{several(turns, 'turn')} not compressed yet; run '{to_copy('store', 'compress', session_id or '--all')}'"


def waiting_for_model(found: Iterable[SessionStats]) -> str:
    """Say for how many turns a model is called later, and when; empty if there are none."""
    waiting = [(stats.waiting_until, stats.waiting) for stats in found if stats.waiting_until]
    if not waiting:
        return ""
    turns = several(sum(count for _, count in waiting), "more turn")
    return f"A model is called for {turns} from {moment(min(waiting)[0])} UTC on"


def print_json(value: object) -> None:
    _print_json(json.dumps(value, default=_as_json, indent=2, ensure_ascii=not _is_utf8()))


def print_json_line(value: object) -> None:
    """Print a value as one line of JSON."""
    _print_json(json.dumps(value, default=_as_json, ensure_ascii=not _is_utf8()))


def _print_json(text: str) -> None:
    click.echo(for_terminal(text) if is_watched() else _SURROGATE.sub(lambda char: f"\\u{ord(char[0]):04x}", text))


def print_exactly(text: str) -> None:
    """Print text verbatim in UTF-8; on a terminal, control characters are escaped."""
    shown = for_terminal(text) if is_watched() else text
    click.echo(shown.encode("utf-8", "backslashreplace"), nl=False)


def is_watched() -> bool:
    """Report whether standard output is a terminal."""
    return sys.stdout.isatty()


def _as_json(value: Any) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value)


def _is_utf8() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def printable(text: str) -> str:
    """Escape control characters and lone surrogates."""
    return for_terminal(text)


def line(*parts: str | tuple[str, str]) -> Text:
    """Return a line of parts, each plain or with a style; markup and emoji codes in them are not interpreted."""
    from rich.text import Text

    styled = [(part, "") if isinstance(part, str) else part for part in parts]
    return Text.assemble(*((printable(text), style) for text, style in styled))


def moment(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M}" if at else "-"


def age(at: datetime) -> str:
    """Return how long ago a time was: 5 min, 3 h, 2 d, 6 w, 1 y."""
    return duration((datetime.now(UTC) - at).total_seconds(), seconds_until=0)


def duration(seconds: float, *, seconds_until: float = 60) -> str:
    """Return a duration in one unit: 20 s, 5 min, 3 h, 2 d, 6 w, 1 y."""
    seconds = max(0.0, seconds)
    if seconds < seconds_until:
        return f"{int(seconds)} s"
    for unit, size, until in (("min", 60, 60), ("h", 3_600, 24), ("d", 86_400, 14), ("w", 604_800, 52)):
        if seconds < size * until:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds // 31_557_600) or 1} y"


def shorten(text: str, width: int) -> str:
    """Return the beginning of the text on one line."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"


def cut_middle(text: str, *, full: bool) -> str:
    """Return the beginning and the end of a long text, with a note of what is omitted."""
    if full:
        return text
    lines = text.splitlines()
    if len(lines) > LONG_LINES:
        half = LONG_LINES // 2
        more = f"… {len(lines) - 2 * half} more lines (--full shows them) …"
        text = "\n".join([*lines[:half], more, *lines[-half:]])
    if len(text) > LONG_CHARS:
        half = LONG_CHARS // 2
        text = f"{text[:half]}… {len(text) - 2 * half:,} more characters (--full shows them) …{text[-half:]}"
    return text
