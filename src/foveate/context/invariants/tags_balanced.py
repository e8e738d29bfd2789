"""The history consists of the plan's blocks, complete, in order, without overlaps.

Other blocks may show the user's words of turns that an artefact covers, so artefacts are ordered among themselves. An
era of the turns of a block that have no line stands before it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from foveate.context.tags import TagBlock, TagsBroken, parse_blocks
from foveate.plan import Block

if TYPE_CHECKING:
    from foveate.context.context import Context


BEHIND = ("prompt", "tools", "framing", "attachments")
"""Segments that are not part of the text."""
MAX_KNOWN_CHARS = 8_000
"""Longer segments are not cached but parsed for every context."""


def problem(context: Context, rows: Sequence[Block]) -> str | None:
    parts = [part.text for part in context.segments if part.name == "history"]
    is_same = "".join(parts) == context.history
    try:
        blocks = [block for text in (parts if is_same else [context.history]) for block in _blocks(text)]
    except TagsBroken as error:
        return str(error)
    artefacts = [block for block in blocks if block.level == "A"]
    others = [block for block in blocks if block.level != "A"]
    for one, two in itertools.chain(itertools.pairwise(artefacts), itertools.pairwise(others)):
        is_era_of_block = one.level == "E" and (one.first, one.last) == (two.first, two.last)
        if (one.last, one.last_step) >= (two.first, two.first_step) and not is_era_of_block:
            return f"<{two.tag}> comes after <{one.tag}>"
    planned = [place for row in rows for place in _places(row)]
    found = list(map(_place, blocks))
    if planned != found:
        missing = next((row for row in planned if row not in found), None)
        return f"{len(found)} blocks for {len(planned)} rows; not as planned: {missing or found[-1]}"
    if not is_same or _shown(context) != context.text:
        return "the history is not in the context"
    return None


class _Tag(NamedTuple):
    """The place of a block."""

    tag: str
    first: int
    last: int
    first_step: int
    last_step: int
    level: str
    is_range: bool


def _blocks(text: str) -> Sequence[_Tag]:
    """Return the blocks of a segment; they are cached, since the next context repeats most segments."""
    return _known_blocks(text) if len(text) <= MAX_KNOWN_CHARS else _parse(text)


@lru_cache(maxsize=2_000)
def _known_blocks(text: str) -> Sequence[_Tag]:
    return _parse(text)


def _parse(text: str) -> Sequence[_Tag]:
    return tuple(_Tag(block.tag, *_place(block)) for block in parse_blocks(text))


def _shown(context: Context) -> str:
    return "".join(part.text for part in context.segments if part.name not in BEHIND)


def _places(row: Block) -> Iterator[tuple[int, int, int, int, str, bool]]:
    """Yield the place of a row, after that of its era."""
    if row.era_tokens:
        yield (row.first, row.last, 0, 0, "E", False)
    yield _place(row)


def _place(shown: Block | TagBlock | _Tag) -> tuple[int, int, int, int, str, bool]:
    return (shown.first, shown.last, shown.first_step, shown.last_step, shown.level, shown.is_range)
