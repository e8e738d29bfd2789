"""What the bands left unspent goes into more detail, so that a context fills its budget."""

from __future__ import annotations

from foveate.strategy._ledger import COMPRESSED, RAW, SMOOTHED, TINY, Ledger

SLACK_SHARE = 0.02
"""Less than this is left unspent rather than breaking up a range for one turn in its middle."""


def raise_levels(ledger: Ledger, limit_tokens: int) -> None:
    """Raises what fits: the newest item, each band's newer edge from the oldest band on, single turns, cut texts."""
    _raise_newest(ledger, limit_tokens)
    for level in (TINY, COMPRESSED, SMOOTHED):
        _raise_edge(ledger, level, limit_tokens)
    if limit_tokens - ledger.cost > limit_tokens * SLACK_SHARE:
        _raise_single(ledger, limit_tokens)
    _grow_cuts(ledger, limit_tokens)


def _raise_newest(ledger: Ledger, limit_tokens: int) -> None:
    if not ledger.chosen or 0 in ledger.kept:
        return
    for level in (RAW, SMOOTHED):
        option = ledger.at(0, level)
        if option == ledger.chosen[0]:
            return
        added = ledger.change(0, option)
        if ledger.cost + added <= limit_tokens:
            ledger.replace(0, option, added)
            return


def _raise_edge(ledger: Ledger, level: int, limit_tokens: int) -> None:
    """The band's turns one level up, newest first, until one does not fit."""
    chosen = ledger.chosen
    for index in range(len(chosen)):
        now = chosen[index]
        if (now.level < level and not now.is_cut) or now != ledger.at(index, level):
            continue
        better = ledger.at(index, level - 1)
        if now != better:
            added = ledger.change(index, better)
            if ledger.cost + added > limit_tokens:
                return
            ledger.replace(index, better, added)


def _raise_single(ledger: Ledger, limit_tokens: int) -> None:
    """Any turn to the highest level that fits, newest first."""
    chosen = ledger.chosen
    for index in range(1, len(chosen)):
        if index in ledger.kept:
            continue
        for level in (RAW, SMOOTHED, COMPRESSED):
            option = ledger.at(index, level)
            if option == chosen[index]:
                break
            added = ledger.change(index, option)
            if ledger.cost + added <= limit_tokens:
                ledger.replace(index, option, added)
                break


def _grow_cuts(ledger: Ledger, limit_tokens: int) -> None:
    """Cut texts get what is left, newest first; one that then fits whole is no longer cut."""
    note = ledger.costing.overheads.cut_note
    for index, option in enumerate(ledger.chosen):
        spare = limit_tokens - ledger.cost
        if spare <= 0:
            return
        if not option.is_cut:
            continue
        item = ledger.items[index]
        size = (item.raw, item.smoothed, item.compressed, item.tiny)[option.level]
        assert size is not None, "a cut is of a level that exists"
        whole = ledger.costing.option(item, option.level, size)
        added = ledger.change(index, whole)
        if added <= spare:
            ledger.replace(index, whole, added)
        else:
            grown = min(spare, max(0, size + note - 1 - option.text))
            ledger.replace(index, option._replace(text=option.text + grown), grown)
