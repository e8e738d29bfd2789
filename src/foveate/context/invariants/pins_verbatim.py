"""Every pin is in the context, in order, and reads back exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from foveate.context.pins import ShownPin, parse_pins, write_pins
from foveate.context.tags import TagsBroken

if TYPE_CHECKING:
    from foveate.context.context import Context


def problem(context: Context, pins: Sequence[ShownPin]) -> str | None:
    section = write_pins(pins)
    if section not in context.system or not context.text.startswith(context.system):
        return "the pins are not in the context's fixed part"
    try:
        read = parse_pins(section)
    except TagsBroken as error:
        return str(error)
    lost = [pin.id for pin, found in zip(pins, read, strict=False) if (pin.id, pin.text) != (found.id, found.text)]
    if lost or len(read) != len(pins):
        return f"{len(read)} of {len(pins)} pins read back; altered: {', '.join(lost) or 'none'}"
    return None
