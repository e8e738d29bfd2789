"""Unified diffs, as git and diff write them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from foveate.tools.patch.changes import FilePatch, Hunk, PatchError, PatchLine

_RANGE = re.compile(r"@@ -(\d{1,18})(?:,(\d{1,18}))? \+(\d{1,18})(?:,(\d{1,18}))? @@.*")
_BARE_RANGE = re.compile(r"@@(?: .*)?")
_QUOTED = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r"}
_NOWHERE = "/dev/null"
_SYMLINK = 0o120000
_PERMISSIONS = 0o777


def parse_unified(text: str) -> list[FilePatch]:
    """Parse the changes of a diff; surrounding text, such as a commit message, is skipped."""
    reader = _Reader(text.replace("\r\n", "\n").split("\n"))
    changes = []
    while (change := reader.next_file()) is not None:
        changes.append(change)
    return changes


class _Headers:
    """The lines above the hunks of a file."""

    def __init__(self) -> None:
        self.old: str | None = None
        self.new: str | None = None
        self.git: tuple[str, str] | None = None
        self.moved_from: str | None = None
        self.moved_to: str | None = None
        self.is_copy = False
        self.is_new = False
        self.is_deleted = False
        self.mode: int | None = None

    def change(self, hunks: tuple[Hunk, ...]) -> FilePatch:
        old, new = self._paths()
        if old == new == _NOWHERE:
            raise PatchError("a file of the patch is /dev/null on both sides")
        if self.is_new or old == _NOWHERE:
            return FilePatch("add", new, hunks, mode=self.mode)
        if self.is_deleted or new == _NOWHERE:
            return FilePatch("delete", old, hunks)
        target = new if new != old else None
        return FilePatch("update", old, hunks, target, self.is_copy, self.mode)

    def _paths(self) -> tuple[str, str]:
        if self.moved_from is not None and self.moved_to is not None:
            return self.moved_from, self.moved_to
        if self.old is not None and self.new is not None:
            return _without_prefixes(self.old, self.new)
        if self.git is not None:
            return _without_prefixes(*self.git)
        raise PatchError("a file of the patch has no '--- PATH' and '+++ PATH' lines")


class _Reader:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._place = 0

    def next_file(self) -> FilePatch | None:
        while not self._is_start():
            if self._place >= len(self._lines):
                return None
            if self._lines[self._place].startswith("@@ -"):
                raise PatchError(
                    f"line {self._place + 1} of the patch: a hunk without '--- PATH' and '+++ PATH' above it"
                )
            self._place += 1
        headers = self._headers()
        hunks = []
        while self._place < len(self._lines) and _BARE_RANGE.fullmatch(self._lines[self._place]):
            hunks.append(self._hunk())
        return headers.change(tuple(hunks))

    def _line(self, ahead: int = 0) -> str:
        place = self._place + ahead
        return self._lines[place] if place < len(self._lines) else ""

    def _is_start(self) -> bool:
        """Check whether a file begins here."""
        return self._line().startswith("diff --git ") or self._is_pair()

    def _is_pair(self) -> bool:
        return self._line().startswith("--- ") and self._line(1).startswith("+++ ")

    def _headers(self) -> _Headers:
        found = _Headers()
        if self._line().startswith("diff --git "):
            found.git = _git_paths(self._line())
            self._place += 1
            while not self._is_pair() and self._read_extended(found):
                self._place += 1
        if self._is_pair():
            found.old, found.new = _path(self._line()[4:]), _path(self._line(1)[4:])
            self._place += 2
        return found

    def _read_extended(self, found: _Headers) -> bool:
        """Read one of git's lines above the paths; False if it is not one."""
        line = self._line()
        key, _, value = line.rpartition(" ")
        match key:
            case "new mode" | "new file mode" | "deleted file mode":
                _set_mode(found, key, value, self._place + 1)
                return True
            case "old mode":
                return True
        verb, _, path = line.partition(" from ")
        if path and verb in ("rename", "copy"):
            found.moved_from, found.is_copy = _path(path), verb == "copy"
            return True
        verb, _, path = line.partition(" to ")
        if path and verb in ("rename", "copy"):
            found.moved_to = _path(path)
            return True
        if line.startswith(("Binary files ", "GIT binary patch")):
            raise PatchError(f"line {self._place + 1} of the patch: binary patches can't be applied")
        return line.startswith(("index ", "similarity index ", "dissimilarity index "))

    def _hunk(self) -> Hunk:
        header, number = self._line(), self._place + 1
        announced = _announced(header)
        self._place += 1
        lines: list[PatchLine] = []
        ends_bare = False
        while self._place < len(self._lines) and not self._ends_hunk(announced):
            line = self._line()
            if line.startswith("\\"):
                ends_bare = bool(lines) and lines[-1].mark != "-"
            else:
                lines.append(PatchLine(line[0], line[1:]) if line else PatchLine(" ", ""))
                if announced is not None:
                    announced.count(lines[-1].mark)
            self._place += 1
        if announced is None:
            while lines and lines[-1] == (" ", "") and not self._lines[self._place - 1]:
                lines.pop()
                self._place -= 1
        elif self._place >= len(self._lines) and not announced.is_met:
            raise PatchError(f"line {number} of the patch: the hunk {header[:60]!r} is cut off")
        if not lines:
            raise PatchError(f"line {number} of the patch: the hunk {header[:60]!r} has no lines")
        section = header.removeprefix("@@").strip().removesuffix("@@").strip()
        anchors = (section,) if announced is None and section else ()
        return Hunk(tuple(lines), anchors, announced.place if announced else None, ends_bare=ends_bare)

    def _ends_hunk(self, announced: _Announced | None) -> bool:
        """Check whether the next line is outside this hunk. Lines beyond the announced number are still read."""
        line = self._line()
        if _BARE_RANGE.fullmatch(line) or line.startswith("diff --git ") or (line and line[0] not in " -+\\"):
            return True
        if announced is not None and not announced.is_met:
            return False
        return self._is_pair() or line == "-- " or (announced is not None and not line)


@dataclass(slots=True)
class _Announced:
    """The header of a hunk: its position, and how many of its lines are still to come."""

    place: int
    old_left: int
    new_left: int

    @property
    def is_met(self) -> bool:
        return self.old_left <= 0 and self.new_left <= 0

    def count(self, mark: str) -> None:
        self.old_left -= mark != "+"
        self.new_left -= mark != "-"


def _announced(header: str) -> _Announced | None:
    found = _RANGE.fullmatch(header)
    if found is None:
        return None
    start, old, new = int(found[1]), int(found[2] or 1), int(found[4] or 1)
    return _Announced(max(0, start - 1) if old else start, old, new)


def _set_mode(found: _Headers, key: str, value: str, number: int) -> None:
    try:
        mode = int(value, 8)
    except ValueError:
        raise PatchError(f"line {number} of the patch: {value!r} is no mode of a file") from None
    if mode & _SYMLINK == _SYMLINK:
        raise PatchError(f"line {number} of the patch: symbolic links are not patched")
    found.is_new |= key == "new file mode"
    found.is_deleted |= key == "deleted file mode"
    if key != "deleted file mode":
        found.mode = mode & _PERMISSIONS


def _path(text: str) -> str:
    """Return a path without a time stamp and git's quotes."""
    text = text.partition("\t")[0].rstrip()
    if not (text.startswith('"') and text.endswith('"') and text != '"'):
        return text
    return _QUOTED.sub(_unquoted, text[1:-1].encode()).decode("utf-8", "replace")


def _unquoted(found: re.Match[bytes]) -> bytes:
    code = found[1]
    return bytes([int(code, 8) & 0xFF]) if len(code) > 1 else _ESCAPES.get(code, code)


def _git_paths(line: str) -> tuple[str, str]:
    """Return both paths of `diff --git a/x b/x`, which are the same unless another line names them."""
    rest = line.removeprefix("diff --git ").rstrip()
    half = len(rest) // 2
    if rest.startswith('"'):
        first, _, second = rest[1:].partition('" "')
        return _path(f'"{first}"'), _path(f'"{second}')
    return rest[:half], rest[half + 1 :]


def _without_prefixes(old: str, new: str) -> tuple[str, str]:
    """Return the paths without git's `a/` and `b/`, if both have their prefix."""
    has_old = old == _NOWHERE or old.startswith("a/")
    has_new = new == _NOWHERE or new.startswith("b/")
    if not (has_old and has_new):
        return old, new
    return old.removeprefix("a/"), new.removeprefix("b/")
