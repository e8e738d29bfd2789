"""A client's request that goes upstream as it came: all that its session holds fits the budget word for word."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from foveate.intake.chain import RequestHistory

Record = dict[str, Any]

CACHE_CONTROL: Final = b'"cache_control"'
BREAKPOINT: Final = {"type": "ephemeral"}
TURN_ENDS: Final = 2
"""The newest finished turns that end with a breakpoint: this request's, and the one that the request before wrote."""
THINKING: Final = ("thinking", "redacted_thinking")


def with_breakpoints(body: Mapping[str, Any], history: RequestHistory) -> Record:
    """Anthropic's body with cache breakpoints, for a client that sets none."""
    messages = list(body["messages"])
    start, marked = len(messages), 0
    while marked < TURN_ENDS and (start := history.turn_start(start)) > 0:
        if (message := _marked(messages[start - 1])) is not None:
            messages[start - 1] = message
        marked += 1
    return {**body, "messages": messages}


def _marked(message: Mapping[str, Any]) -> Record | None:
    """The message with a breakpoint at the last block that can have one."""
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())
    for place in range(len(blocks) - 1, -1, -1):
        block = blocks[place]
        if isinstance(block, dict) and block.get("type") not in THINKING and block.get("text") != "":
            blocks[place] = {**block, "cache_control": BREAKPOINT}
            return {**message, "content": blocks}
    return None
