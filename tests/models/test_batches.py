"""Batches of a scripted model: booked, collected by another caller, at half the price."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from foveate.errors import ModelFailed, ModelHeldBack, ModelUnavailable
from foveate.models.accounts import CallReport
from foveate.models.settings import ModelsSettings, Price
from foveate.testing.scripted import Fails, Says, ScriptedModel
from foveate.turn import Usage
from support.calling import ask, spent_today_usd, stage

PRICE = Price(input=1_000_000, output=1_000_000)
"""A dollar a token."""
ASKS = {"1": ask("One?", max_output_tokens=5), "2": ask("Two?", max_output_tokens=5)}
MOST_USD = sum(each.input_tokens + 5 for each in ASKS.values()) / 2
USED = Usage(input_tokens=10, output_tokens=2)


def model(*, polls: int | None = 0) -> ScriptedModel:
    return ScriptedModel([Says("A.", usage=USED), Fails("server")], name="a", price=PRICE, batch_polls=polls)


def test_requests_of_a_batch_are_booked_at_half_the_price_and_once(tmp_path: Path) -> None:
    async def run() -> None:
        settings = ModelsSettings(daily_usd=1_000)
        async with stage(tmp_path, model(), settings=settings) as first:
            assert await first.caller.batches.is_available("a")
            ticket = await first.caller.batches.submit(ASKS, "a")
            assert first.outcomes == ["running", "running"]
            assert await spent_today_usd(first.caller) == MOST_USD
        async with stage(tmp_path, model(polls=1), settings=settings) as second:
            assert await second.caller.batches.collect(ticket, ASKS) is None
            once = await second.caller.batches.collect(ticket, ASKS)
            second.scripted()._next = model()._next  # the script from its beginning
            found = await second.caller.batches.collect(ticket, ASKS)
            assert found is not None
            assert once is not None
            assert once["1"] == found["1"]
            answered, failed = found["1"], found["2"]
            assert isinstance(answered, CallReport)
            assert (answered.answer.text, answered.nano_usd) == ("A.", 6_000_000_000)
            assert isinstance(failed, ModelFailed)
            assert second.outcomes == ["ok", "server"]
            assert await spent_today_usd(second.caller) == 6

    asyncio.run(run())


def test_a_batch_over_the_cap_is_not_submitted_and_books_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path, model(), settings=ModelsSettings(daily_usd=MOST_USD - 0.5)) as staged:
            with pytest.raises(ModelHeldBack, match="daily_usd"):
                await staged.caller.batches.submit(ASKS, "a")
            assert staged.scripted().batches == []
            assert await spent_today_usd(staged.caller) == 0

    asyncio.run(run())


def test_a_model_without_a_batch_endpoint_says_so(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path, model(polls=None)) as staged:
            assert not await staged.caller.batches.is_available("a")
            assert not await staged.caller.batches.is_available("none")
            with pytest.raises(ModelUnavailable, match="no batch endpoint"):
                await staged.caller.batches.submit(ASKS, "a")

    asyncio.run(run())
