"""A stream goes on as long as its model is at work, and no longer than it may; time passes by waiting alone here."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from foveate.errors import ModelFailed
from foveate.models import Answer, Ask
from foveate.models.caller import SECONDS_PER_TOKEN, pieces_in_time
from foveate.models.settings import ModelsSettings
from foveate.testing.scripted import Says, ScriptedModel
from foveate.turn import Message, Text
from support.calling import ask, stage

T = TypeVar("T")

TIMES = ModelsSettings(timeout_seconds=60, stall_seconds=30)
ANSWER = Answer(Message("assistant", (Text("Yes."),)), "stop")


class Skipping(selectors.SelectSelector):
    """Waits for nothing, and counts for how long it would have."""

    skipped_seconds = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.skipped_seconds += timeout or 0.0
        return super().select(0)


class SkippingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._skipping = Skipping()
        super().__init__(self._skipping)

    def time(self) -> float:
        return self._skipping.skipped_seconds


def run(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        return runner.run(work)


class Thinks(ScriptedModel):
    """Gives so many signs of life, each after a while, before it answers."""

    def __init__(self, signs: int, seconds: float) -> None:
        super().__init__(Says("Yes."))
        self._signs = signs
        self._seconds = seconds

    async def stream(self, ask: Ask) -> AsyncIterator[str | Answer]:
        for _ in range(self._signs):
            await asyncio.sleep(self._seconds)
            yield ""
        await asyncio.sleep(self._seconds)
        yield ANSWER


async def streamed(model: ScriptedModel, max_output_tokens: int) -> list[str | Answer]:
    asked = ask(purpose="chat", max_output_tokens=max_output_tokens)
    return [piece async for piece in pieces_in_time(model, asked, TIMES, is_stream=True)]


def test_a_model_that_thinks_for_longer_than_any_time_out_is_waited_for() -> None:
    assert run(streamed(Thinks(signs=20, seconds=29), 4_096))[-1] == ANSWER


@pytest.mark.parametrize(("signs", "reason"), [(0, "timeout"), (1, "stalled")])
def test_without_a_sign_of_life_it_is_not(signs: int, reason: str) -> None:
    with pytest.raises(ModelFailed) as caught:
        run(streamed(Thinks(signs=signs, seconds=61 if signs == 0 else 31), 4_096))
    assert caught.value.reason == reason


def test_a_stream_ends_however_alive_it_is() -> None:
    async def seconds() -> float:
        clock = asyncio.get_running_loop()
        began = clock.time()
        with pytest.raises(ModelFailed, match="its stream did not end within 160 s"):
            await streamed(Thinks(signs=1_000_000, seconds=29), 100)
        return clock.time() - began

    assert run(seconds()) == pytest.approx(60 + 100 * SECONDS_PER_TOKEN, abs=0.1)


def test_signs_of_life_are_not_given_out_and_leave_the_way_back_open(tmp_path: Path) -> None:
    class BreaksOffThinking(ScriptedModel):
        async def stream(self, ask: Ask) -> AsyncIterator[str | Answer]:
            yield ""
            raise ModelFailed(self.name, "gone", reason="broken-off")

    async def work() -> None:
        async with stage(tmp_path, BreaksOffThinking(Says(""), name="a"), Says("Other.", pieces=("", "Other."))) as on:
            *pieces, _ = [piece async for piece in on.caller.stream(ask(purpose="chat"), ["a", "b"])]
            assert pieces == ["Other."]

    asyncio.run(work())
