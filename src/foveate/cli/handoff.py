"""`foveate handoff`: a transcript or first prompt with which another client continues a conversation."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foveate.cli.export import write_new
from foveate.cli.ui.answers import Answer, store_command
from foveate.cli.ui.options import TOKENS
from foveate.cli.ui.terminal import line

if TYPE_CHECKING:
    from rich.console import Console

    from foveate.session.handoff import Handoff, HandoffTarget
    from foveate.sync import Session

CLIENTS = ("claude", "codex", "opencode", "file")


@store_command("handoff", "Continue a conversation in another client.")
@click.option("--to", type=click.Choice(CLIENTS), required=True, help="The client, or a file with a first prompt.")
@click.option("--budget", type=TOKENS, default="8k", metavar="TOKENS", help="Maximum size. Default: 8k.")
@click.option(
    "--folder", type=click.Path(path_type=Path), metavar="DIR", help="Where the client works. Default: the current one."
)
@click.option("-o", "--out", type=click.Path(path_type=Path), metavar="PATH", help="Write to this new file.")
def command(session: Session, *, to: HandoffTarget, budget: int, folder: Path | None, out: Path | None) -> Answer:
    """Write what another client needs to continue, and print the command that starts it.

    Claude Code and Codex get a transcript in their own folder, which they resume; OpenCode and `file` get a first
    prompt. It has pins verbatim, the newest turns verbatim, goals, decisions, open steps, files, and a line for each
    earlier turn. The session here is not changed, and an existing file is never overwritten.

    \b
    foveate handoff demo --to codex
    foveate handoff demo --to claude --folder ~/work/shop
    foveate handoff demo --to file --budget 4k -o prompt.md
    """
    place = (folder or Path.cwd()).expanduser().resolve()
    made = session.handoff(to, budget_tokens=budget, folder=str(place))
    is_transcript = made.format != "markdown"
    path = out.expanduser() if out else (Path.home() if is_transcript else Path.cwd()) / made.path
    if is_transcript and out is None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    size = write_new(path, [made.text])
    starts = made.command.replace("{path}", shlex.quote(str(path)))
    value = {
        "session": made.session_id,
        "to": made.to,
        "format": made.format,
        "path": str(path),
        "bytes": size,
        "tokens": made.tokens,
        "budget_tokens": made.budget_tokens,
        "verbatim_turns": made.verbatim_turns,
        "listed_turns": made.listed_turns,
        "client_session": made.client_session,
        "command": starts,
    }
    return Answer(value, lambda out: _show(out, made, path, starts))


def _show(out: Console, made: Handoff, path: Path, starts: str) -> None:
    verbatim = f"{made.verbatim_turns[0]} to {made.verbatim_turns[-1]}"
    out.print(line(f"Wrote {path}: {made.tokens:,} of {made.budget_tokens:,} tokens."), soft_wrap=True)
    out.print(line(f"{verbatim} verbatim, {made.listed_turns:,} earlier turns in a line each."), soft_wrap=True)
    if starts:
        out.print(line(f"Continue with: {starts}"), soft_wrap=True)
