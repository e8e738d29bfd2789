"""Large results: the full text is stored in the file cabinet; the model gets its head, tail, size, hash and key.

The short form is recorded as the tool's result; the log refers to the full text by its hash.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from foveate.context.cut import exceeds, take_head, take_tail
from foveate.errors import StoreError
from foveate.session.cabinet import Cabinet, CabinetEntry
from foveate.text import compact_json
from foveate.tools.tool import Tool, ToolOutput
from foveate.tools.workspace import Workspace

__all__ = ["CABINET_TOOLS", "Cabinet", "CabinetEntry", "preview", "shorten"]

CABINET_TOOLS = ("read_cabinet",)
"""Included in every pack, because any tool's result may be in the cabinet."""
PREVIEW_SHARE = 0.25
MAX_PREVIEW_TOKENS = 1_000
"""Upper limit of a preview, which otherwise is a share of the tool's limit."""
HEAD_SHARE = 0.7
CHARS_PER_TOKEN = 16
"""Above the characters per token of ordinary text."""
MAX_SOURCE_CHARS = 300
Count = Callable[[str], int]
_log = logging.getLogger(__name__)


async def shorten(output: ToolOutput, tool: Tool, arguments: Mapping[str, Any], workspace: Workspace) -> ToolOutput:
    """Return the output, or a short form if it exceeds the tool's limit; the cabinet then stores the full output."""
    limit, session = tool.max_output_tokens, workspace.session
    if limit is None or session is None:
        return output
    count = session.counter.count
    if len(output.text) <= limit or not await asyncio.to_thread(exceeds, output.text, limit, count):
        return output
    data = output.text.encode("utf-8", "surrogatepass")
    source = f"{tool.name} {compact_json(arguments)}"[:MAX_SOURCE_CHARS]
    try:
        entry = await session.cabinet.file(data, name=f"{tool.name} result", source=source)
    except StoreError as error:  # then the log has the full text as the result itself
        _log.warning("a result of %s could not be filed and is returned whole: %s", tool.name, error)
        return output
    room = min(MAX_PREVIEW_TOKENS, int(limit * PREVIEW_SHARE))
    return replace(output, text=await asyncio.to_thread(preview, output.text, entry, room, count))


def preview(text: str, entry: CabinetEntry, max_tokens: int, count: Count) -> str:
    """Return the head and the tail of a text in at most this many tokens, and where its full text is."""
    window = max_tokens * CHARS_PER_TOKEN
    if len(text) <= window and count(text) <= max_tokens:
        shown = text if text.endswith("\n") or not text else f"{text}\n"
        return f"{shown}{_where(entry, text, is_whole=True)}"
    head = take_head(text[:window], int(max_tokens * HEAD_SHARE), count)
    tail = take_tail(text[max(len(head), len(text) - window) :], max_tokens - count(head), count)
    left = len(text) - len(head) - len(tail)
    gap = f"… ({left:,} characters left out) …"
    behind = "" if head.endswith("\n") or not head else "\n"
    ending = "" if tail.endswith("\n") or not tail else "\n"
    return f"{head}{behind}{gap}\n{tail}{ending}{_where(entry, text, is_whole=False)}"


def _where(entry: CabinetEntry, text: str, *, is_whole: bool) -> str:
    lines = len(text.splitlines())
    reads = "" if is_whole else f'read_cabinet("{entry.key}", first_line, lines) reads more; '
    return (
        f"[In the file cabinet as {entry.key}: {entry.size:,} bytes, {lines:,} lines, sha256 {entry.sha256}. "
        f'{reads}write_from_cabinet("{entry.key}", path) writes it to a file.]\n'
    )
