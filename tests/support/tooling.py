"""Calls of tools in tests, as `foveate tools call` makes them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from foveate.tools import Tool, Toolbox, ToolOutput, Workspace, registry


async def allow(_tool: Tool, _arguments: object) -> bool:
    return True


def call(root: Path | Workspace, name: str, **arguments: Any) -> ToolOutput:
    workspace = root if isinstance(root, Workspace) else Workspace.at([root])
    return asyncio.run(Toolbox([registry.find(name)], workspace, approve=allow).call(name, arguments))


def answer(root: Path | Workspace, name: str, **arguments: Any) -> str:
    """The text of a call that works."""
    output = call(root, name, **arguments)
    assert not output.is_error, output.text
    return output.text


def refusal(root: Path | Workspace, name: str, **arguments: Any) -> str:
    """The text of a call that fails."""
    output = call(root, name, **arguments)
    assert output.is_error, output.text
    return output.text
