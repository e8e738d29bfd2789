"""Pins: rules and facts, verbatim in the stable part of every context.

    <P-3>
    Never deploy on a Friday.
    </P-3>

A pin's text is escaped like a turn's, so it can contain tags without closing its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from foveate.context.tags import TagsBroken, escape_text, unescape_text
from foveate.errors import PinsExceedBudget
from foveate.tokens import Counter

PINS_SHARE = 0.5
"""Maximum share of a session's budget for a new pin with the existing ones; the rest is left for system prompt, tools,
prompt and history, without which no request can be made."""
_PIN = re.compile(r"<(P-[1-9]\d*)>\n(.*?)\n</\1>\n", re.DOTALL)
_PIN_ID = re.compile(r"P-[1-9]\d*")


class ShownPin(Protocol):
    """A pin as contexts show it."""

    @property
    def id(self) -> str: ...

    @property
    def text(self) -> str: ...


@dataclass(frozen=True, slots=True)
class PinText:
    """A pin parsed from a context."""

    id: str
    text: str


def write_pin(pin: ShownPin) -> str:
    assert _PIN_ID.fullmatch(pin.id), f"{pin.id!r} is not the id of a pin"
    return f"<{pin.id}>\n{escape_text(pin.text, 'E')}\n</{pin.id}>\n"


def write_pins(pins: Iterable[ShownPin]) -> str:
    """Write the pins section; empty without pins."""
    return "".join(map(write_pin, pins))


def parse_pins(text: str) -> list[PinText]:
    """Parse the pins section; `TagsBroken` if there is anything else in it."""
    pins: list[PinText] = []
    position = 0
    while position < len(text):
        pin = _PIN.match(text, position)
        if pin is None:
            raise TagsBroken(f"no pin at character {position}: {text[position : position + 40]!r}")
        pins.append(PinText(pin[1], unescape_text(pin[2], "E")))
        position = pin.end()
    return pins


def check_pins(
    pins: Sequence[ShownPin], budget_tokens: int, counter: Counter, calibration: float = 1.0, *, share: float = 1.0
) -> int:
    """Return the base tokens of the pins section; `PinsExceedBudget` if it exceeds this share of the budget."""
    sizes = {pin.id: counter.base(write_pin(pin)) for pin in pins}
    total = sum(sizes.values())
    if counter.scale(total, calibration) > int(budget_tokens * share):
        scaled = {pin_id: counter.scale(size, calibration) for pin_id, size in sizes.items()}
        raise PinsExceedBudget(budget_tokens, scaled, int(budget_tokens * share))
    return total
