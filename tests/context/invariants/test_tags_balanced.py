"""A history whose blocks are broken, out of order, or not those of the plan is noticed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from foveate.context.assemble import ContextParts, assemble
from foveate.context.context import Context
from foveate.context.invariants.tags_balanced import problem
from foveate.plan import Block
from support.contexts import sample_parts


def with_history(context: Context, history: str) -> Context:
    return replace(context, history=history, text=context.text.replace(context.history, history))


def rows(parts: ContextParts) -> list[Block]:
    return [block.row for block in parts.history]


def test_a_history_as_planned_is_fine() -> None:
    parts = sample_parts()
    assert problem(assemble(parts), rows(parts)) is None


@pytest.mark.parametrize(
    ("damage", "noticed"),
    [
        (("</T-14-R>\n", ""), "<T-14-R> at character"),
        (("<\\T-2-R>", "<T-2-R>"), "<T-14-R> has a tag inside"),
        (("<T-15-R>\n", ""), "no opening tag"),
        (("Turn 10: ", ""), "does not begin with the label"),
    ],
)
def test_a_broken_tag_is_noticed(damage: tuple[str, str], noticed: str) -> None:
    parts = sample_parts()
    context = assemble(parts)
    assert noticed in str(problem(with_history(context, context.history.replace(*damage)), rows(parts)))


def test_blocks_out_of_order_or_overlapping_are_noticed() -> None:
    parts = sample_parts()
    context = assemble(parts)
    for damage in (("T-13-S>", "T-11-S>"), ("T-14-R>", "T-13-R>")):
        assert "comes after" in str(problem(with_history(context, context.history.replace(*damage)), rows(parts)))


def test_a_block_that_was_not_planned_is_noticed() -> None:
    parts = sample_parts()
    context = assemble(parts)
    assert "not as planned" in str(problem(context, rows(parts)[:-1]))
    assert "not as planned" in str(problem(context, [*rows(parts), Block(16, 16, "R", 9)]))


def test_a_text_without_its_history_is_noticed() -> None:
    parts = sample_parts()
    assert problem(replace(assemble(parts), text="nothing"), rows(parts)) == "the history is not in the context"
