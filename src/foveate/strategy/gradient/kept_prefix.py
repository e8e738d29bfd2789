"""Chooses the blocks that a rebuild keeps byte for byte. Provider caches match prefixes, so everything after a change
is paid for again.

A rebuild has a new plan of the whole history. From the oldest block on, blocks of the old plan can stay in place of
those of the new one; where levels go by age, as long as no turn becomes more detailed than a newer one. Each block
where that can end is a seam. A later seam rewrites less, but keeps old turns larger than the new plan would, so the
next rebuild comes sooner. The best seam rewrites the fewest tokens per token of room until then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

from foveate.plan import NO_LINE, Block
from foveate.store.rows import ERA_FANOUT

_DETAIL = "RSCTE"
"""Levels, the most detailed first."""


@dataclass(frozen=True, slots=True)
class Seam:
    """The point where the old plan's blocks end and the new plan's begin."""

    kept: int
    """Number of the old plan's blocks."""
    kept_tokens: int
    rows: tuple[Block, ...]
    """The new plan's rows after them."""

    @property
    def rewritten_tokens(self) -> int:
        return sum(row.tokens for row in self.rows)

    @property
    def tokens(self) -> int:
        return self.kept_tokens + self.rewritten_tokens

    def rate(self, room_tokens: int) -> float:
        """Return the tokens rewritten per token of remaining room."""
        left = room_tokens - self.tokens
        return self.rewritten_tokens / left if left > 0 else inf


def best_seam(
    old: Sequence[Block], old_tokens: Sequence[int], new: Sequence[Block], *, room_tokens: int, most_tokens: int
) -> Seam:
    """Return the cheapest seam of those with which the history takes at most `most_tokens`."""
    best = Seam(0, 0, tuple(new))
    for seam in _seams(old, old_tokens, new):
        if seam.tokens <= most_tokens and seam.rate(room_tokens) <= best.rate(room_tokens):
            best = seam
    return best


def _seams(old: Sequence[Block], old_tokens: Sequence[int], new: Sequence[Block]) -> Iterator[Seam]:
    """Yield all seams after at least one block of the old plan, oldest first."""
    kept_tokens = 0
    by_age = not any(row.levels for row in new)
    for kept, (row, tokens) in enumerate(zip(old[: _last_in_tags(old)], old_tokens, strict=False), 1):
        if row.first_step or (row.is_cut and not row.era_level and row.level in ("R", "E")):
            # The turn was in progress, or not compressed yet.
            return
        kept_tokens += tokens
        behind = _rows_after(new, row.last)
        if behind and not (by_age and _detail(row) < _detail(behind[0])):
            yield Seam(kept, kept_tokens, behind)


def _last_in_tags(rows: Sequence[Block]) -> int:
    """Return the number of blocks before the last run of raw ones, which are sent as messages."""
    count = len(rows)
    while count and rows[count - 1].level == "R" and not rows[count - 1].is_cut:
        count -= 1
    return count


def _detail(row: Block) -> int:
    return _DETAIL.find(row.level)


def _rows_after(rows: Sequence[Block], turn: int) -> tuple[Block, ...]:
    """Return the rows of the turns after this one, the first of them divided if necessary; empty if that is
    impossible."""
    for index, row in enumerate(rows):
        if row.last <= turn:
            continue
        if row.first == turn + 1:
            return tuple(rows[index:])
        part = _part_after(row, turn)
        return (part, *rows[index + 1 :]) if part else ()
    return ()


def _part_after(row: Block, turn: int) -> Block | None:
    """Return the part of a range after a turn; its tokens are estimated by its share of the turns, unless they are
    known."""
    if row.levels:
        return _lines_after(row, turn)
    tokens = row.tokens * (row.last - turn) // (row.last - row.first + 1)
    if row.era_level:
        # A block of eras can be divided between two of them.
        return None if turn % ERA_FANOUT**row.era_level else replace(row, first=turn + 1, tokens=tokens)
    if not row.is_range or row.first_step:
        return None
    return replace(row, first=turn + 1, tokens=tokens, is_range=row.last > turn + 1)


def _lines_after(row: Block, turn: int) -> Block | None:
    """Return the part of a block with several levels after a turn; None if no turn of it has a line."""
    start = turn + 1 - row.first
    levels, sizes = row.levels[start:], row.sizes[start:]
    tokens = row.tokens - sum(row.sizes[:start])
    if not levels.strip(NO_LINE):
        return None
    return replace(row, first=turn + 1, tokens=tokens, levels=levels, sizes=sizes)
