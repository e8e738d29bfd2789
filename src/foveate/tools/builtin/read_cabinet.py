"""`read_cabinet`: lines of a content in the file cabinet."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from foveate.session.cabinet import Cabinet
from foveate.tools.tool import READ_ONLY, ToolError, tool
from foveate.tools.workspace import Workspace

MAX_CHARS = 30_000
"""Characters of one answer; another call reads the rest."""
MAX_MATCHES = 20
MAX_LISTED = 20
SHOWN_MATCH_CHARS = 200


@tool(annotations=READ_ONLY, max_output_tokens=None)
async def read_cabinet(
    workspace: Workspace,
    key: Annotated[str, "Key of the content, e.g. f-1a2b3c4d5e6f. Without one, the keys are listed"] = "",
    first_line: Annotated[int, Meta(ge=1, description="First line to read or search, from 1")] = 1,
    lines: Annotated[int, Meta(ge=1, le=2_000, description="Number of lines")] = 200,
    find: Annotated[str, "Show the lines with these words instead, with their numbers"] = "",
) -> str:
    """Read lines of a large result or a fetched page in the file cabinet, or find lines in it."""
    cabinet = workspace.require_cabinet()
    if not key:
        return await _listed(cabinet)
    if find:
        most = min(lines, MAX_MATCHES)
        found = await cabinet.find(key, find, most + 1, first_line=first_line)
        shown = "".join(f"{number}: {line.strip()[:SHOWN_MATCH_CHARS]}\n" for number, line in found[:most])
        more = f"[More lines have {find!r}: first_line={found[most][0]}]\n" if len(found) > most else ""
        return f"{shown}{more}" or f"No line of {key} has {find!r}.\n"
    excerpt = await cabinet.excerpt(key, first_line, lines)
    if not excerpt.last_line:
        raise ToolError(f"{key} has {excerpt.total_lines:,} lines; there is no line {first_line:,}")
    text, last = excerpt.text, excerpt.last_line
    if len(text) > MAX_CHARS:
        text = text[: text.rindex("\n", 0, MAX_CHARS) + 1]
        last = first_line + text.count("\n") - 1
    more = f"[Next: first_line={last + 1}]\n" if last < excerpt.total_lines else ""
    return f"[{key}, lines {first_line:,} to {last:,} of {excerpt.total_lines:,}]\n{text}{more}"


async def _listed(cabinet: Cabinet) -> str:
    entries = await cabinet.list()
    lines = [
        f"{entry.key} {entry.name}, {entry.media_type}, {entry.size:,} bytes, until {entry.expires:%Y-%m-%d}"
        f"{f', from {entry.source}' if entry.source else ''}\n"
        for entry in entries[:MAX_LISTED]
    ]
    more = len(entries) - MAX_LISTED
    return "".join(lines) + (f"… and {more:,} older\n" if more > 0 else "") or "The file cabinet is empty.\n"
