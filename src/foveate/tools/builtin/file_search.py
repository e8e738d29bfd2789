"""`file_search`: files whose path resembles a query."""

from __future__ import annotations

import asyncio
import heapq
import re
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from foveate.text import several
from foveate.tools import ripgrep
from foveate.tools.tool import READ_ONLY, ToolError, tool
from foveate.tools.workspace import Workspace

MAX_FILES = 200_000
MAX_QUERY_CHARS = 200
_BOUNDARY = frozenset("/._- ")


@tool(annotations=READ_ONLY, timeout_seconds=30)
async def file_search(
    workspace: Workspace,
    *,
    query: Annotated[str, "Parts of the path in order, e.g. 'tests conf' or 'srvapp'"],
    path: Annotated[str, "Folder to search below; default: the working folder"] = ".",
    max_results: Annotated[int, Meta(ge=1, le=500, description="Most files to show")] = 20,
) -> str:
    """Find files by a part of their path; letters may be left out. Files that .gitignore names are skipped."""
    words = query[:MAX_QUERY_CHARS].casefold().split()
    if not words:
        raise ToolError("query is empty; give a part of a file's path")
    start = workspace.folder(path)
    arguments = ("--files", *ripgrep.NEVER, "--", workspace.shown(start))
    paths: list[str] = []
    async with ripgrep.running(arguments, workspace.roots[0], b"\0") as records:
        async for record in records:
            paths.append(record.decode("utf-8", "replace").removeprefix("./"))
            if len(paths) == MAX_FILES:
                break
    best = await asyncio.to_thread(rank, paths, words, max_results)
    note = f"(only the first {MAX_FILES:,} files were searched)\n" if len(paths) == MAX_FILES else ""
    if not best:
        return f"(no file among {several(len(paths), 'file')} resembles {query!r})\n{note}"
    return "".join(f"{path}\n" for path in best) + note


def rank(paths: Sequence[str], words: Sequence[str], count: int) -> list[str]:
    """Return the paths that have the letters of every word in order, best first."""
    patterns = [re.compile(".*?".join(map(re.escape, word)), re.DOTALL) for word in words]
    scored = []
    for path in paths:
        folded = path.casefold()
        if all(pattern.search(folded) for pattern in patterns):
            score = sum(_score(folded, word) for word in words)
            scored.append((-score, len(path), path))
    return [path for _, _, path in heapq.nsmallest(count, scored)]


def _score(path: str, word: str) -> float:
    """Return a score: higher for the whole word, for the file name, for starts of words and for adjacent letters."""
    name_start = path.rfind("/") + 1
    name = path[name_start:]
    if name == word or name.partition(".")[0] == word:
        return 100.0
    whole = name.find(word)
    if whole >= 0:
        return 60.0 + 20.0 * (whole == 0) + 10.0 * len(word) / len(name)
    whole = path.rfind(word)
    if whole >= 0:
        return 40.0 + 10.0 * (whole == 0 or path[whole - 1] in _BOUNDARY)
    return max(_loose(path, word, name_start), _loose(path, word, 0))


def _loose(path: str, word: str, start: int) -> float:
    """Return the share of letters that follow the previous one or begin a word, up to 30."""
    place = start - 1
    good = 0
    for letter in word:
        following = path.find(letter, place + 1)
        if following < 0:
            return 0.0
        begins = following == 0 or path[following - 1] in _BOUNDARY
        good += begins or following == place + 1
        place = following
    return 30.0 * good / len(word)
