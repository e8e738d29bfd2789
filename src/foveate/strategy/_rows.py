"""The blocks of a plan, oldest first, from the choices made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from foveate.strategy import Band, Item, Overheads, Row, Shown
from foveate.strategy._eras import stub_row
from foveate.strategy._ledger import ALONE, LEVELS, Ledger, Option


def chosen_rows(ledger: Ledger) -> list[Row]:
    """A row for each block of items that are shown, oldest first."""
    items, chosen = ledger.items, ledger.chosen
    rows: list[Row] = []
    end = len(chosen)
    while end:
        key = chosen[end - 1].key
        start = end - 1
        while key != ALONE and start and chosen[start - 1].key == key:
            start -= 1
        rows.append(_row(items[start:end], chosen[start:end], ledger.costing.block(end - start)))
        end = start
    return rows


def _row(items: Sequence[Item], options: Sequence[Option], structure_tokens: int) -> Row:
    """One block; its items come newest first."""
    return Row(
        items[-1].turn,
        items[0].turn,
        LEVELS[options[0].level],
        structure_tokens + sum(option.text for option in options),
        first_step=items[-1].step,
        last_step=items[0].step,
        is_cut=options[0].is_cut,
        is_range=len(items) > 1,
    )


def hidden_step_rows(ledger: Ledger, overheads: Overheads) -> list[Row]:
    """Oldest first, the steps older than those chosen: ranges that are only named, and the kept ones."""
    rows: list[Row] = []
    items = ledger.items
    for index in range(len(ledger.chosen), len(items)):
        item = items[index]
        if not item.step:
            break
        if index in ledger.kept:
            rows.append(_row([item], [ledger.kept[index]], overheads.tag))
        elif rows and rows[-1].level == "E":
            rows[-1] = step_stub(item.turn, item.step, rows[-1].last_step, overheads)
        else:
            rows.append(step_stub(item.turn, item.step, item.step, overheads))
    rows.reverse()
    return rows


def step_stub(turn: int, first_step: int, last_step: int, overheads: Overheads) -> Row:
    """Steps of a running turn that are only named."""
    tokens = stub_row(turn, turn, overheads).tokens
    return Row(turn, turn, "E", tokens, first_step=first_step, last_step=last_step, is_cut=True)


def bands_of(rows: Sequence[Row], target_shares: Mapping[Shown, float]) -> tuple[Band, ...]:
    """What the rows spend on each level, the most detailed first."""
    bands: list[Band] = []
    for level, share in target_shares.items():
        own = [row for row in rows if row.level == level]
        if own:
            turns = sum(row.last - row.first + 1 for row in own if not row.last_step)
            turns += len({row.first for row in own if row.last_step})
            tokens = sum(row.tokens for row in own)
            bands.append(Band(level, own[0].first, own[-1].last, turns, share, tokens))
    return tuple(bands)
