"""What clients' calls are booked at while they are in progress."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from foveate import Foveate
from foveate.models.settings import ModelsSettings, Price
from foveate.session.budgets import KeyBudget
from foveate.session.call_costs import CallLimits
from foveate.session.client_calls import CallNote, ClientCalls
from foveate.store.rows import DAY_US
from foveate.turn import Usage
from support.engine import with_store

BUDGET = KeyBudget(usd=1.0, period="day")


def accounts(fov: Foveate) -> ClientCalls:
    return ClientCalls(fov.store, ModelsSettings(prices={"plain": Price(input=0, output=10)}), lambda _: None)


def note_of(request: str, output_tokens: int) -> CallNote:
    """Return a call whose every round may cost 10 dollars a million tokens."""
    return CallNote(
        request_id=request,
        format="openai",
        model="plain",
        address="https://provider.example",
        path="/v1/chat/completions",
        key_id="K-1",
        limits=CallLimits(output_tokens=output_tokens),
    )


def test_a_round_after_midnight_counts_in_the_budget_of_the_day_in_which_its_call_began(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        account = accounts(fov)
        note = note_of("a", 60_000)
        note.began = time.perf_counter() - DAY_US / 1_000_000
        assert not (await account.book(note, BUDGET, 10)).is_exceeded
        state = await account.book_round(note, BUDGET, Usage(output_tokens=60_000), 10)
        assert state.is_exceeded
        assert note.booked_nano_usd == pytest.approx(600_000_000)

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_round_is_booked_beside_calls_that_ended_but_are_not_written_yet(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        account = accounts(fov)
        note, other = note_of("a", 10_000), note_of("b", 85_000)
        for one in (note, other):
            assert not (await account.book(one, BUDGET, 10)).is_exceeded
        other.total, other.status = Usage(input_tokens=10, output_tokens=1), 200
        other.end()
        account.add(other)
        assert not (await account.book_round(note, BUDGET, Usage(output_tokens=10_000), 10)).is_exceeded
        await account.close()

    asyncio.run(with_store(tmp_path / "chat.db", job))
