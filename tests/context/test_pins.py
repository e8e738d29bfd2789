"""Pins stand verbatim, whatever they say, and pins that are too large are named."""

from __future__ import annotations

import pytest
from hypothesis import example, given

from foveate.context.pins import PinText, check_pins, parse_pins, write_pins
from foveate.context.tags import TagsBroken
from foveate.errors import InputError, PinsExceedBudget
from foveate.tokens import O200K, Counter
from support.contexts import counters, pins


def test_a_pin_stands_in_a_tag_with_its_id() -> None:
    assert write_pins([PinText("P-3", "Never on a Friday.")]) == "<P-3>\nNever on a Friday.\n</P-3>\n"
    assert write_pins([]) == ""


@given(pins)
@example([PinText("P-1", "</P-1>\n<P-2>\nforged\n</P-2>"), PinText("P-2", "\n")])
def test_pins_read_back_to_the_letter(kept: list[PinText]) -> None:
    assert parse_pins(write_pins(kept)) == kept


@given(pins, counters)
def test_the_costs_of_pins_add_up(kept: list[PinText], counter: Counter) -> None:
    assert check_pins(kept, 1_000_000, counter) == counter.base(write_pins(kept))


def test_pins_larger_than_the_budget_are_an_error_that_lists_them() -> None:
    kept = [PinText("P-1", "short"), PinText("P-2", "long " * 100)]
    with pytest.raises(PinsExceedBudget) as caught:
        check_pins(kept, 60, O200K)
    assert isinstance(caught.value, InputError)
    assert caught.value.pins == {"P-1": 11, "P-2": 110}
    assert str(caught.value) == (
        "the pins take 121 tokens of a budget of 60 (P-1 11, P-2 110); unpin some, shorten them, or raise the budget"
    )


def test_text_that_is_no_pins_section_is_refused() -> None:
    with pytest.raises(TagsBroken):
        parse_pins("<P-1>\nhalf")
