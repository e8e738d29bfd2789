"""`foveate stats`: what is kept, and what it takes."""

from __future__ import annotations

from pathlib import Path

import click

from foveate.cli.options import json_option, opened, store_option
from foveate.cli.terminal import Column, amount, console, line, moment, print_json, print_table

COLUMNS = (
    Column("session", "fold"),
    Column("turns", "number"),
    Column("messages", "number", expendable=3),
    Column("calls", "number", expendable=4),
    Column("tokens", "number"),
    Column("raw", "number"),
    Column("stored", "number"),
    Column("ratio", "number", expendable=2),
    Column("compressed", "number", expendable=1),
    Column("first", expendable=6),
    Column("last", expendable=5),
)


@click.command(name="stats", short_help="What a session, or the whole store, holds.")
@click.argument("session_id", metavar="[SESSION]", required=False)
@store_option
@json_option
def command(*, session_id: str | None, store_path: Path, as_json: bool) -> None:
    """What a session holds, or all of them: turns, tokens, the bytes they came in and take, and how many turns
    have their lower levels.

    \b
    foveate stats
    foveate stats demo --json
    """
    with opened(store_path) as fov:
        ids = [fov.find_session(session_id).id] if session_id else [info.id for info in fov.sessions()]
        found = {name: fov.open_session(name).stats() for name in ids}
    size = store_path.expanduser().stat().st_size
    if as_json:
        ratios = {name: {"stats": stats, "compression_ratio": stats.compression_ratio} for name, stats in found.items()}
        print_json({"file_bytes": size, "sessions": ratios})
        return
    rows = [
        (
            name,
            str(stats.turns),
            str(stats.messages),
            str(stats.tool_calls),
            amount(stats.tokens),
            f"{amount(stats.raw_bytes)}B",
            f"{amount(stats.stored_bytes)}B",
            f"{stats.compression_ratio:.1f}x",
            f"{stats.rendered + stats.fallbacks} of {stats.rendered + stats.fallbacks + stats.pending}",
            moment(stats.first_at),
            moment(stats.last_at),
        )
        for name, stats in found.items()
    ]
    out = console()
    if rows:
        print_table(out, COLUMNS, rows)
    out.print(line((f"{store_path}: {len(rows)} sessions, {amount(size)}B on disk", "dim")))
