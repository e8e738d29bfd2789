"""`foveate doctor`: is everything there, and is it what was stored?"""

from __future__ import annotations

from pathlib import Path

import click

from foveate.cli.options import json_option, opened, store_option
from foveate.cli.terminal import console, line, print_json, progress_bar

MAX_SHOWN = 50


@click.command(name="doctor", short_help="Verify the store: every page, every hash, every turn.")
@store_option
@json_option
def command(*, store_path: Path, as_json: bool) -> None:
    """Verify the store, say what is wrong and what to do, and exit with 1 if anything is.

    \b
    foveate doctor
    foveate doctor --db chat.db --json
    """
    checked = 0
    problems: list[dict[str, str]] = []
    with opened(store_path) as fov, progress_bar(shown=not as_json) as progress:
        task = progress.add_task("checking messages", total=None)
        for finding in fov.check():
            if finding.problem:
                problems.append({"problem": finding.problem, "advice": finding.advice})
            elif finding.total:
                checked = finding.done
                progress.update(task, completed=finding.done, total=finding.total)
        stats = [fov.open_session(info.id).stats() for info in fov.sessions()] if not problems else []
        sessions = len(fov.sessions())
    pending, fallbacks = sum(each.pending for each in stats), sum(each.fallbacks for each in stats)
    if as_json:
        answer = {"ok": not problems, "messages_checked": checked, "sessions": sessions, "problems": problems}
        print_json({**answer, "pending_turns": pending, "fallback_turns": fallbacks})
    else:
        _show(store_path, checked, sessions, problems)
        _inform(pending, fallbacks)
    if problems:
        raise click.exceptions.Exit(1)


def _show(path: Path, checked: int, sessions: int, problems: list[dict[str, str]]) -> None:
    out = console()
    if not problems:
        out.print(line(("✓", "green"), f" {path}: {sessions} sessions, {checked:,} messages, each as it was stored"))
        return
    for entry in problems[:MAX_SHOWN]:
        out.print(line(("✗", "red"), f" {entry['problem']}"))
        out.print(line((f"  {entry['advice']}", "dim")))
    if len(problems) > MAX_SHOWN:
        out.print(f"… and {len(problems) - MAX_SHOWN} more (--json lists all)")
    out.print(line(f"{path}: {len(problems)} problems; {checked:,} messages checked"))


def _inform(pending: int, fallbacks: int) -> None:
    """What is no fault, but good to know."""
    out = console()
    if pending:
        out.print(line((f"  {pending:,} turns are still to be compressed; 'foveate compress --all' does it", "dim")))
    if fallbacks:
        out.print(line((f"  {fallbacks:,} turns have a stand-in for a level that could not be made", "dim")))
