"""The steps of a turn at work that is too large for its place, as the gradient shows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from foveate.plan import Block, Era, Overheads, TurnSizes
from foveate.strategy.gradient import Gradient
from foveate.strategy.gradient.planner import GradientPlanner


@dataclass(frozen=True, slots=True)
class _Steps:
    """A turn's steps as a history of their own."""

    items: Sequence[TurnSizes]
    """Newest first."""
    last_turn: int = 1
    fanout: int = 2

    def newest(self) -> Iterator[TurnSizes]:
        return iter(self.items)

    def era(self, level: int, index: int) -> Era | None:  # noqa: ARG002 - steps have no eras
        return None


def plan_steps(steps: Sequence[TurnSizes], room_tokens: int, overheads: Overheads) -> list[Block]:
    """Rows for the steps of one turn, which come newest first."""
    turn = steps[0].turn
    view = _Steps([replace(step, turn=1) for step in steps])
    rows = GradientPlanner(Gradient(), view, room_tokens, overheads).plan().rows
    return [replace(row, first=turn, last=turn) for row in rows]
