"""A turn in progress that is shown step by step: every block has real steps, in order, within its budget."""

import asyncio
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from foveate import strategy as strategies
from foveate.plan import Ledger, Overheads
from foveate.testing.histories import USUAL_OVERHEADS, ListedSnapshot, drive, exchange, item_of, step_items
from support.engine import assistant, opened, user
from support.examples import times

SIZES = st.integers(0, 60) | st.integers(0, 6_000)
OVERHEADS = st.just(USUAL_OVERHEADS) | st.builds(
    Overheads, line=st.integers(1, 12), tag=st.integers(1, 40), range=st.integers(1, 60), cut_note=st.integers(0, 30)
)


def in_progress(before: list[int], steps: list[int], budget_tokens: int, fixed_tokens: int = 0) -> ListedSnapshot:
    """Turns that are over, of so many tokens each, and one whose prompt and messages take these."""
    turns = [exchange(number, size // 4, size - size // 4) for number, size in enumerate(before, 1)]
    turns.append(exchange(len(before) + 1, *steps, is_open=True))
    items = [*map(item_of, turns[:-1]), *step_items(turns[-1])]
    return ListedSnapshot(turns, Ledger(budget_tokens=budget_tokens, fixed_tokens=fixed_tokens), items=items)


@pytest.mark.parametrize("name", ["checkpoint", "hybrid", "topics"])
@examples(max_examples=times(20), deadline=None)
@example(before=[300] * 3, steps=[3_000, 4_000], nominal=8_000, share=0.05, overheads=USUAL_OVERHEADS)
@example(before=[], steps=[400, 900], nominal=1_200, share=0.4, overheads=USUAL_OVERHEADS)
@given(
    before=st.lists(SIZES, max_size=8),
    steps=st.lists(SIZES, min_size=1, max_size=9),
    nominal=st.sampled_from([600, 1_200, 3_000, 8_000, 16_000]),
    share=st.floats(0.01, 1.0),
    overheads=OVERHEADS,
)
def test_blocks_of_a_turn_in_progress_are_of_steps_it_has(  # noqa: PLR0917 - one for each drawn value
    name: str, before: list[int], steps: list[int], nominal: int, share: float, overheads: Overheads
) -> None:
    budget = int(nominal * share)
    snapshot = in_progress(before, steps, nominal, nominal - budget)
    plan, _ = drive(strategies.load(name)(), replace(snapshot, overheads=overheads), budget)
    assert sum(row.tokens for row in plan.rows) <= budget
    count = len(snapshot.turns[-1].steps)
    shown = [row for row in plan.rows if row.first_step or row.last_step]
    assert all(1 <= row.first_step <= row.last_step <= count for row in shown), shown
    assert all(older.last_step < newer.first_step for older, newer in pairwise(shown)), shown


@pytest.mark.parametrize("name", ["checkpoint", "hybrid", "topics"])
def test_a_plain_session_with_one_step_in_progress_always_has_a_context(name: str, tmp_path: Path) -> None:
    async def check() -> None:
        async with opened(tmp_path / "chat.db") as fov:
            for number, (prompt, step) in enumerate(product((40, 2_600), (60, 4_000))):
                session = await fov.session(f"s-{number}", strategy=name, budget_tokens=8_000)
                await session.record([user("Hello?"), assistant("Hello.")])
                await session.record([user("why " * prompt), assistant("so " * step)])
                for budget in (None, 600, 2_000, 16_000):
                    context = await session.context("", budget_tokens=budget)
                    assert context.tokens <= (budget or 8_000)

    asyncio.run(check())
