"""`foveate fork`: a second conversation from a turn of the first."""

from __future__ import annotations

from pathlib import Path

import click

from foveate.cli.ui.options import json_option, opened, store_option
from foveate.cli.ui.terminal import print_json


@click.command(name="fork", short_help="Start a session from any turn of another.")
@click.argument("session_id", metavar="SESSION")
@click.argument("new_id", metavar="NEW")
@click.option("--at", "turn", metavar="TURN", help="The last turn to share. Default: the newest.")
@click.option("--title", help="The fork's title.")
@click.option("--exist-ok", is_flag=True, help="Open the fork if it exists already and is from the same turn.")
@store_option
@json_option
def command(
    *,
    session_id: str,
    new_id: str,
    turn: str | None,
    title: str | None,
    exist_ok: bool,
    store_path: Path,
    as_json: bool,
) -> None:
    """Start a session from a turn of another; nothing is copied, and the parent never sees the fork's turns.

    \b
    foveate fork demo demo-try --at T-120
    """
    with opened(store_path) as fov:
        info = fov.find_session(session_id).fork(new_id, turn, title=title, exist_ok=exist_ok).info
    if as_json:
        print_json(info)
    else:
        click.echo(f"{new_id} shares {session_id} up to {info.fork_turn_id}; its next turn is T-{info.turns + 1}.")
