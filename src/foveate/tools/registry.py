"""All tools by name: the built-in ones, those of entry points in the group `foveate.tools`, and registered ones.

A built-in tool is one module in `builtin/` with a `Tool` of the module's name; it is loaded when it is first used.
"""

from __future__ import annotations

import logging
from functools import partial

import msgspec

from foveate.compress.tools import assign
from foveate.context.tools import TOOLS, FunctionSpec
from foveate.errors import InputError, contained
from foveate.plugins import Registry
from foveate.tools.tool import READ_ONLY, Tool, ToolError, ToolOutput
from foveate.tools.workspace import Workspace

REGISTRY: Registry[Tool] = Registry("foveate.tools", ("foveate.tools.builtin",), name_of=str, member_of=getattr)
_registered: dict[str, Tool] = {}
_log = logging.getLogger(__name__)


def _history_tool(spec: FunctionSpec) -> Tool:
    """Make a history tool, which answers from the workspace's session; the session also checks the arguments."""
    return Tool(
        name=spec.name,
        description=spec.description,
        arguments=msgspec.defstruct("NoArguments", []),
        raw_schema=spec.schema,
        run=partial(_read_history, spec.name),
        takes_workspace=True,
        annotations=READ_ONLY,
        max_output_tokens=None,  # they return pages of the board
    )


async def _read_history(name: str, workspace: Workspace, /, **arguments: object) -> ToolOutput:
    if workspace.session is None:
        raise ToolError(f"{name} reads a session's history, and no session was given")
    text = await workspace.session.call_tool(name, arguments)
    return ToolOutput(text, is_error=text.startswith("Error: "))


_HISTORY = {tool.name: _history_tool(tool.function) for tool in TOOLS}


def register(tool: Tool) -> None:
    """Add a tool, replacing one of the same name. `InputError` if it names a compressor that does not exist."""
    if tool.compressor is not None:
        assign(tool.name, tool.compressor)
    _registered[tool.name] = tool


def unregister(name: str) -> None:
    """Remove a registered tool."""
    _registered.pop(name, None)


def names() -> tuple[str, ...]:
    """Return the names of all tools, sorted."""
    return tuple(sorted({*REGISTRY.names, *_HISTORY, *_registered}))


def usable_names() -> tuple[str, ...]:
    """Return the names of all tools that can be loaded, sorted; log the others."""
    usable: list[str] = []
    for name in names():
        with contained(_log, "the tool %s is skipped", name):
            usable.append(find(name).name)
    return tuple(usable)


def find(name: str) -> Tool:
    """Return the tool of this name; `InputError` lists the existing ones, or why a third party's can't be loaded."""
    with contained() as outcome:
        found = _registered.get(name) or _HISTORY.get(name) or REGISTRY.get(name)
    if outcome.error is not None:
        raise InputError(f"the tool {name!r} can't be loaded: {outcome.error}") from outcome.error
    if found is None:
        raise InputError(f"there is no tool {name!r}; available: {', '.join(names())}")
    return found
