"""Unified diffs and patches: files, numbers of removed and added lines, and the changed lines."""

from __future__ import annotations

import re

from foveate.compress.exchange import END_CHARS, ToolExchange, definitions
from foveate.compress.lines import both_ends, brief_path, clip
from foveate.compress.tools import generic
from foveate.text import several

tools = ("diff", "gitdiff", "gitshow", "gitdiffunstaged", "gitdiffstaged")

_FILE = re.compile(
    r"^(?:diff --git a/(?P<git>\S+)|\*\*\* (?:Add|Update|Delete) File: (?P<patch>.+)|\+\+\+ (?:b/)?(?P<plain>\S+))",
    re.MULTILINE,
)
_HEADER = re.compile(r"^(?:\+\+\+|---) |^index [0-9a-f]+\.\.|^(?:old|new|deleted|new file) mode |^similarity index ")
_CONTEXT_LINES = 1
"""Unchanged lines kept on either side of a change."""


def recognises(exchange: ToolExchange) -> bool:
    text = exchange.output
    return text.startswith(("diff --git ", "--- a/", "*** Begin Patch")) or (
        "\ndiff --git " in text[:2_000] and "\n@@ " in text
    )


def summarise(exchange: ToolExchange) -> str:
    if exchange.failed or not recognises(exchange):
        return generic.summarise(exchange)
    asked = generic.subject(exchange)
    return f"{asked}: {outcome(exchange)}" if asked else outcome(exchange)


def outcome(exchange: ToolExchange) -> str:
    """Summarise a diff: `2 files, -3 +10 lines: src/a.py, src/b.py`."""
    paths = paths_of(exchange.output)
    shown = ", ".join(brief_path(path, 40) for path in paths[:3])
    return f"{several(len(paths), 'file')}, {size_of(exchange.output)}: {shown}{', …' if len(paths) > 3 else ''}"  # noqa: PLR2004


def key_lines(exchange: ToolExchange) -> list[str]:
    return changed_lines(exchange.output)


def smooth(exchange: ToolExchange) -> list[str]:
    if not recognises(exchange):
        return generic.smooth(exchange)
    return both_ends(narrowed(exchange.lines), exchange.total_lines)


def narrowed(lines: list[str]) -> list[str]:
    """Remove most unchanged text around the changes, and the lines that only git needs."""
    keep = [False] * len(lines)
    in_hunk = False
    for index, line in enumerate(lines):
        if line.startswith("diff --git "):
            in_hunk = False
        if not in_hunk:
            keep[index] = not _HEADER.match(line) or line.startswith("+++ ")
        elif line[:1] in ("+", "-"):
            for near in range(max(index - _CONTEXT_LINES, 0), min(index + _CONTEXT_LINES + 1, len(lines))):
                keep[near] = True
        if line.startswith("@@"):
            in_hunk = True
            keep[index] = True
    return [line for line, kept in zip(lines, keep, strict=True) if kept]


def changed_lines(text: str) -> list[str]:
    """Return file names, and every line added or removed, in the notation of a diff."""
    lines: list[str] = []
    for line in text[: 2 * END_CHARS].split("\n"):
        if line[:1] in ("+", "-") and not line.startswith(("+++", "---")) and line[1:].strip():
            lines.append(clip(line, 200))
        elif found := _FILE.match(line):
            lines.append(found["git"] or found["patch"] or found["plain"])
    return lines


def paths_of(text: str) -> list[str]:
    found = (match["git"] or match["patch"] or match["plain"] for match in _FILE.finditer(text[: 2 * END_CHARS]))
    return [path for path in dict.fromkeys(path.strip() for path in found) if path != "/dev/null"]


def size_of(text: str) -> str:
    """Return `-3 +10 lines`, with the names that the added lines define."""
    lines = text[: 2 * END_CHARS].split("\n")
    added = [line[1:] for line in lines if line.startswith("+") and not line.startswith("+++")]
    removed = sum(line.startswith("-") and not line.startswith("---") for line in lines)
    names = definitions(added, 3)
    return f"-{removed} +{len(added)} lines" + (f" ({', '.join(names)})" if names else "")
