"""Check a patch against the files: the new content of each, or all reasons why it does not apply."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from foveate.tools.files import TextFile, decode_text, file_errors, read_whole, writable_mode
from foveate.tools.patch.changes import MAX_FILES, MAX_PATCH_CHARS, FilePatch, Hunk, PatchError, PatchLine
from foveate.tools.patch.commit import Edit
from foveate.tools.patch.match import apply_hunks
from foveate.tools.patch.unified import parse_unified
from foveate.tools.tool import ToolError
from foveate.tools.workspace import MAX_NAME_BYTES, Workspace

MAX_REJECTS = 10
BEGIN = "*** Begin Patch"
_END = "*** End Patch"
_ADD = "*** Add File: "
_DELETE = "*** Delete File: "
_UPDATE = "*** Update File: "
_MOVE = "*** Move to: "
_END_OF_FILE = "*** End of File"
_NUMBERS = re.compile(r"-\d+(?:,\d+)? \+\d+(?:,\d+)? @@ ?")
"""Line numbers of unified diffs, which this format does not use."""


def parse_patch(text: str) -> list[FilePatch]:
    """Parse a patch in either format, which is detected by its content."""
    if len(text) > MAX_PATCH_CHARS:
        raise PatchError(f"the patch has {len(text):,} characters, more than {MAX_PATCH_CHARS:,}")
    is_codex = any(line.strip() == BEGIN for line in text.split("\n"))
    changes = parse_codex(text) if is_codex else parse_unified(text)
    if not changes:
        raise PatchError(
            f"there is no patch: write '{BEGIN}', '*** Update File: PATH', '@@', lines with ' ', '-' or '+' in front, "
            "'*** End Patch', or a unified diff with '--- PATH', '+++ PATH' and '@@ -1,3 +1,4 @@'"
        )
    if len(changes) > MAX_FILES:
        raise PatchError(f"the patch changes {len(changes):,} files, more than {MAX_FILES:,}")
    return changes


def plan_edits(changes: Sequence[FilePatch], workspace: Workspace) -> list[Edit]:
    """Return the edits to write; `PatchError` lists the rejected changes. Nothing is written."""
    view = _View(workspace)
    rejects: list[str] = []
    for change in changes:
        try:
            view.apply(change)
        except ToolError as error:
            rejects.append(f"{change.path}: {error}" if isinstance(error, PatchError) else str(error))
    if rejects:
        more = len(rejects) - MAX_REJECTS
        listed = "\n".join(reject.rstrip() for reject in rejects[:MAX_REJECTS])
        raise PatchError(
            f"the patch does not apply; nothing was changed.\n{listed}" + (f"\n… {more} more" if more > 0 else "")
        )
    return view.edits()


@dataclass(slots=True)
class _File:
    before: bytes | None
    """None: there was no such file."""
    old_mode: int | None
    mode: int | None
    now: bytes | None


class _View:
    """The files in memory, as they are after the changes so far."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._files: dict[Path, _File] = {}

    def apply(self, change: FilePatch) -> None:
        match change.kind:
            case "add":
                content = apply_hunks("", change.hunks, "\n")
                self._create(change.path, TextFile("").encode(content, change.path), change.mode)
            case "delete":
                self._delete(change)
            case "update":
                self._update(change)

    def edits(self) -> list[Edit]:
        return [
            Edit(path, self._workspace.shown(path), file.before, file.now, file.mode, file.mode != file.old_mode)
            for path, file in self._files.items()
            if file.before is not None or file.now is not None
        ]

    def _create(self, given: str, content: bytes, mode: int | None) -> None:
        _, file = self._file(given)
        if file.now is not None:
            raise ToolError(f"{given} exists already; update it, or delete it first")
        self._write(given, file, content, mode)

    def _delete(self, change: FilePatch) -> None:
        self._refuse_link(change.path)
        file, content = self._existing(change.path)
        if change.hunks:
            text = decode_text(content, change.path)
            if apply_hunks(text.text, change.hunks, text.newline):
                raise PatchError("the patch deletes the file, and its hunks leave some lines")
        file.now = None

    def _update(self, change: FilePatch) -> None:
        file, content = self._existing(change.path)
        if change.hunks:
            text = decode_text(content, change.path)
            content = text.encode(apply_hunks(text.text, change.hunks, text.newline), change.path)
        mode = change.mode if change.mode is not None else file.mode
        if change.target is None or self._workspace.path(change.target) == self._workspace.path(change.path):
            self._write(change.path, file, content, mode)
            return
        self._refuse_link(change.path)
        self._create(change.target, content, mode)
        if not change.is_copy:
            file.now = None

    def _write(self, given: str, file: _File, content: bytes, mode: int | None) -> None:
        limit = self._workspace.settings.max_file_bytes
        if len(content) > limit:
            raise ToolError(f"{given} would have {len(content):,} bytes, more than tools.max_file_bytes ({limit:,})")
        file.now, file.mode = content, mode if mode is not None else file.mode

    def _existing(self, given: str) -> tuple[_File, bytes]:
        path, file = self._file(given)
        if file.now is None:
            read_whole(path, given, 0)  # raises the error, with similar names
            raise ToolError(f"{given} is deleted above in the patch")
        return file, file.now

    def _file(self, given: str) -> tuple[Path, _File]:
        path = self._workspace.target(given)
        if path not in self._files:
            with file_errors(given):
                mode = writable_mode(path, given)
            content = None if mode is None else read_whole(path, given, self._workspace.settings.max_file_bytes)
            self._files[path] = _File(content, mode, mode, content)
        return path, self._files[path]

    def _refuse_link(self, given: str) -> None:
        path = self._workspace.roots[0] / given
        name = self._workspace.path(str(path.parent)) / path.name  # reveals nothing of names outside
        with file_errors(f"{given[:MAX_NAME_BYTES]} …" if len(given) > MAX_NAME_BYTES else given):
            is_link = name.is_symlink()
        if is_link:
            raise ToolError(f"{given} is a symbolic link; links are not deleted or renamed")


def parse_codex(text: str) -> list[FilePatch]:
    """Parse the changes that a patch lists; `PatchError` names the line that can't be read."""
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
