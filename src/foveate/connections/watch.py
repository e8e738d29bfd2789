"""Watch the folders in which coding agents store their transcripts, and import new messages, each once.

The size and time of each imported file are stored, so that a restart reads only files that changed since. A file that
grew is read completely; stored messages are recognized by their keys. A last line that is still being written is
skipped until the next round.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from foveate.connections.clients import CLIENTS
from foveate.connections.connection import Connections
from foveate.errors import FoveateError, InputError, StoreError

if TYPE_CHECKING:
    from foveate.client import Foveate
    from foveate.importer import ImportReport

SOURCES: Mapping[str, tuple[str, ...]] = {
    "Claude Code": (".claude/projects/**/*.jsonl",),
    "Codex": (".codex/sessions/**/*.jsonl",),
    "pi": (".pi/agent/sessions/**/*.jsonl",),
    "Gemini CLI": (".gemini/tmp/*/chats/*.json*",),
    "OpenCode": (".local/share/opencode/opencode.db",),
    "Cline": (".cline/data/sessions/*/*.messages.json",),
    "Cursor": (
        ".config/Cursor/User/globalStorage/state.vscdb",
        "Library/Application Support/Cursor/User/globalStorage/state.vscdb",
    ),
    "Copilot Chat": (
        ".config/Code/User/workspaceStorage/*/chatSessions/*.json*",
        ".config/Code/User/globalStorage/emptyWindowChatSessions/*.json*",
        "Library/Application Support/Code/User/workspaceStorage/*/chatSessions/*.json*",
    ),
}
"""Where each program stores its conversations, below the home folder."""
SUFFIXES = (".jsonl", ".json", ".db", ".vscdb", ".md")
REST_SHARE = 10
"""A file is skipped for this many times the duration of its last import, so that a long one does not block a core."""
CUT_OFF = "cut off"
STATE_FOLDER = ".foveate/watch"

FileState = tuple[int, int]
"""Bytes and time of a file and of its journals."""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """The import of a file, or its failure."""

    path: Path
    report: ImportReport | None
    problem: str = ""


@dataclass(slots=True)
class Watcher:
    """Imports files as they grow."""

    fov: Foveate
    patterns: Sequence[tuple[Path, str]]
    """Folders, and the file pattern to look for in each."""
    state_path: Path
    clock: Callable[[], float] = time.monotonic
    _known: dict[str, FileState] = field(default_factory=dict)
    _due: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            self._known = msgspec.json.decode(self.state_path.read_bytes(), type=dict[str, FileState])
        except (OSError, msgspec.DecodeError):
            self._known = {}  # all files are read again, and nothing is stored twice

    async def run_once(self) -> list[WatchEvent]:
        """Import each file that changed since it was last read."""
        events = []
        for path in sorted(set(self._files())):
            state = _state(path)
            if state is None or self._known.get(str(path)) == state or self.clock() < self._due.get(str(path), 0):
                continue
            started = self.clock()
            events.append(await self._import(path))
            self._due[str(path)] = self.clock() + REST_SHARE * (self.clock() - started)
            self._known[str(path)] = state
        if events:
            self._save()
        return events

    async def _import(self, path: Path) -> WatchEvent:
        try:
            report = await self.fov.import_file(path)
        except StoreError:
            raise
        except (FoveateError, OSError) as error:
            return WatchEvent(path, None, str(error))
        # The line that a program is writing at this moment is read in the next round.
        report.problems = [one for one in report.problems if CUT_OFF not in one.reason]
        return WatchEvent(path, report)

    def _files(self) -> Iterator[Path]:
        for folder, pattern in self.patterns:
            if folder.is_dir():
                yield from (path for path in folder.glob(pattern) if path.is_file())

    def _save(self) -> None:
        self.state_path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, name = tempfile.mkstemp(dir=self.state_path.parent)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(self._known))
        Path(name).replace(self.state_path)


def known_patterns(home: Path) -> list[tuple[Path, str]]:
    """Return the existing folders of all known programs. A client that is connected to the gateway is recorded there:
    its transcripts would duplicate the same conversations."""
    connections = Connections(home)
    records = [connections.record(client) for client in CLIENTS.values()]
    recorded = {CLIENTS[record.client].title for record in records if record and record.mode == "gateway"}
    found = []
    for pattern in (one for name, patterns in SOURCES.items() if name not in recorded for one in patterns):
        parts = Path(pattern).parts
        fixed = next((number for number, part in enumerate(parts) if "*" in part), len(parts) - 1)
        folder = home.joinpath(*parts[:fixed])
        if folder.is_dir():
            found.append((folder, str(Path(*parts[fixed:]))))
    return found


def folder_patterns(paths: Sequence[Path]) -> list[tuple[Path, str]]:
    """Return patterns for all transcripts in folders that a user names."""
    missing = [path for path in paths if not path.is_dir()]
    if missing:
        raise InputError(f"{missing[0]}: there is no such folder")
    return [(path, f"**/*{suffix}") for path in paths for suffix in SUFFIXES]


def state_file(home: Path, location: str) -> Path:
    """Return where the state of a store is saved."""
    return home / STATE_FOLDER / f"{hashlib.sha256(location.encode()).hexdigest()[:16]}.json"


def _state(path: Path) -> FileState | None:
    """Return the size and time of a file. A database has its newest rows in a journal file next to it."""
    size = newest = 0
    for one in (path, path.with_name(path.name + "-wal")):
        try:
            stat = one.stat()
        except OSError:
            if one == path:
                return None
            continue
        size += stat.st_size
        newest = max(newest, stat.st_mtime_ns)
    return size, newest
