"""The smallest plans: the newest turn as far as it fits, and all others as one range that is only named."""

from __future__ import annotations

from foveate.strategy import History, Item, Overheads, Row, Shown
from foveate.strategy._eras import stub_row
from foveate.strategy._rows import step_stub

CUT_MINIMUM_TOKENS = 8


def compact_rows(history: History, budget_tokens: int, overheads: Overheads) -> list[Row]:
    """Rows for a budget too small for bands; none where it can't even name the range."""
    newest = next(iter(history.newest()), None)
    if newest is None:
        return []
    others: list[Row] = []
    if newest.turn > 1:
        others.append(stub_row(1, newest.turn - 1, overheads))
    if newest.step > 1:
        others.append(step_stub(newest.turn, 1, newest.step - 1, overheads))
    shown = _shown(newest, budget_tokens - sum(row.tokens for row in others), overheads)
    if shown is not None:
        return [*others, shown]
    everything = stub_row(1, newest.turn, overheads)
    return [everything] if everything.tokens <= budget_tokens else []


def _shown(item: Item, room_tokens: int, overheads: Overheads) -> Row | None:
    """The item at its highest level that fits, else cut."""
    sizes: tuple[tuple[Shown, int | None], ...] = (
        ("R", item.raw),
        ("S", item.smoothed),
        ("C", item.compressed),
        ("T", item.tiny),
    )
    made = [(level, size) for level, size in sizes if size is not None]
    for level, size in made:
        if size + overheads.tag <= room_tokens:
            return Row(item.turn, item.turn, level, size + overheads.tag, item.step, item.step)
    if room_tokens - overheads.tag - overheads.cut_note < CUT_MINIMUM_TOKENS:
        return None
    return Row(item.turn, item.turn, made[-1][0], room_tokens, item.step, item.step, is_cut=True)
