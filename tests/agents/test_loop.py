"""The tool loop: asks again while tools are called, and once more without tools when the rounds are used up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

import pytest

from foveate.agents.loop import ToolLoop
from foveate.errors import ModelFailed
from foveate.models import Answer
from foveate.turn import Message, Text, ToolCall

CALL = Message("assistant", (ToolCall("look", {}, id="c"),))
WORDS = Message("assistant", (Text("It is blue."),))
BOTH = Message("assistant", (Text("It is blue."), ToolCall("look", {}, id="c")))


def looped(answers: Sequence[Message], *, max_rounds: int) -> tuple[list[str | Answer], list[bool], list[Message]]:
    """What the loop gives out, whether tools were offered with each question, and the answers that were taken."""
    offered: list[bool] = []
    taken: list[Message] = []

    async def ask(*, may_call: bool) -> AsyncGenerator[str | Answer, None]:
        offered.append(may_call)
        yield "asked"
        yield Answer(answers[len(offered) - 1], "stop")

    async def take(message: Message) -> AsyncGenerator[str, None]:
        taken.append(message)
        yield "taken"

    async def run() -> list[str | Answer]:
        loop: ToolLoop[str] = ToolLoop(
            ask=ask, take=take, is_last=lambda message: not message.tool_calls, max_rounds=max_rounds
        )
        return [event async for event in loop.events()]

    return asyncio.run(run()), offered, taken


def test_a_model_is_asked_again_until_it_calls_no_tool() -> None:
    events, offered, taken = looped([CALL, CALL, WORDS], max_rounds=8)
    assert events == ["asked", "taken"] * 3 + [Answer(WORDS, "stop")]
    assert (offered, taken) == ([True] * 3, [CALL, CALL, WORDS])


def test_after_the_last_round_the_model_is_asked_without_tools_and_its_calls_are_dropped() -> None:
    _, offered, taken = looped([CALL, BOTH], max_rounds=1)
    assert (offered, taken) == ([True, False], [CALL, WORDS])


def test_a_model_that_only_calls_tools_after_the_last_round_has_failed() -> None:
    with pytest.raises(ModelFailed, match="kept calling tools after 1 rounds"):
        looped([CALL, CALL], max_rounds=1)
