"""The changes that a patch requests, independent of its format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from foveate.tools.tool import ToolError

MAX_PATCH_CHARS = 5_000_000
MAX_FILES = 500


class PatchError(ToolError):
    """A patch can't be read or does not apply; nothing was changed."""


class PatchLine(NamedTuple):
    """A line of a hunk, without its end: kept (space), removed (-) or added (+)."""

    mark: str
    text: str


@dataclass(frozen=True, slots=True)
class Hunk:
    """Adjacent lines of a patch."""

    lines: tuple[PatchLine, ...]
    anchors: tuple[str, ...] = ()
    """Lines to find before the hunk, in this order, e.g. the header of a class."""
    place: int | None = None
    """Expected line index, from 0."""
    at_end: bool = False
    """The hunk ends at the end of the file."""
    ends_bare: bool = False
    """The new file has no line end after its last line."""

    @property
    def old(self) -> list[str]:
        return [line.text for line in self.lines if line.mark != "+"]

    @property
    def new(self) -> list[str]:
        return [line.text for line in self.lines if line.mark != "-"]


@dataclass(frozen=True, slots=True)
class FilePatch:
    """A change of one file."""

    kind: Literal["add", "delete", "update"]
    path: str
    hunks: tuple[Hunk, ...] = ()
    target: str | None = None
    """The new path of a file that is renamed or copied."""
    is_copy: bool = False
    mode: int | None = None
    """The new mode, where the patch sets one."""
