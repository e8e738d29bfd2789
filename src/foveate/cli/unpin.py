"""`foveate unpin`: remove a pin."""

from __future__ import annotations

from pathlib import Path

import click

from foveate.cli.ui.options import force_option, json_option, opened, store_option
from foveate.cli.ui.terminal import console, line, print_json
from foveate.errors import InputError, PinLocked
from foveate.text import several


@click.command(name="unpin", short_help="Remove a pin.")
@click.argument("session_id", metavar="SESSION")
@click.argument("pin_id", metavar="PIN")
@force_option("Remove it even if it is locked.")
@store_option
@json_option
def command(*, session_id: str, pin_id: str, force: bool, store_path: Path, as_json: bool) -> None:
    """Remove a pin; 'foveate pin SESSION' lists them.

    \b
    foveate unpin demo P-1
    foveate unpin demo P-2 --force
    """
    with opened(store_path) as fov:
        session = fov.find_session(session_id)
        try:
            session.unpin(pin_id, even_if_locked=force)
        except PinLocked as error:
            raise InputError(f"{error}; --force removes it") from error
        pins = session.pins()
    if as_json:
        print_json(pins)
    else:
        console().print(line(f"Removed {pin_id}; {several(len(pins), 'pin')} left."))
