"""A broken invariant keeps a context from being given out, and says which it was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from foveate.context import invariants
from foveate.context.assemble import assemble
from foveate.context.render import Layout, Stretch
from foveate.errors import InvariantBroken
from foveate.turn import Message, ToolCall
from support.contexts import sample_parts


def test_a_broken_promise_is_named_as_a_defect() -> None:
    parts = sample_parts()
    context = replace(assemble(parts), budget_tokens=1)
    with pytest.raises(InvariantBroken, match=r"fits_budget: .* this is a defect in foveate") as caught:
        invariants.check(context, pins=parts.pins, rows=[block.row for block in parts.history])
    assert caught.value.invariant == "fits_budget"


def test_messages_that_a_provider_would_refuse_are_not_given_out() -> None:
    hanging = Stretch(messages=(Message("assistant", (ToolCall("exec", {}, id="a"),)),), turn=1, is_stable=True)
    context = replace(assemble(sample_parts()), layout=Layout(native=(hanging,)))
    with pytest.raises(InvariantBroken, match="tool_pairs_whole"):
        context.messages("openai")
