"""Every strategy keeps the family's promises; the suite is the one that ships."""

import asyncio
import inspect
import itertools
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from foveate import strategy as strategies
from foveate.plan import Block, Ledger, MessageSize, Plan, TurnInfo
from foveate.testing import strategies as suite
from foveate.testing.histories import USUAL_OVERHEADS, ListedSnapshot, drive, item_of, step_items
from foveate.turn import Kind, Role
from support.examples import times

NAMES = strategies.names()
OTHER_CASES = [case for case in suite.CASES if case is not suite.the_same_state_gives_the_same_bytes]
ON_POSTGRES = [
    pytest.param(name, case, id=f"{name}-{case.__name__}")
    for name, case in zip(itertools.cycle(NAMES), OTHER_CASES, strict=False)
]
"""Every case with one of the strategies; `make thorough` runs all with all."""
ALWAYS = (suite.every_context_fits_its_budget, suite.nothing_said_forges_structure)
"""The cases that `oneshot`, whose log is a gradient, is tested with in each run."""
CASES_OF_ONESHOT = [case if case in ALWAYS else pytest.param(case, marks=pytest.mark.thorough) for case in suite.CASES]


@pytest.mark.parametrize("case", suite.CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("name", [name for name in NAMES if name != "oneshot"])
def test_it_conforms(name: str, case: suite.Case, tmp_path: Path) -> None:
    asyncio.run(suite.run_case(case, name, tmp_path / "chat.db"))


@pytest.mark.parametrize("case", CASES_OF_ONESHOT, ids=lambda case: case.__name__)
def test_oneshot_conforms(case: suite.Case, tmp_path: Path) -> None:
    asyncio.run(suite.run_case(case, "oneshot", tmp_path / "chat.db"))


@pytest.mark.parametrize("name", ["checkpoint", "gradient"])
def test_the_same_state_gives_the_same_bytes_on_postgres(name: str, postgres_url: str) -> None:
    asyncio.run(suite.run_case(suite.the_same_state_gives_the_same_bytes, name, postgres_url))


@pytest.mark.parametrize(("name", "case"), ON_POSTGRES)
def test_every_case_holds_on_postgres(name: str, case: suite.Case, postgres_url: str) -> None:
    asyncio.run(suite.run_case(case, name, postgres_url))


@pytest.mark.thorough
@pytest.mark.parametrize("case", suite.CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("name", NAMES)
def test_it_conforms_on_postgres(name: str, case: suite.Case, postgres_url: str) -> None:
    asyncio.run(suite.run_case(case, name, postgres_url))


def test_the_suite_runs_all_its_cases() -> None:
    written = {
        function
        for name, function in inspect.getmembers(suite, inspect.iscoroutinefunction)
        if not name.startswith("_") and name not in ("run_case", "checked_context")
    }
    assert written == set(suite.CASES)


roles: st.SearchStrategy[Role] = st.sampled_from(["user", "assistant", "assistant", "tool", "tool", "system"])
kinds: st.SearchStrategy[Kind] = st.sampled_from(["message", "message", "message", "injection", "display"])
sizes = st.integers(0, 40) | st.integers(0, 3_000)


@st.composite
def snapshots(draw: st.DrawFn) -> ListedSnapshot:
    """Any conversation of a few dozen turns, with clocks that run as they please; the last turn may be at work."""
    turns: list[TurnInfo] = []
    for number in range(1, draw(st.integers(0, 40)) + 1):
        said = [MessageSize(0, "user", "message", draw(sizes))]
        for place in range(1, draw(st.integers(1, 6))):
            role = draw(roles)
            said.append(MessageSize(place, role, draw(kinds), draw(sizes), is_result=role == "tool"))
        at_us = draw(st.integers(0, 10**12))
        turns.append(TurnInfo(number, tuple(said), at_us, at_us + 10**6))
    items = [item_of(info) for info in turns]
    if draw(st.booleans()) and turns:
        turns[-1] = TurnInfo(turns[-1].turn, turns[-1].messages, turns[-1].started_us, turns[-1].ended_us, is_open=True)
        items[-1:] = step_items(turns[-1])
    nominal = draw(st.integers(200, 60_000))
    fixed, is_preview = draw(st.integers(0, nominal // 2)), draw(st.booleans())
    ledger = Ledger(budget_tokens=nominal, fixed_tokens=fixed, is_preview=is_preview)
    return ListedSnapshot(turns, ledger, items=items)


@pytest.mark.parametrize("name", NAMES)
@examples(max_examples=times(12), deadline=None)
@given(snapshot=snapshots(), share=st.floats(0, 1))
def test_any_plan_fits_is_in_order_and_the_same_each_time(name: str, snapshot: ListedSnapshot, share: float) -> None:
    strategy = strategies.load(name)()
    budget = int(snapshot.ledger.free_tokens * share)
    for _ in range(2):
        plan, after = drive(strategy, snapshot, budget)
        again, _ = drive(strategy, replace(snapshot, first_read=max(1, snapshot.last_turn)), budget)
        assert plan == again, "turns that were not in memory at first change the plan"
        _check(plan, budget, snapshot, after)
        snapshot = after


def _check(plan: Plan, budget_tokens: int, snapshot: ListedSnapshot, after: ListedSnapshot) -> None:
    assert plan.tokens <= max(0, budget_tokens)
    assert sum(row.tokens for row in plan.rows) == plan.tokens
    assert len({wanted.name for wanted in plan.wants}) == len(plan.wants), "something is wanted twice"
    for rows in ([row for row in plan.rows if row.level == "A"], [row for row in plan.rows if row.level != "A"]):
        for one, two in itertools.pairwise(rows):
            assert (one.last, one.last_step) < (two.first, two.first_step), f"{one} before {two}"
    for row in plan.rows:
        _check_row(row, snapshot.last_turn, set(after.made))


def _check_row(row: Block, last_turn: int, made: Collection[str]) -> None:
    assert 1 <= row.first <= row.last <= last_turn
    assert row.tokens >= min(USUAL_OVERHEADS.tag, USUAL_OVERHEADS.range), f"{row} has no room for its tags"
    assert row.level != "A" or row.artefact in made, f"{row} shows nothing"
    assert row.level != "M" or row.first == row.last, "the positions of an M row are of one turn"
    assert not (row.first_step and row.first != row.last)
