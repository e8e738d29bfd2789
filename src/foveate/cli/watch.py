"""`foveate watch`: import transcripts of coding agents as they grow."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foveate.cli.ui.answers import store_command
from foveate.cli.ui.options import store_file
from foveate.cli.ui.terminal import console, line, print_json_line, printable
from foveate.errors import InputError
from foveate.text import several

if TYPE_CHECKING:
    from foveate.client import Foveate
    from foveate.connections.watch import WatchEvent

DEFAULT_SECONDS = 2.0


@store_command("watch", "Keep importing the transcripts of coding agents.", create=True)
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path))
@click.option("--once", is_flag=True, help="Import what is new, then exit.")
@click.option("--every", "seconds", type=click.FloatRange(min=0.1), default=DEFAULT_SECONDS, help="Scan interval.")
async def command(
    fov: Foveate, *, folders: tuple[Path, ...], once: bool, seconds: float, store_path: Path, as_json: bool
) -> None:
    """Keep importing transcripts as they grow: those of the coding agents on this machine, or of the named folders.

    Without folders: Claude Code, Codex, pi, Gemini CLI, OpenCode, Cline, Cursor and Copilot Chat, in their default
    locations. Each message is imported once; after a restart only changed files are read.

    \b
    foveate watch
    foveate watch --once
    foveate watch ~/transcripts --every 10
    """
    import asyncio

    from foveate.connections.watch import Watcher, folder_patterns, known_patterns, state_file

    patterns = folder_patterns([path.expanduser() for path in folders]) if folders else known_patterns(Path.home())
    if not patterns:
        raise InputError("no transcripts of coding agents found on this machine; name a folder")
    state = state_file(Path.home(), str(store_file(store_path, create=True).resolve()))
    watcher = Watcher(fov, patterns, state)
    if not as_json and not once:
        console().print(line(f"Watching {several(len(patterns), 'folder')}; Ctrl+C stops it."))
    while True:
        for event in await watcher.run_once():
            _show(event, as_json=as_json)
        if once:
            return
        await asyncio.sleep(seconds)


def _show(event: WatchEvent, *, as_json: bool) -> None:
    report = event.report
    if as_json:
        sessions = [{"id": one.id, "added": one.added} for one in report.sessions] if report else []
        added = report.added if report else 0
        print_json_line({"path": str(event.path), "added": added, "sessions": sessions, "problem": event.problem})
        return
    moment = (time.strftime("%H:%M:%S "), "dim")
    if report is None:
        console().print(line(moment, ("skipped ", "yellow"), printable(event.problem)))
    for one in report.sessions if report else ():
        if one.added:
            console().print(line(moment, (f"+{one.added} ", "green"), printable(f"{one.id} {event.path.name}")))
