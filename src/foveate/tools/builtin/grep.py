"""`grep`: lines of files that match a regular expression."""

from __future__ import annotations

import re
from typing import Annotated, NamedTuple

from msgspec import Meta

from foveate.text import several
from foveate.tools import ripgrep
from foveate.tools.tool import READ_ONLY, ToolError, tool
from foveate.tools.workspace import Workspace

MAX_COLUMNS = 500
"""Bytes of a line that are shown."""
_PLACE = re.compile(r"(\d+)([:-])(.*)", re.DOTALL)


class Found(NamedTuple):
    """A line of ripgrep's output: a match, or context around one."""

    path: str
    number: str
    is_match: bool
    text: str


@tool(annotations=READ_ONLY, timeout_seconds=30)
async def grep(
    workspace: Workspace,
    *,
    pattern: Annotated[str, "Regular expression, as ripgrep takes it"],
    path: Annotated[str, "Folder or file; default: the working folder"] = ".",
    glob: Annotated[str | None, "Only files with such names, e.g. *.py or src/**/*.ts"] = None,
    ignore_case: Annotated[bool, "Upper and lower case match each other"] = False,
    literal: Annotated[bool, "The pattern is plain text"] = False,
    context_lines: Annotated[int, Meta(ge=0, le=20, description="Lines to show around each match")] = 0,
    files_only: Annotated[bool, "Only the names of files with a match"] = False,
    max_results: Annotated[int, Meta(ge=1, le=2_000, description="Most matches to show")] = 200,
) -> str:
    """Search the content of files with ripgrep. Files that .gitignore names and binary files are skipped."""
    start = workspace.path(path)
    if not start.exists():
        raise ToolError(f"{path} does not exist; list_dir shows what there is")
    if not (start.is_file() or start.is_dir()):  # ripgrep would wait for a pipe
        raise ToolError(f"{path} is neither a file nor a folder")
    if not pattern:
        raise ToolError("pattern is empty; give a regular expression")
    flags = ["--files-with-matches"] if files_only else ["--line-number", "--no-heading", "--with-filename"]
    flags += ["--ignore-case"] if ignore_case else []
    flags += ["--fixed-strings"] if literal else []
    flags += ["--glob", glob] if glob else []
    flags += [f"--context={context_lines}", f"--max-columns={MAX_COLUMNS}", "--max-columns-preview"]
    root = workspace.roots[0]
    arguments = (*flags, *ripgrep.NEVER, "--regexp", pattern, "--", workspace.shown(start))
    shown: list[str] = []
    matches = 0
    async with ripgrep.running(arguments, root, b"\0" if files_only else b"\n") as records:
        async for record in records:
            line = record.decode("utf-8", "replace")
            found = Found(line, "", True, "") if files_only else _parse(line)
            matches += found.is_match
            if matches > max_results:
                shown.append(f"… more than {several(max_results, 'match', 'matches')}; narrow the pattern or the path")
                break
            shown.append(_shown(found))
    return "\n".join(shown) + "\n" if shown else "(no matches)\n"


def _parse(line: str) -> Found:
    path, separator, rest = line.partition("\0")
    place = _PLACE.fullmatch(rest)
    if not separator or place is None:
        return Found("", "", False, line)  # a line between groups, or a note about a binary file
    return Found(path.removeprefix("./"), place[1], place[2] == ":", place[3].rstrip("\r"))


def _shown(found: Found) -> str:
    if not found.number:
        return found.path.removeprefix("./") or found.text
    mark = ":" if found.is_match else "-"
    return f"{found.path}{mark}{found.number}{mark}{found.text}"
