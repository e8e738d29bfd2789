"""Hunks applied to the text of a file, in memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from foveate.tools.files import excerpt, nearest_place
from foveate.tools.patch.changes import Hunk, PatchError

MAX_SHOWN_LINES = 12
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


class _Replacement(NamedTuple):
    start: int
    stop: int
    lines: list[str]


def _exact(line: str) -> str:
    return line


def _collapsed(line: str) -> str:
    return " ".join(line.split())


FUZZ: tuple[Callable[[str], str], ...] = (_exact, str.rstrip, _collapsed)
"""How lines are compared: as they are, then without white space at the end, then with all white space alike."""


def apply_hunks(text: str, hunks: Sequence[Hunk], newline: str) -> str:
    """The new text; `PatchError` says which hunk does not apply, and where it is nearest."""
    lines = _LINE.findall(text)
    contents = [line.removesuffix("\n").removesuffix("\r") for line in lines]
    done: list[_Replacement] = []
    cursor = drift = 0
    for number, hunk in enumerate(hunks, 1):
        found = _locate(contents, hunk, cursor, drift)
        if found is None:
            raise PatchError(f"hunk {number} of {len(hunks)}: {_problem(contents, hunk, cursor)}")
        start, trimmed = found
        stop = start + len(trimmed.old)
        done.append(_Replacement(start, stop, _replacement(lines[start:stop], trimmed, newline)))
        drift = start - hunk.place if hunk.place is not None else 0
        cursor = stop
    return _join(lines, done, newline, ends_bare=any(hunk.ends_bare for hunk in hunks))


def _replacement(old: Sequence[str], hunk: Hunk, newline: str) -> list[str]:
    """Kept lines stay as the file has them, also where they were found only by ignoring white space."""
    kept = iter(old)
    new = []
    for mark, text in hunk.lines:
        if mark == "+":
            new.append(text + newline)
        else:
            line = next(kept)
            new += [line] if mark == " " else []
    return new


def _join(lines: Sequence[str], done: Sequence[_Replacement], newline: str, *, ends_bare: bool) -> str:
    result: list[str] = []
    place = 0
    for start, stop, new in done:
        result += [*lines[place:start], *new]
        place = stop
    reaches_end = bool(done) and done[-1].stop == len(lines)
    result += lines[place:]
    whole = [line if line.endswith("\n") else line + newline for line in result[:-1]]
    last = result[-1] if result else ""
    if ends_bare and reaches_end:
        last = last.removesuffix("\n").removesuffix("\r")
    return "".join([*whole, last])


def _locate(contents: Sequence[str], hunk: Hunk, cursor: int, drift: int) -> tuple[int, Hunk] | None:
    """Where the hunk's old lines are, at or after the cursor."""
    for start in _starts(contents, hunk, cursor):
        if not hunk.old:
            return _insertion(contents, hunk, start, has_anchor=bool(hunk.anchors)), hunk
        expected = None if hunk.place is None else hunk.place + drift
        for candidate in _variants(hunk):
            place = _find(contents, candidate.old, start, expected, at_end=hunk.at_end)
            if place is not None:
                return place, candidate
    return None


def _starts(contents: Sequence[str], hunk: Hunk, cursor: int) -> Iterator[int]:
    """Where to search from: behind the last anchor, or at it, if the hunk repeats its line."""
    place = cursor
    for anchor in hunk.anchors:
        found = _find_anchor(contents, anchor, place)
        if found is None:
            return
        place = found + 1
    yield place
    if hunk.anchors and hunk.old:
        yield place - 1


def _find_anchor(contents: Sequence[str], anchor: str, start: int) -> int | None:
    found = _find(contents, [anchor], start, None, at_end=False)
    if found is not None:
        return found
    begun = _collapsed(anchor)
    return next((place for place in range(start, len(contents)) if _collapsed(contents[place]).startswith(begun)), None)


def _variants(hunk: Hunk) -> Iterator[Hunk]:
    """The hunk, and without an empty last line, which some patches have for the end of the file."""
    yield hunk
    if len(hunk.old) > 1 and hunk.lines[-1] == (" ", ""):
        yield Hunk(hunk.lines[:-1], hunk.anchors, hunk.place, hunk.at_end, hunk.ends_bare)


def _insertion(contents: Sequence[str], hunk: Hunk, start: int, *, has_anchor: bool) -> int:
    """Lines without context go behind the anchor, to the expected line, or to the end."""
    if has_anchor and not hunk.at_end:
        return start
    if hunk.place is not None:
        return max(start, min(hunk.place, len(contents)))
    return len(contents)


def _find(contents: Sequence[str], old: Sequence[str], start: int, expected: int | None, *, at_end: bool) -> int | None:
    for alike in FUZZ:
        wanted = [alike(line) for line in old]
        last = len(contents) - len(wanted)
        if at_end and last >= start and [alike(line) for line in contents[last:]] == wanted:
            return last
        places = list(_places(contents, wanted, start, alike))
        if places:
            return places[0] if expected is None else min(places, key=lambda place: abs(place - expected))
    return None


def _places(contents: Sequence[str], wanted: Sequence[str], start: int, alike: Callable[[str], str]) -> Iterator[int]:
    have = [alike(line) for line in contents]
    first = wanted[0]
    for place in range(start, len(have) - len(wanted) + 1):
        if have[place] == first and have[place : place + len(wanted)] == wanted:
            yield place


def _problem(contents: Sequence[str], hunk: Hunk, cursor: int) -> str:
    place = cursor
    for anchor in hunk.anchors:
        found = _find_anchor(contents, anchor, place)
        if found is None:
            return f"no line {anchor!r} after line {place}" + _nearest(contents, [anchor])
        place = found + 1
    if hunk.new and (already := _find(contents, hunk.new, 0, None, at_end=False)) is not None:
        return f"the new lines are already there, at line {already + 1}; was the patch applied before?"
    if (earlier := _find(contents, hunk.old, 0, None, at_end=False)) is not None:
        return f"its lines are at line {earlier + 1}, before line {place + 1}; hunks go from top to bottom"
    expected = "".join(f"      \t{line}\n" for line in hunk.old[:MAX_SHOWN_LINES])
    after = f" after line {place}" if place else ""
    return f"these lines were expected{after} and not found:\n{expected}" + _nearest(contents, hunk.old)


def _nearest(contents: Sequence[str], wanted: Sequence[str]) -> str:
    place = nearest_place(contents, wanted)
    if place is None:
        return "nothing in the file is similar; read it again"
    return f"the nearest place is:\n{excerpt(contents, place, min(len(wanted), MAX_SHOWN_LINES))}"
