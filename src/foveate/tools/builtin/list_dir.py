"""`list_dir`: the entries of a folder."""

from __future__ import annotations

import os
import stat
from typing import Annotated

from msgspec import Meta

from foveate.text import several
from foveate.tools import folders
from foveate.tools.files import file_errors
from foveate.tools.tool import READ_ONLY, ToolError, tool
from foveate.tools.workspace import Workspace

MAX_ENTRIES = 2_000


@tool(annotations=READ_ONLY)
def list_dir(
    workspace: Workspace,
    path: Annotated[str, "Folder; default: the working folder"] = ".",
    depth: Annotated[int, Meta(ge=1, le=5, description="Levels of folders to show")] = 1,
) -> str:
    """List the files and folders of a folder, with sizes in bytes. Folders end with /."""
    found = workspace.path(path)
    lines: list[str] = []
    with file_errors(path):
        try:
            with folders.opened_folder(found, readable=True) as folder:
                _walk(folder, depth, "", lines)
        except FileNotFoundError:
            raise ToolError(f"{path} does not exist") from None
        except NotADirectoryError:
            raise ToolError(f"{path} is not a folder; read_file reads a file") from None
    more = len(lines) - MAX_ENTRIES
    if more > 0:
        lines[MAX_ENTRIES:] = [f"… {several(more, 'more entry', 'more entries')}; list a folder below it"]
    return "\n".join(lines) + "\n" if lines else "(empty)\n"


def _walk(folder: int, depth: int, indent: str, lines: list[str]) -> None:
    """Append the entries of a folder. Symbolic links are named, but not followed."""
    for name in sorted(os.listdir(folder)):
        if len(lines) > MAX_ENTRIES:
            return
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:  # removed in the meantime
            continue
        if stat.S_ISLNK(status.st_mode):
            lines.append(f"{indent}{name} -> {os.readlink(name, dir_fd=folder)}")
        elif stat.S_ISDIR(status.st_mode):
            lines.append(f"{indent}{name}/")
            if depth > 1:
                with folders.below(folder, name) as inner:
                    _walk(inner, depth - 1, f"{indent}  ", lines)
        else:
            lines.append(f"{indent}{name} {status.st_size}")
