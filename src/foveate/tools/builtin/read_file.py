"""`read_file`: lines of a text file, by range or as the block around a line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated, BinaryIO, Literal, NamedTuple

from msgspec import Meta

from foveate.tools.files import (
    HEAD_BYTES,
    binary_problem,
    decode_text,
    encoding_of,
    file_errors,
    open_file,
    split_lines,
)
from foveate.tools.tool import READ_ONLY, ToolError, tool
from foveate.tools.workspace import Workspace

MAX_LINES = 10_000
MAX_LINE_BYTES = 2_000
"""The rest of a longer line is omitted."""
MAX_OUTPUT_BYTES = 1_000_000
CHUNK_BYTES = 1 << 20
TAB_WIDTH = 4
_CLOSES = (")", "]", "}", "end")
_LEADS = ("@", "#", "//", "/*", "*", "--")
"""Starts of lines that belong to the header below them: decorators, attributes and comments."""


class NumberedLines(NamedTuple):
    """Lines without their line ends, and the number of the next line if there are more."""

    texts: Sequence[bytes]
    next_line: int | None


@tool(annotations=READ_ONLY)
def read_file(
    workspace: Workspace,
    *,
    path: Annotated[str, "File"],
    first_line: Annotated[int, Meta(ge=1, description="First line, from 1; with mode=indentation the line inside")] = 1,
    lines: Annotated[int, Meta(ge=1, le=MAX_LINES, description="Most lines to read")] = 2_000,
    mode: Annotated[
        Literal["lines", "indentation"], "indentation: the function or block around first_line, with its headers"
    ] = "lines",
    levels: Annotated[int, Meta(ge=1, le=20, description="With mode=indentation: enclosing blocks shown whole")] = 1,
) -> str:
    """Read a text file with line numbers. A range of a file of any size can be read."""
    found = workspace.path(path)
    with open_file(found, path) as opened, file_errors(path):
        size = os.fstat(opened.fileno()).st_size
        head = opened.read(HEAD_BYTES)
        encoding = encoding_of(head)
        if encoding is None:
            raise ToolError(binary_problem(path, head, size))
        if not head:
            return "(empty file)\n"
        opened.seek(0)
        if mode == "lines" and encoding != "utf-16":
            return _numbered(_range(opened, first_line, lines, path), first_line)
        limit = workspace.settings.max_file_bytes
        if size > limit:
            raise ToolError(f"{path} has {size:,} bytes, more than {limit:,}; read a range with mode=lines")
        texts = split_lines(decode_text(opened.read(limit), path).text)
    if first_line > len(texts):
        raise ToolError(f"{path} has {len(texts):,} lines; first_line is {first_line:,}")
    if mode == "indentation":
        return _shown(block_lines(texts, first_line - 1, levels, lines), texts)
    chosen = range(first_line - 1, min(len(texts), first_line - 1 + lines))
    return _shown(chosen, texts) + _more(chosen.stop + 1 if chosen.stop < len(texts) else None)


def _range(opened: BinaryIO, first_line: int, count: int, given: str) -> NumberedLines:
    """Read the lines of a range. Earlier lines are counted in chunks; a long line is never loaded completely."""
    before = _skip(opened, first_line - 1)
    texts: list[bytes] = []
    room = MAX_OUTPUT_BYTES
    while len(texts) < count and room > 0:
        line = opened.readline(MAX_LINE_BYTES)
        if not line:
            break
        texts.append(_whole_line(opened, line))
        room -= len(texts[-1])
    if not texts:
        raise ToolError(f"{given} has {before:,} lines; first_line is {first_line:,}")
    return NumberedLines(texts, first_line + len(texts) if opened.read(1) else None)


def _skip(opened: BinaryIO, count: int) -> int:
    """Skip this many lines; return the number of lines if there are fewer."""
    passed = 0
    last = b"\n"
    while passed < count and (chunk := opened.read(CHUNK_BYTES)):
        here = chunk.count(b"\n")
        if passed + here >= count:
            place = -1
            for _ in range(count - passed):
                place = chunk.index(b"\n", place + 1)
            opened.seek(place + 1 - len(chunk), os.SEEK_CUR)
            return count
        passed += here
        last = chunk[-1:]
    return passed + (last != b"\n")


def _whole_line(opened: BinaryIO, start: bytes) -> bytes:
    """Return a line without its line end; of a long one, the start and how much follows."""
    if start.endswith(b"\n") or len(start) < MAX_LINE_BYTES:
        return start.rstrip(b"\r\n")
    more = 0
    while rest := opened.readline(CHUNK_BYTES):
        more += len(rest.rstrip(b"\r\n"))
        if rest.endswith(b"\n"):
            break
    return start.decode("utf-8", "ignore").encode() + f" … {more:,} more bytes".encode() if more else start


def _numbered(found: NumberedLines, first_line: int) -> str:
    try:
        texts = [line.decode("utf-8") for line in found.texts]
        note = ""
    except UnicodeDecodeError:
        texts = [line.decode("latin-1") for line in found.texts]
        note = "(not UTF-8; read as Latin-1)\n"
    texts[0] = texts[0].removeprefix("\ufeff")
    body = "".join(f"{number:>6}\t{text}\n" for number, text in enumerate(texts, first_line))
    return body + note + _more(found.next_line)


def _more(next_line: int | None) -> str:
    return f"(more lines follow; read on with first_line={next_line})\n" if next_line else ""


def _shown(chosen: Sequence[int], texts: Sequence[str]) -> str:
    """Return the chosen lines, with a marker where lines between them are omitted."""
    shown = []
    for place, number in enumerate(chosen):
        if place and number != chosen[place - 1] + 1:
            shown.append("     …\n")
        line = texts[number]
        more = len(line) - MAX_LINE_BYTES
        text = f"{line[:MAX_LINE_BYTES]} … {more:,} more characters" if more > 0 else line
        shown.append(f"{number + 1:>6}\t{text}\n")
    return "".join(shown)


def block_lines(lines: Sequence[str], anchor: int, levels: int, limit: int) -> list[int]:
    """Return the indexes of the lines to show: the enclosing block, and the header of each block around it.

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
    """Return the indentation of each line; a blank line has that of the next line that is not blank."""
    depths = [0] * len(lines)
    below = 0
    for place in range(len(lines) - 1, -1, -1):
        line = lines[place].expandtabs(TAB_WIDTH)
        if line.strip():
            below = len(line) - len(line.lstrip())
        depths[place] = below
    return depths


def _headers(lines: Sequence[str], depths: Sequence[int], anchor: int) -> list[int]:
    """Return the lines that open the blocks around a line, innermost first."""
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
    """Return the first line of a header, including the decorators and comments directly above it."""
    place = header
    while place and depths[place - 1] == depths[header] and lines[place - 1].lstrip().startswith(_LEADS):
        place -= 1
    return place


def _stop(lines: Sequence[str], depths: Sequence[int], header: int) -> int:
    """Return the index after the last line of the block, including a closing bracket."""
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
    """Return at most `limit` lines of a block, including the anchor."""
    if stop - start <= limit:
        return range(start, stop)
    first = min(max(start, anchor - limit // 2), stop - limit)
    return range(first, first + limit)
