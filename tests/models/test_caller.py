"""Retries, fallbacks and bounds: what a request costs when models misbehave."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from foveate.errors import ModelError, ModelFailed, ModelHeldBack, ModelUnavailable
from foveate.models import Answer, Ask
from foveate.models.caller import PIECES_PER_TOKEN, SPARE_PIECES
from foveate.models.settings import ModelsSettings
from foveate.testing.scripted import (
    Behaviour,
    BreaksOff,
    CallsTool,
    Delays,
    Empty,
    Fails,
    Refuses,
    Says,
    SaysJson,
    ScriptedModel,
    Stalls,
    Truncates,
)
from support.calling import QUICK_SECONDS, FakeClock, ask, stage

QUICK = ModelsSettings(timeout_seconds=QUICK_SECONDS, stall_seconds=QUICK_SECONDS, breaker_failures=1_000)
ESSAY = Says("It was a dark and stormy night. " * 2_000)


def test_an_answer_comes_with_what_it_took(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path, Says("Yes.")) as on:
            answered = await on.caller.ask(ask(), ["a"])
            assert (answered.answer.text, answered.calls, answered.nano_usd) == ("Yes.", 1, 0)
            (row,) = on.rows
            assert (row.model, row.purpose, row.outcome, row.is_estimate) == ("a", "roll-up", "ok", False)
            assert (row.input_tokens, row.output_tokens) == (ask().input_tokens, 2)

    asyncio.run(run())


def test_a_failure_is_retried_after_a_pause_that_doubles(tmp_path: Path) -> None:
    async def run() -> None:
        settings = ModelsSettings(max_retries=4, backoff_seconds=1.0, max_backoff_seconds=3.0)
        async with stage(tmp_path, [*[Fails("server")] * 4, Says("Yes.")], settings=settings) as on:
            answered = await on.caller.ask(ask(), ["a"])
            assert answered.calls == 5
            assert on.time.slept == [1.0, 2.0, 3.0, 3.0]
            assert on.outcomes == ["server"] * 4 + ["ok"]

    asyncio.run(run())


@pytest.mark.parametrize(("luck", "slept"), [(0.0, 0.5), (0.5, 0.75), (1.0, 1.0)])
def test_a_pause_is_varied_at_random(luck: float, slept: float, tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path, [Fails(), Says("Yes.")], time=FakeClock(luck=luck)) as on:
            await on.caller.ask(ask(), ["a"])
            assert on.time.slept == [slept]

    asyncio.run(run())


def test_a_short_retry_after_is_waited_for(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path, [Fails("busy", retry_after_seconds=7.0), Says("Yes.")]) as on:
            await on.caller.ask(ask(), ["a"])
            assert on.time.slept == [7.0]

    asyncio.run(run())


def test_a_long_retry_after_is_kept_without_waiting(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path, [Fails("busy", retry_after_seconds=600.0), Says("Yes.")]) as on:
            failed = await on.error()
            assert isinstance(failed, ModelFailed)
            assert (failed.retry_after_seconds, failed.calls) == (600.0, 1)
            on.time.at += 100
            held = await on.error()
            assert isinstance(held, ModelHeldBack)
            assert (held.reason, held.retry_after_seconds, held.calls) == ("rate", 500.0, 0)
            on.time.at += 500
            assert (await on.caller.ask(ask(), ["a"])).answer.text == "Yes."
            assert on.time.slept == []

    asyncio.run(run())


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -5.0, 1e300])
def test_no_delay_that_a_provider_asks_for_is_for_ever(seconds: float, tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path, [Fails("busy", retry_after_seconds=seconds), Says("Yes.")]) as on:
            try:
                await on.caller.ask(ask(), ["a"])
            except ModelFailed:
                on.time.at += 86_400
                await on.caller.ask(ask(), ["a"])
            assert all(0 <= slept <= 1 for slept in on.time.slept)

    asyncio.run(run())


def test_fallbacks_are_tried_in_their_order(tmp_path: Path) -> None:
    async def run() -> None:
        settings = ModelsSettings(max_retries=1)
        async with stage(
            tmp_path, Fails("server"), Fails("too-long", is_permanent=True), Says("Third."), settings=settings
        ) as on:
            answered = await on.caller.ask(ask(), ["a", "missing", "b", "c"])
            assert (answered.answer.text, answered.calls) == ("Third.", 4)
            assert [row.model for row in on.rows] == ["a", "a", "b", "c"]

    asyncio.run(run())


def test_when_no_model_answers_the_error_is_one_that_may_pass(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path, Fails("key", is_permanent=True), Fails("network"), settings=QUICK) as on:
            error = await on.error(models=["a", "b"])
            assert isinstance(error, ModelFailed)
            assert (error.model, error.reason, error.calls) == ("b", "network", 4)
            assert error.__notes__ == ["and model a: it fails, as its script says"]

    asyncio.run(run())


@pytest.mark.parametrize(("first", "second", "chosen"), [("too-long", "network", "a"), ("network", "too-long", "a")])
def test_a_request_too_long_for_the_model_it_was_made_for_is_told_as_that(
    first: str, second: str, chosen: str, tmp_path: Path
) -> None:
    async def run() -> None:
        scripts = [Fails(reason, is_permanent=reason == "too-long") for reason in (first, second)]
        async with stage(tmp_path, *scripts, settings=QUICK) as on:
            error = await on.error(models=["a", "b"])
            assert (error.model, len(error.__notes__)) == (chosen, 1)

    asyncio.run(run())


def test_without_a_name_the_error_says_what_to_set(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path) as on:
            error = await on.error(models=[])
            assert isinstance(error, ModelUnavailable)
            assert "no model is named for roll-up; set models.default" in str(error)

    asyncio.run(run())


def test_a_model_without_a_key_is_asked_once_and_then_left_alone(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path, [Fails("key", is_permanent=True, problem="no key"), Says("Yes.")]) as on:
            for _ in range(10):
                assert (await on.error()).problem == "no key"
            assert len(on.scripted().asks) == 1
            on.time.at += 60
            assert (await on.caller.ask(ask(), ["a"])).answer.text == "Yes."

    asyncio.run(run())


def test_one_request_that_is_too_long_does_not_stop_others(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path, ScriptedModel(Says("Yes."), name="a", window_tokens=50)) as on:
            error = await on.error(ask("word " * 60))
            assert isinstance(error, ModelUnavailable)
            assert (error.reason, error.calls) == ("too-long", 1)
            assert (await on.caller.ask(ask(), ["a"])).answer.text == "Yes."

    asyncio.run(run())


@pytest.mark.parametrize(
    "behaviour",
    [Fails("busy"), Fails("network"), Stalls(), BreaksOff(), Empty()],
    ids=lambda behaviour: getattr(behaviour, "reason", type(behaviour).__name__),
)
@pytest.mark.parametrize("max_retries", [0, 2])
def test_a_provider_that_always_fails_costs_at_most_a_call_and_its_retries(
    behaviour: Behaviour, max_retries: int, tmp_path: Path
) -> None:
    async def run() -> None:
        settings = ModelsSettings(
            max_retries=max_retries, timeout_seconds=QUICK_SECONDS, breaker_failures=1_000, daily_usd=None
        )
        async with stage(tmp_path, behaviour, behaviour, settings=settings) as on:
            for _ in range(3):
                error = await on.error(models=["a", "b"])
                assert error.calls == 2 * (1 + max_retries)
            assert len(on.rows) == 3 * 2 * (1 + max_retries)

    asyncio.run(run())


@pytest.mark.parametrize("behaviour", [Truncates(), Refuses(), ESSAY, Says("no " * 500), SaysJson({"c": "x"})])
def test_an_answer_that_is_no_good_costs_one_call(behaviour: Behaviour, tmp_path: Path) -> None:
    """It is an answer, for whoever asked to judge; the essay ends at the output limit."""

    async def run() -> None:
        async with stage(tmp_path, behaviour) as on:
            answered = await on.caller.ask(ask(max_output_tokens=50), ["a"])
            assert answered.calls == 1
            assert answered.answer.usage.output_tokens <= 50

    asyncio.run(run())


@pytest.mark.parametrize("max_calls", [0, 1, 2, 5])
def test_max_calls_bounds_retries_and_fallbacks_together(max_calls: int, tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path, *[Fails("server")] * 3, settings=QUICK) as on:
            error = await on.error(models=["a", "b", "c"], max_calls=max_calls)
            assert error.calls == len(on.rows) == max_calls
            if max_calls == 0:
                assert isinstance(error, ModelHeldBack)
                assert error.reason == "calls"
            else:
                assert isinstance(error, ModelFailed)

    asyncio.run(run())


def test_a_stream_comes_in_pieces_and_ends_with_the_answer(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path, [Fails(), Delays(0, Says("One two three."))]) as on:
            pieces = [piece async for piece in on.caller.stream(ask(purpose="chat"), ["a"], session_id="s")]
            assert pieces[:-1] == ["One", " two", " three."]
            assert isinstance(pieces[-1], Answer)
            assert on.outcomes == ["server", "ok"]

    asyncio.run(run())


def test_a_stream_may_be_a_tool_call_alone(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path, CallsTool("search_history", {"query": "port"})) as on:
            (answer,) = [piece async for piece in on.caller.stream(ask(purpose="chat"), ["a"])]
            assert isinstance(answer, Answer)
            assert answer.message.tool_calls[0].name == "search_history"

    asyncio.run(run())


@pytest.mark.parametrize(("behaviour", "reason"), [(Stalls(2), "stalled"), (BreaksOff(2), "broken-off")])
def test_a_stream_that_fails_after_a_piece_is_not_begun_again(
    behaviour: Behaviour, reason: str, tmp_path: Path
) -> None:
    async def run() -> None:
        async with stage(tmp_path, [behaviour, Says("Yes.")], Says("Other."), settings=QUICK) as on:
            stream = on.caller.stream(ask(purpose="chat"), ["a", "b"])
            assert [await anext(stream), await anext(stream)] == ["This", " was"]
            with pytest.raises(ModelFailed) as caught:
                await anext(stream)
            assert (caught.value.reason, caught.value.calls) == (reason, 1)
            (row,) = on.rows
            assert (row.outcome, row.is_estimate) == (reason, True)
            assert (row.input_tokens, row.output_tokens > 0) == (ask().input_tokens, True)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("behaviour", "reason"), [(Stalls(0), "timeout"), (BreaksOff(0), "broken-off"), (Empty(), "empty")]
)
def test_a_stream_that_fails_before_its_first_piece_is_tried_elsewhere(
    behaviour: Behaviour, reason: str, tmp_path: Path
) -> None:
    async def run() -> None:
        settings = ModelsSettings(timeout_seconds=QUICK_SECONDS, max_retries=0)
        async with stage(tmp_path, behaviour, Says("Other."), settings=settings) as on:
            *pieces, _ = [piece async for piece in on.caller.stream(ask(purpose="chat"), ["a", "b"])]
            assert pieces == ["Other."]
            assert on.outcomes == [reason, "ok"]

    asyncio.run(run())


def test_a_stream_that_does_not_end_is_ended(tmp_path: Path) -> None:
    async def run() -> None:
        endless = Says("x", pieces=("x",) * 5_000)
        async with stage(tmp_path, endless) as on:
            stream = on.caller.stream(ask(purpose="chat", max_output_tokens=10), ["a"])
            for _ in range(PIECES_PER_TOKEN * 10 + SPARE_PIECES):
                assert await anext(stream) == "x"
            with pytest.raises(ModelFailed, match="does not end"):
                await anext(stream)

    asyncio.run(run())


def test_a_cancelled_call_is_on_the_books_and_leaves_nothing_running(tmp_path: Path) -> None:
    async def run() -> None:
        settings, begun = ModelsSettings(concurrency=1), asyncio.Event()

        def script(_: Ask) -> Behaviour:
            if begun.is_set():
                return Says("Yes.")
            begun.set()
            return Stalls()

        async with stage(tmp_path, script, settings=settings) as on:
            task = asyncio.create_task(on.caller.ask(ask(), ["a"]))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert on.scripted().running == 0
            assert on.outcomes == ["cancelled"]
            assert (await on.caller.ask(ask(), ["a"])).answer.text == "Yes."
            assert [state.running for state in await on.caller.states()] == [0]

    asyncio.run(run())


def test_a_stream_that_nobody_reads_on_is_closed_and_on_the_books(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path, Says("One two three four.")) as on:
            pieces = on.caller.stream(ask(purpose="chat"), ["a"])
            assert await anext(pieces) == "One"
            await pieces.aclose()
            assert on.scripted().running == 0
            assert on.outcomes == ["cancelled"]

    asyncio.run(run())


def test_a_defect_in_an_adapter_is_on_the_books_too(tmp_path: Path) -> None:
    class Broken(ScriptedModel):
        async def ask(self, ask: object) -> Answer:
            raise ZeroDivisionError

    async def run() -> None:
        async with stage(tmp_path, Broken(Says("Yes."), name="a")) as on:
            with pytest.raises(ZeroDivisionError):
                await on.caller.ask(ask(), ["a"])
            assert on.outcomes == ["error"]
            assert [state.running for state in await on.caller.states()] == [0]

    asyncio.run(run())


def test_models_are_made_once_and_closed(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path, Says("Yes.")) as on:
            await asyncio.gather(*(on.caller.ask(ask(), ["a"]) for _ in range(8)))
            assert len(on.scripted().asks) == 8
            await on.caller.close()
            assert on.scripted().is_closed

    asyncio.run(run())


def test_a_model_that_could_not_be_made_is_made_another_time(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path) as on:
            assert (await on.error()).problem == "there is none"
            on.models["a"] = ScriptedModel(Says("Yes."), name="a")
            assert (await on.error()).problem == "there is none"
            on.time.at += 60
            assert (await on.caller.ask(ask(), ["a"])).answer.text == "Yes."

    asyncio.run(run())


def test_a_caller_without_a_loader_finds_models_by_their_names(tmp_path: Path) -> None:
    (tmp_path / "script.toml").write_text('[[reply]]\nsays = "From a file."\n')

    async def run() -> None:
        from foveate.models.caller import Caller

        async with stage(tmp_path) as on:
            caller = Caller(ModelsSettings(), on.store.calls, on.bus)
            answered = await caller.ask(ask(), [f"scripted:{tmp_path / 'script.toml'}"])
            assert answered.answer.text == "From a file."
            with pytest.raises(ModelError, match="no provider"):
                await caller.ask(ask(), ["nobody:knows"])
            await caller.close()

    asyncio.run(run())
