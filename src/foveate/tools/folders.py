"""Access files through the descriptor of their folder, so that a checked folder can't be swapped for a link.

A path is checked once (`Workspace.path`) and has no links then. Each function here opens its folder from the top, one
component after another and without following a link: a component that has become one since is an `OSError`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PASS = getattr(os, "O_PATH", os.O_RDONLY)
"""Linux needs no permission to list a folder that is only traversed."""
_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def opened_folder(path: Path, *, create: bool = False, readable: bool = False) -> Iterator[int]:
    """Open a folder and yield its descriptor. `create` makes missing folders; a `readable` one can be listed."""
    handle = os.open(path.anchor, _PASS | _FOLDER)
    try:
        for name in path.parts[1:]:
            handle = _below(handle, name, create=create)
        if readable:
            handle = _exchanged(handle, os.open(".", os.O_RDONLY | _FOLDER, dir_fd=handle))
        yield handle
    finally:
        os.close(handle)


@contextmanager
def below(folder: int, name: str) -> Iterator[int]:
    """Open a folder in a folder for listing."""
    handle = os.open(name, os.O_RDONLY | _FOLDER, dir_fd=folder)
    try:
        yield handle
    finally:
        os.close(handle)


def open_at(path: Path, flags: int, mode: int = 0o777) -> int:
    """Open a file that is not a link; return its descriptor."""
    with opened_folder(path.parent) as folder:
        return os.open(path.name or ".", flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=folder)


def status(path: Path) -> os.stat_result:
    """Return the status of a file, or of a link itself."""
    with opened_folder(path.parent) as folder:
        return os.stat(path.name or ".", dir_fd=folder, follow_symlinks=False)


def exists(path: Path) -> bool:
    """Check whether there is a file, a folder or a link."""
    try:
        status(path)
    except FileNotFoundError:
        return False
    return True


def read(path: Path) -> bytes:
    """Read the content of a regular file; `OSError` for anything else."""
    with os.fdopen(open_at(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as opened:
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            raise OSError(0, "not a regular file", str(path))
        return opened.read()


def replace(source: Path, target: Path) -> None:
    """Rename a file to another one in the same folder, which it replaces."""
    assert source.parent == target.parent, "both are in one folder"
    with opened_folder(source.parent) as folder:
        os.replace(source.name, target.name, src_dir_fd=folder, dst_dir_fd=folder)


def link(source: Path, target: Path) -> None:
    """Add a second name for a file in the same folder."""
    assert source.parent == target.parent, "both are in one folder"
    with opened_folder(source.parent) as folder:
        os.link(source.name, target.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)


def remove(path: Path) -> None:
    """Remove a file, if there is one."""
    with suppress(FileNotFoundError), opened_folder(path.parent) as folder:
        os.unlink(path.name, dir_fd=folder)


def make_folder(path: Path) -> None:
    """Create a folder; its parent must exist."""
    with opened_folder(path.parent) as folder:
        os.mkdir(path.name, dir_fd=folder)


def remove_folder(path: Path) -> None:
    """Remove an empty folder."""
    with opened_folder(path.parent) as folder:
        os.rmdir(path.name, dir_fd=folder)


def _below(handle: int, name: str, *, create: bool) -> int:
    """Open the folder of this name and close its parent."""
    try:
        found = os.open(name, _PASS | _FOLDER, dir_fd=handle)
    except FileNotFoundError:
        if not create:
            raise
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=handle)
        found = os.open(name, _PASS | _FOLDER, dir_fd=handle)
    return _exchanged(handle, found)


def _exchanged(handle: int, found: int) -> int:
    os.close(handle)
    return found
