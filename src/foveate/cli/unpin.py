"""`foveate unpin`: a rule that does not hold any more."""

from __future__ import annotations

from pathlib import Path

import click

from foveate.cli.ui.options import json_option, opened, store_option
from foveate.cli.ui.terminal import console, line, print_json
from foveate.text import several


@click.command(name="unpin", short_help="Remove a pin.")
@click.argument("session_id", metavar="SESSION")
@click.argument("pin_id", metavar="PIN")
@click.option("--even-if-locked", is_flag=True, help="Remove it although it is locked.")
@store_option
@json_option
def command(*, session_id: str, pin_id: str, even_if_locked: bool, store_path: Path, as_json: bool) -> None:
    """Remove a pin, which 'foveate pin SESSION' lists.

    \b
    foveate unpin demo P-1
    foveate unpin demo P-2 --even-if-locked
    """
    with opened(store_path) as fov:
        session = fov.find_session(session_id)
        session.unpin(pin_id, even_if_locked=even_if_locked)
        pins = session.pins()
    if as_json:
        print_json(pins)
    else:
        console().print(line(f"{pin_id} is removed; left: {several(len(pins), 'pin')}."))
