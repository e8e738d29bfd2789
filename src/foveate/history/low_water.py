"""The low-water mark: how much of its room a history keeps at a rebuild.

The lower the mark, the more calls there are until the next rebuild, and the fewer tokens each of them reads; but also
the fewer tokens of history each call has in view. For a history that grows by `g` tokens with each call, up to `H`
tokens, and is rebuilt to `L`, of which a share `s` is rewritten, a call costs on average

    read * (H + L) / 2 + (write - read) * s * L * g / (H - L)

beside what is new, and is worth `worth * (H + L) / 2`. The difference is largest at

    L = H - sqrt(2 * (write - read) * s * g * H / (worth - read))
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from foveate.context.allotments import HistoryRoom
from foveate.strategy import Schedule

FIXED_SHARE = 0.5
"""The mark of schedules that rebuild by turns."""
LEAST_SHARE = 0.4
"""The computed mark is at least this share of what the history has whatever board and recall need,"""
LEAST_CALLS = 2
"""at least what this many calls add, so that the newest turn is not cut,"""
MOST_SHARE = 0.9
"""and at most this share."""


@dataclass(frozen=True, slots=True)
class CachePrices:
    """What tokens cost with a provider's cache, next to one without."""

    read: float = 0.1
    write: float = 1.25


USUAL_PRICES = CachePrices()


@dataclass(frozen=True, slots=True)
class Growth:
    """What is known of a history when it is rebuilt."""

    call_tokens: float
    """Tokens that each call added, on average, since the last rebuild."""
    rewritten_share: float = 1.0
    """The share of its tokens that the last rebuild rewrote."""


def low_water_tokens(schedule: Schedule, room: HistoryRoom, growth: Growth, prices: CachePrices) -> int:
    """What a rebuild leaves: the share that is set, else the computed one."""
    base = room.base_tokens
    if schedule.low_water is not None:
        return int(base * schedule.low_water)
    if schedule.mode != "watermark":
        return int(base * FIXED_SHARE)
    mark = max(base * LEAST_SHARE, LEAST_CALLS * growth.call_tokens)
    gain = schedule.token_worth - prices.read
    if gain > 0:
        rewriting = max(0.0, prices.write - prices.read) * growth.rewritten_share * growth.call_tokens
        mark = max(mark, room.tokens - sqrt(2 * rewriting * room.tokens / gain))
    return int(min(base * MOST_SHARE, mark))
