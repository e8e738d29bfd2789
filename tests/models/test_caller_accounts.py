"""The daily cap is never exceeded, and every call is on the books, whatever becomes of it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.errors import ModelFailed, ModelHeldBack
from foveate.models import Ask
from foveate.models.settings import ModelsSettings, Price
from foveate.store import open_store
from foveate.store.rows import NANO, RUNNING
from foveate.store.settings import StoreSettings
from foveate.testing.scripted import Behaviour, BreaksOff, Delays, Empty, Fails, Says, ScriptedModel, Stalls
from foveate.turn import Usage
from support.calling import MORNING, QUICK_SECONDS, FakeClock, Stage, ask, read_calls, spent_today_usd, stage
from support.examples import times

PRICE = Price(input=10.0, output=50.0, cached=1.0)
CAP_USD = 0.05
CAP = ModelsSettings(daily_usd=CAP_USD, timeout_seconds=QUICK_SECONDS, stall_seconds=QUICK_SECONDS)
SIXTEEN_HOURS_SECONDS = 16 * 3600


def costly(script: Behaviour | list[Behaviour], name: str = "a") -> ScriptedModel:
    return ScriptedModel(script, name=name, provider=f"of {name}", price=PRICE)


def test_calls_stop_at_the_cap_and_the_next_day_resumes(tmp_path: Path) -> None:
    """Must-show 4: a cap of $0.05 and a scripted price."""

    async def run() -> None:
        async with stage(tmp_path, costly(Says("Forty words of answer. " * 10)), settings=CAP) as on:
            answered = 0
            held: ModelHeldBack | None = None
            while held is None and answered < 1_000:
                try:
                    await on.caller.ask(ask(), ["a"])
                    answered += 1
                except ModelHeldBack as error:
                    held = error
                assert await spent_today_usd(on.caller) <= CAP_USD
            assert held is not None
            assert answered >= 10
            assert (held.reason, held.retry_after_seconds) == ("cap", SIXTEEN_HOURS_SECONDS)
            assert "raise models.daily_usd, or wait until midnight UTC" in str(held)
            # Not one call more could have been made within the cap, had it cost the most it may.
            most = (ask().input_tokens * 10 + 100 * 50) * 1_000
            assert sum(row.nano_usd for row in on.rows) + most > CAP_USD * NANO
            for _ in range(5):
                assert isinstance(await on.error(), ModelHeldBack)
            assert len(on.rows) == len(on.scripted().asks) == answered
            on.time.at += SIXTEEN_HOURS_SECONDS - 1
            assert isinstance(await on.error(), ModelHeldBack)
            on.time.at += 1
            assert await spent_today_usd(on.caller) == 0
            await on.caller.ask(ask(), ["a"])
            assert on.kinds == ["model-held-back", "model-recovered"]

    asyncio.run(run())


def test_a_free_model_takes_over_at_the_cap(tmp_path: Path) -> None:
    async def run() -> None:
        none_left = ModelsSettings(daily_usd=0.0)
        async with stage(tmp_path, costly(Says("Paid.")), Says("Free."), settings=none_left) as on:
            answered = await on.caller.ask(ask(), ["a", "b"])
            assert (answered.answer.text, answered.calls, answered.nano_usd) == ("Free.", 1, 0)

    asyncio.run(run())


def test_without_a_cap_calls_are_on_the_books_all_the_same(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path, costly(Says("Yes.")), settings=ModelsSettings(daily_usd=None)) as on:
            answered = await on.caller.ask(ask(), ["a"])
            assert answered.nano_usd == on.rows[0].nano_usd == (ask().input_tokens * 10 + 2 * 50) * 1_000

    asyncio.run(run())


@settings(max_examples=times(15))
@given(
    costs=st.lists(st.tuples(st.integers(0, 3_000), st.integers(1, 600)), min_size=1, max_size=25),
    cap_usd=st.floats(0, 0.1),
    seed=st.integers(0, 5),
)
def test_calls_side_by_side_in_two_processes_never_exceed_the_cap(
    costs: list[tuple[int, int]], cap_usd: float, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Two callers on one file stand for two processes; each call uses at most what it said it would."""
    folder = tmp_path_factory.mktemp("store")

    def script(asked: Ask) -> Behaviour:
        share = (seed + asked.input_tokens) % 3 / 2
        usage = Usage(input_tokens=int(asked.input_tokens * share), output_tokens=asked.max_output_tokens)
        answer = Says("Yes.", usage=usage)
        behaviours: tuple[Behaviour, ...] = (answer, Delays(0, answer), Fails("timeout"))
        return behaviours[asked.input_tokens % 3]

    async def run() -> None:
        limits = ModelsSettings(daily_usd=cap_usd, max_retries=0, breaker_failures=1_000, concurrency=3)
        async with AsyncExitStack() as stack:
            first, second = [
                await stack.enter_async_context(
                    stage(folder, ScriptedModel(script, name="a", price=PRICE), settings=limits)
                )
                for _ in range(2)
            ]

            async def one(on: Stage, input_tokens: int, output_tokens: int) -> None:
                asked = Ask(
                    purpose="compress",
                    messages=ask().messages,
                    max_output_tokens=output_tokens,
                    input_tokens=input_tokens,
                )
                with suppress(ModelHeldBack, ModelFailed):
                    await on.caller.ask(asked, ["a"])
                assert await spent_today_usd(on.caller) <= cap_usd

            await asyncio.gather(*(one(first if i % 2 else second, *cost) for i, cost in enumerate(costs)))
            assert RUNNING not in first.outcomes

    asyncio.run(run())


def test_what_was_spent_before_counts_after_opening_the_file_again(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path, costly(Says("word " * 90)), settings=CAP) as on:
            for _ in range(8):
                await on.caller.ask(ask(), ["a"])
            spent = await spent_today_usd(on.caller)
        async with stage(tmp_path, costly(Says("word " * 90)), settings=CAP) as on:
            assert await spent_today_usd(on.caller) == spent
            made = 0
            while made < 100:
                try:
                    await on.caller.ask(ask(), ["a"])
                except ModelHeldBack:
                    break
                made += 1
            assert 0 < made < 8

    asyncio.run(run())


@pytest.mark.parametrize(
    ("behaviour", "is_billed"),
    [
        (Fails("busy"), False),
        (Fails("network"), False),
        (Fails("key", is_permanent=True), False),
        (Fails("malformed"), True),
        (Stalls(), True),
        (BreaksOff(), True),
    ],
)
def test_a_failed_call_costs_all_that_was_reserved_where_a_provider_may_send_a_bill_for_it(
    behaviour: Behaviour, is_billed: bool, tmp_path: Path
) -> None:
    async def run() -> None:
        limits = ModelsSettings(max_retries=0, timeout_seconds=QUICK_SECONDS)
        async with stage(tmp_path, costly(behaviour), settings=limits) as on:
            await on.error()
            (row,) = on.rows
            assert row.is_estimate == is_billed
            assert row.input_tokens == (ask().input_tokens if is_billed else 0)
            assert row.output_tokens == (ask().max_output_tokens if is_billed else 0)
            assert row.nano_usd == row.input_tokens * 10_000 + row.output_tokens * 50_000

    asyncio.run(run())


def test_an_empty_answer_costs_what_the_provider_reports(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path, costly(Empty()), settings=ModelsSettings(max_retries=0)) as on:
            await on.error()
            assert [(row.outcome, row.is_estimate) for row in on.rows] == [("empty", False)]
            assert on.rows[0].nano_usd == ask().input_tokens * 10_000

    asyncio.run(run())


def test_an_answer_without_usage_is_counted_here(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path, costly(Says("Yes, of course.", usage=Usage()))) as on:
            await on.caller.ask(ask(), ["a"])
            (row,) = on.rows
            assert row.is_estimate
            assert (row.input_tokens, row.output_tokens > 0) == (ask().input_tokens, True)

    asyncio.run(run())


def test_cached_tokens_are_on_the_books_at_their_own_price(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path, costly(Says("Yes."))) as on:
            for _ in range(2):
                await on.caller.ask(ask(), ["a"])
            first, second = on.rows
            assert (first.cached_tokens, second.cached_tokens) == (0, ask().input_tokens)
            assert first.nano_usd - second.nano_usd == ask().input_tokens * 9_000

    asyncio.run(run())


def test_the_accounts_know_the_session_and_turn(tmp_path: Path) -> None:
    async def run() -> None:
        from support.stores import new_session

        async with stage(tmp_path, Says("Yes.")) as on:
            await on.store.create_session(new_session("s"))
            await on.caller.ask(ask(), ["a"], session_id="s", turn=3)
            assert on.rows[0].turn == 3
            (cost,) = await on.store.calls.costs("s")
            assert (cost.model, cost.purpose, cost.calls) == ("a", ask().purpose, 1)
            assert cost.day == "2026-09-21"

    asyncio.run(run())


def test_a_call_that_can_not_be_booked_is_not_made(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path, costly(Says("Yes."))) as on:
            await on.store.close()
            error = await on.error()
            assert isinstance(error, ModelHeldBack)
            assert (error.reason, error.retry_after_seconds) == ("cap", 60.0)
            assert on.scripted().asks == []

    asyncio.run(run())


def test_an_answer_that_can_not_be_booked_is_given_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        async with stage(tmp_path, Says("Yes.")) as on:
            await on.store.close()
            with caplog.at_level(logging.WARNING):
                assert (await on.caller.ask(ask(), ["a"])).answer.text == "Yes."
            assert "a call of a could not be booked" in caplog.text

    asyncio.run(run())


def test_a_call_cancelled_while_it_is_booked_leaves_nothing_reserved(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path, costly(Says("Yes."))) as on:
            await on.caller.ask(ask(), ["a"])
            spent = await spent_today_usd(on.caller)
            for steps in range(12):
                task = asyncio.create_task(on.caller.ask(ask(), ["a"]))
                for _ in range(steps):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
            await on.caller.close()
            assert RUNNING not in on.outcomes
            assert {row.input_tokens for row in on.rows if row.outcome == "cancelled"} <= {0, ask().input_tokens}
            assert await spent_today_usd(on.caller) >= spent

    asyncio.run(run())


def test_a_process_that_dies_in_a_call_has_spent_the_most_it_may_cost(tmp_path: Path) -> None:
    async def run() -> None:
        begun = asyncio.Event()

        def script(_: Ask) -> Behaviour:
            begun.set()
            return Stalls()

        model = ScriptedModel(script, name="a", price=PRICE)
        async with stage(tmp_path, model, settings=ModelsSettings(daily_usd=CAP_USD)) as on:
            task = asyncio.create_task(on.caller.ask(ask(), ["a"]))
            await begun.wait()
            other = await open_store(on.store.location, StoreSettings())
            day_us = int(MORNING - 8 * 3600) * 1_000_000
            assert await other.calls.spent(day_us) == (ask().input_tokens * 10 + 100 * 50) * 1_000
            await other.close()
            assert [row.outcome for row in read_calls(on.store.location)] == [RUNNING]
            task.cancel()
            await asyncio.wait([task])

    asyncio.run(run())


def test_a_call_over_midnight_belongs_to_the_day_it_began(tmp_path: Path) -> None:
    async def run() -> None:
        time = FakeClock(at=MORNING - 8 * 3600 - 1)
        model = ScriptedModel(Delays(2, Says("Yes.")), name="a", price=PRICE, sleep=time.sleep)
        async with stage(tmp_path, model, time=time) as on:
            await on.caller.ask(ask(), ["a"])
            assert await spent_today_usd(on.caller) == 0
            assert on.rows[0].latency_us == 2_000_000

    asyncio.run(run())


def test_an_answer_says_what_its_calls_took_without_the_waiting_between_them(tmp_path: Path) -> None:
    async def run() -> None:
        time = FakeClock()
        script: list[Behaviour] = [Fails("busy"), Delays(2, Says("Yes."))]
        async with stage(tmp_path, ScriptedModel(script, name="a", sleep=time.sleep), time=time) as on:
            assert (await on.caller.ask(ask(), ["a"])).seconds == 2
            assert time.at > MORNING + 2

    asyncio.run(run())
