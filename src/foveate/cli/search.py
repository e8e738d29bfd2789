"""`foveate search`: the turns that have some words."""

from __future__ import annotations

from pathlib import Path

import click

from foveate.cli.options import json_option, opened, store_option
from foveate.cli.terminal import Column, console, line, print_json, print_table

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
    out = console()
    if found:
        print_table(out, COLUMNS, [(content.turn_id, content.content) for content in found])
    else:
        out.print(line(f"Nothing was found for {query!r}."))
