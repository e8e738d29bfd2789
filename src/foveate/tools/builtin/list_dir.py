"""`list_dir`: the entries of a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Meta

from foveate.text import several
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
    folder = workspace.path(path)
    if not folder.is_dir():
        problem = "is not a folder; read_file reads a file" if folder.exists() else "does not exist"
        raise ToolError(f"{path} {problem}")
    lines: list[str] = []
    with file_errors(path):
        _walk(folder, depth, "", lines)
    more = len(lines) - MAX_ENTRIES
    if more > 0:
        lines[MAX_ENTRIES:] = [f"… {several(more, 'more entry', 'more entries')}; list a folder below it"]
    return "\n".join(lines) + "\n" if lines else "(empty)\n"


def _walk(folder: Path, depth: int, indent: str, lines: list[str]) -> None:
    """Symbolic links are named and not followed."""
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if len(lines) > MAX_ENTRIES:
            return
        if entry.is_symlink():
            lines.append(f"{indent}{entry.name} -> {entry.readlink()}")
        elif entry.is_dir():
            lines.append(f"{indent}{entry.name}/")
            if depth > 1:
                _walk(entry, depth - 1, f"{indent}  ", lines)
        else:
            lines.append(f"{indent}{entry.name} {entry.lstat().st_size}")
