"""Answer the calls that the filter forwards to the supervisor: new processes and sockets, changes of mode, owner and
times.

Landlock covers none of them. A new process is counted and allowed while there are fewer than the limit, which holds for
root too; so is a new pair of sockets. A change is made here, on a file that was opened and found inside the writable
folders, never by the path that the command could exchange after the check.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from . import kernel
from .seccomp import FORKS, PAIR
from .syscalls import Machine

_RECEIVE, _SEND, _STILL_VALID = 0xC0502100, 0xC0182101, 0x40082102
_NOTICE = struct.Struct("=QIIiIQ6Q")
_ANSWER = struct.Struct("=QqiI")
_CONTINUE = 1
_AT_FDCWD = -100
_AT_SYMLINK_NOFOLLOW = 0x100
_AT_EMPTY_PATH = 0x1000
_MAX_PATH = 4096
_TIMES_BYTES = 32
_KEEP_OWNER = 0xFFFFFFFF
_RECOUNT_SECONDS = 0.02
_WORD = 0xFFFFFFFF

# For each call: which arguments are the folder, the path, and the flags; None: it has none.
_AT: dict[str, tuple[int | None, int | None, int | None]] = {
    "chmod": (None, 0, None),
    "fchmod": (0, None, None),
    "fchmodat": (0, 1, None),
    "fchmodat2": (0, 1, 3),
    "chown": (None, 0, None),
    "lchown": (None, 0, None),
    "fchown": (0, None, None),
    "fchownat": (0, 1, 4),
    "utimensat": (0, 1, 3),
}


class Listener:
    """Answer the calls of a command and its descendants."""

    def __init__(
        self,
        descriptor: int,
        machine: Machine,
        *,
        writable: Sequence[str],
        protected: Sequence[str],
        max_processes: int,
        count: Callable[[], int],
        max_sockets: int,
    ) -> None:
        self.descriptor = descriptor
        self.closing = False
        """If True, no more processes are allowed."""
        self.refused_processes = 0
        self._names = {machine.numbers[name]: name for name in (*_AT, *FORKS, PAIR) if name in machine.numbers}
        self._writable = tuple(writable)
        self._protected = tuple(protected)
        self._max_processes = max_processes
        self._count = count
        self._allowance = 0
        self._counted = 0.0
        self._max_sockets = max_sockets
        self._pairs = max_sockets // 2
        """Pairs of sockets that may be made before the next count."""
        self._sockets_before: int | None = None
        """The sockets of the network namespace before the command made any."""

    def answer(self) -> None:
        """Answer the next call; there is one to read."""
        notice = bytearray(_NOTICE.size)
        try:
            fcntl.ioctl(self.descriptor, _RECEIVE, notice)
        except OSError as failure:
            if failure.errno in (errno.ENOENT, errno.EINTR):  # it was killed in the meantime
                return
            raise
        identity, pid, _, number, _, _, *arguments = _NOTICE.unpack(notice)
        name = self._names[number]
        flags = result = 0
        if name in FORKS:
            result = self._fork()
            flags = 0 if result else _CONTINUE
        else:
            try:
                if name == PAIR:
                    result = self._pair(pid)
                    flags = 0 if result else _CONTINUE
                else:
                    self._change(name, pid, arguments, identity)
            except OSError as failure:
                result = -(failure.errno or errno.EPERM)
        with suppress(OSError):  # it was killed in the meantime
            fcntl.ioctl(self.descriptor, _SEND, _ANSWER.pack(identity, 0, result, flags))

    def _fork(self) -> int:
        if self.closing:
            return -errno.EAGAIN
        now = time.monotonic()
        if self._allowance <= 0 and now - self._counted >= _RECOUNT_SECONDS:
            self._allowance = self._max_processes - self._count()
            self._counted = now
        if self._allowance <= 0:
            self.refused_processes += 1
            return -errno.EAGAIN
        self._allowance -= 1
        return 0

    def _pair(self, pid: int) -> int:
        """Allow another pair of sockets while those that are alive are fewer than the limit."""
        if self._sockets_before is None:
            self._sockets_before = _sockets(pid)
        if self._pairs <= 0:
            self._pairs = (self._max_sockets - (_sockets(pid) - self._sockets_before)) // 2
        if self._pairs <= 0:
            return -errno.EMFILE
        self._pairs -= 1
        return 0

    def _change(self, name: str, pid: int, arguments: Sequence[int], identity: int) -> None:
        folder_at, path_at, flags_at = _AT[name]
        flags = arguments[flags_at] & _WORD if flags_at is not None else 0
        if name == "lchown":
            flags |= _AT_SYMLINK_NOFOLLOW
        path: bytes | None = None
        if path_at is not None and arguments[path_at]:
            path = _text(pid, arguments[path_at])
        if path == b"" and not flags & _AT_EMPTY_PATH:
            raise FileNotFoundError(errno.ENOENT, "an empty path")
        folder = _AT_FDCWD if folder_at is None else _signed(arguments[folder_at])
        times = _memory(pid, arguments[2], _TIMES_BYTES) if name == "utimensat" and arguments[2] else None
        fcntl.ioctl(self.descriptor, _STILL_VALID, struct.pack("=Q", identity))  # what was read is the caller's
        opened = _open(pid, folder, path or b"", follow=not flags & _AT_SYMLINK_NOFOLLOW)
        try:
            self._check(opened)
            if name == "utimensat":
                kernel.set_times(opened, times, _AT_EMPTY_PATH)
            elif "chown" in name:
                first = 2 if name == "fchownat" else 1
                _check_owner(opened, arguments[first] & _WORD, arguments[first + 1] & _WORD)
            else:
                mode = arguments[1 if name in ("chmod", "fchmod") else 2] & 0o1777
                Path(f"/proc/self/fd/{opened}").chmod(mode)
        finally:
            os.close(opened)

    def _check(self, opened: int) -> None:
        """Reject everything except files, folders and links of the writable folders that are not protected."""
        kind = os.fstat(opened).st_mode
        if stat.S_ISCHR(kind) or stat.S_ISBLK(kind):
            raise PermissionError(errno.EPERM, "a device")
        path = str(Path(f"/proc/self/fd/{opened}").readlink())
        if not is_below(path, self._writable) or is_below(path, self._protected):
            raise PermissionError(errno.EPERM, path)


def _sockets(pid: int) -> int:
    """Count the sockets of a process's network namespace, those on their way between processes included."""
    first = Path(f"/proc/{pid}/net/sockstat").read_text("ascii").split("\n", 1)[0]
    return int(first.split()[-1])


def is_below(path: str, folders: Sequence[str]) -> bool:
    """Check whether a path is one of these, or inside one."""
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def _check_owner(opened: int, owner: int, group: int) -> None:
    """Accept a change to the file's current owner; reject any other."""
    found = os.fstat(opened)
    if owner not in (_KEEP_OWNER, found.st_uid) or group not in (_KEEP_OWNER, found.st_gid):
        raise PermissionError(errno.EPERM, "another owner")


def _open(pid: int, folder: int, path: bytes, *, follow: bool) -> int:
    """Open the file that a process means. An absolute path is resolved in this process's view of the file system."""
    start = f"/proc/{pid}/cwd" if folder == _AT_FDCWD else f"/proc/{pid}/fd/{folder}"
    if not path:
        return os.open(start, os.O_PATH | os.O_CLOEXEC)
    flags = os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    if path.startswith(b"/"):
        return os.open(path.replace(b"/proc/self/", b"/proc/%d/" % pid, 1), flags)
    base = os.open(start, os.O_PATH | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        return os.open(path, flags, dir_fd=base)
    finally:
        os.close(base)


def _text(pid: int, address: int) -> bytes:
    """Return the text at an address, up to its null byte; read page by page, since the next page may not exist."""
    found = b""
    while len(found) < _MAX_PATH:
        part = _memory(pid, address + len(found), _MAX_PATH - (address + len(found)) % _MAX_PATH)
        end = part.find(b"\0")
        if end >= 0:
            return found + part[:end]
        found += part
    raise OSError(errno.ENAMETOOLONG, "a path without an end")


def _memory(pid: int, address: int, size: int) -> bytes:
    opened = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = os.pread(opened, size, address)
    finally:
        os.close(opened)
    if len(found) < size:
        raise OSError(errno.EFAULT, "outside memory")
    return found


def _signed(value: int) -> int:
    value &= _WORD
    return value - (1 << 32) if value >> 31 else value
