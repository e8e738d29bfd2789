"""The chain of a client's messages: reading it takes work in proportion to their number."""

from __future__ import annotations

import asyncio
import sys
from types import FrameType
from typing import Any

import pytest

from foveate.intake.chain import STEP_MESSAGES, read_history, read_history_in_steps

SUMMARY = "This session is being continued from a previous conversation that ran out of context."
FILES = "I have *added these files to the chat* so you can go ahead and edit them."
KINDS = {
    "prompts and answers": ("hello {}", "hi {}"),
    "files that are sent anew": (
        "I have *added these files to the chat* so you can go ahead and edit them.\n{}",
        "Ok.",
    ),
    "instructions": ("<system-reminder>\nThe folder is {}.\n</system-reminder>\nGo on.", "Yes."),
    "environments": ("<environment_context>\n<cwd>/{}</cwd>\n</environment_context>", "Yes."),
    "summaries": (f"{SUMMARY} {{}}", "Yes."),
}


def conversation(kind: str, turns: int) -> list[dict[str, Any]]:
    said, answered = KINDS[kind]
    return [
        {"role": role, "content": text.format(number)}
        for number in range(turns)
        for role, text in (("user", said), ("assistant", answered))
    ]


def steps(records: list[dict[str, Any]]) -> int:
    count = 0

    def trace(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        history = read_history("openai", records)
        history.to_record(0)
        history.client_texts(len(records))
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("kind", KINDS)
def test_four_times_the_messages_take_no_more_than_their_share_of_work(kind: str) -> None:
    few, many = conversation(kind, 100), conversation(kind, 400)
    steps(many)  # what is cached by message
    assert steps(many) < 5 * steps(few)


def test_messages_with_many_parts_are_read_with_other_requests_in_between() -> None:
    parts = [{"type": "text", "text": "x"}] * STEP_MESSAGES
    records = [{"role": "user", "content": [*parts, {"type": "text", "text": str(number)}]} for number in range(10)]
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def scenario() -> None:
        running = asyncio.ensure_future(other())
        history = await read_history_in_steps("anthropic", records)
        running.cancel()
        assert len(set(history.keys)) == len(records)
        assert turns >= len(records) - 1

    asyncio.run(scenario())


def test_a_history_that_is_read_in_steps_is_the_same() -> None:
    records = [record for kind in KINDS for record in conversation(kind, 60)]
    assert asyncio.run(read_history_in_steps("openai", records)) == read_history("openai", records)
