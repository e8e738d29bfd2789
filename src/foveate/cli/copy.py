"""`foveate store copy`: copy a store into another one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foveate.cli.ui.answers import Answer, store_command
from foveate.cli.ui.options import STORE
from foveate.cli.ui.terminal import line
from foveate.text import several

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from foveate.session.values import CopyReport

MAX_SHOWN = 20


@store_command("copy", "Copy a store: file to server, server to file, file to file.")
@click.argument("source", type=STORE)
@click.argument("target", type=STORE)
def command(progress: Progress, *, source: Path, target: Path) -> Answer:
    """Copy all data of a store into another: sessions, renditions, index, boards, files, prompts, agents, knowledge.

    The same command resumes an interrupted copy, and later copies what is new. Each session is verified by the hashes
    of its rows. A session that has other messages in the target is not changed, and the exit code is 1. First stop the
    programs that record in the source.

    \b
    foveate store copy ~/.foveate/foveate.db postgresql://foveate@db.example.com/foveate
    foveate store copy postgresql://foveate@db.example.com/foveate backup.db --json
    """
    import asyncio

    from foveate.client import copy_all

    task = progress.add_task("copying turns", total=None)

    def advance(done: int, total: int) -> None:
        progress.update(task, completed=done, total=total)

    report = asyncio.run(copy_all(os.fspath(source.expanduser()), os.fspath(target.expanduser()), progress=advance))
    return Answer(report, lambda out: _show(out, report), 1 if report.conflicts else 0)


def _show(out: Console, report: CopyReport) -> None:
    counts = f"{several(len(report.copied), 'session')} copied, {report.unchanged:,} unchanged"
    out.print(line(("✓", "green"), f" {counts}; each verified by its hashes"))
    for session_id in report.conflicts[:MAX_SHOWN]:
        out.print(line(("✗", "red"), f" {session_id}: has other messages in the target; not changed"))
    if len(report.conflicts) > MAX_SHOWN:
        out.print(f"… and {len(report.conflicts) - MAX_SHOWN} more (--json lists all)")
