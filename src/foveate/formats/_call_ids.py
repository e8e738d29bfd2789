"""Calls and results with ids that any provider takes, for messages that are then written one by one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from foveate.turn import Message, Part, ToolCall, ToolResult

_FITTING = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class _Waiting(NamedTuple):
    """A call without its result yet: as it came, and the id it goes by now."""

    call: ToolCall
    id: str


def with_call_ids(messages: Iterable[Message]) -> Iterator[Message]:
    """The messages, every call with an id and every result with its call's; what fits already stays as it is."""
    waiting: list[_Waiting] = []
    made = 0
    for message in messages:
        parts: list[Part] = []
        for part in message.parts:
            if isinstance(part, ToolCall):
                made += 1
                id_ = part.id if part.id and _FITTING.fullmatch(part.id) else f"call_{made}"
                waiting.append(_Waiting(part, id_))
                parts.append(replace(part, id=id_))
            elif isinstance(part, ToolResult):
                parts.append(_answered(part, waiting))
            else:
                parts.append(part)
        yield replace(message, parts=tuple(parts))


def _answered(result: ToolResult, waiting: list[_Waiting]) -> ToolResult:
    for entry in waiting:
        same = result.call_id == entry.call.id if result.call_id else result.name in (None, entry.call.name)
        if same:
            waiting.remove(entry)
            return replace(result, call_id=entry.id)
    return result
