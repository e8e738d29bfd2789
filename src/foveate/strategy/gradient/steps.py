"""Plans the steps of a turn in progress that is too large for its room, with the gradient."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from foveate.plan import Block, Era, Overheads, SizeTable, TurnSizes, WordWeights
from foveate.strategy.gradient import Gradient
from foveate.strategy.gradient.planner import GradientPlanner
from foveate.strategy.layout import step_stub


@dataclass(frozen=True, slots=True)
class _Steps:
    """A turn's steps as a session of their own."""

    items: Sequence[TurnSizes]
    """The steps, newest first."""
    overheads: Overheads
    last_turn: int = 1
    fanout: int = 2
    retrieved: Sequence[int] = ()

    def newest(self) -> Iterator[TurnSizes]:
        return iter(self.items)

    def table(self, limit: int, by: WordWeights) -> SizeTable:
        raise NotImplementedError("steps are shown by bands")

    def era(self, level: int, index: int) -> Era | None:  # noqa: ARG002 - steps have no eras
        return None


def plan_steps(steps: Sequence[TurnSizes], room_tokens: int, overheads: Overheads) -> list[Block]:
    """Return rows for consecutive steps of one turn, passed newest first; they may begin after the turn's first step.

    If not even a cut of the newest step fits, one row names all of them, if that fits.
    """
    turn, first, last = steps[0].turn, steps[-1].step, steps[0].step
    if sum(step.raw + overheads.tag for step in steps) <= room_tokens:
        tag = overheads.tag
        return [Block(turn, turn, "R", one.raw + tag, one.step, one.step) for one in reversed(steps)]
    sizes = _Steps([replace(step, turn=1) for step in steps], overheads)
    rows: list[Block] = []
    for row in GradientPlanner(Gradient(), sizes, room_tokens).plan().rows:
        if not row.first_step:  # the gradient names a turn that it has no room for
            return [step_stub(turn, first, last, overheads)]
        if row.last_step >= first:
            rows.append(replace(row, first=turn, last=turn, first_step=max(first, row.first_step)))
    return rows
