"""Cache breakpoints of Anthropic requests: set for clients that set none, and limited to the API's maximum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from foveate.intake.chain import RequestHistory

Record = dict[str, Any]

CACHE_CONTROL: Final = b'"cache_control"'
BREAKPOINT: Final = {"type": "ephemeral"}
ANTHROPIC_BREAKPOINTS: Final = 4
TURN_ENDS: Final = 2
"""Number of newest finished turns that end with a breakpoint: this request's, and the previous request's."""
THINKING: Final = ("thinking", "redacted_thinking")


def with_breakpoints(body: Mapping[str, Any], history: RequestHistory) -> Record:
    """Add cache breakpoints to an Anthropic body, for a client that sets none."""
    messages = list(body["messages"])
    start, marked = len(messages), 0
    while marked < TURN_ENDS and (start := history.turn_start(start)) > 0:
        if (message := _marked(messages[start - 1])) is not None:
            messages[start - 1] = message
        marked += 1
    return {**body, "messages": messages}


def limit_breakpoints(body: Record) -> Record:
    """Limit the cache breakpoints to Anthropic's maximum: keep the client's in system and tools, then our newest."""
    fixed = sum("cache_control" in block for part in ("system", "tools") for block in _blocks(body.get(part)))
    left = max(0, ANTHROPIC_BREAKPOINTS - fixed)
    messages: list[Record] = []
    for message in reversed(body["messages"]):
        content = message.get("content")
        if isinstance(content, list) and any("cache_control" in block for block in content):
            blocks = []
            for block in reversed(content):
                if "cache_control" in block and (left := left - 1) < 0:
                    block = {key: value for key, value in block.items() if key != "cache_control"}  # noqa: PLW2901
                blocks.append(block)
            message = {**message, "content": blocks[::-1]}  # noqa: PLW2901
        messages.append(message)
    return {**body, "messages": messages[::-1]}


def with_lifetime(body: Record, sent: Sequence[Mapping[str, Any]]) -> Record:
    """Give our breakpoints the lifetime that the client gives its own (`ttl`), so that its cache lasts as long."""
    blocks = [block for message in sent for block in _blocks(message.get("content"))]
    chosen = next((hint for block in blocks if "ttl" in (hint := block.get("cache_control") or {})), None)
    if chosen is None:
        return body
    messages = [
        message
        if isinstance(message["content"], str)
        else {
            **message,
            "content": [
                {**block, "cache_control": chosen} if "cache_control" in block else block
                for block in message["content"]
            ],
        }
        for message in body["messages"]
    ]
    return {**body, "messages": messages}


def _marked(message: Mapping[str, Any]) -> Record | None:
    """Return the message with a breakpoint at the last block that can have one."""
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())
    for place in range(len(blocks) - 1, -1, -1):
        block = blocks[place]
        if isinstance(block, dict) and block.get("type") not in THINKING and block.get("text") != "":
            blocks[place] = {**block, "cache_control": BREAKPOINT}
            return {**message, "content": blocks}
    return None


def _blocks(part: object) -> list[Mapping[str, Any]]:
    return [block for block in part if isinstance(block, Mapping)] if isinstance(part, list) else []
