"""Files read, written and edited: the path, the number of lines, and the names that a change defines."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from foveate.compress.exchange import ToolExchange, change, definitions
from foveate.compress.lines import END_LINES, both_ends, brief, brief_path, fold, without_blanks
from foveate.compress.tools import diffs, generic
from foveate.text import several
from foveate.turn import Json

_READS: tuple[str, ...] = (
    "read", "readfile", "view", "viewfile", "cat", "open", "openfile", "goto", "readmanyfiles", "notebookread",
    "scrolldown", "scrollup", "viewimage", "getfilecontents", "readtextfile",
)  # fmt: skip
_WRITES: tuple[str, ...] = ("write", "writefile", "create", "createfile", "writetofile", "savefile")
_EDITS: tuple[str, ...] = (
    "edit", "editfile", "multiedit", "insert", "insertlines", "replace", "replacelines", "replaceinfile",
    "strreplace", "strreplaceeditor", "strreplacebasededittool", "searchreplace", "applypatch", "applydiff",
    "notebookedit", "texteditor", "insertcontent", "patch", "deletefile", "movefile",
)  # fmt: skip
tools: tuple[str, ...] = (*_READS, *_WRITES, *_EDITS, "*readfile*", "*writefile*", "*editfile*")
MAX_OUTLINE = 12
"""Limit of the defined names that are shown in place of a file's middle."""

_CONTENT = ("content", "text", "file_text", "new_string", "newText", "new_str", "body", "data", "contents")
_PATCH = ("patch", "diff", "input", "changes")
_OLD = ("old_string", "oldText", "old_str", "search", "old")
_NEW = ("new_string", "newText", "new_str", "replace", "new")
_NUMBERED = re.compile(r"^\s*(\d+)(?:→|\t|:|\||  )(.*)$")
_HEADING = re.compile(r"^#{1,4} \S")
_READ_COMMANDS = ("view", "read", "open")


Action = Literal["read", "write", "edit", "delete"]


def action(exchange: ToolExchange) -> Action | None:
    """Return what a tool of this name does to a file; None if it is not about files."""
    if is_read(exchange):
        return "read"
    tool = _key(exchange)
    command = exchange.arguments.get("command")
    if tool.startswith(("delete", "remove")) and "file" in tool:
        return "delete"
    if tool in _WRITES or "writefile" in tool or command == "create":
        return "write"
    return "edit" if tool in _EDITS or "editfile" in tool else None


def recognises(exchange: ToolExchange) -> bool:  # noqa: ARG001
    return False


def summarise(exchange: ToolExchange) -> str:
    if is_read(exchange):
        return read_summary(exchange, brief_path(exchange.path or generic.subject(exchange)))
    paths = changed_paths(exchange)
    shown = brief_path(paths[0]) if paths else generic.subject(exchange)
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    said = [change_size(exchange)]
    if exchange.failed:
        said = [generic.outcome(exchange)]
    elif not exchange.has_result:
        said.append("no result")
    return f"{shown}{more}: {', '.join(filter(None, said))}"


def read_summary(exchange: ToolExchange, shown: str) -> str:
    """Summarise a read: `src/jwt.py: 212 lines`, with the start if only a part was read."""
    if exchange.failed or not exchange.has_result or not exchange.lines:
        return f"{shown}: {generic.outcome(exchange)}"
    numbers = [int(found[1]) for line in (exchange.lines[0], exchange.lines[-1]) if (found := _NUMBERED.match(line))]
    start = numbers[0] if len(numbers) == 2 else exchange.argument("offset", "start_line")  # noqa: PLR2004
    lines = several(exchange.total_lines, "line")
    return f"{shown}: {lines}" + (f" from {start}" if start not in (None, 0, 1, "0", "1") else "")


def key_lines(exchange: ToolExchange) -> list[str]:
    if is_read(exchange):
        return outline(exchange.lines)
    changed: list[str] = []
    for key in _PATCH:
        value = exchange.arguments.get(key)
        if isinstance(value, str):
            changed += diffs.changed_lines(value)
    for old, new in _edits(exchange.arguments):
        changed += change(old, new).split("\n")[1:] or definitions(new.split("\n"), MAX_OUTLINE)
    if content := _text(exchange.arguments, _CONTENT):
        changed += outline(content.split("\n"))
    return [*(generic.key_lines(exchange) if exchange.failed else []), *changed]


def smooth(exchange: ToolExchange) -> list[str]:
    if not is_read(exchange):
        return generic.smooth(exchange)
    lines = fold(without_blanks(exchange.lines), similar=False)
    return both_ends(lines, exchange.total_lines, between=_between(lines))


def outline(lines: Sequence[str]) -> list[str]:
    """Return headings and definitions; the first lines if there are none."""
    bare = [found[2] if (found := _NUMBERED.match(line)) else line for line in lines]
    found_lines = [line for line in bare if _HEADING.match(line) or definitions([line])]
    return found_lines or [line for line in bare if line.strip()][:20]


def _between(lines: Sequence[str]) -> str:
    middle = [found[2] if (found := _NUMBERED.match(line)) else line for line in lines[END_LINES:-END_LINES]]
    names = definitions(middle, MAX_OUTLINE)
    return f": {', '.join(names)}" if names else ""


def is_read(exchange: ToolExchange) -> bool:
    """Return whether the exchange only read a file."""
    tool = _key(exchange)
    if "command" in exchange.arguments and tool not in _READS:
        return exchange.arguments["command"] in _READ_COMMANDS
    return tool in _READS or "readfile" in tool


def _key(exchange: ToolExchange) -> str:
    return exchange.tool.lower().replace("_", "").replace("-", "")


def changed_paths(exchange: ToolExchange) -> list[str]:
    """Return the files of a change, by its path or its patch."""
    if path := exchange.path:
        return [path]
    patch = _text(exchange.arguments, _PATCH) or ""
    return diffs.paths_of(patch) or [path for path in exchange.arguments if path and "/" in path]


def change_size(exchange: ToolExchange) -> str:
    """Return `40 lines` or `-3 +5 lines`, with the defined names."""
    arguments = exchange.arguments
    edits = _edits(arguments)
    if edits:
        removed = sum(old.count("\n") + 1 for old, _ in edits if old)
        added = sum(new.count("\n") + 1 for _, new in edits if new)
        names = definitions([line for _, new in edits for line in new.split("\n")[:200]], 3)
        return f"-{removed} +{added} lines{_names(names)}"
    patch = next((text for key in _PATCH if isinstance(text := arguments.get(key), str)), None)
    if patch:
        return diffs.size_of(patch)
    if content := _text(arguments, _CONTENT):
        names = definitions(content.split("\n", 400)[:400], 3)
        return several(content.strip("\n").count("\n") + 1, "line") + _names(names)
    return brief(exchange.output, 80) or "ok"


def _names(names: Sequence[str]) -> str:
    return f" ({', '.join(names)})" if names else ""


def _edits(arguments: Mapping[str, Json]) -> list[tuple[str, str]]:
    """Return the old and new texts of one edit or a list of them."""
    several = arguments.get("edits")
    found = several if isinstance(several, list) else [arguments]
    pairs = [(_text(edit, _OLD), _text(edit, _NEW)) for edit in found if isinstance(edit, Mapping)]
    return [(old, new or "") for old, new in pairs if old is not None]


def _text(arguments: Mapping[str, Json], keys: Sequence[str]) -> str | None:
    return next((value for key in keys if isinstance(value := arguments.get(key), str)), None)
