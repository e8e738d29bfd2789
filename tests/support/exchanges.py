"""Tool calls with their results, put together briefly for tests."""

from __future__ import annotations

from foveate.compress.tools import key_lines, smooth_result, summarise_call
from foveate.turn import Json, Text, ToolCall, ToolResult


def exchange(
    name: str, arguments: Json, output: str, *, exit_code: int | None = None, is_error: bool = False
) -> tuple[ToolCall, ToolResult]:
    result = ToolResult("1", (Text(output),), name=name, is_error=is_error, exit_code=exit_code)
    return ToolCall(name, arguments, id="1"), result


def summary(name: str, arguments: Json, output: str, *, exit_code: int | None = None, is_error: bool = False) -> str:
    return summarise_call(*exchange(name, arguments, output, exit_code=exit_code, is_error=is_error))


def lines(name: str, arguments: Json, output: str, *, exit_code: int | None = None) -> list[str]:
    return key_lines(*exchange(name, arguments, output, exit_code=exit_code))


def smoothed(name: str, arguments: Json, output: str) -> list[str]:
    return smooth_result(*exchange(name, arguments, output)).split("\n")
