"""Apply hunks to the text of a file, in memory."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
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
"""The comparisons of lines: exact, then without trailing white space, then with all white space collapsed."""


class _Contents:
    """The lines of a file, without their line ends, and a search among them."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self._joined: dict[Callable[[str], str], tuple[str, list[int]]] = {}

    def __len__(self) -> int:
        return len(self.lines)

    def find(
        self, wanted: Sequence[str], start: int, expected: int | None = None, *, at_end: bool = False
    ) -> int | None:
        """Return the first place of these lines, or the one nearest to the expected place."""
        for alike in FUZZ:
            needle = "".join(f"{alike(line)}\n" for line in wanted)
            last = len(self.lines) - len(wanted)
            if at_end and last >= start and self._place(alike, needle, last) == last:
                return last
            first = self._place(alike, needle, start)
            if first is None:
                continue
            if expected is None or expected <= first:
                return first
            places = (first, self._place(alike, needle, expected), self._place_before(alike, needle, start, expected))
            known = (place for place in places if place is not None)
            return min(known, key=lambda place: (abs(place - expected), place))
        return None

    def _place(self, alike: Callable[[str], str], needle: str, start: int) -> int | None:
        text, offsets = self._text(alike)
        found = text.find(f"\n{needle}", offsets[min(start, len(self.lines))] - 1)
        return None if found < 0 else bisect_left(offsets, found + 1)

    def _place_before(self, alike: Callable[[str], str], needle: str, start: int, stop: int) -> int | None:
        text, offsets = self._text(alike)
        end = offsets[min(stop, len(self.lines))] + len(needle)
        found = text.rfind(f"\n{needle}", offsets[start] - 1, end)
        return None if found < 0 else bisect_left(offsets, found + 1)

    def _text(self, alike: Callable[[str], str]) -> tuple[str, list[int]]:
        """Return all lines with a line end before and after each, and where each begins."""
        if alike not in self._joined:
            lines = [alike(line) for line in self.lines]
            offsets = list(accumulate((len(line) + 1 for line in lines), initial=1))
            self._joined[alike] = ("\n" + "".join(f"{line}\n" for line in lines), offsets)
        return self._joined[alike]


def apply_hunks(text: str, hunks: Sequence[Hunk], newline: str) -> str:
    """Return the new text; `PatchError` names the hunk that does not apply, and the nearest match."""
    lines = _LINE.findall(text)
    contents = _Contents([line.removesuffix("\n").removesuffix("\r") for line in lines])
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
    """Build the new lines. Kept lines stay as in the file, even if they matched only by ignoring white space."""
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


def _locate(contents: _Contents, hunk: Hunk, cursor: int, drift: int) -> tuple[int, Hunk] | None:
    """Find the hunk's old lines, at or after the cursor."""
    for start in _starts(contents, hunk, cursor):
        if not hunk.old:
            return _insertion(contents, hunk, start, has_anchor=bool(hunk.anchors)), hunk
        expected = None if hunk.place is None else hunk.place + drift
        for candidate in _variants(hunk):
            place = contents.find(candidate.old, start, expected, at_end=hunk.at_end)
            if place is not None:
                return place, candidate
    return None


def _starts(contents: _Contents, hunk: Hunk, cursor: int) -> Iterator[int]:
    """Yield where to search from: after the last anchor, or at it if the hunk repeats its line."""
    place = cursor
    for anchor in hunk.anchors:
        found = _find_anchor(contents, anchor, place)
        if found is None:
            return
        place = found + 1
    yield place
    if hunk.anchors and hunk.old:
        yield place - 1


def _find_anchor(contents: _Contents, anchor: str, start: int) -> int | None:
    found = contents.find([anchor], start)
    if found is not None:
        return found
    begun = _collapsed(anchor)
    places = range(start, len(contents))
    return next((place for place in places if _collapsed(contents.lines[place]).startswith(begun)), None)


def _variants(hunk: Hunk) -> Iterator[Hunk]:
    """Yield the hunk, and a copy without the empty last line that some patches add at the end of the file."""
    yield hunk
    if len(hunk.old) > 1 and hunk.lines[-1] == (" ", ""):
        yield Hunk(hunk.lines[:-1], hunk.anchors, hunk.place, hunk.at_end, hunk.ends_bare)


def _insertion(contents: _Contents, hunk: Hunk, start: int, *, has_anchor: bool) -> int:
    """Return where lines without context go: after the anchor, to the expected line, or to the end."""
    if has_anchor and not hunk.at_end:
        return start
    if hunk.place is not None:
        return max(start, min(hunk.place, len(contents)))
    return len(contents)


def _problem(contents: _Contents, hunk: Hunk, cursor: int) -> str:
    place = cursor
    for anchor in hunk.anchors:
        found = _find_anchor(contents, anchor, place)
        if found is None:
            return f"no line {anchor!r} after line {place}; {_nearest(contents, [anchor])}"
        place = found + 1
    if hunk.new and (already := contents.find(hunk.new, 0)) is not None:
        return f"the new lines are already there, at line {already + 1}; was the patch applied before?"
    if (earlier := contents.find(hunk.old, 0)) is not None:
        return f"its lines are at line {earlier + 1}, before line {place + 1}; hunks go from top to bottom"
    after = f" after line {place}" if place else ""
    shown = "".join(f"      \t{line}\n" for line in hunk.old[:MAX_SHOWN_LINES])
    more = len(hunk.old) - MAX_SHOWN_LINES
    rest = f"      \t… {more} more lines\n" if more > 0 else ""
    return f"these lines were expected{after} and not found:\n{shown}{rest}{_nearest(contents, hunk.old)}"


def _nearest(contents: _Contents, wanted: Sequence[str]) -> str:
    place = nearest_place(contents.lines, wanted)
    if place is None:
        return "nothing in the file is similar; read it again"
    there = contents.lines[place : place + len(wanted)]
    pairs = zip(map(_collapsed, there), map(_collapsed, wanted), strict=False)
    differing = next((offset for offset, (one, other) in enumerate(pairs) if one != other), len(there))
    first = max(0, min(differing - MAX_SHOWN_LINES // 2, len(there) - MAX_SHOWN_LINES))
    what = f" (the first difference is in line {place + differing + 1})" if differing < len(there) else ""
    return f"the nearest place is{what}:\n{excerpt(contents.lines, place + first, min(len(there), MAX_SHOWN_LINES))}"
