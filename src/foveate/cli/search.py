"""`foveate search`: the turns that have some words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foveate.cli.options import json_option, opened, store_option
from foveate.cli.terminal import Column, console, line, print_json, print_table

if TYPE_CHECKING:
    from rich.console import Console

    from foveate.answers import TurnContent

COLUMNS = (Column("turn"), Column("in one line", "fold"))


@click.command(name="search", short_help="Find the turns that have some words.")
@click.argument("session_id", metavar="SESSION")
@click.argument("words", nargs=-1, required=True)
@click.option("--limit", type=click.IntRange(1, 1000), default=10, show_default=True, help="At most this many.")
@store_option
@json_option
def command(*, session_id: str, words: tuple[str, ...], limit: int, store_path: Path, as_json: bool) -> None:
    """Find turns by their words, the best first.

    \b
    foveate search demo storage port
    foveate search demo "invoice run" --limit 3
    """
    query = " ".join(words)
    with opened(store_path) as fov:
        found = fov.find_session(session_id).search(query, limit)
    if as_json:
        print_json(found)
        return
    print_found(console(), found, query)


def print_found(out: Console, found: Sequence[TurnContent], query: str) -> None:
    if found:
        print_table(out, COLUMNS, [(content.turn_id, content.content) for content in found])
    else:
        out.print(line(f"Nothing was found for {query!r}."))
