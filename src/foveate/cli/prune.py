"""`foveate store prune`: remove old raw content; without --yes, preview what would be removed."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from foveate.cli.ui.answers import Answer, store_command
from foveate.cli.ui.options import yes_option
from foveate.cli.ui.terminal import Column, line, print_table
from foveate.errors import ForkInUse, InputError
from foveate.text import amount
from foveate.turn import parse_time

if TYPE_CHECKING:
    from rich.console import Console

    from foveate.sync import Foveate

COLUMNS = (
    Column("session", "fold"),
    Column("turns", "number"),
    Column("messages", "number"),
    Column("raw", "number"),
    Column("stored", "number"),
)


@store_command("prune", "Remove old raw content; without --yes, a preview.")
@click.argument("session_ids", metavar="[SESSION]...", nargs=-1)
@click.option("--older-than", "age", required=True, metavar="AGE", help="E.g. 90d or 12w, or a date, e.g. 2026-01-31.")
@click.option("--all", "everything", is_flag=True, help="All sessions.")
@yes_option("Remove it. Without this nothing changes.")
def command(fov: Foveate, *, session_ids: tuple[str, ...], age: str, everything: bool, yes: bool) -> Answer:
    """Remove the turns that ended before a time: their messages, filed content and tool results, and all that was made
    from them: renditions, summaries, checkpoints, plans, search entries, and knowledge that only a run learned.

    They can't be read, searched or recalled again. Their ids, sizes and times stay; contexts and exports name them as
    removed. Pins, goals, documents, and knowledge that a person wrote stay. Turns that a fork still reads are not
    removed. Export first what you may need again.

    \b
    foveate store prune demo --older-than 90d              preview
    foveate store prune demo --older-than 90d --yes
    """
    if everything == bool(session_ids):
        raise InputError("name the sessions to prune, or use --all")
    before = _moment(age)
    rows: dict[str, object] = {}
    found = [fov.find_session(name).id for name in session_ids] or [info.id for info in fov.sessions()]
    for session_id in found:
        try:
            rows[session_id] = fov.prune(session_id, before=before, dry_run=not yes)
        except ForkInUse as error:
            if session_ids:
                raise
            rows[session_id] = str(error)
    value = {"before": before, "removed": yes, "sessions": rows}
    return Answer(value, lambda out: _show(out, rows, before, yes=yes))


def _moment(age: str) -> datetime:
    match = re.fullmatch(r"(\d{1,5})([dw])", age)
    if match:
        return datetime.now(UTC) - timedelta(days=int(match[1]) * (7 if match[2] == "w" else 1))
    return parse_time(age, path="--older-than")


def _show(out: Console, rows: dict[str, object], before: datetime, *, yes: bool) -> None:
    from foveate.session.values import PruneReport

    lines = []
    for session_id, row in rows.items():
        if isinstance(row, PruneReport) and row.turns:
            sizes = f"{amount(row.raw_bytes)}B", f"{amount(row.stored_bytes)}B"
            lines.append((session_id, str(row.turns), str(row.messages), *sizes))
        elif isinstance(row, str):
            out.print(line(("kept", "yellow"), f"  {row}"))
    if lines:
        print_table(out, COLUMNS, lines)
    else:
        out.print("No turn is that old.")
        return
    verb = "Removed" if yes else "Would remove (--yes does it)"
    out.print(f"{verb}: turns that ended before {before:%Y-%m-%d %H:%M} UTC.")
