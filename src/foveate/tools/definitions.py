"""Definitions of tools as providers and MCP take them. The order and the bytes depend on the tools alone."""

from __future__ import annotations

from collections.abc import Iterable

from foveate.errors import UnknownFormat
from foveate.tools.tool import Tool
from foveate.turn import Json

FORMATS = ("openai", "openai-responses", "anthropic", "gemini", "mcp")
_NOT_GEMINI = ("additionalProperties",)
"""Keys of a schema that Gemini rejects."""


def definitions(tools: Iterable[Tool], format: str) -> list[dict[str, Json]]:  # noqa: A002
    """The tools, sorted by name, in a format."""
    ordered = sorted(tools, key=lambda tool: tool.name)
    match format:
        case "openai":
            return [{"type": "function", "function": _function(tool, "parameters")} for tool in ordered]
        case "openai-responses":
            # There, tools are strict unless they say otherwise, and strict ones can't leave an argument out.
            return [{"type": "function", **_function(tool, "parameters"), "strict": False} for tool in ordered]
        case "anthropic":
            return [_function(tool, "input_schema") for tool in ordered]
        case "gemini":
            return [{"functionDeclarations": [_for_gemini(tool) for tool in ordered]}] if ordered else []
        case "mcp":
            return [{**_function(tool, "inputSchema"), "annotations": _annotations(tool)} for tool in ordered]
    raise UnknownFormat(f"no tools for {format!r}; available: {', '.join(FORMATS)}")


def _function(tool: Tool, schema_key: str) -> dict[str, Json]:
    return {"name": tool.name, "description": tool.description, schema_key: tool.schema}


def _for_gemini(tool: Tool) -> dict[str, Json]:
    return {**_function(tool, "parameters"), "parameters": _without_keys(tool.schema)}


def _without_keys(schema: Json) -> Json:
    if isinstance(schema, list):
        return [_without_keys(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _without_keys(value) for key, value in schema.items() if key not in _NOT_GEMINI}


def _annotations(tool: Tool) -> dict[str, Json]:
    given = tool.annotations
    return {
        "readOnlyHint": given.read_only,
        "destructiveHint": given.destructive and not given.read_only,
        "openWorldHint": given.open_world,
    }
