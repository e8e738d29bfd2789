"""Connect and disconnect a client: first a plan with a diff, then the files, with a backup and a record.

The record in `~/.foveate/connections` holds each change, so that `disconnect` removes exactly these. A file that is
unchanged since is restored byte for byte; from an edited one only our values are removed. A backup never overwrites
an edited file.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from msgspec import Struct

from foveate.connections.changes import SYNTAXES, AppliedChange, apply, is_applied, parse_file, read_file, undo
from foveate.connections.clients import Client, ConnectionRequest, FileChanges, Mode
from foveate.connections.paths import value_at
from foveate.errors import InputError, Refused

FOLDER = ".foveate/connections"
BACKUPS = "backups"
GIT_SECONDS = 10


class FileRecord(Struct, frozen=True, kw_only=True):
    """A file that was changed."""

    path: str
    existed: bool
    digest: str
    """Hash of the text that was written."""
    backup: str | None = None
    changes: list[AppliedChange] = msgspec.field(default_factory=list)


class ConnectionRecord(Struct, frozen=True, kw_only=True):
    """The connection of a client."""

    client: str
    mode: Mode
    url: str
    files: list[FileRecord]


@dataclass(slots=True)
class PlannedFile:
    """A file before and after; None means that it does not exist."""

    path: Path
    before: str | None
    after: str | None
    changes: list[AppliedChange] = field(default_factory=list)
    original: str | None = None
    """The text without any of our changes."""

    @property
    def is_changed(self) -> bool:
        return self.before != self.after

    def diff(self) -> str:
        """Return the diff, for people."""
        old, new = ("/dev/null" if text is None else str(self.path) for text in (self.before, self.after))
        before, after = ((text or "").splitlines(keepends=True) for text in (self.before, self.after))
        lines = difflib.unified_diff(before, after, old, new)
        return "".join(line if line.endswith("\n") else line + "\n" for line in lines)


@dataclass(slots=True)
class ConnectionPlan:
    """The changes of connecting or disconnecting."""

    client: Client
    files: list[PlannedFile]
    record: ConnectionRecord | None = None
    """The new record; None: the client is disconnected."""
    kept: list[str] = field(default_factory=list)
    """Values that others changed since they were written, and that are kept."""
    backups: list[str] = field(default_factory=list)

    @property
    def is_changed(self) -> bool:
        return any(file.is_changed for file in self.files)

    @property
    def replaced_url(self) -> str:
        """The first URL that the new settings replace; empty if there is none."""
        for file in self.files:
            for change in file.changes:
                if isinstance(change.previous, str) and change.previous.startswith(("http://", "https://")):
                    return change.previous
                if change.path == ["model_provider"] and file.original:  # of Codex: the name of a table
                    where = ("model_providers", str(change.previous), "base_url")
                    if isinstance(found := value_at(parse_file(file.path, file.original), where)[1], str):
                        return found
        return ""

    def diff(self) -> str:
        return "".join(file.diff() for file in self.files if file.is_changed)


class Connections:
    """The connections of a user."""

    def __init__(self, home: Path) -> None:
        self._folder = home / FOLDER

    def record(self, client: Client) -> ConnectionRecord | None:
        """Return the record of a client's connection; None if it is not connected."""
        path = self._folder / f"{client.name}.json"
        try:
            return msgspec.json.decode(path.read_bytes(), type=ConnectionRecord)
        except FileNotFoundError:
            return None
        except (msgspec.DecodeError, RecursionError) as error:
            advice = "delete it and connect again; the backups of the client's files are in the folder next to it"
            raise InputError(f"{path} is damaged ({error}); {advice}") from error

    def plan_connect(self, client: Client, request: ConnectionRequest) -> ConnectionPlan:
        """Plan the new files. Changes of an earlier connection of this client are removed first."""
        plan = self._undone(client, self.record(client))
        for file_changes in client.changes(request):
            _apply_all(plan.files, file_changes)
        plan.record = ConnectionRecord(client=client.name, mode=request.mode, url=request.url, files=[])
        return plan

    def plan_disconnect(self, client: Client) -> ConnectionPlan:
        """Plan the files without our changes."""
        record = self.record(client)
        if record is None:
            raise Refused(f"{client.title} is not connected")
        plan = self._undone(client, record)
        plan.backups = [file.backup for file in record.files if file.backup]
        return plan

    def write(self, plan: ConnectionPlan) -> None:
        """Write the files of a plan, each with a backup, and the record: all of them or none.

        The record of a new connection is written before its files. What a killed process wrote can then be removed.
        """
        changed = [file for file in plan.files if file.is_changed]
        for file in changed:
            refuse_committed(file.path, file.diff())
            _refuse_read_only(file.path)
            if read_file(file.path) != file.before:
                raise Refused(f"{file.path} was changed in the meantime; try again")
        path = self._folder / f"{plan.client.name}.json"
        record = PlannedFile(path, read_file(path), self._encoded(plan))
        is_new = record.before is None and record.after is not None
        writes = [record, *changed] if is_new else [*changed, record]
        for place, file in enumerate(writes):
            try:
                _write(file.path, file.after)
            except InputError:
                for written in reversed(writes[:place]):
                    with suppress(InputError):
                        _write(written.path, written.before)
                raise

    def _encoded(self, plan: ConnectionPlan) -> str | None:
        """Return the text of the plan's record, after the backups are made; None without a record."""
        if plan.record is None:
            return None
        records = [
            FileRecord(
                path=str(file.path),
                existed=file.original is not None,
                digest=_digest(file.after or ""),
                backup=self._back_up(plan.client, file),
                changes=file.changes,
            )
            for file in plan.files
            if file.changes
        ]
        encoded = msgspec.json.encode(msgspec.structs.replace(plan.record, files=records))
        return msgspec.json.format(encoded).decode() + "\n"

    def missing(self, record: ConnectionRecord) -> list[str]:
        """Return the changes that are no longer in the files."""
        found = []
        for file in record.files:
            path = Path(file.path)
            text = read_file(path) or ""
            try:
                absent = [one for one in file.changes if not is_applied(SYNTAXES[path.suffix], text, one)]
            except InputError as error:
                found.append(f"{path} {error}")
                continue
            found += [f"{path}: {'.'.join(map(str, one.path))}" for one in absent]
        return found

    def _undone(self, client: Client, record: ConnectionRecord | None) -> ConnectionPlan:
        """Return the files of a connection without its changes."""
        plan = ConnectionPlan(client, [])
        for file in record.files if record else []:
            path = Path(file.path)
            before = read_file(path)
            after = before
            if before is not None and _digest(before) == file.digest:
                after = read_file(Path(file.backup)) if file.backup else None
                if file.backup and after is None:  # the backup was removed
                    after = undo(SYNTAXES[path.suffix], before, file.changes).text
            elif before is not None:
                try:
                    result = undo(SYNTAXES[path.suffix], before, file.changes)
                except InputError as error:
                    raise InputError(f"{path} {error}") from error
                plan.kept += [f"{path}: {name}" for name in result.kept]
                is_empty = not file.existed and SYNTAXES[path.suffix].parse(result.text) == {}
                after = None if is_empty else result.text
            plan.files.append(PlannedFile(path, before, after, original=after))
        return plan

    def _back_up(self, client: Client, file: PlannedFile) -> str | None:
        """Back up the bytes of a file from before the connection."""
        if file.original is None:
            return None
        stamp = time.strftime("%Y%m%d-%H%M%S")
        path = self._folder / BACKUPS / f"{client.name}-{stamp}-{file.path.name}"
        number = 1
        while path.exists():
            number += 1
            path = path.with_name(f"{client.name}-{stamp}-{number}-{file.path.name}")
        _write(path, file.original)
        return str(path)


def _apply_all(planned: list[PlannedFile], file_changes: FileChanges) -> None:
    file = next((one for one in planned if one.path == file_changes.path), None)
    if file is None:
        text = read_file(file_changes.path)
        file = PlannedFile(file_changes.path, text, text, original=text)
        planned.append(file)
    if file_changes.is_strict and file.after:
        parse_file(file_changes.path, file.after)
        try:
            json.loads(file.after)
        except (ValueError, RecursionError) as error:
            problem = f"is not strict JSON, so the client ignores it ({error}); fix it first"
            raise InputError(f"{file_changes.path} {problem}") from error
    for change in file_changes.changes:
        try:
            file.after, applied = apply(SYNTAXES[file_changes.path.suffix], file.after or "", change)
        except InputError as error:
            raise InputError(f"{file_changes.path} {error}") from error
        if applied:
            file.changes.append(applied)


def refuse_committed(path: Path, diff: str) -> None:
    """Raise `Refused` if a file is or would be tracked by a git repository: such files get committed."""
    real = path.resolve()
    folder = next((one for one in real.parents if one.is_dir()), None)
    if folder is None or not any((one / ".git").exists() for one in [folder, *folder.parents]):
        return
    ignored = _git(folder, "check-ignore", "--quiet", "--", str(real))
    if ignored == 0 or ignored is None:
        return
    advice = f"it is in a git repository and would be committed. To connect by hand:\n{diff}"
    raise Refused(f"{path} is not changed: {advice}")


def _refuse_read_only(path: Path) -> None:
    """Raise `Refused` for a read-only file, even if its folder would allow replacing it."""
    real = path.resolve()
    if real.exists() and not real.stat().st_mode & 0o222:
        raise Refused(f"{path} is read-only and is not changed; make it writable first, e.g. chmod u+w")


def _git(folder: Path, *arguments: str) -> int | None:
    """Return the exit code of git; None without git, or outside of a repository."""
    try:
        command = ["git", "-C", str(folder), *arguments]
        done = subprocess.run(command, capture_output=True, timeout=GIT_SECONDS, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.returncode if done.returncode in (0, 1) else None


def _write(path: Path, text: str | None) -> None:
    """Write a file atomically and keep its mode; a link keeps pointing at it. None removes it."""
    real = path.resolve()
    try:
        if text is None:
            real.unlink(missing_ok=True)
            return
        real.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        mode = real.stat().st_mode & 0o777 if real.exists() else 0o600
        descriptor, name = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(text.encode())
            os.chmod(name, mode)  # noqa: PTH101
            os.replace(name, real)  # noqa: PTH105
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(f"{path} can't be written: {error.strerror}") from error


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
