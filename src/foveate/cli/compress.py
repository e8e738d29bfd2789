"""`foveate compress`: what the background has not done yet, done now."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foveate.cli.options import json_option, opened, store_option
from foveate.cli.terminal import Column, console, line, print_json, print_table, printable, progress_bar

if TYPE_CHECKING:
    from foveate.answers import SessionStats
    from foveate.sync import Foveate

COLUMNS = (
    Column("session", "fold"),
    Column("turns", "number"),
    Column("done now", "number"),
    Column("refused", "number"),
    Column("fallbacks", "number"),
)


@click.command(name="compress", short_help="Finish what the background has not compressed yet.")
@click.argument("session_ids", metavar="[SESSION]...", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Every session.")
@store_option
@json_option
def command(*, session_ids: tuple[str, ...], every: bool, store_path: Path, as_json: bool) -> None:
    """Make the renditions that sessions lack.

    'refused' counts versions that lost too much and were made again; 'fallbacks' are turns for which the next
    higher level stands in.

    \b
    foveate compress demo
    foveate compress --all
    """
    if bool(session_ids) == every:
        raise click.UsageError("name sessions, or say --all")
    with opened(store_path) as fov:
        ids = [fov.find_session(name).id for name in session_ids] or [info.id for info in fov.sessions()]
        before = {name: fov.open_session(name).stats() for name in ids}
        _settle(fov, before, shown=not as_json)
        after = {name: fov.open_session(name).stats() for name in ids}
    if as_json:
        print_json(
            {name: {"done": before[name].pending - stats.pending, **_counts(stats)} for name, stats in after.items()}
        )
        return
    out = console()
    rows = [
        (
            name,
            f"{stats.turns:,}",
            f"{before[name].pending - stats.pending:,}",
            f"{stats.refusals:,}",
            f"{stats.fallbacks:,}",
        )
        for name, stats in after.items()
    ]
    if rows:
        print_table(out, COLUMNS, rows)
    else:
        out.print(line("There are no sessions."))


def _settle(fov: Foveate, before: dict[str, SessionStats], *, shown: bool) -> None:
    with progress_bar(shown=shown) as progress:
        task = progress.add_task("compressing", total=sum(stats.pending for stats in before.values()))
        for name in before:
            progress.update(task, description=printable(name[:40]))
            fov.settle(session_id=name, progress=partial(progress.advance, task))


def _counts(stats: SessionStats) -> dict[str, int]:
    return {
        "turns": stats.turns,
        "pending": stats.pending,
        "rendered": stats.rendered,
        "fallbacks": stats.fallbacks,
        "refusals": stats.refusals,
    }
