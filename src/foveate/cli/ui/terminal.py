"""What a person sees: tables, progress, colours; and what a program reads: JSON."""

from __future__ import annotations

import json
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
"""So much of the gap behind the last column is not needed."""
LEAST_CUT = 16
"""A text that is cut keeps this many cells, if it has them."""
TIGHT_CUT = 8
"""And no less than this, where all that can be spared is gone."""
DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}
LONG_LINES = 40
LONG_CHARS = 6000
MOST_WHOLE = 40
"""An id up to this long is never folded, so that it can be copied."""

_SURROGATE = re.compile(r"[\ud800-\udfff]")


def console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False, stderr=stderr)


@dataclass(frozen=True, slots=True)
class Column:
    """`number` and `fixed` are never cut; `cut` ends in an ellipsis; `fold` wraps."""

    name: str
    shape: Literal["number", "fixed", "cut", "fold"] = "fixed"
    expendable: int = 0
    """Where the terminal is narrow, the column with the highest number goes first; 0 always stays."""

    def least(self, width: int) -> int:
        return min(width, {"cut": LEAST_CUT, "fold": MOST_WHOLE}.get(self.shape, width))


def print_table(out: Console, columns: Sequence[Column], rows: Sequence[Sequence[str | Text]]) -> None:
    """A table that fits the terminal. A cell that is `str` is taken as it is; only a `Text` has a style.

    If no table fits, each row is printed as lines.
    """
    from rich import box
    from rich.table import Table

    cells = {column: _cells(rows, index) for index, column in enumerate(columns)}
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


def print_diff(out: Console, lines: Iterable[str]) -> None:
    for text in lines:
        out.print(line((text, DIFF_STYLES.get(text[:1], ""))), soft_wrap=True)


def _print_rows(out: Console, cells: Mapping[Column, Sequence[Text]], count: int) -> None:
    """Each row as lines of `name: value`, for a terminal that is too narrow for columns."""
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
    """The columns without those that can be spared and for which there is no room."""
    while _least(columns, widths) > room:
        most = max(columns, key=lambda column: column.expendable)
        if not most.expendable:
            break
        columns = [column for column in columns if column is not most]
    return columns


def _cut_widths(columns: Sequence[Column], widths: Mapping[Column, int], *, room: int) -> dict[Column, int]:
    """How wide each column that may be cut can be: the narrow ones whole, the others share what is left, or lacking."""
    spare = room - _least(columns, widths)
    cut = sorted((column for column in columns if column.shape == "cut"), key=lambda column: widths[column])
    given: dict[Column, int] = {}
    for place, column in enumerate(cut):
        least = column.least(widths[column])
        more = max(min(widths[column], TIGHT_CUT) - least, min(widths[column] - least, spare // (len(cut) - place)))
        given[column] = least + more
        spare -= more
    return given


def _least(columns: Sequence[Column], widths: Mapping[Column, int]) -> int:
    """How wide a table of these columns is at least."""
    return sum(column.least(widths[column]) + GAP for column in columns)


def _narrowest(column: Column, cells: Sequence[Text], *, width: int) -> int:
    """How wide a column must be to be read: what goes on below does so between words, or inside a very long one."""
    if column.shape != "fold":
        return min(width, TIGHT_CUT) if column.shape == "cut" else width
    words = [_cell(word).cell_len for cell in [*cells, _cell(column.name)] for word in cell.plain.split()]
    return min(MOST_WHOLE, max(words, default=0))


@contextmanager
def progress_bar(*, shown: bool, is_bytes: bool = False) -> Iterator[Progress]:
    """A progress bar on the error stream, so that output stays clean; none where nobody watches."""
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
    """What is wrong, and what was noted of it: why the other models could not be asked either, say."""
    return "; ".join([str(error), *getattr(error, "__notes__", ())])


def reliable(trust: Reliability | None) -> str:
    """`38.5 % critical`; nothing where there is no score."""
    return f"{100 * trust.score:.1f} % {trust.level}" if trust else ""


def to_copy(*words: str) -> str:
    """A command as a shell takes it, whatever its session is called."""
    return shlex.join(("foveate", *words))


def not_compressed(turns: int, session_id: str | None = None) -> str:
    """How many turns the background has not compressed yet, in one session or in all, and what does."""
    return f"{several(turns, 'turn')} not compressed yet; '{to_copy('compress', session_id or '--all')}' does it"


def waiting_for_model(found: Iterable[SessionStats]) -> str:
    """For how many turns a model is asked later, and from when on; nothing where no turn waits."""
    waiting = [(stats.waiting_until, stats.waiting) for stats in found if stats.waiting_until]
    if not waiting:
        return ""
    turns = several(sum(count for _, count in waiting), "more turn")
    return f"A model is asked for {turns} from {moment(min(waiting)[0])} UTC on"


def print_json(value: object) -> None:
    _print_json(json.dumps(value, default=_as_json, indent=2, ensure_ascii=not _speaks_utf8()))


def print_json_line(value: object) -> None:
    """One value on one line, for programs that read values as they come."""
    _print_json(json.dumps(value, default=_as_json, ensure_ascii=not _speaks_utf8()))


def _print_json(text: str) -> None:
    click.echo(for_terminal(text) if is_watched() else _SURROGATE.sub(lambda char: f"\\u{ord(char[0]):04x}", text))


def print_exactly(text: str) -> None:
    """Text for a program or a file, in UTF-8 whatever the terminal speaks; a terminal gets no control characters."""
    shown = for_terminal(text) if is_watched() else text
    click.echo(shown.encode("utf-8", "backslashreplace"), nl=False)


def is_watched() -> bool:
    """Whether a person reads the output, rather than a program."""
    return sys.stdout.isatty()


def _as_json(value: Any) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value)


def _speaks_utf8() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def printable(text: str) -> str:
    """The text without what a terminal would obey (escape sequences, bells) or can't write (lone surrogates)."""
    return for_terminal(text)


def line(*parts: str | tuple[str, str]) -> Text:
    """A line to print: each part as it is, or with a style. Nothing in a part is taken for a style or an emoji."""
    from rich.text import Text

    styled = [(part, "") if isinstance(part, str) else part for part in parts]
    return Text.assemble(*((printable(text), style) for text, style in styled))


def moment(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M}" if at else "-"


def age(at: datetime) -> str:
    """How long ago something was: 5 min, 3 h, 2 d, 6 w, 1 y."""
    seconds = max(0.0, (datetime.now(UTC) - at).total_seconds())
    for unit, size, until in (("min", 60, 60), ("h", 3_600, 24), ("d", 86_400, 14), ("w", 604_800, 52)):
        if seconds < size * until:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds // 31_557_600) or 1} y"


def shorten(text: str, width: int) -> str:
    """The first of the text on one line."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"


def cut_middle(text: str, *, full: bool) -> str:
    """The beginning and the end of a long text."""
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
