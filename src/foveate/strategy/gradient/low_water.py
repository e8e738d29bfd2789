"""The low-water mark: how much of its room a history fills after a rebuild.

The lower the mark, the more calls there are until the next rebuild, and the fewer tokens each of them reads; but also
the fewer tokens of history each call has in view. For a history that grows by `g` tokens with each call, up to `H`
tokens, and is rebuilt to `L`, of which a share `s` is rewritten, a call costs on average

    read * (H + L) / 2 + (write - read) * s * L * g / (H - L)

in addition to its new tokens, and is worth `worth * (H + L) / 2`. The difference is largest at

    L = H - sqrt(2 * (write - read) * s * g * H / (worth - read))
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

from foveate.plan import Ledger

if TYPE_CHECKING:
    from foveate.strategy.gradient import Gradient

FIXED_SHARE = 0.5
"""The mark of schedules that rebuild by number of turns."""
LEAST_SHARE = 0.4
"""Minimum of the computed mark, as a share of the room that board and recall never use."""
LEAST_CALLS = 2
"""Minimum of the computed mark, as the growth by this many calls, so that the newest turn is not cut."""
MOST_SHARE = 0.9
"""Maximum of the computed mark, as a share of the same room."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Measurements of a history when it is rebuilt."""

    call_tokens: float
    """Average tokens added by each call since the last rebuild."""
    rewritten_share: float = 1.0
    """The share of its tokens that the last rebuild rewrote."""


def low_water_tokens(settings: Gradient, room: Ledger, growth: Growth) -> int:
    """Return the tokens that a rebuild leaves: by the share in the settings, else by the computed one."""
    base, prices = room.base_tokens, room.prices
    if settings.low_water is not None:
        return int(base * settings.low_water)
    if settings.schedule != "watermark":
        return int(base * FIXED_SHARE)
    mark = max(base * LEAST_SHARE, LEAST_CALLS * growth.call_tokens)
    gain = settings.token_worth - prices.read
    if gain > 0:
        rewriting = max(0.0, prices.write - prices.read) * growth.rewritten_share * growth.call_tokens
        mark = max(mark, room.history_tokens - sqrt(2 * rewriting * room.history_tokens / gain))
    return int(min(base * MOST_SHARE, mark))
