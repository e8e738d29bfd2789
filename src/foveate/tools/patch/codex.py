"""Codex's format.

*** Begin Patch
*** Update File: src/app.py
*** Move to: src/server.py
@@ def main():
     port = read_port()
-    serve(8443)
+    serve(port)
*** Add File: notes.md
+Ports are read from the settings.
*** Delete File: old.py
*** End Patch
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from foveate.tools.patch.changes import FilePatch, Hunk, PatchError, PatchLine

BEGIN = "*** Begin Patch"
_END = "*** End Patch"
_ADD = "*** Add File: "
_DELETE = "*** Delete File: "
_UPDATE = "*** Update File: "
_MOVE = "*** Move to: "
_END_OF_FILE = "*** End of File"
_NUMBERS = re.compile(r"-\d+(?:,\d+)? \+\d+(?:,\d+)? @@ ?")
"""Line numbers as unified diffs have them, which this format does without."""


def parse_codex(text: str) -> list[FilePatch]:
    """The changes that a patch lists; `PatchError` names the line that can't be read."""
    lines = text.replace("\r\n", "\n").split("\n")
    first = next(place for place, line in enumerate(lines) if line.strip() == BEGIN)
    last = next((place for place in range(len(lines) - 1, first, -1) if lines[place].strip() == _END), None)
    if last is None:
        raise PatchError(f"the patch does not end with {_END!r}: it seems to be cut off")
    changes = []
    place = first + 1
    while place < last:
        stop = next((other for other in range(place + 1, last) if _starts_file(lines[other])), last)
        if lines[place].strip():
            changes.append(_read_file(lines[place], lines[place + 1 : stop], place + 1))
            place = stop
        else:
            place += 1
    return changes


def _starts_file(line: str) -> bool:
    return line.startswith((_ADD, _DELETE, _UPDATE))


def _read_file(header: str, body: Sequence[str], number: int) -> FilePatch:
    for start in (_ADD, _DELETE, _UPDATE):
        if header.startswith(start):
            break
    else:
        raise PatchError(f"line {number} of the patch, {header.strip()[:80]!r}, is no header such as '{_UPDATE}PATH'")
    path = header.removeprefix(start).strip()
    if not path:
        raise PatchError(f"line {number} of the patch names no file")
    if start == _DELETE:
        if any(line.strip() for line in body):
            raise PatchError(f"line {number + 1} of the patch: '{_DELETE}{path}' has no lines below it")
        return FilePatch("delete", path)
    if start == _ADD:
        return FilePatch("add", path, (Hunk(_added(body, path, number)),))
    return _update(path, body, number)


def _added(body: Sequence[str], path: str, number: int) -> tuple[PatchLine, ...]:
    while body and not body[-1].strip():
        body = body[:-1]
    for offset, line in enumerate(body, 1):
        if not line.startswith("+"):
            raise PatchError(f"line {number + offset} of the patch: each line of the new file {path} starts with '+'")
    return tuple(PatchLine("+", line[1:]) for line in body)


def _update(path: str, body: Sequence[str], number: int) -> FilePatch:
    target = None
    if body and body[0].startswith(_MOVE):
        target = body[0].removeprefix(_MOVE).strip()
        body, number = body[1:], number + 1
        if not target:
            raise PatchError(f"line {number} of the patch: '{_MOVE.strip()}' names no path")
    hunks = []
    place = 0
    while place < len(body):
        stop = place
        while stop < len(body) and _is_anchor(body[stop]):
            stop += 1
        anchors = tuple(filter(None, map(_anchor, body[place:stop])))
        start = stop
        while stop < len(body) and not _is_anchor(body[stop]):
            stop += 1
        hunk = _hunk(body[start:stop], anchors, number + start)
        if hunk is not None:
            hunks.append(hunk)
        elif anchors:
            raise PatchError(f"line {number + start} of the patch: nothing is changed at {anchors[-1]!r} of {path}")
        place = stop
    if not hunks and target is None:
        raise PatchError(f"line {number} of the patch: the update of {path} has no changes")
    return FilePatch("update", path, tuple(hunks), target)


def _is_anchor(line: str) -> bool:
    return line == "@@" or line.startswith("@@ ")


def _anchor(line: str) -> str:
    return _NUMBERS.sub("", line.removeprefix("@@").removeprefix(" "), count=1).removesuffix(" @@")


def _hunk(body: Sequence[str], anchors: tuple[str, ...], number: int) -> Hunk | None:
    at_end = False
    lines: list[PatchLine] = []
    while body and not body[-1]:
        body = body[:-1]
    for offset, line in enumerate(body, 1):
        if line.strip() == _END_OF_FILE:
            at_end = True
        elif at_end:
            raise PatchError(f"line {number + offset} of the patch follows {_END_OF_FILE!r}")
        elif line == "":
            lines.append(PatchLine(" ", ""))
        elif line[0] in " -+":
            lines.append(PatchLine(line[0], line[1:]))
        else:
            raise PatchError(
                f"line {number + offset} of the patch, {line[:80]!r}, starts with neither a space, '-', '+' nor '@@'"
            )
    return Hunk(tuple(lines), anchors, at_end=at_end) if lines else None
