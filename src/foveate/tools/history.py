"""The history tools as entries of the registry: they answer from the session of the workspace."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from foveate.context.tools import tool_definitions
from foveate.tools.tool import READ_ONLY, Tool, ToolError, ToolOutput
from foveate.tools.workspace import Workspace
from foveate.turn import Json

_NO_ARGUMENTS = msgspec.defstruct("NoArguments", [])


def history_tools() -> dict[str, Tool]:
    """By name. Their arguments are checked by the session, with messages of their own."""
    return {str(given["name"]): _tool(given) for given in tool_definitions("anthropic")}


def _tool(given: Mapping[str, Any]) -> Tool:
    schema: Mapping[str, Json] = given["input_schema"]
    name = str(given["name"])
    return Tool(
        name=name,
        description=str(given["description"]),
        arguments=_NO_ARGUMENTS,
        raw_schema=schema,
        run=partial(_answer, name),
        takes_workspace=True,
        annotations=READ_ONLY,
        max_output_tokens=None,  # they answer by pages of the board
    )


async def _answer(name: str, workspace: Workspace, /, **arguments: object) -> ToolOutput:
    if workspace.session is None:
        raise ToolError(f"{name} reads a session's history, and no session was given")
    text = await workspace.session.call_tool(name, arguments)
    return ToolOutput(text, is_error=text.startswith("Error: "))
