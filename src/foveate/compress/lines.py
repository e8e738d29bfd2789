"""Operations on lines that all compressors share: clip them, fold repetitions, keep both ends, find the error."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

LINE_CHARS = 400
"""A longer line is clipped in its middle."""
END_LINES = 50
"""Number of first and of last lines that a smoothed output keeps."""
KEY_LINES = 60
SUMMARY_CHARS = 130
"""Maximum characters of a summary, about 40 tokens."""
MIN_RUN = 4
"""Minimum number of similar lines in a row that are folded."""

_VARYING = re.compile(r"\b(?:0x)?[0-9a-fA-F]{6,}\b|\d+")
_ERROR = re.compile(
    r"\b(?:[A-Z]\w*)?(?:Error|Exception|Failure)\b(?!s? ?[:=]? ?0\b)"
    r"|(?i:^\W{0,12}(?:\[?error\]?|fatal|panic(?:ked)?|fail(?:ed|ure)?)\b(?!s? ?[:=]? ?0\b))"
    r"|\berror(?:\[\w+\]| TS\d+)?:|(?i:\b(?:command not found|no such file|permission denied|not recognized|timed out"
    r"|cannot |could not |couldn't |segmentation fault|killed|undefined reference|unhandled))"
)
_WARNING = re.compile(r"(?i)\bwarn(?:ing)?\b|\bdeprecat")


def clip(text: str, limit: int = LINE_CHARS) -> str:
    """Clip the text to one line within the limit; if it is too long, its length replaces the middle."""
    if len(text) <= limit:
        return text
    tail = limit // 5
    left_out = f" (… {len(text) - limit + tail:,} characters) "
    head = max(limit - tail - len(left_out), limit // 3)
    left_out = f" (… {len(text) - head - tail:,} characters) "
    return f"{text[:head].rstrip()}{left_out}{text[-tail:].lstrip()}"


def brief(text: str, limit: int) -> str:
    """Return the text's first words within the limit, with single spaces."""
    text = " ".join(text[: 4 * limit].split())
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def brief_path(path: str, limit: int = 60) -> str:
    """Shorten a path at its beginning, since its end is more informative."""
    path = " ".join(path[-4 * limit :].split())
    return path if len(path) <= limit else "…" + path[-limit + 1 :]


def fold(lines: Sequence[str], *, similar: bool = True) -> list[str]:
    """Fold runs of the same line (or of lines that differ only in numbers) to the first, a count and the last."""
    folded: list[str] = []
    start = 0
    shapes = [_VARYING.sub("0", line[:LINE_CHARS]) for line in lines] if similar else lines
    while start < len(lines):
        end = start + 1
        while end < len(lines) and shapes[end] == shapes[start]:
            end += 1
        run = end - start
        if run < MIN_RUN or not lines[start].strip():
            folded.extend(lines[start:end] if lines[start].strip() else [""])
        elif lines[start] == lines[end - 1]:
            folded += [lines[start], f"(… {run - 1} same lines)"]
        else:
            folded += [lines[start], f"(… {run - 2} similar lines)", lines[end - 1]]
        start = end
    return folded


def both_ends(lines: Sequence[str], total: int | None = None, *, ends: int = END_LINES, between: str = "") -> list[str]:
    """Return the first and last lines, each clipped, with the total between them; `between` describes the gap."""
    total = len(lines) if total is None else total
    if len(lines) <= 2 * ends + 1:
        return [clip(line) for line in lines]
    note = f"(… {len(lines) - 2 * ends} of {total} lines left out{between})"
    return [*map(clip, lines[:ends]), note, *map(clip, lines[-ends:])]


def without_blanks(lines: Iterable[str]) -> list[str]:
    """Limit empty lines to one in a row."""
    kept: list[str] = []
    for line in lines:
        if line.strip() or (kept and kept[-1]):
            kept.append(line if line.strip() else "")
    return kept


def error_lines(lines: Iterable[str]) -> list[str]:
    return [line for line in lines if len(line) < 4 * LINE_CHARS and _ERROR.search(line)]


def first_error(lines: Sequence[str]) -> str | None:
    """Return the line that names what went wrong: a traceback's last, else the first that names an error."""
    for index, line in enumerate(lines):
        if line.startswith("Traceback (most recent call last)"):
            end = next((later for later in lines[index + 1 :] if later and not later[0].isspace()), None)
            if end:
                return end.strip()
    found = error_lines(lines)
    return found[0].strip() if found else None


def warning_lines(lines: Iterable[str]) -> list[str]:
    return [line for line in lines if len(line) < 4 * LINE_CHARS and _WARNING.search(line)]


def pick(lines: Iterable[str], limit: int = KEY_LINES) -> list[str]:
    """Return candidate lines: clipped, stripped, none empty, none twice, up to the limit."""
    picked: dict[str, None] = {}
    for line in lines:
        short = clip(line.strip(), LINE_CHARS // 2)
        if short:
            picked.setdefault(short)
        if len(picked) >= limit:
            break
    return list(picked)
