"""`foveate pin`: rules and facts that every context includes verbatim."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foveate.cli.ui.options import json_option, opened, store_option
from foveate.cli.ui.terminal import Column, console, line, moment, print_json, print_table, to_copy

if TYPE_CHECKING:
    from rich.console import Console

    from foveate.session.values import Pin

COLUMNS = (Column("pin"), Column("text", "fold"), Column("locked"), Column("pinned at", expendable=1))


@click.command(name="pin", short_help="Include a rule or fact in every context, verbatim; list the pins.")
@click.argument("session_id", metavar="SESSION")
@click.argument("text", required=False)
@click.option("--locked", is_flag=True, help="Protect it: unpin then needs --force.")
@store_option
@json_option
def command(*, session_id: str, text: str | None, locked: bool, store_path: Path, as_json: bool) -> None:
    """Include a text in every context of a session, verbatim; without a text, list the pins.

    \b
    foveate pin demo "Never deploy on a Friday."
    foveate pin demo "The customer is called Ada." --locked
    foveate pin demo
    """
    with opened(store_path) as fov:
        session = fov.find_session(session_id)
        made = session.pin(text, locked=locked) if text is not None else None
        pins = session.pins()
    if as_json:
        print_json(made or pins)
        return
    out = console()
    if made:
        out.print(line(f"Pinned as {made.id}; included in every context of {session_id}."))
    elif pins:
        print_pins(out, pins)
    else:
        out.print(line(f"No pins. '{to_copy('pin', session_id, 'TEXT')}' makes one."))


def print_pins(out: Console, pins: Sequence[Pin]) -> None:
    rows = [(pin.id, pin.text, "locked" if pin.locked else "", moment(pin.created_at)) for pin in pins]
    print_table(out, COLUMNS, rows)
