"""The block around a line of code, found by indentation alone."""

from __future__ import annotations

from collections.abc import Sequence

TAB_WIDTH = 4
_CLOSES = (")", "]", "}", "end")
_LEADS = ("@", "#", "//", "/*", "*", "--")
"""Starts of lines that belong to the header below them: decorators, attributes and comments."""


def block_lines(lines: Sequence[str], anchor: int, levels: int, limit: int) -> list[int]:
    """The places of the lines to show: the enclosing block, and the header of each block around it.

    `levels` blocks are shown whole, counted from the one that the line opens or is in. Of a block longer than `limit`
    the part around the line is shown.
    """
    depths = _depths(lines)
    headers = _headers(lines, depths, anchor)
    opened = [anchor] if _opens(lines, depths, anchor) else []
    enclosing = [*opened, *headers]
    if not enclosing:
        return list(_window(0, len(lines), anchor, limit))
    whole = enclosing[min(levels, len(enclosing)) - 1]
    start, stop = _start(lines, depths, whole), _stop(lines, depths, whole)
    above = sorted(header for header in headers if header < start)
    return [*above, *_window(start, max(stop, anchor + 1), anchor, max(1, limit - len(above)))]


def _depths(lines: Sequence[str]) -> list[int]:
    """The indentation of each line; a blank one is as deep as the next that is not."""
    depths = [0] * len(lines)
    below = 0
    for place in range(len(lines) - 1, -1, -1):
        line = lines[place].expandtabs(TAB_WIDTH)
        if line.strip():
            below = len(line) - len(line.lstrip())
        depths[place] = below
    return depths


def _headers(lines: Sequence[str], depths: Sequence[int], anchor: int) -> list[int]:
    """The lines that open the blocks around a line, innermost first."""
    found = []
    depth = depths[anchor]
    for place in range(anchor - 1, -1, -1):
        if depth == 0:
            break
        if lines[place].strip() and depths[place] < depth and not lines[place].lstrip().startswith(_CLOSES):
            found.append(place)
            depth = depths[place]
    return found


def _opens(lines: Sequence[str], depths: Sequence[int], place: int) -> bool:
    below = next((other for other in range(place + 1, len(lines)) if lines[other].strip()), None)
    return bool(lines[place].strip()) and below is not None and depths[below] > depths[place]


def _start(lines: Sequence[str], depths: Sequence[int], header: int) -> int:
    """The header with the decorators and comments directly above it."""
    place = header
    while place and depths[place - 1] == depths[header] and lines[place - 1].lstrip().startswith(_LEADS):
        place -= 1
    return place


def _stop(lines: Sequence[str], depths: Sequence[int], header: int) -> int:
    """Behind the last line of the block, a closing bracket included."""
    last = header
    for place in range(header + 1, len(lines)):
        if not lines[place].strip():
            continue
        is_inside = depths[place] > depths[header]
        if not is_inside and not (depths[place] == depths[header] and lines[place].lstrip().startswith(_CLOSES)):
            break
        last = place
    return last + 1


def _window(start: int, stop: int, anchor: int, limit: int) -> range:
    """At most `limit` lines of a block, with the anchor among them."""
    if stop - start <= limit:
        return range(start, stop)
    first = min(max(start, anchor - limit // 2), stop - limit)
    return range(first, first + limit)
