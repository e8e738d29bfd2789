"""Searches: the query, the number of hits and files, and the hits grouped by file."""

from __future__ import annotations

import re
from collections.abc import Sequence

from foveate.compress.exchange import ToolExchange
from foveate.compress.lines import both_ends, brief, brief_path, clip, fold
from foveate.compress.tools import generic
from foveate.text import several

tools: tuple[str, ...] = (
    "grep", "rg", "ripgrep", "searchfiles", "searchfile", "searchdir", "codesearch", "filesearch", "grepsearch",
    "glob", "find", "findfile", "findfiles", "globfilesearch", "codebasesearch", "searchcode", "grepfiles",
)  # fmt: skip

_HIT = re.compile(
    # A log line that begins with its time is no hit: `20:31:07 started`, `2026-11-15T20:31:07 started`.
    r"^(?!\[?(?:\d{4}-\d\d-\d\d[T_])?\d{1,2}:\d\d:\d\d(?:\D|$))(?P<path>(?:[A-Za-z]:)?[^\s:]{1,200}):(?P<line>\d+):(?:\d+:)?(?P<text>.*)$"
)
_NOTHING = re.compile(r"(?i)^(?:no (?:matches|files|results)|0 (?:matches|results))|^$")
_MIN_HITS = 3
_SHARE = 0.8
_NAMED = 2
_CUT = "(…"


def recognises(exchange: ToolExchange) -> bool:
    lines = exchange.lines[:40]
    return len(lines) >= _MIN_HITS and sum(bool(_HIT.match(line)) for line in lines) >= len(lines) * _SHARE


def summarise(exchange: ToolExchange) -> str:
    asked = exchange.argument("pattern", "query", "search_term", "regex", "glob", "input", "file_name", "name")
    shown = f'"{brief(asked, 40)}"' if asked else ""
    where = exchange.argument("path", "dir", "directory", "include", "glob")
    if where and where != asked:
        shown = f"{shown} in {brief_path(where, 40)}".strip()
    return f"{shown}: {outcome(exchange)}" if shown else outcome(exchange)


def outcome(exchange: ToolExchange) -> str:
    """Return `7 hits in 3 files`, or the files themselves if they are few."""
    if not exchange.has_result or (exchange.failed and exchange.exit_code != 1):
        return generic.outcome(exchange)
    hits = _hits(exchange.lines)
    if hits:
        paths = list(dict.fromkeys(path for path, _, _ in hits))
        lead = f": {brief_path(paths[0], 50)}" if len(paths) == 1 else f", first {brief_path(paths[0], 50)}"
        total = len(hits) if not _is_cut(exchange) else exchange.total_lines
        return f"{several(total, 'hit')} in {several(len(paths), 'file')}{lead}"
    found = [line for line in exchange.lines if line.strip() and not _NOTHING.match(line)]
    if not found:
        return "no hits"
    total = len(found) if not _is_cut(exchange) else exchange.total_lines
    if len(found) == 1:
        return brief(found[0], 80)
    if any(" " in line.strip() for line in found[:_MIN_HITS]):
        return several(total, "line")
    named = ", ".join(brief_path(line, 40) for line in found[:_NAMED])
    return f"{several(total, 'file')}: {named}{', …' if len(found) > _NAMED else ''}"


def key_lines(exchange: ToolExchange) -> list[str]:
    return exchange.lines


def smooth(exchange: ToolExchange) -> list[str]:
    """Group the hits under their files, with each path once."""
    lines = exchange.lines
    hits = _hits(lines)
    if len(hits) < len(lines) * _SHARE or not hits:
        return both_ends(fold(lines, similar=False), exchange.total_lines)
    grouped: list[str] = []
    last = ""
    for path, number, text in hits:
        if path != last:
            grouped.append(f"{path}:")
            last = path
        grouped.append(f"{number}: {clip(text.strip(), 200)}")
    return both_ends(grouped, exchange.total_lines)


def _hits(lines: Sequence[str]) -> list[tuple[str, str, str]]:
    matches = (_HIT.match(line) for line in lines)
    return [(match["path"], match["line"], match["text"]) for match in matches if match]


def _is_cut(exchange: ToolExchange) -> bool:
    return exchange.total_lines > len(exchange.lines) + 2 and any(line.startswith(_CUT) for line in exchange.lines)
