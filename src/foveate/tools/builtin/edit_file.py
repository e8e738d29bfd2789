"""`edit_file`: replace a passage of a text file."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

from foveate.text import several
from foveate.tools.files import decode_text, excerpt, nearest_place, read_whole, split_lines, write_atomically
from foveate.tools.tool import ToolError, tool
from foveate.tools.workspace import Workspace

MAX_PLACES = 10
MAX_SHOWN_LINES = 20


@tool(approval="ask")
def edit_file(
    workspace: Workspace,
    *,
    path: Annotated[str, "File"],
    old_string: Annotated[str, "The passage to replace, exactly as in the file; it must occur once"],
    new_string: Annotated[str, "What replaces it"],
    replace_all: Annotated[bool, "Replace every occurrence"] = False,
) -> str:
    """Replace a passage of a text file, which must occur exactly once unless replace_all is set."""
    if not old_string:
        raise ToolError("old_string is empty; write_file creates a file")
    if old_string == new_string:
        raise ToolError("old_string and new_string are the same; nothing to change")
    found = workspace.target(path)
    file = decode_text(read_whole(found, path, workspace.settings.max_file_bytes), path)
    old, new = old_string, new_string
    if old not in file.text and file.newline == "\r\n":
        old, new = (text.replace("\r\n", "\n").replace("\n", "\r\n") for text in (old, new))
    count = file.text.count(old)
    if not count:
        raise ToolError(_not_found(file.text, old, path))
    if count > 1 and not replace_all:
        raise ToolError(_ambiguous(file.text, old, path, count))
    write_atomically(found, file.encode(file.text.replace(old, new), path), path)
    return f"Replaced {several(count, 'occurrence')} in {path}.\n"


def _not_found(text: str, old: str, given: str) -> str:
    lines, wanted = split_lines(text), split_lines(old)
    place = nearest_place(lines, wanted)
    if place is None:
        return f"old_string is not in {given}; read the file again and copy the passage exactly"
    near = excerpt(lines, place, min(len(wanted), MAX_SHOWN_LINES))
    return f"old_string is not in {given}; it must match exactly, also in white space. Nearest place:\n{near}"


def _ambiguous(text: str, old: str, given: str, count: int) -> str:
    places = []
    start = -1
    while (start := text.find(old, start + 1)) >= 0:
        places.append(text.count("\n", 0, start) + 1)
        if len(places) == MAX_PLACES:
            break
    listed = ", ".join(map(str, islice(places, MAX_PLACES)))
    return (
        f"old_string occurs {count} times in {given} (at lines {listed}{', …' if count > len(places) else ''}); "
        "add lines around it to make it unique, or set replace_all"
    )
