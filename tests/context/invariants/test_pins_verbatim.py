"""A pin that is missing, altered or out of place is noticed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from foveate.context.assemble import ContextParts, assemble
from foveate.context.invariants.pins_verbatim import problem
from foveate.context.pins import PinText, parse_pins, write_pins
from support import contexts
from support.contexts import sample_parts


@given(contexts.parts())
def test_pins_of_every_context_read_back_to_the_letter(parts: ContextParts) -> None:
    context = assemble(parts)
    assert problem(context, parts.pins) is None
    section = context.system[len(context.system) - len(write_pins(parts.pins)) :]
    assert parse_pins(section) == parts.pins


@pytest.mark.parametrize("damage", [("Friday", "Monday"), ("<P-4>", "<P-5>"), ("</P-1>\n", "")])
def test_an_altered_pin_is_noticed(damage: tuple[str, str]) -> None:
    parts = sample_parts()
    context = assemble(parts)
    altered = replace(context, system=context.system.replace(*damage), text=context.text.replace(*damage))
    assert problem(altered, parts.pins) is not None


def test_a_missing_pin_is_noticed() -> None:
    parts = sample_parts()
    assert problem(assemble(parts), [*parts.pins, PinText("P-9", "Also this.")]) is not None
