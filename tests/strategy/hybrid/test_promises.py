"""The guarantees of every plan of the hybrid strategy, for any conversation."""

from __future__ import annotations

import itertools
from dataclasses import replace

from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from foveate.plan import MessageSize, Plan, TurnInfo
from foveate.strategy.hybrid import Hybrid
from foveate.strategy.hybrid.messages import protect, speaker_of
from foveate.testing.histories import ListedSnapshot
from support.examples import times
from support.hybrid_snapshots import planned, said, short_places, snapshot_of

sizes = st.integers(0, 60) | st.integers(0, 4_000)
letters = st.lists(st.sampled_from("aaatttuisd"), max_size=12)


@st.composite
def infos(draw: st.DrawFn) -> list[TurnInfo]:
    turns = []
    for number in range(1, draw(st.integers(1, 40)) + 1):
        spoken = ["u", *draw(letters)]
        messages = tuple(said(place, who, draw(sizes)) for place, who in enumerate(spoken))
        turns.append(TurnInfo(number, messages, number, number))
    return turns


@st.composite
def snapshots(draw: st.DrawFn) -> ListedSnapshot:
    turns = draw(infos())
    is_open, in_steps = draw(st.booleans()), draw(st.booleans())
    if is_open:
        turns[-1] = replace(turns[-1], is_open=True)
    return snapshot_of(turns, in_steps=is_open and in_steps)


@examples(max_examples=times(20), deadline=None)
@given(
    snapshot=snapshots(),
    budget=st.integers(0, 60_000),
    short=st.integers(1, 60),
    strategy=st.builds(
        Hybrid,
        protected_messages=st.integers(0, 8),
        kept_injections=st.integers(0, 3),
        rolled_share=st.floats(0.02, 0.5),
    ),
)
def test_every_plan_fits_is_whole_and_spares_what_is_protected(
    snapshot: ListedSnapshot, budget: int, short: int, strategy: Hybrid
) -> None:
    for _ in range(2):
        plan, after = planned(snapshot, budget, strategy, short_tokens=short)
        assert plan == planned(snapshot, budget, strategy, short_tokens=short)[0], "the same each time"
        _check(plan, snapshot, budget, strategy)
        snapshot = after


@examples(max_examples=times(20), deadline=None)
@given(turns=infos(), budget=st.integers(2_000, 30_000))
def test_a_growing_conversation_fits_and_changes_only_when_it_says_so(turns: list[TurnInfo], budget: int) -> None:
    snapshot = snapshot_of(turns[:1])
    before: Plan | None = None
    for count in range(1, len(turns) + 1):
        snapshot = replace(snapshot_of(turns[:count]), state=snapshot.state, made=snapshot.made)
        plan, snapshot = planned(snapshot, budget)
        _check(plan, snapshot, budget, Hybrid())
        if before is not None and not plan.events and "message" not in {**plan.notes, **before.notes}:
            assert plan.rows[: len(before.rows)] == before.rows
        before = plan


def _check(plan: Plan, snapshot: ListedSnapshot, budget_tokens: int, strategy: Hybrid) -> None:
    assert plan.tokens == sum(row.tokens for row in plan.rows) <= max(0, budget_tokens)
    rows = [row for row in plan.rows if row.level != "A"]
    for one, two in itertools.pairwise(rows):
        assert (one.last, one.last_step) < (two.first, two.first_step)
    if rows:
        assert (rows[0].first, rows[-1].last) == (1, snapshot.last_turn), "every turn is shown or named"
        assert all(two.first in (one.last, one.last + 1) for one, two in itertools.pairwise(rows))
    messages = {(info.turn, message.position): message for info in snapshot.turns for message in info.messages}
    protection = protect(snapshot.turns, messages=strategy.protected_messages, injections=strategy.kept_injections)
    short = short_places(plan)
    assert all(_may_be_short(messages[place]) for place in short)
    if "cut" not in plan.notes:
        assert not short & set(protection.firm)


def _may_be_short(message: MessageSize) -> bool:
    return speaker_of(message) not in ("system", "display")
