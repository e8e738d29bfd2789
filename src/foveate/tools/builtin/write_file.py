"""`write_file`: create or replace a text file."""

from __future__ import annotations

from typing import Annotated

from foveate.tools.files import write_atomically
from foveate.tools.tool import ToolError, tool
from foveate.tools.workspace import Workspace


@tool(approval="ask")
def write_file(
    workspace: Workspace, *, path: Annotated[str, "File"], content: Annotated[str, "The whole new content"]
) -> str:
    """Create a text file or replace its content. Missing folders are created."""
    try:
        data = content.encode()
    except UnicodeEncodeError as error:
        raise ToolError(f"content: a lone surrogate at character {error.start} can't be written") from None
    limit = workspace.settings.max_file_bytes
    if len(data) > limit:
        raise ToolError(f"content has {len(data):,} bytes, more than tools.max_file_bytes ({limit:,})")
    is_new = write_atomically(workspace.target(path), data, path)
    return f"{'Created' if is_new else 'Replaced'} {path} ({len(data):,} bytes).\n"
