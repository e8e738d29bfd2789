"""Directory listings: the folder, the number of entries, and the first names; at S without modes, owners and dates."""

from __future__ import annotations

import re
from collections.abc import Sequence

from foveate.compress.exchange import ToolExchange
from foveate.compress.lines import both_ends, brief_path, fold
from foveate.compress.tools import generic
from foveate.text import several

tools = ("ls", "listdir", "listfiles", "listdirectory", "tree", "dir", "directorytree", "readdir", "listallfiles")

_LONG = re.compile(
    r"^[-dlbcps][-rwxsStT]{9}[.@+]?\s+\d+\s+\S+\s+\S+\s+(?P<size>[\d.,]+[KMGT]?)\s+\S+\s+\S+\s+\S+\s+(?P<name>.+)$"
)
_TOTAL = re.compile(r"^total [\d.,]+[KMGT]?$")
_FIRST_NAMES = 4


def recognises(exchange: ToolExchange) -> bool:
    lines = exchange.lines[:40]
    return len(lines) > 1 and sum(bool(_LONG.match(line) or _TOTAL.match(line)) for line in lines) > len(lines) / 2


def summarise(exchange: ToolExchange) -> str:
    where = brief_path(exchange.argument("path", "dir_path", "directory", "dir", "input") or "")
    return f"{where}: {outcome(exchange)}" if where else outcome(exchange)


def outcome(exchange: ToolExchange) -> str:
    if exchange.failed or not exchange.has_result:
        return generic.outcome(exchange)
    names = [name for line in _short(exchange.lines) if (name := line.strip())]
    shown = ", ".join(brief_path(name, 30) for name in names[:_FIRST_NAMES])
    return f"{several(max(len(names), 0), 'entry', 'entries')}: {shown}{', …' if len(names) > _FIRST_NAMES else ''}"


def key_lines(exchange: ToolExchange) -> list[str]:
    return _short(exchange.lines)


def smooth(exchange: ToolExchange) -> list[str]:
    return both_ends(fold(_short(exchange.lines), similar=False), exchange.total_lines)


def _short(lines: Sequence[str]) -> list[str]:
    """Reduce `ls -l` lines to name and size; others are unchanged."""
    kept: list[str] = []
    for line in lines:
        found = _LONG.match(line)
        if found:
            if found["name"] not in (".", ".."):
                kept.append(f"{found['name']}/" if line[0] == "d" else f"{found['name']} {found['size']}")
        elif not _TOTAL.match(line):
            kept.append(line)
    return kept
