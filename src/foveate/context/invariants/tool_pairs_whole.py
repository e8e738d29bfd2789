"""In a provider's messages every call is followed directly by its result, and every result has its call."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from foveate.turn import Json

Record: TypeAlias = Mapping[str, Json]

_CALLER_RUN = (
    "function_call",
    "custom_tool_call",
    "local_shell_call",
    "shell_call",
    "computer_call",
    "apply_patch_call",
)


def problem(format: str, rendered: Sequence[Json]) -> str | None:  # noqa: A002
    records = [record for record in rendered if isinstance(record, Mapping)]
    check: Callable[[Sequence[Record]], str | None] = {
        "openai": _openai,
        "openai-responses": _responses,
        "anthropic": _anthropic,
        "gemini": _gemini,
    }[format]
    return check(records)


def _openai(records: Sequence[Record]) -> str | None:
    waiting: list[Json] = []
    for record in records:
        role = record.get("role")
        if role in ("tool", "function"):
            answered = record.get("tool_call_id" if role == "tool" else "name")
            if answered not in waiting:
                return f"a result of {answered!r}, which no call right before it has"
            waiting.remove(answered)
            continue
        if waiting:
            return f"the call {waiting[0]!r} is not answered at once"
        waiting = [call.get("id") for call in _blocks(record, "tool_calls")]
        function = record.get("function_call")
        waiting += [function.get("name")] if isinstance(function, Mapping) else []
    return f"the call {waiting[0]!r} is not answered" if waiting else None


def _responses(records: Sequence[Record]) -> str | None:
    waiting: list[tuple[Json, str]] = []
    for record in records:
        kind = str(record.get("type"))
        answered = record.get("call_id") or record.get("id")
        if kind in _CALLER_RUN:
            waiting.append((answered, kind))
        elif kind.endswith("_output") and kind.removesuffix("_output") in _CALLER_RUN:
            call = (answered, kind.removesuffix("_output"))
            if call not in waiting:
                return f"an output of {answered!r}, which no call of its kind before it has"
            waiting.remove(call)
        elif waiting and record.get("role") == "user":
            return f"the call {waiting[0][0]!r} is not answered before the user speaks"
    return f"the call {waiting[0][0]!r} is not answered" if waiting else None


def _anthropic(records: Sequence[Record]) -> str | None:
    waiting: list[Json] = []
    for record in records:
        if not waiting and isinstance(record.get("content"), str):
            continue
        blocks = list(_blocks(record, "content"))
        answers = [block.get("tool_use_id") for block in blocks if block.get("type") == "tool_result"]
        if (answers or waiting) and Tally(answers) != Tally(waiting):
            return f"calls {sorted(map(str, set(waiting)))} are followed by results of {sorted(map(str, set(answers)))}"
        if answers and any(block.get("type") != "tool_result" for block in blocks[: len(answers)]):
            return "results do not come first in their message"
        waiting = [block.get("id") for block in blocks if block.get("type") == "tool_use"]
    return f"calls {sorted(map(str, waiting))} are not answered" if waiting else None


def _gemini(records: Sequence[Record]) -> str | None:
    waiting: Tally[Json] = Tally()
    for record in records:
        parts = list(_blocks(record, "parts"))
        answers = Tally(_named(part, "functionResponse", "function_response") for part in parts)
        calls = Tally(_named(part, "functionCall", "function_call") for part in parts)
        del answers[None], calls[None]
        if answers != waiting:
            return f"calls of {sorted(map(str, waiting))} are followed by results of {sorted(map(str, answers))}"
        waiting = calls
    return f"calls of {sorted(map(str, waiting))} are not answered" if waiting else None


def _named(part: Record, camel: str, snake: str) -> Json:
    """Return the name in a call or response; None if the part is neither."""
    inner = part.get(camel, part.get(snake))
    return inner.get("name") if isinstance(inner, Mapping) else None


def _blocks(record: Record, key: str) -> Iterator[Record]:
    content = record.get(key)
    if not isinstance(content, str) and isinstance(content, Sequence):
        yield from (block for block in content if isinstance(block, Mapping))
