"""`foveate checkpoints`: the checkpoints of a session, and how its budget is used."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from foveate.cli.ui.options import json_option, opened, store_option
from foveate.cli.ui.terminal import console, line, print_json


@click.command(name="checkpoints", short_help="The checkpoints of a session, and its status.")
@click.argument("session_id", metavar="SESSION")
@store_option
@json_option
def command(*, session_id: str, store_path: Path, as_json: bool) -> None:
    """List the checkpoints of a session that uses the checkpoint strategy, oldest first.

    \b
    foveate checkpoints demo
    foveate checkpoints demo --json
    """
    with opened(store_path) as fov:
        checkpoints = fov.find_session(session_id).checkpoints
        status, found = checkpoints.status(), checkpoints.list()
    if as_json:
        shown: dict[str, object] = {**asdict(status), "line": status.line}
        print_json({"status": shown, "checkpoints": found})
        return
    out = console()
    out.print(line(status.line))
    for one in found:
        sizes = f"{one.original_tokens:,} → {one.current_tokens:,} tokens, compression {one.compression_count}"
        out.print(line((one.id, "bold"), f" level {one.level}, {one.first} to {one.last}, {sizes}"))
        out.print(line(one.text))
    if not found:
        out.print(line("No checkpoints yet."))
