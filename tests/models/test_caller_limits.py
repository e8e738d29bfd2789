"""The breaker, rates and concurrency of the caller, and the events that tell of them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from foveate.errors import ModelFailed, ModelHeldBack
from foveate.models import Ask, Purpose
from foveate.models.caller import PATIENCE_SECONDS
from foveate.models.settings import ModelsSettings
from foveate.testing.scripted import Behaviour, Delays, Empty, Fails, Says, ScriptedModel, Stalls
from support.calling import QUICK_SECONDS, FakeClock, ask, stage

ONCE = ModelsSettings(max_retries=0, breaker_failures=3, breaker_seconds=60.0, timeout_seconds=QUICK_SECONDS)


def test_a_breaker_opens_after_failures_in_a_row_and_one_call_tries_it(tmp_path: Path) -> None:
    async def run() -> None:
        script: list[Behaviour] = [*[Fails("server")] * 4, Says("Back.")]
        async with stage(tmp_path, script, settings=ONCE) as on:
            for _ in range(3):
                assert isinstance(await on.error(), ModelFailed)
            assert (await on.caller.states())[0].breaker == "open"
            held = await on.error()
            assert isinstance(held, ModelHeldBack)
            assert (held.reason, held.retry_after_seconds, held.calls) == ("breaker", 60.0, 0)
            assert "failed 3 times in a row (it fails, as its script says)" in str(held)
            on.time.at += 60
            assert isinstance(await on.error(), ModelFailed)
            assert isinstance(await on.error(), ModelHeldBack)
            on.time.at += 60
            assert (await on.caller.ask(ask(), ["a"])).answer.text == "Back."
            (state,) = await on.caller.states()
            assert (state.breaker, state.failures, state.retry_after_seconds) == ("closed", 0, 0.0)
            assert len(on.scripted().asks) == 5

    asyncio.run(run())


def test_while_one_call_tries_the_others_are_held_back(tmp_path: Path) -> None:
    async def run() -> None:
        trying, go_on = asyncio.Event(), asyncio.Event()

        async def sleep(_: float) -> None:
            trying.set()
            await go_on.wait()

        script: list[Behaviour] = [*[Fails("network")] * 3, Delays(1, Says("Back.")), Says("Again.")]
        settings = ModelsSettings(max_retries=0, breaker_failures=3)
        async with stage(tmp_path, ScriptedModel(script, name="a", sleep=sleep), settings=settings) as on:
            for _ in range(3):
                await on.error()
            on.time.at += 60
            trial = asyncio.create_task(on.caller.ask(ask(), ["a"]))
            await trying.wait()
            assert (await on.caller.states())[0].breaker == "trying"
            held = await on.error()
            assert isinstance(held, ModelHeldBack)
            go_on.set()
            assert (await trial).answer.text == "Back."
            assert (await on.caller.ask(ask(), ["a"])).answer.text == "Again."

    asyncio.run(run())


def test_a_trial_that_is_cancelled_lets_another_try(tmp_path: Path) -> None:
    async def run() -> None:
        begun = asyncio.Event()

        def script(_: Ask) -> Behaviour:
            if len(on.scripted().asks) <= 3:
                return Fails("busy")
            if not begun.is_set():
                begun.set()
                return Stalls()
            return Says("Back.")

        settings = ModelsSettings(max_retries=0, breaker_failures=3)
        async with stage(tmp_path, script, settings=settings) as on:
            for _ in range(3):
                await on.error()
            on.time.at += 60
            trial = asyncio.create_task(on.caller.ask(ask(), ["a"]))
            await begun.wait()
            trial.cancel()
            await asyncio.wait([trial])
            assert (await on.caller.ask(ask(), ["a"])).answer.text == "Back."

    asyncio.run(run())


@pytest.mark.parametrize(
    "behaviour",
    [Empty(), Fails("malformed"), Fails("too-long", is_permanent=True), Fails("refused", is_permanent=True)],
)
def test_an_answer_that_is_no_good_does_not_open_the_breaker(behaviour: Behaviour, tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path, behaviour, settings=ONCE) as on:
            for _ in range(10):
                assert not isinstance(await on.error(), ModelHeldBack)
            assert (await on.caller.states())[0].breaker == "closed"

    asyncio.run(run())


def test_a_provider_that_is_down_does_not_hold_back_another(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path, Fails("network"), Says("Here."), settings=ONCE) as on:
            for _ in range(10):
                assert (await on.caller.ask(ask(), ["a", "b"])).answer.text == "Here."
            assert len(on.scripted("a").asks) == 3

    asyncio.run(run())


def test_models_of_one_provider_share_its_breaker(tmp_path: Path) -> None:
    async def run() -> None:
        down = ScriptedModel(Fails("network"), name="a", provider="one")
        async with stage(tmp_path, down, ScriptedModel(Says("Here."), name="b", provider="one"), settings=ONCE) as on:
            for _ in range(3):
                await on.error()
            assert isinstance(await on.error(models=["b"]), ModelHeldBack)

    asyncio.run(run())


def test_work_in_the_background_is_held_back_at_the_rate(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path, Says("Yes."), settings=ModelsSettings(requests_per_minute=2)) as on:
            await on.caller.ask(ask(), ["a"])
            on.time.at += 20
            await on.caller.ask(ask(), ["a"])
            held = await on.error()
            assert isinstance(held, ModelHeldBack)
            assert (held.reason, held.retry_after_seconds) == ("rate", 40.0)
            on.time.at += 40
            await on.caller.ask(ask(), ["a"])
            assert on.time.slept == []

    asyncio.run(run())


@pytest.mark.parametrize(("left_seconds", "is_answered"), [(PATIENCE_SECONDS, True), (PATIENCE_SECONDS + 1, False)])
def test_a_chat_waits_a_few_seconds_for_a_rate(left_seconds: float, is_answered: bool, tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path, Says("Yes."), settings=ModelsSettings(requests_per_minute=1)) as on:
            await on.caller.ask(ask(), ["a"])
            on.time.at += 60 - left_seconds
            if is_answered:
                await on.caller.ask(ask(purpose="chat"), ["a"])
                assert on.time.slept == [left_seconds]
            else:
                assert isinstance(await on.error(ask(purpose="chat")), ModelHeldBack)

    asyncio.run(run())


def test_tokens_a_minute_are_those_that_were_really_used(tmp_path: Path) -> None:
    async def run() -> None:
        size = ask().input_tokens + 100
        async with stage(tmp_path, Says("Yes."), settings=ModelsSettings(tokens_per_minute=size)) as on:
            await on.caller.ask(ask(), ["a"])
            assert (await on.caller.states())[0].tokens_last_minute == ask().input_tokens + 2
            assert isinstance(await on.error(), ModelHeldBack)
            await on.caller.ask(ask(max_output_tokens=50), ["a"])

    asyncio.run(run())


def test_a_request_larger_than_the_minute_goes_alone(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path, Says("Yes."), settings=ModelsSettings(tokens_per_minute=5)) as on:
            await on.caller.ask(ask(), ["a"])
            assert isinstance(await on.error(), ModelHeldBack)
            on.time.at += 60
            await on.caller.ask(ask(), ["a"])

    asyncio.run(run())


@pytest.mark.parametrize("concurrency", [1, 2, 5])
@pytest.mark.parametrize("purpose", ["compress", "chat"])
def test_no_more_calls_run_at_a_time_than_settings_say(concurrency: int, purpose: Purpose, tmp_path: Path) -> None:
    async def run() -> None:
        model = ScriptedModel(Delays(0, Says("Yes.")), name="a")
        async with stage(tmp_path, model, settings=ModelsSettings(concurrency=concurrency)) as on:
            await asyncio.gather(*(on.caller.ask(ask(purpose=purpose), ["a"]) for _ in range(20)))
            most = concurrency if purpose == "chat" else max(1, concurrency - 1)
            assert on.scripted().most_running == most

    asyncio.run(run())


def test_a_chat_does_not_wait_for_work_in_the_background(tmp_path: Path) -> None:
    async def run() -> None:
        def script(asked: Ask) -> Behaviour:
            return Says("Yes.") if asked.purpose == "chat" else Stalls()

        settings = ModelsSettings(concurrency=2)
        async with stage(tmp_path, script, settings=settings) as on:
            background = [asyncio.create_task(on.caller.ask(ask(), ["a"])) for _ in range(5)]
            for _ in range(3):
                assert (await on.caller.ask(ask(purpose="chat"), ["a"])).answer.text == "Yes."
            for task in background:
                task.cancel()
            await asyncio.wait(background)
            assert (await on.caller.states())[0].running == 0

    asyncio.run(run())


def test_each_change_is_told_once(tmp_path: Path) -> None:
    async def run() -> None:
        script: list[Behaviour] = [*[Fails("server", problem="500")] * 3, Says("Back.")]
        async with stage(tmp_path, script, settings=ONCE) as on:
            for _ in range(8):
                await on.error()
            assert on.kinds == [*["model-failed"] * 3, "model-held-back"]
            on.time.at += 60
            await on.caller.ask(ask(), ["a"], session_id="s", turn=7)
            await on.caller.ask(ask(), ["a"], session_id="s", turn=8)
            failed, *_, held, recovered = on.events
            assert failed.data == {
                "model": "a", "provider": "of a", "reason": "server", "problem": "500", "purpose": "roll-up"
            }  # fmt: skip
            assert held.session_id == ""
            assert (held.data["reason"], held.data["retry_after_seconds"]) == ("breaker", 60.0)
            assert (recovered.kind, recovered.session_id, recovered.turn_id) == ("model-recovered", "s", "T-7")
            assert recovered.data["reasons"] == ["breaker"]

    asyncio.run(run())


def test_a_new_process_leaves_alone_who_failed_before(tmp_path: Path) -> None:
    async def run() -> None:
        script: list[Behaviour] = [*[Fails("server")] * 4]
        async with stage(tmp_path, script, settings=ONCE) as on:
            for _ in range(3):
                await on.error()
            time = on.time
        time.at += 20
        async with stage(tmp_path, [Fails("server"), Says("Back.")], settings=ONCE, time=time) as on:
            held = await on.error()
            assert isinstance(held, ModelHeldBack)
            assert (held.reason, held.retry_after_seconds) == ("breaker", 40.0)
            assert "failed 3 times in a row (server)" in str(held)
            time.at += 40
            assert isinstance(await on.error(), ModelFailed)
            time.at += 59
        async with stage(tmp_path, Says("Back."), settings=ONCE, time=time) as on:
            held = await on.error()
            assert isinstance(held, ModelHeldBack)
            assert held.retry_after_seconds == 1.0
            time.at += 1
            assert (await on.caller.ask(ask(), ["a"])).answer.text == "Back."
            assert [state.breaker for state in await on.caller.states()] == ["closed"]

    asyncio.run(run())


def test_what_another_process_was_asked_counts_for_the_minute(tmp_path: Path) -> None:
    async def run() -> None:
        settings = ModelsSettings(requests_per_minute=2)
        async with stage(tmp_path, Says("Yes."), settings=settings) as on:
            for _ in range(2):
                await on.caller.ask(ask(), ["a"])
            time = on.time
        time.at += 15
        async with stage(tmp_path, Says("Yes."), settings=settings, time=time) as on:
            held = await on.error()
            assert isinstance(held, ModelHeldBack)
            assert (held.reason, held.retry_after_seconds) == ("rate", 45.0)

    asyncio.run(run())


def test_a_check_is_made_though_the_provider_is_left_alone(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path, [*[Fails("server")] * 3, Says("Yes.")], settings=ONCE) as on:
            for _ in range(3):
                await on.error()
            assert isinstance(await on.error(), ModelHeldBack)
            assert (await on.caller.ask(ask(purpose="check"), ["a"])).answer.text == "Yes."
            assert (await on.caller.states())[0].breaker == "closed"

    asyncio.run(run())


def test_calls_of_a_clock_that_was_ahead_hold_nobody_back(tmp_path: Path) -> None:
    async def run() -> None:
        ahead = FakeClock()
        ahead.at += 30 * 86_400
        async with stage(tmp_path, Fails("server"), settings=ONCE, time=ahead) as on:
            for _ in range(3):
                await on.error()
        async with stage(tmp_path, Says("Yes."), settings=ONCE) as on:
            assert (await on.caller.ask(ask(), ["a"])).answer.text == "Yes."

    asyncio.run(run())
