"""Chooses words of clauses for every price per token, by dynamic programming over all clauses at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foveate.compress.binding import MIN_RUN
from foveate.compress.worth import Floats

PRICES = np.geomspace(0.8, 0.007, 16).astype(np.float32)
"""Minimum worth per token, from the shortest rendition to the longest."""
LEVELS = len(PRICES) + 1
"""Number of levels: one for each price and one for words that enter at no price."""
_FORBIDDEN = np.float32(-1e6)
Numbers = NDArray[np.int_]
Bools = NDArray[np.bool_]
_INNER = 4
"""The state of a gap that began inside the part of the clause that it is in."""


class Order(NamedTuple):
    """The fines of a choice of words, which say how much an order of words reads as phrases."""

    short_run: float
    """For each word in a run of one or two words."""
    gap: float
    """For each unit of log-odds against a gap, at either end of it."""
    clause: float
    head: float
    """For a part that begins after its first word."""
    told: bool
    """Words count by the chance that a reader keeps them, too, not by their own worth alone."""
    binds: bool
    """The words of a phrase stay together (`foveate.compress.binding.binds_of`)."""
    least: int
    """Minimum number of words of a clause, if it has as many: fewer are a fragment."""


PHRASES = Order(0.08, 0.05, 0.3, 0.2, True, True, 5)
"""Reads as clauses and phrases."""


BRIEF = Order(0.03, 0.0, 0.1, 0.0, False, False, 1)
"""Preserves most facts and reads as a list of words."""


class Row(NamedTuple):
    """A clause, or a piece of a long one, as columns; a clause that is used whole is one word."""

    clause: int
    start: int
    own: Floats
    """What each word is worth by itself."""
    told: Floats
    """Factor of it by the chance that a reader keeps the word."""
    tokens: Sequence[float]
    cuts: Sequence[float]
    """What a gap costs that begins or ends before the word."""
    opens: Sequence[bool]
    """A part of the clause begins with the word."""
    joins: Sequence[bool]
    binds: Sequence[bool]
    """The word is in one phrase with the one before it."""
    musts: Sequence[bool]


def levels_of(rows: Sequence[Row], orders: Sequence[Order]) -> list[Numbers]:
    """Return the price at which each word enters, row after row: the first at which the best choice of its row has it.

    One result for each order. The words are sorted by position and the rows by length, so
    that the rows with a word at a position come first.
    """
    sizes = np.array([len(row.tokens) for row in rows])
    by_length = np.argsort(-sizes, kind="stable")
    places = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    ranks = np.repeat(np.argsort(by_length), sizes)
    order = np.argsort(places * len(rows) + ranks)
    columns = [
        np.array(list(chain.from_iterable(column)), np.float32)[order, None]
        for column in [*zip(*rows, strict=True)][2:]
    ]
    kept, taken = _best_words(sizes[by_length], np.bincount(places), columns, orders)
    words = np.zeros(taken.shape, int)
    np.add.at(words, ranks[order], kept)
    least = np.repeat([one.least for one in orders], len(PRICES))
    taken &= words >= np.minimum(least, sizes[by_length, None])
    kept &= taken[ranks[order]]
    found = np.empty((len(orders), len(order)), int)
    for levels, part in zip(found, np.split(kept, len(orders), axis=1), strict=True):
        levels[order] = np.where(part.any(axis=1), part.argmax(axis=1), len(PRICES))
    return list(found)


def _best_words(
    sizes: Numbers, counts: Numbers, columns: Iterable[NDArray[np.float32]], orders: Sequence[Order]
) -> tuple[Bools, Bools]:
    """Return the best choice of each row at each price: its words, and whether it is worth a clause.

    Dynamic programming over the positions, for all rows, prices and fines at once. The state is the length of the run
    so far (1, 2, 3 or more), or a gap: one that began inside its part of the clause (`_INNER`) or before it (0).
    `sizes` are those of the rows, the longest first; `counts` of the positions.
    """
    prices = np.tile(PRICES, len(orders))
    fines = np.array([order[:6] for order in orders], np.float32)
    short_run, gap_fine, clause_fine, head_fine, by_chance, in_phrases = np.repeat(fines.T, len(PRICES), axis=1)
    own, told, tokens, cuts, starts, joins, binds, musts = columns
    joins = np.maximum(joins, binds * in_phrases) * _FORBIDDEN
    musts = np.repeat(musts * _FORBIDDEN, len(prices), axis=1)
    heads = (1 - starts) * head_fine
    opens = starts.astype(bool)
    values = own * np.where(by_chance, told, 1) - tokens * prices
    cuts = cuts * gap_fine
    opening = values + (joins - cuts)
    closing = joins - cuts
    short = np.where(sizes[:, None] < MIN_RUN, np.float32(0), short_run)
    shorter = 2 * short
    leads = np.zeros(short.shape, np.float32)
    inners, ones, twos, manys = (np.full_like(leads, _FORBIDDEN) for _ in range(4))
    stays, is_many, is_two, is_long, was_inner, from_inner = (np.empty(values.shape, bool) for _ in range(6))
    spans = [(size, slice(end - size, end)) for size, end in zip(counts, np.cumsum(counts), strict=True)]
    for size, now in spans:
        value, lead, inner = values[now], leads[:size], inners[:size]
        one, two, many, new = ones[:size], twos[:size], manys[:size], opens[now]
        np.greater(inner, lead, out=was_inner[now])
        was_inner[now] &= new
        np.copyto(lead, inner, where=was_inner[now])
        np.copyto(inner, _FORBIDDEN, where=new)
        after_one, after_two = one - short[:size], two - shorter[:size]
        best = np.maximum(after_one, after_two)
        np.greater_equal(after_two, after_one, out=is_two[now])
        np.greater_equal(many, best, out=is_many[now])
        np.greater_equal(many, two, out=is_long[now])
        np.maximum(best, many, out=best)
        best += closing[now]
        np.maximum(two, many, out=many)
        many += value
        np.add(one, value, out=two)
        begun = lead - heads[now]
        np.greater_equal(inner, begun, out=from_inner[now])
        np.maximum(begun, inner, out=one)
        one += opening[now]
        np.greater_equal(np.where(new, lead, inner), best, out=stays[now])
        np.copyto(lead, np.maximum(lead, best), where=new)
        np.copyto(inner, np.maximum(inner, best), where=np.logical_not(new))
        lead += musts[now]
        inner += musts[now]
    ends = np.stack((np.maximum(leads, inners), ones - short, twos - shorter, manys))
    # Of equal ends the longest run is chosen, but in the longest rows the shortest.
    last = np.where(ends[0] >= ends.max(axis=0), 0, 3 - ends[::-1].argmax(axis=0))
    states = np.where(sizes[:, None] == sizes[0], ends.argmax(axis=0), last).astype(np.int8)
    states[(states == 0) & (inners > leads)] = _INNER
    steps = _Steps(is_long, stays, was_inner, from_inner, np.where(is_many, np.int8(3), np.int8(1) + is_two))
    return _kept(states, spans, opens, steps), ends.max(axis=0) > clause_fine


class _Steps(NamedTuple):
    """How the best choice up to each word continues the one up to the word before."""

    is_long: Bools
    """A run of three or more goes on; otherwise one of two."""
    stays: Bools
    """A gap goes on; otherwise it begins with the word."""
    was_inner: Bools
    """The gap before the word began inside the part that ended there."""
    from_inner: Bools
    """A run begins after a gap inside the same part."""
    before_gap: NDArray[np.int8]
    """The run that a gap ends."""


def _kept(states: NDArray[np.int8], spans: Sequence[tuple[int, slice]], opens: Bools, steps: _Steps) -> Bools:
    """Return which words the best choices keep, from the last word to the first."""
    is_gap = np.empty(steps.stays.shape, bool)
    for size, now in reversed(spans):
        state, new = states[:size], opens[now]
        gap = (state == 0) | (state == _INNER)
        is_gap[now] = gap
        begun = np.where(steps.was_inner[now] | (steps.from_inner[now] & ~new), np.int8(_INNER), np.int8(0))
        longer = state - 1 + ((state == MIN_RUN) & steps.is_long[now])
        stayed = np.where(new & steps.was_inner[now], np.int8(_INNER), state)
        left = np.where(steps.stays[now] | ((state == 0) & ~new), stayed, steps.before_gap[now])
        state[...] = np.where(gap, left, np.where(state == 1, begun, longer))
    return ~is_gap
