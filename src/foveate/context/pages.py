"""Turns in pages: each within a number of tokens, dated, and cut where a reader would turn the page. Pure.

A page ends between lines if possible, and never inside a code block or a list item that fits a page by itself. The work
is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from foveate.context.cut import Count, take_head
from foveate.context.tags import (
    MARKED,
    SUMS,
    TagBlock,
    TagEntry,
    closing_text,
    content_text,
    label_text,
    opening_text,
)
from foveate.plan import ShownLevel
from foveate.text import MARK_WORDS
from foveate.turn import turn_id
from foveate.words.grammar import INDENTED_FENCE, ITEM

FRAME_TOKENS = 64
"""Room that each page leaves for the lines around it."""
MIN_PAGE_TOKENS = 32
CHARS_PER_TOKEN = 16
"""Characters per token: more than ordinary text has."""
MAX_PARTS = 20
"""Maximum number of parts in the outline of a long turn."""
PART_CHARS = 60
"""Length to which an outline shortens the name of a part."""

Page: TypeAlias = tuple[TagBlock, ...]
Days: TypeAlias = Mapping[int, str]
"""The date of each turn; of an era, by its first turn, the dates of its first and last one."""
NO_DAYS: Days = MappingProxyType({})

_MARK = re.compile(rf"\[((?:{MARK_WORDS})\b[^\]\n]{{0,{PART_CHARS}}})\]")
_HEADING = re.compile(r"#{1,4} +(\S.*)")


def paginate(blocks: Iterable[TagBlock], page_tokens: int, count: Count, days: Days = NO_DAYS) -> list[Page]:
    """Divide blocks into pages of at most this many tokens, including tags and dates; a long text continues on the
    next page."""
    room = max(page_tokens - FRAME_TOKENS, MIN_PAGE_TOKENS)
    pages: list[list[TagBlock]] = [[]]
    left, day = room, ""
    for block in blocks:
        frame = count(opening_text(block)) + count(closing_text(block))
        measure = _measure(block, count)
        held: list[TagEntry] = []
        for entry in block.entries:
            dated = days.get(entry.number, "")
            date_tokens = count(f"{turn_id(entry.number)} to {turn_id(entry.number)} · {dated}; ") if dated else 0
            for piece in _pieces(entry, room - frame - date_tokens, measure, block.level):
                size = measure(piece)
                cost = size + (0 if held else frame) + (date_tokens if dated != day else 0)
                is_continued = bool(held) and held[-1].number == piece.number
                if (cost > left and (held or pages[-1])) or is_continued:
                    pages[-1] += [replace(block, entries=tuple(held))] if held else []
                    pages.append([])
                    held, left, cost = [], room, size + frame + date_tokens
                held.append(piece)
                left -= cost
                day = dated
        pages[-1] += [replace(block, entries=tuple(held))] if held else []
    return [tuple(page) for page in pages]


def days_line(page: Page, days: Days) -> str:
    """Write the dates of the turns on a page: `T-3 to T-7 · 4 May 2023; T-8 · 5 May 2023`."""
    dated = [
        (entry.number, block.last if block.level in SUMS else entry.number, days[entry.number])
        for block in page
        for entry in block.entries
        if entry.number in days
    ]
    runs = [list(run) for _, run in groupby(dated, key=lambda each: each[2])]
    return "; ".join(f"{_turns(run[0][0], run[-1][1])} · {run[0][2]}" for run in runs) + "\n" if runs else ""


def parts_line(pages: Sequence[Page]) -> str:
    """Write the parts of a long turn, each with the page it begins on: its messages, calls, results and headings."""
    found: list[str] = []
    fence = ""
    for number, page in enumerate(pages, 1):
        for line in (line for block in page for entry in block.entries for line in entry.text.splitlines()):
            fence = _fence_after(fence, line)
            name = "" if fence else _part_name(line)
            if name:
                found.append(f"{name} (page {number})")
    more = f"; {len(found) - MAX_PARTS} more" if len(found) > MAX_PARTS else ""
    return f"Parts: {'; '.join(found[:MAX_PARTS])}{more}\n" if found else ""


def _part_name(line: str) -> str:
    """Return the name of the part that a line begins; empty if it begins none."""
    if mark := _MARK.match(line):
        words = " ".join(line[mark.end() :].split())
        return f"{mark[1]}: {words}"[:PART_CHARS] if words else mark[1]
    heading = _HEADING.match(line)
    return " ".join(heading[1].split())[:PART_CHARS] if heading else ""


def _turns(first: int, last: int) -> str:
    return turn_id(first) if first == last else f"{turn_id(first)} to {turn_id(last)}"


def _measure(block: TagBlock, count: Count) -> Callable[[TagEntry], int]:
    """Return a function that counts the tokens that an entry adds to a block."""
    steps = bool(block.first_step)

    def measure(entry: TagEntry) -> int:
        label = label_text(entry.number, block.level, in_steps=steps) if block.is_range else ""
        return count(label + content_text(entry.text, block.level, in_steps=steps))

    return measure


def _pieces(entry: TagEntry, room: int, measure: Callable[[TagEntry], int], level: ShownLevel) -> Iterator[TagEntry]:
    """Split an entry into pieces that fit the room."""

    def size(text: str) -> int:
        return measure(TagEntry(entry.number, _ended(text, level)))

    start, fence = 0, ""
    # A token has few characters, so a page ends within a window of the text. Each part is counted a few times, not once
    # for every page before it.
    window = max(room, 1) * CHARS_PER_TOKEN
    while True:
        rest = entry.text[start : start + window]
        is_end = start + window >= len(entry.text)
        if is_end and (len(rest) <= 1 or measure(TagEntry(entry.number, rest)) <= room):
            yield TagEntry(entry.number, rest)
            return
        head = take_head(rest, room, size) or rest[:1]
        ending = _page_end(rest, len(head), fence, lambda text: size(text) <= room)
        fence = ending.fence
        yield TagEntry(entry.number, _ended(rest[: ending.place], level))
        start += ending.place


class _PageEnd(NamedTuple):
    """Where a page ends, and the mark of the code block that continues on the next one."""

    place: int
    fence: str


def _page_end(text: str, place: int, fence: str, fits: Callable[[str], bool]) -> _PageEnd:
    """Return the end of a page that may have the first `place` characters of a text, which begins inside this fence.

    It is moved before a list item or a code block that would be cut, if the next page has room for all of it.
    """
    code = item = 0
    for start, line in _lines(text, 0, place):
        if not fence:
            item = start if ITEM.match(line) else 0 if _begins_block(line) else item
        before, fence = fence, _fence_after(fence, line)
        code = start if fence and not before else code
    is_inside = text[place - 1] != "\n" or not _begins_block(text[place : text.find("\n", place) + 1])
    if item and is_inside and fits(text[item : _item_end(text, item)]):
        return _PageEnd(item, "")
    if code and fence and fits(text[code : _code_end(text, code)]):
        return _PageEnd(code, "")
    return _PageEnd(place, fence)


def _lines(text: str, start: int, end: int) -> Iterator[tuple[int, str]]:
    """Yield the lines of a part of a text, each with its place."""
    while start < end:
        newline = text.find("\n", start, end)
        behind = end if newline < 0 else newline + 1
        yield start, text[start:behind]
        start = behind


def _begins_block(line: str) -> bool:
    """Return whether a line continues no list item: it is not indented, or an item itself."""
    return not line[:1].isspace() or not line.strip() or ITEM.match(line) is not None


def _item_end(text: str, item: int) -> int:
    fence = ""
    for start, line in _lines(text, item, len(text)):
        if start > item and not fence and _begins_block(line):
            return start
        fence = _fence_after(fence, line)
    return len(text)


def _code_end(text: str, code: int) -> int:
    fence = ""
    for start, line in _lines(text, code, len(text)):
        fence = _fence_after(fence, line)
        if not fence:
            return start + len(line)
    return len(text)


def _fence_after(fence: str, line: str) -> str:
    """Return the mark of the code block that is open behind a line; empty if none is. A message ends its code."""
    mark = _MARK.match(line)
    if mark:
        fence = ""
    found = INDENTED_FENCE.match(line, mark.end() if mark else 0)
    if not found:
        return fence
    if not fence:
        return found[1]
    return "" if found[1].startswith(fence) and not line[found.end() :].strip() else fence


def _ended(text: str, level: ShownLevel) -> str:
    return text if level not in MARKED or not text or text.endswith("\n") else f"{text}\n"
