"""The newest part of a conversation, which is sent verbatim: a share of the room, cut between steps."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from foveate.plan import Snapshot, TurnInfo

if TYPE_CHECKING:
    from foveate.strategy.gradient import Gradient

FRAMING_TOKENS = 4
"""Tokens that a provider adds around each message."""
FIRST_TURNS = 32
"""Number of turns that are looked at first; doubled each time."""
WORK_STEP = 0.25
"""The share of work is measured in quarters."""
FIRST_CUT = 2
"""The prompt of a turn is not divided from its first answer."""


def tail_start(settings: Gradient, snapshot: Snapshot, room_tokens: int, share: float) -> tuple[int, int]:
    """Return the end of the turns before the verbatim part: the last turn, and a step of it if the part begins inside.

    The part has a share of the room, the newest step alone up to `newest_share`. A turn in progress is divided only
    after a step that has all its results; if it has none, it stays whole.
    """
    left = room_tokens * share
    most = room_tokens * settings.newest_share
    for info in _newest(snapshot):
        sizes = [sum(message.tokens + FRAMING_TOKENS for message in step) for step in info.steps]
        older = len(sizes)
        while older and sizes[older - 1] <= max(left, most):
            older -= 1
            left -= sizes[older]
            most = left
        if not older:
            continue
        cuts = snapshot.answered_steps(room_tokens) if info.is_open else range(len(sizes))
        cut = next((step for step in cuts if step >= max(older, FIRST_CUT)), 0)
        return (info.turn, cut) if cut or not info.is_open else (info.turn - 1, 0)
    return 0, 0


def verbatim_share(settings: Gradient, work: float, free_share: float) -> float:
    """Return the verbatim share of the room after a rebuild, which leaves `free_share` for it to grow.

    That is `raw_share` in a chat; if all turns use tools, the part grows to `recent`.
    """
    least = min(settings.raw_share, settings.recent)
    return least + max(0.0, settings.recent - free_share - least) * work


def work_share(snapshot: Snapshot) -> float:
    """Return the share of the newest turns' tokens that are of turns with tool results, code or paths, in quarters."""
    last = snapshot.last_turn
    infos = snapshot.infos(max(1, last - FIRST_TURNS + 1), last)
    total = sum(info.tokens for info in infos)
    with_code = {item.turn for item in islice(snapshot.newest(), FIRST_TURNS) if item.is_work}
    work = sum(info.tokens for info in infos if info.turn in with_code or any(each.is_result for each in info.messages))
    return round(work / max(1, total) / WORK_STEP) * WORK_STEP


def _newest(snapshot: Snapshot) -> Iterator[TurnInfo]:
    """Yield the turns, newest first."""
    end, count = snapshot.last_turn, FIRST_TURNS
    while end > 0:
        first = max(1, end - count + 1)
        yield from reversed(snapshot.infos(first, end))
        end, count = first - 1, 2 * count
