"""`write_from_cabinet`: a content of the file cabinet as a file, without its text in the conversation."""

from __future__ import annotations

import asyncio
from typing import Annotated

from foveate.tools.files import write_atomically
from foveate.tools.tool import tool
from foveate.tools.workspace import Workspace


@tool(approval="ask")
async def write_from_cabinet(
    workspace: Workspace,
    key: Annotated[str, "Key of the content, e.g. f-1a2b3c4d5e6f"],
    path: Annotated[str, "File to write; an existing one is replaced"],
) -> str:
    """Write a content of the file cabinet to a file, byte for byte. You need not read or repeat it."""
    cabinet = workspace.require_cabinet()
    target = workspace.target(path)
    content = await cabinet.content(key)
    is_new = await asyncio.to_thread(write_atomically, target, content, path)
    return f"{'Created' if is_new else 'Replaced'} {path} ({len(content):,} bytes).\n"
