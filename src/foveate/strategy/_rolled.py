"""Turns that were rolled over: a line each, and eras for the oldest of them."""

from __future__ import annotations

from collections.abc import Sequence

from foveate.strategy import History, Item, Overheads, Row
from foveate.strategy._eras import make_cover, stub_row
from foveate.strategy._ledger import TINY, TINY_TOKENS, Costing, Ledger
from foveate.strategy._rows import chosen_rows

TINY_SHARES = (0.75, 0.5, 0.25, 0.0)
"""Of the room for rolled-over turns, what single Tinies take where eras stand for the oldest: the first that fits."""


def rolled_rows(
    history: History, items: Sequence[Item], last: int, room_tokens: int, overheads: Overheads
) -> list[Row]:
    """Turns 1 to `last` as Tiny, eras for the oldest where that is too much; only named where nothing else fits, and
    nothing where not even that does.

    `items` are the turns from `last` on backwards, as many as are known.
    """
    if not last:
        return []
    ledger = Ledger(list(items), Costing(overheads, 0, TINY_TOKENS))
    if _append_tinies(ledger, room_tokens) == last:
        return chosen_rows(ledger)
    for share in TINY_SHARES:
        ledger.cut_back(0, 0)
        shown = _append_tinies(ledger, int(room_tokens * share))
        oldest = last - shown
        room = room_tokens - ledger.cost
        cover = make_cover(history, oldest - oldest % history.fanout, oldest, room, overheads)
        if cover.least <= room:
            return cover.rows(room) + chosen_rows(ledger)
    stub = stub_row(1, last, overheads)
    return [stub] if stub.tokens <= room_tokens else []


def _append_tinies(ledger: Ledger, room_tokens: int) -> int:
    for index in range(len(ledger.items)):
        option = ledger.at(index, TINY)
        added = ledger.appended(option)
        if ledger.cost + added > room_tokens:
            break
        ledger.append(option, added)
    return len(ledger.chosen)
