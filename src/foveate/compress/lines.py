"""Operations on lines that all compressors share: clip them, fold repetitions, keep both ends, find the error."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

LINE_CHARS = 400
"""A longer line is clipped in its middle."""
END_LINES = 50
"""Number of first and of last lines that a smoothed output keeps."""
KEY_LINES = 60
SUMMARY_CHARS = 130
"""Maximum characters of a summary, about 40 tokens."""
MIN_RUN = 4
"""Minimum number of similar lines in a row that are folded."""

PLACE_LINES, PLACE_CHARS = 6, 40
"""Lines behind and before an error among which its place is searched, and the maximum length of its path."""

_VARYING = re.compile(r"\b(?:0x)?[0-9a-fA-F]{6,}\b|\d+")
_ERROR = re.compile(
    r"\b(?:[A-Z]\w*)?(?:Error|Exception|Failure)\b(?!s? ?[:=]? ?0\b)"
    r"|(?i:^\W{0,12}(?:\[?error\]?|fatal|panic(?:ked)?|fail(?:ed|ure)?|not ok)\b(?!s? ?[:=]? ?0\b))"
    r"|^\s{0,12}[✗✘✖❌] "
    r"|\berror(?:\[\w+\]| TS\d+)?:|(?i:\b(?:command not found|no such file|permission denied|not recognized|timed out"
    r"|cannot |could not |couldn't |segmentation fault|killed|undefined reference|unhandled))"
)
_ERROR_HINTS = (
    "error", "exception", "fail", "fatal", "panic", "not ok", "not found", "no such", "denied", "not recog",
    "timed out", "cannot", "could", "segm", "killed", "undefined", "unhandled", "✗", "✘", "✖", "❌",
)  # fmt: skip
"""Each line that names an error has one of these: most lines need no pattern."""
_NO_ERROR = re.compile(r"(?i)\b(?:warning|note|info|hint|help|debug)\b")
_PLACE = re.compile(
    r"""(?:File "([^"]{1,300})", line (\d{1,7}))|([^\s:()"'\[\]=,]{1,300}\.\w{1,8})[:(](\d{1,7})(?!\w)"""
)
_FOREIGN = re.compile(r"(?:^|/)(?:usr|lib|std|site-packages|node_modules|\.cargo|rustc)/|^<")
"""Places in a library rather than in the project."""
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
    return list(_errors(lines))


def _errors(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        lower = line.lower()
        if any(hint in lower for hint in _ERROR_HINTS) and len(line) < 4 * LINE_CHARS and _ERROR.search(line):
            yield line


def first_error(lines: Sequence[str]) -> str | None:
    """Return the line that names what went wrong: a traceback's last, else the first that names an error."""
    return next(_named(lines), None)


def _named(lines: Sequence[str]) -> Iterator[str]:
    for index, line in enumerate(lines):
        if line.startswith("Traceback (most recent call last)"):
            end = next((later for later in lines[index + 1 :] if later and not later[0].isspace()), None)
            if end:
                yield end.strip()
                break
    yield from (line.strip() for line in _errors(lines))


def placed_error(lines: Sequence[str], limit: int, *, skip: Callable[[str], object] | None = None) -> str | None:
    """Return the first error, behind its place if the output has one: `main.go:12: undefined: total`.

    Lines that `skip` accepts, such as a summary of counts, name no error.
    """
    error = next((line for line in _named(lines) if not skip or not skip(line)), None)
    at = next((index for index, line in enumerate(lines) if error is not None and line.strip() == error), 0)
    place = _place_in(error or "")
    if not place and (led := next((line for line in lines[: at if error else None] if _leads(line)), None)):
        return brief(led, limit)
    place = place or (_place_near(lines, at) if error else "")
    if error is None:
        return None
    is_placed = not place or place in error.replace("(", ":")
    return brief(error if is_placed else f"{place}: {error}", limit)


def _leads(line: str) -> bool:
    """Return whether a line begins with a place and is no warning: `src/a.py:3:8: F401 unused import`."""
    return bool(_PLACE.match(line)) and not _NO_ERROR.search(line)


def _place_near(lines: Sequence[str], at: int) -> str:
    """Return the place of the error in a line, behind it or before it; one in a library is the last choice."""
    behind, before = lines[at : at + PLACE_LINES + 1], lines[max(0, at - PLACE_LINES) : at]
    places = [place for line in (*behind, *reversed(before)) if (place := _place_in(line))]
    return next((place for place in places if not _FOREIGN.search(place)), places[0] if places else "")


def _place_in(line: str) -> str:
    found = _PLACE.search(line[:LINE_CHARS])
    if not found:
        return ""
    path, number = (found[1], found[2]) if found[1] else (found[3], found[4])
    if len(path) > PLACE_CHARS:
        path = path[-PLACE_CHARS:].partition("/")[2] or path[-PLACE_CHARS:]
    return f"{path}:{number}"


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
