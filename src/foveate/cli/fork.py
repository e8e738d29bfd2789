"""`foveate sessions fork`: start a session from a turn of another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from foveate.cli.ui.answers import Answer, store_command

if TYPE_CHECKING:
    from foveate.sync import Session


@store_command("fork", "Start a session from any turn of another.")
@click.argument("new_id", metavar="NEW")
@click.option("--at", "turn", metavar="TURN", help="The last turn to share. Default: the newest.")
@click.option("--title", help="The fork's title.")
@click.option("--exist-ok", is_flag=True, help="Open the fork if it already exists and is from the same turn.")
def command(
    session: Session, *, session_id: str, new_id: str, turn: str | None, title: str | None, exist_ok: bool
) -> Answer:
    """Start a session from a turn of another; nothing is copied, and the parent never sees the fork's turns.

    \b
    foveate sessions fork demo demo-try --at T-120
    """
    info = session.fork(new_id, turn, title=title, exist_ok=exist_ok).info
    message = f"{new_id} shares {session_id} up to {info.fork_turn_id}; its next turn is T-{info.turns + 1}."
    return Answer(info, message)
