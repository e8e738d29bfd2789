"""Messages grouped into turns, as a store does it."""

from __future__ import annotations

from collections.abc import Iterable

from foveate.turn import Message, starts_turn


def split_turns(messages: Iterable[Message], *, prompted: bool = False) -> list[list[Message]]:
    """Messages grouped into turns; the first group continues the open turn, and may be empty if that has its prompt."""
    kept = list(messages)
    groups: list[list[Message]] = [[]]
    for message, starts in zip(kept, starts_turn(kept, prompted=prompted), strict=True):
        if starts:
            groups.append([])
        groups[-1].append(message)
    return groups
