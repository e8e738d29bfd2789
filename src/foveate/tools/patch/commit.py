"""Write new contents to all files or to none, even if the process is killed.

    lock ──► journal ──► temporary files, backups ──► renames ──► journal: committed ──► backups removed ──► unlock
             └────────── failure or kill: rolled back ──────────┘ └───── kill: cleaned up ─────┘

A failure is rolled back at once. After a kill the journal in the root is found by the next call, or when tools are next
opened there: a patch whose journal is not committed is undone as if the call had not been made.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import secrets
import shlex
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec import Struct

from foveate.tools import folders
from foveate.tools.files import create_file, file_errors
from foveate.tools.tool import ToolError
from foveate.tools.workspace import JOURNAL, Workspace

LOCK_SECONDS = 10.0
_LOCK_WAIT_SECONDS = 0.02
Probe = Callable[[str], None]
"""Called before each step, so that tests can interrupt it."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A file's content before and after; None if there is no file."""

    path: Path
    shown: str
    before: bytes | None
    after: bytes | None
    mode: int | None = None
    is_mode_changed: bool = False


class JournalStep(Struct, frozen=True):
    """The journal's entry for a file. Paths are absolute, contents are hashes."""

    path: str
    temporary: str
    backup: str
    before: str | None
    after: str | None


class Journal(Struct, frozen=True):
    steps: tuple[JournalStep, ...]
    folders: tuple[str, ...] = ()
    """Folders to create, outer ones first."""
    is_committed: bool = False


def no_probe(_step: str) -> None:
    """Do nothing: the probe of real calls."""


def commit(edits: Sequence[Edit], workspace: Workspace, probe: Probe = no_probe) -> None:
    """Write all edits. `ToolError` means that nothing was changed. The caller holds `locked`."""
    changed = [edit for edit in edits if edit.before != edit.after or edit.is_mode_changed]
    if not changed:
        return
    journal_path = _root_of(changed[0].path, workspace) / JOURNAL
    journal = Journal(tuple(_step(edit) for edit in changed), _missing_folders(changed))
    try:
        _write(journal, changed, journal_path, probe)
    except OSError as error:
        place = error.filename or str(journal_path.parent)
        problem = f"{place}: {(error.strerror or str(error)).lower()}"
        try:
            _roll_back(journal, journal_path)
        except OSError:
            raise ToolError(f"{problem}; what was begun is undone by the next patch") from None
        raise ToolError(f"{problem}; nothing was changed") from None
    with suppress(OSError):  # the next call removes the leftovers
        probe("clean up")
        _clean_up(journal, journal_path)


def recover(workspace: Workspace) -> None:
    """Undo interrupted patches, and remove leftovers of finished ones. The caller holds `locked`."""
    for root in workspace.roots:
        path = root / JOURNAL
        _forget_unfinished(root)
        try:
            if not stat.S_ISREG(folders.status(path).st_mode):  # a command put it there
                raise _in_the_way(path, "is not the journal of a patch")
            journal = msgspec.json.decode(folders.read(path), type=Journal)
        except FileNotFoundError:
            continue
        except (OSError, msgspec.DecodeError):
            raise _in_the_way(path, "can't be read as the journal of a patch") from None
        if not _is_own(journal, workspace):
            raise _in_the_way(path, "names files that no patch here names")
        try:
            (_clean_up if journal.is_committed else _roll_back)(journal, path)
        except OSError as error:
            raise ToolError(f"an interrupted patch can't be undone: {error}") from None


def _forget_unfinished(root: Path) -> None:
    """Remove a journal that was not written completely."""
    path = root / f"{JOURNAL}.tmp"
    try:
        folders.remove(path)
    except OSError:
        raise _in_the_way(path, "is not the journal of a patch") from None


def _in_the_way(path: Path, problem: str) -> ToolError:
    """Return an error with the way out: what has a reserved name is not removed by a program."""
    return ToolError(
        f"{path} {problem}, and nothing is patched in {path.parent} while it has that name. Look at it, and move or "
        f"remove it, by hand or with a command: rm -r {shlex.quote(str(path))}"
    )


def recover_interrupted(workspace: Workspace) -> None:
    """Recover if there is something to recover and no patch is in progress."""
    if any((root / JOURNAL).exists() for root in workspace.roots):
        with suppress(ToolError), locked(workspace, seconds=0):  # the next patch reports what is wrong
            recover(workspace)


@contextmanager
def locked(workspace: Workspace, seconds: float = LOCK_SECONDS) -> Iterator[None]:
    """Allow one patch at a time in each root, across threads and processes. A killed process loses its locks."""
    with ExitStack() as stack:
        for root in sorted(set(workspace.roots)):
            with file_errors(str(root)):
                handle = stack.enter_context(folders.opened_folder(root, readable=True))
            _lock(handle, root, seconds)
        yield


def _lock(handle: int, root: Path, seconds: float) -> None:
    until = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= until:
                raise ToolError(f"another patch is being written in {root}; try again") from None
            time.sleep(_LOCK_WAIT_SECONDS)


def _write(journal: Journal, edits: Sequence[Edit], journal_path: Path, probe: Probe) -> None:
    probe("journal")
    _save(journal, journal_path)
    for folder in journal.folders:
        probe("folder")
        folders.make_folder(Path(folder))
    for edit, step in zip(edits, journal.steps, strict=True):
        if edit.after is not None:
            probe("temporary file")
            create_file(Path(step.temporary), edit.after, edit.mode, like=None if edit.before is None else edit.path)
        if edit.before is not None:
            probe("backup")
            _back_up(edit.path, Path(step.backup))
    for edit, step in zip(edits, journal.steps, strict=True):
        probe("rename")
        if _hash_of(edit.path) != step.before:
            raise OSError(0, "was changed while the patch was applied", str(edit.path))
        if edit.after is None:
            folders.remove(edit.path)
        else:
            folders.replace(Path(step.temporary), edit.path)
    for parent in {edit.path.parent for edit in edits}:
        _sync(parent)
    probe("commit")
    _save(msgspec.structs.replace(journal, is_committed=True), journal_path)


def _roll_back(journal: Journal, journal_path: Path) -> None:
    """Restore each file that has the new content. A file that was changed by someone else since is skipped."""
    for step in reversed(journal.steps):
        path, temporary, backup = Path(step.path), Path(step.temporary), Path(step.backup)
        if step.before is not None and folders.exists(backup):
            if _hash_of(path) == step.after:
                folders.replace(backup, path)
            folders.remove(backup)
        elif step.before is None and not folders.exists(temporary) and _hash_of(path) == step.after:
            folders.remove(path)
        folders.remove(temporary)
    for folder in reversed(journal.folders):
        with suppress(OSError):  # not empty, or not created yet
            folders.remove_folder(Path(folder))
    folders.remove(journal_path)
    _sync(journal_path.parent)


def _clean_up(journal: Journal, journal_path: Path) -> None:
    for step in journal.steps:
        folders.remove(Path(step.backup))
        folders.remove(Path(step.temporary))
    folders.remove(journal_path)


def _is_own(journal: Journal, workspace: Workspace) -> bool:
    """Check whether a patch could have written the journal: anybody can put a file of that name into a folder.

    Names are absolute, without links, within the roots (else `ToolError`); temporary files and backups have the names
    that `_step` makes, beside their file.
    """
    for step in journal.steps:
        folder = re.escape(step.path.rpartition("/")[0])
        for name, end in ((step.temporary, "tmp"), (step.backup, "old")):
            if not re.fullmatch(rf"{folder}/\.foveate-[0-9a-f]{{16}}\.{end}", name):
                return False
    names = [name for step in journal.steps for name in (step.path, step.temporary, step.backup)]
    return all(str(workspace.path(name)) == name for name in (*names, *journal.folders))


def _save(journal: Journal, path: Path) -> None:
    temporary = path.with_name(f"{JOURNAL}.tmp")
    folders.remove(temporary)
    create_file(temporary, msgspec.json.encode(journal), 0o600)
    folders.replace(temporary, path)
    _sync(path.parent)


def _step(edit: Edit) -> JournalStep:
    name = f".foveate-{secrets.token_hex(8)}"
    return JournalStep(
        path=str(edit.path),
        temporary=str(edit.path.with_name(f"{name}.tmp")),
        backup=str(edit.path.with_name(f"{name}.old")),
        before=_hash(edit.before),
        after=_hash(edit.after),
    )


def _missing_folders(edits: Sequence[Edit]) -> tuple[str, ...]:
    needed = {folder for edit in edits if edit.after is not None for folder in edit.path.parents}
    return tuple(sorted(str(folder) for folder in needed if not folder.exists()))


def _root_of(path: Path, workspace: Workspace) -> Path:
    return next(root for root in workspace.roots if root in path.parents)


def _back_up(path: Path, backup: Path) -> None:
    """Create a second name of the file; a copy if the file system has no hard links."""
    try:
        folders.link(path, backup)
    except OSError:
        create_file(backup, folders.read(path), stat.S_IMODE(folders.status(path).st_mode), like=path)


def _hash(content: bytes | None) -> str | None:
    return None if content is None else hashlib.sha256(content).hexdigest()


def _hash_of(path: Path) -> str | None:
    try:
        return _hash(folders.read(path))
    except FileNotFoundError:
        return None


def _sync(folder: Path) -> None:
    """Make the names in a folder durable, if the file system supports it."""
    with folders.opened_folder(folder, readable=True) as handle:
        try:
            os.fsync(handle)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):
                raise
