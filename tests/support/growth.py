"""Sessions that grow turn by turn, with the gradient's plan kept between contexts, without a store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from foveate.plan import KeptPlan, Ledger, Plan, State, TurnInfo, TurnSizes
from foveate.strategy.gradient import Gradient
from foveate.strategy.gradient.tail import FRAMING_TOKENS
from foveate.testing.histories import ListedSnapshot, step_items


@dataclass(frozen=True, slots=True)
class SteppedSnapshot(ListedSnapshot):
    """A snapshot whose turns can be divided between their steps."""

    answered: Sequence[int] | None = None
    """Answered steps of the turn in progress; None: all but the newest."""

    def answered_steps(self, room_tokens: int) -> Sequence[int]:
        return range(1, len(self.turns[-1].steps)) if self.answered is None else self.answered

    def tokens_after(self, turn: int, step: int) -> int:
        steps = [
            own
            for info in self.turns
            for number, own in enumerate(info.steps, 1)
            if info.turn > turn or (info.turn == turn and step and number > step)
        ]
        return sum(message.tokens + FRAMING_TOKENS for own in steps for message in own)

    def until(self, turn: int, step: int) -> SteppedSnapshot:
        turns = [info for info in self.turns if info.turn <= turn]
        items = [_item(info) for info in turns]
        if step:
            cut = replace(turns[-1], messages=tuple(message for own in turns[-1].steps[:step] for message in own))
            turns, items = [*turns[:-1], cut], [*items[:-1], *step_items(cut)]
        return replace(self, turns=turns, items=items)


def _item(info: TurnInfo) -> TurnSizes:
    raw = info.tokens
    return TurnSizes(info.turn, 0, raw, raw * 85 // 100, raw * 35 // 100, min(raw, 40))


def kept_of(plan: Plan, trigger_turn: int) -> KeptPlan:
    """The plan as it is kept, with texts that are as large as planned."""
    assert plan.reach
    assert plan.cause
    return KeptPlan(
        rows=plan.rows,
        tokens=tuple(row.tokens for row in plan.rows),
        texts=("",) * len(plan.rows),
        framed_tokens=plan.tokens,
        last_turn=plan.reach[0],
        last_step=plan.reach[1],
        cause=plan.cause,
        bands=plan.bands,
        made_at=0.0,
        used_at=0.0,
        trigger_turn=trigger_turn,
        raw_tokens=plan.raw_tokens,
    )


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A new plan of a growing session, and the snapshot that it was made from."""

    snapshot: SteppedSnapshot
    plan: Plan

    @property
    def reach(self) -> tuple[int, int]:
        return self.plan.reach or (self.snapshot.last_turn, 0)

    @property
    def tokens(self) -> int:
        """Tokens of the whole history: the plan, and the verbatim part behind it."""
        return self.plan.tokens + self.snapshot.tokens_after(*self.reach)


def rebuilds(settings: Gradient, turns: Sequence[TurnInfo], ledger: Ledger) -> Iterator[Rebuilt]:
    """Yield the new plans of a session of which one turn after the other is recorded."""
    kept: KeptPlan | None = None
    state: State = {}
    for end in range(1, len(turns) + 1):
        snapshot = SteppedSnapshot(turns[:end], kept=kept)
        plan, after = settings.plan(snapshot, state, ledger)
        if not plan.is_kept:
            yield Rebuilt(snapshot, plan)
            if plan.reach:
                kept, state = kept_of(plan, end), after
