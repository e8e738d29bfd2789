"""The history consists of whole blocks, those of the plan, in order, none overlapping another.

An artefact speaks for turns of which others may show the user's words, so it is in order among its like.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from foveate.context.tags import TagBlock, TagsBroken, parse_blocks
from foveate.plan import Block

if TYPE_CHECKING:
    from foveate.context.context import Context


BEHIND = ("prompt", "tools", "framing", "attachments")
"""Parts that are no part of the text."""


def problem(context: Context, rows: Sequence[Block]) -> str | None:
    try:
        blocks = parse_blocks(context.history)
    except TagsBroken as error:
        return str(error)
    artefacts = [block for block in blocks if block.level == "A"]
    others = [block for block in blocks if block.level != "A"]
    for one, two in itertools.chain(itertools.pairwise(artefacts), itertools.pairwise(others)):
        if (one.last, one.last_step) >= (two.first, two.first_step):
            return f"<{two.tag}> comes after <{one.tag}>"
    planned, found = list(map(_place, rows)), list(map(_place, blocks))
    if planned != found:
        missing = next((row for row in planned if row not in found), None)
        return f"{len(found)} blocks for {len(planned)} rows; not as planned: {missing or found[-1]}"
    parts = [part for part in context.segments if part.name == "history"]
    if "".join(part.text for part in parts) != context.history or _shown(context) != context.text:
        return "the history is not in the context"
    return None


def _shown(context: Context) -> str:
    return "".join(part.text for part in context.segments if part.name not in BEHIND)


def _place(shown: Block | TagBlock) -> tuple[object, ...]:
    return (shown.first, shown.last, shown.first_step, shown.last_step, shown.level, shown.is_range)
