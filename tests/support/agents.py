"""A conversation with much to shorten, and a compression agent that does its work well."""

from __future__ import annotations

import json
from typing import Any

from foveate.models import Ask
from foveate.testing.scripted import Behaviour, CallsTool, Says
from foveate.turn import Message, Text, ToolCall, ToolResult

MORE = " It was checked on three machines, and nobody saw anything else that would be worth a word here." * 4


def work(number: int) -> list[Message]:
    output = "\n".join(f"{line}: value {line * number}" for line in range(60))
    return [
        Message("user", (Text(f"Please set limit_{number} to {number * 10} ms, never more.{MORE}"),)),
        Message(
            "assistant",
            (
                Text(f"I read config_{number}.py first.{MORE}"),
                ToolCall("exec", {"cmd": f"cat {number}"}, id=f"c{number}"),
            ),
        ),
        Message("tool", (ToolResult(f"c{number}", (Text(output),), name="exec"),)),
        Message("assistant", (Text(f"Done: limit_{number} is {number * 10} ms in config_{number}.py.{MORE}"),)),
    ]


def good_agent(ask: Ask) -> Behaviour:
    """Looks, then makes everything short that it was shown: results as they are, words by a true summary."""
    results = [result for message in ask.messages for result in message.tool_results]
    if not results:
        return CallsTool("get_compression_metadata", {})
    found = json.loads(result_text(results[-1]))
    if "messages" not in found:
        return CallsTool("get_compression_metadata", {}) if not found.get("reached") else Says("Done.")
    calls = [proposal(message) for message in found["messages"][:12]]
    return CallsTool(calls[0].name, calls[0].arguments, more=tuple(calls[1:])) if calls else Says("Nothing is left.")


def result_text(result: ToolResult) -> str:
    return "".join(part.text for part in result.content if isinstance(part, Text))


def proposal(message: dict[str, Any]) -> CallsTool:
    number = int(message["turn"].removeprefix("T-"))
    place = {"turn": message["turn"]}
    if message["speaker"] == "tool":
        return CallsTool("compress_tool_result", {**place, "position": message["position"]})
    said = {
        0: f"Set limit_{number} to {number * 10} ms, never more.",
        1: f"I read config_{number}.py first.",
        3: f"Done: limit_{number} is {number * 10} ms in config_{number}.py.",
    }[message["position"]]
    span = {"first": message["position"], "last": message["position"]}
    return CallsTool("compress_conversation_segment", {**place, **span, "summary": said})
