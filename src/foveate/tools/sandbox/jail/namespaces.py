"""Mount namespaces: protect folders inside a writable folder from being written, renamed or removed.

Landlock can only allow. Where Foveate, or the Python that runs it, is inside a folder that a command may write,
bubblewrap or a mount namespace of our own makes it read-only, and the folders on the way to it mount points: the kernel
renames and removes no mount point.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from . import kernel

_NEW_NAMESPACE, _NEW_USER = 0x00020000, 0x10000000
_READ_ONLY, _NO_SET_ID, _NO_DEVICES, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18


def cover(pinned: Sequence[str], frozen: Sequence[str]) -> None:
    """Enter a mount namespace in which `pinned` folders keep their names, and `frozen` folders are read-only."""
    owner, group = os.getuid(), os.getgid()
    if owner == 0:
        kernel.unshare(_NEW_NAMESPACE)
    else:
        kernel.unshare(_NEW_NAMESPACE | _NEW_USER)
        Path("/proc/self/setgroups").write_text("deny", "ascii")
        Path("/proc/self/uid_map").write_text(f"{owner} {owner} 1", "ascii")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", "ascii")
    kernel.mount("none", "/", _RECURSIVE | _PRIVATE)
    for path in pinned:
        kernel.mount(path, path, _BIND | _RECURSIVE)
    for path in frozen:
        kernel.mount(path, path, _BIND | _RECURSIVE)
        kept = _kept_flags(path)
        kernel.mount("none", path, _REMOUNT | _BIND | _READ_ONLY | kept)


def _kept_flags(path: str) -> int:
    """Return the flags of the mount that a user namespace may not remove."""
    return os.statvfs(path).f_flag & (_NO_SET_ID | _NO_DEVICES | 8 | 1024 | 2048)


def bubblewrap(
    program: str,
    *,
    read: Sequence[str],
    write: Sequence[str],
    pinned: Sequence[str],
    frozen: Sequence[str],
    folder: str,
) -> list[str]:
    """Return the command line of bubblewrap, up to the program it runs: own namespaces, and only these paths."""
    arguments = [program, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    if os.getuid() == 0:
        arguments += ["--cap-add", "CAP_DAC_OVERRIDE"]
    arguments += ["--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]  # noqa: S108 - the sandbox's own
    for path in read:
        arguments += ["--ro-bind-try", path, path]
    for path in (*write, *pinned):
        arguments += ["--bind", path, path]
    for path in frozen:
        arguments += ["--ro-bind", path, path]
    return [*arguments, "--remount-ro", "/", "--chdir", folder, "--"]
