"""`foveate disconnect`: remove what `foveate connect` added."""

from __future__ import annotations

from pathlib import Path

import click

from foveate.cli.connect import CLIENT_NAMES, confirmed
from foveate.cli.ui.options import json_option, yes_option
from foveate.cli.ui.terminal import console, line, print_json


@click.command(name="disconnect", short_help="Remove what 'connect' added to an agent's settings.")
@click.argument("name", metavar="CLIENT", type=click.Choice(CLIENT_NAMES))
@yes_option("Write the changes without asking.")
@json_option
def command(*, name: str, yes: bool, as_json: bool) -> None:
    """Remove what 'foveate connect' added to the settings of a coding agent.

    A file that is unchanged since gets its old bytes back. In an edited file only our values are removed; one that was
    changed is kept and named. Backups are never written back; the command says where they are.

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
    if as_json:
        print_json({"client": name, "written": is_written, "diff": plan.diff(), "kept": plan.kept})
        return
    out = console()
    if is_written:
        out.print(line((f"Disconnected {client.title}.", "green")))
    if not plan.files:
        out.print(line("Its settings were there before it was connected, and stay."))
    for kept in plan.kept:
        out.print(line(("kept", "yellow"), f"  {kept} was changed since"))
    for backup in plan.backups if is_written else ():
        out.print(line((f"The file from before is kept as {backup}", "dim")))
