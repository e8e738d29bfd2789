"""`foveate pin`: rules and facts that every context includes verbatim."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from foveate.cli.ui.answers import Answer, Cells, listing, store_command
from foveate.cli.ui.terminal import Column, moment, to_copy

if TYPE_CHECKING:
    from foveate.session.values import Pin
    from foveate.sync import Session

CELLS: Cells[Pin] = {
    Column("pin"): lambda pin: pin.id,
    Column("text", "fold"): lambda pin: pin.text,
    Column("locked"): lambda pin: "locked" if pin.locked else "",
    Column("pinned at", expendable=1): lambda pin: moment(pin.created_at),
}


@store_command("pin", "Include a rule or fact in every context, verbatim; list the pins.")
@click.argument("text", required=False)
@click.option("--locked", is_flag=True, help="Protect it: unpin then needs --force.")
def command(session: Session, *, session_id: str, text: str | None, locked: bool) -> Answer:
    """Include a text in every context of a session, verbatim; without a text, list the pins.

    \b
    foveate pin demo "Never deploy on a Friday."
    foveate pin demo "The customer is called Ada." --locked
    foveate pin demo
    """
    if text is None:
        return listing(session.pins(), CELLS, empty=f"No pins. '{to_copy('pin', session_id, 'TEXT')}' makes one.")
    made = session.pin(text, locked=locked)
    return Answer(made, f"Pinned as {made.id}; included in every context of {session_id}.")
