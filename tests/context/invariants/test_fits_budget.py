"""A context that exceeds its budget, or miscounts, is noticed."""

from __future__ import annotations

from dataclasses import replace

from foveate.context.assemble import assemble
from foveate.context.invariants.fits_budget import problem
from support.contexts import sample_parts


def test_a_context_within_its_budget_is_fine() -> None:
    assert problem(assemble(sample_parts())) is None


def test_a_context_above_its_budget_is_noticed_with_what_takes_how_much() -> None:
    context = assemble(sample_parts())
    found = problem(replace(context, budget_tokens=context.tokens - 1))
    assert found is not None
    (explanation,) = (segment for segment in context.segments if segment.name == "explanation")
    assert f"explanation {explanation.tokens}" in found
    assert problem(replace(context, budget_tokens=context.tokens)) is None


def test_segments_that_do_not_add_up_are_noticed() -> None:
    context = assemble(sample_parts())
    assert problem(replace(context, segments=context.segments[1:])) is not None
