"""All tools by name: the built-in ones, those of entry points in the group `foveate.tools`, and registered ones.

A built-in tool is one module in `builtin/` with a `Tool` of the module's name; it is loaded when it is first used.
"""

from __future__ import annotations

import logging

from foveate.compress.tools import assign
from foveate.errors import InputError, contained
from foveate.plugins import Registry
from foveate.tools.history import history_tools
from foveate.tools.tool import Tool

REGISTRY: Registry[Tool] = Registry("foveate.tools", ("foveate.tools.builtin",), name_of=str, member_of=getattr)
_HISTORY = history_tools()
_registered: dict[str, Tool] = {}
_log = logging.getLogger(__name__)


def register(tool: Tool) -> None:
    """Add a tool, replacing one of the same name. `InputError` if it names a compressor that does not exist."""
    if tool.compressor is not None:
        assign(tool.name, tool.compressor)
    _registered[tool.name] = tool


def unregister(name: str) -> None:
    """Remove a registered tool."""
    _registered.pop(name, None)


def names() -> tuple[str, ...]:
    """The names of all tools, sorted."""
    return tuple(sorted({*REGISTRY.names, *_HISTORY, *_registered}))


def usable_names() -> tuple[str, ...]:
    """The names of all tools that can be loaded, sorted; any other is in the log."""
    usable: list[str] = []
    for name in names():
        with contained(_log, "the tool %s is left out", name):
            usable.append(find(name).name)
    return tuple(usable)


def find(name: str) -> Tool:
    """The tool of this name; `InputError` lists those that exist, or says why a third party's can't be loaded."""
    with contained() as outcome:
        found = _registered.get(name) or _HISTORY.get(name) or REGISTRY.get(name)
    if outcome.error is not None:
        raise InputError(f"the tool {name!r} can't be loaded: {outcome.error}") from outcome.error
    if found is None:
        raise InputError(f"there is no tool {name!r}; available: {', '.join(names())}")
    return found
