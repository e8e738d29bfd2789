"""`foveate tokens`: count the tokens of files or of standard input."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from foveate.cli.ui.answers import Answer, store_command
from foveate.cli.ui.options import opened
from foveate.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console


@store_command("tokens", "Count the tokens of a file or of standard input.")
@click.argument("files", nargs=-1, type=click.File("rb"), default=["-"])
@click.option("--model", help="Count as for this model, e.g. gpt-5. Default: session.model of the settings.")
@click.option("-s", "--session", "session_id", metavar="SESSION", help="Count as for this session.")
def command(*, files: tuple[BinaryIO, ...], model: str | None, session_id: str | None, store_path: Path) -> Answer:
    """Count tokens: exactly for OpenAI's models, by a measured estimate for others.

    \b
    foveate tokens notes.md
    git diff | foveate tokens --model claude-sonnet-4-5
    foveate tokens notes.md --session demo
    """
    from foveate.settings import load_settings
    from foveate.tokens import counter_for

    calibration = 1.0
    if session_id is None:
        counter = counter_for(model or load_settings().session.model)
    else:
        with opened(store_path) as fov:
            session = fov.find_session(session_id)
            counter, calibration = session.counter, session.info.calibration
    counts: dict[str, int] = {}
    for file in files:
        name = getattr(file, "name", "<stdin>")
        try:
            counts[name] = counter.scale(counter.base(file.read().decode()), calibration)
        except UnicodeDecodeError as error:
            raise InputError(f"{name}: not UTF-8 text (byte {error.start}); tokens are counted in text") from error

    def show(_: Console) -> None:
        for name, count in counts.items():
            click.echo(f"{count:,}" if len(counts) == 1 else f"{count:>12,}  {name}")
        if not counter.exact:
            click.secho(f"estimated by {counter.name}: {counter.measured}", dim=True, err=True)

    value = {"counter": counter.name, "exact": counter.exact, "measured": counter.measured, "tokens": counts}
    return Answer(value, show)
