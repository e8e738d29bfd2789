"""What a person sees: tables, progress, colours; and what a program reads: JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

THOUSAND = 1000


def console() -> Console:
    from rich.console import Console

    return Console(highlight=False, soft_wrap=False)


def plain_table(*columns: str, right: tuple[str, ...] = (), title: str | None = None) -> Table:
    """A table with these columns; those named in `right` hold numbers."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return table


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


def print_json(value: object) -> None:
    click.echo(json.dumps(value, default=_as_json, indent=2, ensure_ascii=not _speaks_utf8()))


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
    shown = "".join(char if char in "\n\t" or char.isprintable() else f"\\x{ord(char):02x}" for char in text)
    return shown.encode("utf-8", "backslashreplace").decode()


def safe(text: str) -> str:
    """The text for a table or a line with markup: nothing in it is taken for a style."""
    from rich.markup import escape

    return escape(printable(text))


def moment(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M}" if at else "-"


def amount(number: float) -> str:
    """A number as a person says it: 950, 12.3k, 4.1M."""
    for unit in ("", "k", "M", "G"):
        if abs(number) < THOUSAND or unit == "G":
            return f"{number:.0f}" if unit == "" else f"{number:.1f}{unit}"
        number /= THOUSAND
    raise AssertionError("unreachable")


def shorten(text: str, width: int) -> str:
    """The first of the text on one line."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"
