"""A control group (version 2) for a command: the kernel counts all of its memory, socket buffers and pipes too."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_MOUNTS, _OWN = Path("/proc/self/mountinfo"), Path("/proc/self/cgroup")
_UNLIMITED = "max"


class MemoryGroup:
    """A group with a limit of memory, below the group of this process or beside it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def enter(self) -> None:
        """Move this process into the group; its descendants will be born there."""
        (self._folder / "cgroup.procs").write_text("0", "ascii")

    def was_exceeded(self) -> bool:
        """Check whether the kernel killed the command because of the limit."""
        with suppress(OSError):
            lines = (self._folder / "memory.events").read_text("ascii").splitlines()
            return any(line.startswith("oom_kill ") and line != "oom_kill 0" for line in lines)
        return False

    def remove(self) -> None:
        """Remove the group, once all of its processes have ended."""
        with suppress(OSError):
            self._folder.rmdir()


def make_group(memory_bytes: int) -> MemoryGroup | None:
    """Make a group with this limit; None where no group of memory can be written."""
    try:
        top, own = _folders()
    except (OSError, StopIteration):
        return None
    for parent in dict.fromkeys((own, top if own == top else own.parent)):
        folder = parent / f"foveate-exec-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        if _limit(folder, min(memory_bytes, _limit_of(own) or memory_bytes)) and _can_enter(MemoryGroup(folder)):
            return MemoryGroup(folder)
        MemoryGroup(folder).remove()
    return None


def _folders() -> tuple[Path, Path]:
    """Return where the groups are mounted, and the folder of the group that this process belongs to."""
    name = next(line[4:] for line in _OWN.read_text().splitlines() if line.startswith("0::/") and ".." not in line)
    mounts = (line.partition(" - ") for line in _MOUNTS.read_text().splitlines())
    top = next(Path(before.split()[4]) for before, _, after in mounts if after.startswith("cgroup2 "))
    return top, top / name


def _limit_of(own: Path) -> int:
    """Return the limit of a group, 0 for none: a group beside it must not exceed it."""
    with suppress(OSError):
        text = (own / "memory.max").read_text("ascii").strip()
        return 0 if text == _UNLIMITED else int(text)
    return 0


def _limit(folder: Path, memory_bytes: int) -> bool:
    if not (folder / "memory.max").exists():
        return False  # the group has no controller of memory
    try:
        (folder / "memory.max").write_text(str(memory_bytes), "ascii")
        (folder / "memory.oom.group").write_text("1", "ascii")
    except OSError:
        return False
    with suppress(OSError):  # a kernel without swap
        (folder / "memory.swap.max").write_text("0", "ascii")
    return True


def _can_enter(group: MemoryGroup) -> bool:
    child = os.fork()
    if child == 0:
        try:
            group.enter()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0
