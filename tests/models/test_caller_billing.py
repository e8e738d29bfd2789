"""A call costs what its provider reports, though nothing came of it; where nothing is reported, what it may have."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from foveate.errors import ModelFailed, ModelHeldBack
from foveate.models import Answer, Ask
from foveate.models.caller import Caller
from foveate.models.settings import ModelsSettings, Price
from foveate.testing.scripted import Behaviour, CallsTool, Empty, Says, ScriptedModel
from support.asking import Asking
from support.calling import ask, spent_today_usd, stage
from support.faulty_server import Said, plain, streamed

PRICE = Price(input=10.0, output=50.0)


@pytest.mark.parametrize(
    ("behaviour", "is_limit"),
    [
        (CallsTool("search_history", {"query": "what was the port of the ledger host?"}), False),
        (Says("Yes"), False),
        (Says("Yes", finish="length"), True),
        (Says("", finish="length"), True),
        (Empty(), True),
    ],
)
def test_what_is_not_reported_is_counted_with_its_calls_or_taken_for_the_limit(
    behaviour: Behaviour, is_limit: bool, tmp_path: Path
) -> None:
    class Silent(ScriptedModel):
        async def ask(self, ask: Ask) -> Answer:
            answer = await super().ask(ask)
            return replace(answer, message=replace(answer.message, usage=None))

    async def run() -> None:
        silent = Silent(behaviour, name="a", price=PRICE)
        async with stage(tmp_path, silent, settings=ModelsSettings(max_retries=0)) as on:
            with suppress(ModelFailed):
                await on.caller.ask(ask(), ["a"])
            (row,) = on.rows
            assert row.is_estimate
            limit = ask().max_output_tokens
            assert row.output_tokens == limit if is_limit else 0 < row.output_tokens < limit
            if isinstance(behaviour, CallsTool):
                assert row.output_tokens > 10

    asyncio.run(run())


def test_a_stream_that_someone_stops_costs_what_was_read(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path, ScriptedModel(Says("One two three four."), name="a", price=PRICE)) as on:
            pieces = on.caller.stream(ask(purpose="chat"), ["a"])
            await anext(pieces)
            await pieces.aclose()
            (row,) = on.rows
            assert row.outcome == "cancelled"
            assert 0 < row.output_tokens < 5

    asyncio.run(run())


@pytest.mark.parametrize(("finish", "calls"), [("length", 1), ("stop", 3)])
def test_answers_of_reasoning_alone_stop_at_the_cap_too(
    finish: Literal["length", "stop"], calls: int, asking: Asking, tmp_path: Path
) -> None:
    """A real provider's package; one that has nothing to say is asked again, one that ran out of room is not."""
    name = asking.endpoint()
    limits = ModelsSettings(daily_usd=0.2, backoff_seconds=0, prices={name: Price(input=1, output=10)})
    said = Said("", thinking="Hm.", finish=finish, input_tokens=50, cached_tokens=0, output_tokens=4_096)

    async def run() -> None:
        async with stage(tmp_path) as on:
            caller = Caller(limits, on.store.calls, on.bus)
            asked = ask(max_output_tokens=4_096)
            for number in range(10):
                with suppress(ModelFailed, ModelHeldBack):
                    await caller.ask(asked, [name])
                if number == 0:
                    assert len(asking.server.requests) == calls
            assert len(asking.server.requests) == 4
            assert await spent_today_usd(caller) == pytest.approx(4 * (50 * 1 + 4_096 * 10) / 1e6)
            await caller.close()

    asking.server.will(plain("openai", said))
    asyncio.run(run())


def test_a_tool_call_that_is_cut_is_an_answer_and_asked_for_once(asking: Asking, tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path) as on:
            caller = Caller(ModelsSettings(), on.store.calls, on.bus)
            *_, answer = [piece async for piece in caller.stream(ask(purpose="chat"), [asking.endpoint()])]
            assert isinstance(answer, Answer)
            assert (answer.finish, answer.message.tool_calls[0].name) == ("length", "get_turn")
            assert len(asking.server.requests) == 1
            await caller.close()

    asking.server.will(streamed("openai", Said("", tool=("get_turn", {"turn": "T-1"}), finish="length")))
    asyncio.run(run())


def test_the_room_for_thinking_that_a_model_adds_is_within_the_cap(tmp_path: Path) -> None:
    class Thinking(ScriptedModel):
        def most_output_tokens(self, ask: Ask) -> int:
            return ask.max_output_tokens + 2_000

    async def run() -> None:
        thinking = Thinking(Says("Yes"), name="a", price=PRICE)
        async with stage(tmp_path, thinking, settings=ModelsSettings(daily_usd=0.05)) as on:
            assert isinstance(await on.error(), ModelHeldBack)
        async with stage(tmp_path, thinking, settings=ModelsSettings(daily_usd=0.2)) as on:
            assert (await on.caller.ask(ask(), ["a"])).answer.text == "Yes"

    asyncio.run(run())
