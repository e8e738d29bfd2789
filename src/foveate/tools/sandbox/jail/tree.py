"""A process's descendants: who they are, what memory they use, and their end."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

_COUNTED_MEMORY = ("RssAnon:", "RssShmem:")


def descendants(pid: int) -> list[int]:
    """The processes below this one; a parent comes before its children."""
    found: list[int] = []
    pending = [pid]
    while pending:
        for child in _children(pending.pop()):
            found.append(child)
            pending.append(child)
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):  # it ended meanwhile
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - names, in a loop that has to be fast
            with suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text("ascii").split())
    return found


def tasks(pids: list[int]) -> int:
    """How many processes and threads these are."""
    total = 0
    for pid in pids:
        with suppress(OSError):
            total += Path(f"/proc/{pid}/task").stat().st_nlink - 2
    return total


def memory(pids: list[int]) -> int:
    """Bytes of memory that no file backs, added up; memory that processes share counts for each of them."""
    total = 0
    for pid in pids:
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/status").read_text("ascii", "replace").splitlines():
                if line.startswith(_COUNTED_MEMORY):
                    total += int(line.split()[1]) * 1024
    return total


def kill(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def reap() -> bool:
    """Collect children that ended; whether there are others."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
