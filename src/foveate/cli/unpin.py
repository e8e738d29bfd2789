"""`foveate unpin`: remove a pin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from foveate.cli.ui.answers import Answer, store_command
from foveate.cli.ui.options import force_option
from foveate.errors import InputError, PinLocked
from foveate.text import several

if TYPE_CHECKING:
    from foveate.sync import Session


@store_command("unpin", "Remove a pin.")
@click.argument("pin_id", metavar="PIN")
@force_option("Remove it even if it is locked.")
def command(session: Session, *, pin_id: str, force: bool) -> Answer:
    """Remove a pin; 'foveate pin SESSION' lists them.

    \b
    foveate unpin demo P-1
    foveate unpin demo P-2 --force
    """
    try:
        session.unpin(pin_id, even_if_locked=force)
    except PinLocked as error:
        raise InputError(f"{error}; --force removes it") from error
    pins = session.pins()
    return Answer(pins, f"Removed {pin_id}; {several(len(pins), 'pin')} left.")
