"""The steps of a turn at work that is too large for its place, as the gradient shows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from foveate.plan import Era, Item, Overheads, Row
from foveate.strategy.gradient import Gradient
from foveate.strategy.gradient.planner import Planner


@dataclass(frozen=True, slots=True)
class _Steps:
    """A turn's steps as a history of their own."""

    items: Sequence[Item]
    """Newest first."""
    last_turn: int = 1
    fanout: int = 2

    def newest(self) -> Iterator[Item]:
        return iter(self.items)

    def era(self, level: int, index: int) -> Era | None:  # noqa: ARG002 - steps have no eras
        return None


def plan_steps(steps: Sequence[Item], room_tokens: int, overheads: Overheads) -> list[Row]:
    """Rows for the steps of one turn, which come newest first."""
    turn = steps[0].turn
    view = _Steps([replace(step, turn=1) for step in steps])
    rows = Planner(Gradient(), view, room_tokens, overheads).plan().rows
    return [replace(row, first=turn, last=turn) for row in rows]
