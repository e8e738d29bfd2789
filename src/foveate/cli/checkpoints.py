"""`foveate sessions checkpoints`: the checkpoints of a session, and how its budget is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from foveate.cli.ui.answers import Answer, store_command
from foveate.cli.ui.terminal import line

if TYPE_CHECKING:
    from rich.console import Console

    from foveate.session.checkpoints import CheckpointInfo, CheckpointStatus
    from foveate.sync import Session


@store_command("checkpoints", "The checkpoints of a session, and its status.")
def command(session: Session) -> Answer:
    """List the checkpoints of a session that uses the checkpoint strategy, oldest first.

    \b
    foveate sessions checkpoints demo
    foveate sessions checkpoints demo --json
    """
    status, found = session.checkpoints.status(), session.checkpoints.list()
    shown: dict[str, object] = {**asdict(status), "line": status.line}
    return Answer({"status": shown, "checkpoints": found}, lambda out: _print(out, status, found))


def _print(out: Console, status: CheckpointStatus, found: Sequence[CheckpointInfo]) -> None:
    out.print(line(status.line))
    if status.advice:
        out.print(line((status.advice, "yellow")))
    for one in found:
        sizes = f"{one.original_tokens:,} → {one.current_tokens:,} tokens, compression {one.compression_count}"
        out.print(line((one.id, "bold"), f" level {one.level}, {one.first} to {one.last}, {sizes}"))
        out.print(line(one.text))
    if not found:
        out.print(line("No checkpoints yet."))
