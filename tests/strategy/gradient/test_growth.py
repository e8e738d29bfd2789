"""Rebuilds of a growing session: the room is used, and old blocks stay as they are while they are worth it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cache
from itertools import takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.plan import Block, KeptPlan, Ledger, Plan, State, TurnInfo
from foveate.strategy.gradient import Gradient
from foveate.strategy.gradient.knapsack import KnapsackPlanner
from foveate.strategy.gradient.rebuild import (
    APPENDED_SHARE,
    FILLED_SHARE,
    KEPT_WORTH,
    RebuildState,
    settings_key,
)
from foveate.strategy.gradient.tail import work_share
from foveate.testing.histories import exchange
from support.drawn_histories import covered
from support.examples import times
from support.growth import Rebuilt, SteppedSnapshot, kept_of, rebuilds

GRADIENT = Gradient()
ROOM = 6_000
LEDGER = Ledger(budget_tokens=ROOM, history_tokens=ROOM)
STATE = asdict(RebuildState(0, settings_key(GRADIENT)))


def drawn_turns(seed: int, count: int, mean: int, most: int, *, is_work: bool) -> list[TurnInfo]:
    """Turns of any size, of which no message has more than `most` tokens."""
    drawn = random.Random(seed)

    def size() -> int:
        return min(most, 5 + int(drawn.lognormvariate(0, 0.8) * mean))

    def sizes() -> list[int]:
        return [size() for _ in range(2 + is_work * 2 * drawn.randint(0, 8))]

    return [exchange(turn, *sizes()) for turn in range(1, count + 1)]


@cache
def played(seed: int, mean: int, *, is_work: bool) -> Sequence[Rebuilt]:
    """The rebuilds of a session of about five times the room."""
    turns = drawn_turns(seed, 5 * ROOM // (mean * (10 if is_work else 2)), mean, ROOM // 12, is_work=is_work)
    return [made for made in rebuilds(GRADIENT, turns, LEDGER) if made.plan.rows]


SESSIONS = pytest.mark.parametrize(
    ("seed", "mean", "is_work"),
    [(1, 40, False), (2, 120, False), (3, 250, False), (4, 30, True), (5, 80, True), (6, 150, True)],
)


@SESSIONS
def test_the_room_is_never_exceeded(seed: int, mean: int, is_work: bool) -> None:
    assert max(made.tokens for made in played(seed, mean, is_work=is_work)) <= ROOM


@SESSIONS
def test_no_rebuild_leaves_a_quarter_of_the_room_empty(seed: int, mean: int, is_work: bool) -> None:
    assert min(made.tokens for made in played(seed, mean, is_work=is_work)) >= 0.75 * ROOM


@SESSIONS
def test_each_turn_and_step_before_the_verbatim_part_is_in_one_row_in_order(
    seed: int, mean: int, is_work: bool
) -> None:
    for made in played(seed, mean, is_work=is_work):
        turn, step = made.reach
        whole = [(number, 0) for number in range(1, turn + (not step))]
        assert covered(made.plan.rows) == [*whole, *((turn, number) for number in range(1, step + 1))]


@SESSIONS
def test_the_blocks_that_a_rebuild_keeps_are_those_of_the_plan_before(seed: int, mean: int, is_work: bool) -> None:
    made = played(seed, mean, is_work=is_work)
    for rebuilt in made:
        kept, count = rebuilt.snapshot.kept, rebuilt.plan.kept_blocks
        assert rebuilt.plan.rows[:count] == (kept.rows[:count] if kept else ())
    assert any(rebuilt.plan.kept_blocks for rebuilt in made)


def filled(turns: Sequence[TurnInfo]) -> Rebuilt:
    """The last rebuild of a session."""
    return list(rebuilds(GRADIENT, turns, LEDGER))[-1]


def rebuilt_after(turns: Sequence[TurnInfo], kept: KeptPlan, ledger: Ledger = LEDGER) -> Plan:
    plan, _ = GRADIENT.plan(SteppedSnapshot(turns, kept=kept), STATE, ledger)
    assert not plan.is_kept
    return plan


def grown(turns: Sequence[TurnInfo], tokens: int = ROOM // 5) -> list[TurnInfo]:
    """The session with so much more, which fills the room."""
    more = range(len(turns) + 1, len(turns) + 1 + tokens // 100)
    return [*turns, *(exchange(turn, 50, 50) for turn in more)]


def planner_of(turns: Sequence[TurnInfo], plan: Plan) -> KnapsackPlanner:
    """The planner of the turns before the verbatim part."""
    assert plan.reach
    assert plan.target_tokens is not None
    snapshot = SteppedSnapshot(turns)
    planned = snapshot.until(*plan.reach)
    return KnapsackPlanner(GRADIENT, planned, plan.target_tokens, has_tail=True, work=work_share(snapshot))


@settings(max_examples=times(8), deadline=None)
@given(st.integers(0, 1_000), st.sampled_from([60, 150]), st.booleans())
def test_a_plan_with_kept_blocks_is_worth_nearly_as_much_as_a_new_one(seed: int, mean: int, is_work: bool) -> None:
    turns = drawn_turns(seed, 3 * ROOM // (mean * (10 if is_work else 2)), mean, ROOM // 12, is_work=is_work)
    last = filled(turns)
    plan = rebuilt_after(grown(turns), kept_of(last.plan, len(turns)))
    planner = planner_of(grown(turns), plan)
    assert planner.worth(plan.rows) >= KEPT_WORTH * planner.worth(planner.plan().rows)


CHAT = drawn_turns(7, 120, 60, 300, is_work=False)


def with_rows(plan: Plan, *rows: Block) -> KeptPlan:
    tokens = sum(row.tokens for row in rows)
    return kept_of(replace(plan, rows=rows, tokens=tokens), len(CHAT))


def test_old_blocks_stay_if_a_new_plan_is_worth_nearly_the_same() -> None:
    kept = kept_of(filled(CHAT).plan, len(CHAT))
    plan = rebuilt_after(grown(CHAT), kept)
    assert plan.kept_blocks > len(kept.rows) // 2
    assert plan.rows[: plan.kept_blocks] == kept.rows[: plan.kept_blocks]


def test_new_turns_stand_behind_a_plan_that_stays_whole_and_leave_room_for_the_next_ones() -> None:
    most = ROOM - int((ROOM - int(ROOM * FILLED_SHARE)) * APPENDED_SHARE)
    turns = [exchange(turn, 60, 60) for turn in range(1, 6 * ROOM // 120)]
    whole = 0
    for made in rebuilds(GRADIENT, turns, LEDGER):
        kept = made.snapshot.kept
        if kept and kept.rows and made.plan.kept_blocks == len(kept.rows) < len(made.plan.rows):
            whole += 1
            assert made.plan.rows[made.plan.kept_blocks].first == kept.last_turn + 1
            assert made.tokens <= most
    assert whole > 1


@pytest.mark.parametrize("turn_tokens", [60, 120, 200, 300, 450])
def test_with_turns_of_one_size_a_third_of_the_rebuilds_rewrite_no_block(turn_tokens: int) -> None:
    turns = [exchange(turn, turn_tokens // 2, turn_tokens // 2) for turn in range(1, 6 * ROOM // turn_tokens)]
    made = [(each.plan, each.snapshot.kept.rows) for each in rebuilds(GRADIENT, turns, LEDGER) if each.snapshot.kept]
    again = [(plan, rows) for plan, rows in made if rows]
    whole = [plan for plan, rows in again if plan.kept_blocks == len(rows)]
    assert len(whole) > len(again) / 3
    kept_tokens = sum(row.tokens for plan, _ in again for row in plan.rows[: plan.kept_blocks])
    assert kept_tokens > 0.8 * sum(plan.tokens for plan, _ in again)


def test_the_share_of_work_is_that_of_the_plan_until_it_is_off_by_two_steps() -> None:
    turns = [exchange(turn, *([60] * 10 if turn % 4 == 0 else [60, 60])) for turn in range(1, 200)]
    shares = []
    kept: KeptPlan | None = None
    state: State = {}
    for end in range(1, len(turns) + 1):
        plan, after = GRADIENT.plan(SteppedSnapshot(turns[:end], kept=kept), state, LEDGER)
        if not plan.is_kept and plan.rows:
            shares.append(after["work"])
            kept, state = kept_of(plan, end), after
    assert len(set(shares)) == 1, shares


def poor() -> KeptPlan:
    """A plan of which all turns are in an era."""
    plan = filled(CHAT).plan
    assert plan.reach
    return with_rows(plan, Block(1, plan.reach[0], "E", 2_000, era_level=1))


def test_old_blocks_are_rewritten_if_a_new_plan_is_worth_more() -> None:
    assert rebuilt_after(grown(CHAT, ROOM), poor()).kept_blocks == 0


def test_beside_memory_old_blocks_stay_whatever_they_are_worth() -> None:
    assert rebuilt_after(grown(CHAT, ROOM), poor(), replace(LEDGER, needed_tokens=ROOM // 4)).kept_blocks == 1


@settings(max_examples=times(8), deadline=None)
@given(st.integers(0, 1_000), st.sampled_from([60, 150]), st.booleans(), st.integers(ROOM // 8, ROOM // 2))
def test_beside_memory_the_longest_run_of_old_blocks_that_fits_stays(
    seed: int, mean: int, is_work: bool, needed: int
) -> None:
    turns = drawn_turns(seed, 3 * ROOM // (mean * (10 if is_work else 2)), mean, ROOM // 12, is_work=is_work)
    kept = kept_of(filled(turns).plan, len(turns))
    plan = rebuilt_after(grown(turns), kept, replace(LEDGER, needed_tokens=needed))
    planner = planner_of(grown(turns), plan)
    whole = takewhile(lambda row: row.level != "R", kept.rows)  # raw blocks are sent as messages
    fitting = [
        count for count, _ in enumerate(whole, 1) if planner.plan_after(kept.rows[:count], sum(kept.tokens[:count]))
    ]
    assert plan.kept_blocks == max(fitting, default=0)


def test_raw_blocks_and_those_behind_them_are_not_kept() -> None:
    last = filled(CHAT).plan
    rows = (replace(last.rows[0], level="R", levels="", sizes=()), *last.rows[1:])
    assert rebuilt_after(grown(CHAT), with_rows(last, *rows)).kept_blocks == 0


def test_a_preview_fills_the_room_and_keeps_nothing() -> None:
    last = filled(CHAT)
    snapshot = replace(last.snapshot, kept=kept_of(last.plan, len(CHAT)))
    plan, state = GRADIENT.plan(snapshot, STATE, replace(LEDGER, is_preview=True))
    assert state == STATE
    assert plan.kept_blocks == 0
    assert Rebuilt(snapshot, plan).tokens >= 0.95 * ROOM


def test_a_history_that_fits_is_verbatim() -> None:
    plan, _ = GRADIENT.plan(SteppedSnapshot(CHAT[:10]), {}, LEDGER)
    assert (plan.rows, plan.reach) == ((), (0, 0))
