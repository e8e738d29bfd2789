"""`foveate disconnect`: remove what `foveate connect` added."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from foveate.cli.connect import CLIENT_NAMES, confirmed
from foveate.cli.ui.answers import Answer, store_command
from foveate.cli.ui.options import yes_option
from foveate.cli.ui.terminal import line

if TYPE_CHECKING:
    from rich.console import Console


@store_command("disconnect", "Remove what 'connect' added to an agent's settings.")
@click.argument("name", metavar="CLIENT", type=click.Choice(CLIENT_NAMES))
@yes_option("Write the changes without asking.")
def command(*, name: str, yes: bool, as_json: bool) -> Answer:
    """Remove what 'foveate connect' added to the settings of a coding agent.

    A file that was not edited since is restored byte for byte. From an edited file only the added values are removed;
    a value that you changed is kept and reported. Backups are never written back; the command prints their paths.

    \b
    foveate disconnect claude
    foveate disconnect codex --yes
    """
    from foveate.connections.clients import CLIENTS
    from foveate.connections.connection import Connections

    client = CLIENTS[name]
    connections = Connections(Path.home())
    plan = connections.plan_disconnect(client)
    is_written = not plan.is_changed or confirmed(plan, yes=yes, as_json=as_json, verb="Disconnect")
    if is_written:
        connections.write(plan)

    def show(out: Console) -> None:
        if is_written:
            out.print(line((f"Disconnected {client.title}.", "green")))
        if not plan.files:
            out.print(line("Its settings existed before it was connected, and stay unchanged."))
        for kept in plan.kept:
            out.print(line(("kept", "yellow"), f"  {kept} was edited after connecting"))
        for backup in plan.backups if is_written else ():
            out.print(line((f"Backup of the old file: {backup}", "dim")))

    found = {"client": name, "written": is_written, "diff": plan.diff(), "kept": plan.kept}
    return Answer(found, show, 0 if is_written else 1)
