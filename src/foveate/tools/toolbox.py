"""The toolbox: a pack's tools for one workspace. It offers their definitions and executes calls.

    call ──► arguments checked ──► approved ──► executed with its time limit ──► output within its limit

Every failure becomes an answer that the model can act on; a tool never raises into the conversation.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from foveate.context.tools import function_definitions
from foveate.errors import FoveateError, UnknownFormat, contained, did_you_mean
from foveate.text import encodable
from foveate.tools import packs, registry
from foveate.tools.cabinet import shorten
from foveate.tools.patch.commit import recover_interrupted
from foveate.tools.rights import refusal
from foveate.tools.tool import Tool, ToolOutput, plain_arguments
from foveate.tools.workspace import Workspace
from foveate.turn import Json

Approver = Callable[[Tool, Mapping[str, Any]], Awaitable[bool]]
"""Asks a person whether a call may be executed."""
FORMATS = ("openai", "openai-responses", "anthropic", "gemini", "mcp")
_NOT_GEMINI = ("additionalProperties",)
"""Keys of a schema that Gemini rejects."""
_log = logging.getLogger(__name__)


async def refuse(_tool: Tool, _arguments: Mapping[str, Any]) -> bool:
    """Reject every call: the approver where nobody can be asked."""
    return False


class Toolbox:
    """The tools that a model may call: those of the given ones that the caller has the right for."""

    def __init__(self, tools: Iterable[Tool], workspace: Workspace, *, approve: Approver = refuse) -> None:
        self.workspace = replace(workspace, toolbox=self)
        listed = sorted(tools, key=lambda tool: tool.name)
        may_exec = workspace.allow_exec
        self._refused = {tool.name: refusal(tool, workspace.right, allow_exec=may_exec) for tool in listed}
        self.tools = {tool.name: tool for tool in listed if not self._refused[tool.name]}
        self._approve = approve
        recover_interrupted(workspace)

    @classmethod
    def of_pack(cls, pack: str, workspace: Workspace, *, approve: Approver = refuse) -> Toolbox:
        """Make a toolbox with the tools of a pack that the caller may call."""
        return cls(map(registry.find, packs.tools_of(pack, workspace.settings.packs)), workspace, approve=approve)

    def definitions(self, format: str) -> list[dict[str, Json]]:  # noqa: A002
        """Return the tools in a provider's format, or MCP's. Order and bytes depend only on the tools."""
        return definitions(self.tools.values(), format)

    def granted(self) -> tuple[str, ...]:
        """Return the tools that need approval and have it for all calls, by the approver's method `grants`."""
        grants: Callable[[Tool], bool] = getattr(self._approve, "grants", lambda _: False)
        return tuple(name for name, tool in self.tools.items() if tool.approval != "never" and grants(tool))

    async def call(self, name: str, arguments: object, *, whole: bool = False) -> ToolOutput:
        """Execute a call. Any error is returned as an output with `is_error`.

        A result longer than the tool's limit goes to the file cabinet and is returned in its short form, for a model.
        With `whole` it is returned as it is, for a program that records it by itself.
        """
        if problem := self._refused.get(name):
            return _error(problem)
        tool = self.tools.get(name)
        if tool is None:
            return _error(f"there is no tool {name!r} here; available: {', '.join(self.tools)}")
        try:
            checked = tool.check(arguments)
            if tool.approval != "never" and not await self._approve(tool, plain_arguments(checked)):
                return _error(f"{name} was not approved, so it was not executed")
            output = await self._run(tool, checked)
            return output if whole else await shorten(output, tool, plain_arguments(checked), self.workspace)
        except FoveateError as error:
            return _error(str(error))

    async def _run(self, tool: Tool, arguments: Mapping[str, Any]) -> ToolOutput:
        leading = (self.workspace,) if tool.takes_workspace else ()
        found: str | ToolOutput = ""
        with contained(_log, "the tool %s failed", tool.name) as outcome:
            try:
                async with asyncio.timeout(tool.timeout_seconds) as deadline:
                    found = await tool.run(*leading, **arguments)
            except FoveateError as error:  # an answer for the model, not a defect of the tool
                return _error(str(error))
            except TimeoutError:
                if not deadline.expired():
                    raise
                effect = "" if tool.annotations.read_only else "; check whether it took effect"
                return _error(f"{tool.name} did not finish within {tool.timeout_seconds:g} seconds{effect}")
            except SystemExit:
                return _error(f"{tool.name} tried to end the program")
        if outcome.error is not None:
            return _error(f"{tool.name} failed: {type(outcome.error).__name__}: {outcome.error}")
        output = found if isinstance(found, ToolOutput) else ToolOutput(str(found))
        return replace(output, text=encodable(output.text))


def definitions(tools: Iterable[Tool], format: str) -> list[dict[str, Json]]:  # noqa: A002
    """Return the tools in a format, sorted by name."""
    ordered = sorted(tools, key=lambda tool: tool.name)
    if format == "mcp":
        return [{**tool.function.record("inputSchema"), "annotations": _hints(tool)} for tool in ordered]
    if format not in FORMATS:
        raise UnknownFormat(f"no tools for {format!r}; {did_you_mean(format, FORMATS)}")
    functions = [tool.function for tool in ordered]
    if format == "gemini":
        functions = [function._replace(schema=_without_keys(function.schema)) for function in functions]
    return function_definitions(functions, format)


def _without_keys(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_keys(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _without_keys(value) for key, value in schema.items() if key not in _NOT_GEMINI}


def _hints(tool: Tool) -> dict[str, Json]:
    annotations = tool.annotations
    return {
        "readOnlyHint": annotations.read_only,
        "destructiveHint": annotations.destructive and not annotations.read_only,
        "openWorldHint": annotations.open_world,
    }


def _error(problem: str) -> ToolOutput:
    return ToolOutput(f"Error: {problem}\n", is_error=True)
