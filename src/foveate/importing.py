"""A transcript coming in: read once in constant memory, recorded in batches, nothing twice and nothing unseen."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from foveate import formats
from foveate.drafts import draft_messages, weigh
from foveate.errors import InputError
from foveate.formats import Found, Header, Item, Problem
from foveate.session import Session

BATCH_MESSAGES = 500
BATCH_CHARS = 4_000_000
MAX_PROBLEMS = 10_000
"""This many problems are reported one by one; further ones are only counted."""

OpenSession = Callable[[Header], Awaitable[Session]]
Progress = Callable[[int], object]


@dataclass(slots=True)
class ImportedSession:
    """What one session of a transcript got."""

    id: str
    found: int = 0
    added: int = 0
    turns: int = 0


@dataclass(slots=True)
class ImportReport:
    """What an import took, and what it could not read."""

    source: str
    format: str
    sessions: list[ImportedSession] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    unlisted_problems: int = 0
    bytes_read: int = 0

    @property
    def found(self) -> int:
        return sum(session.found for session in self.sessions)

    @property
    def added(self) -> int:
        return sum(session.added for session in self.sessions)

    def note(self, problem: Problem) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)
        else:
            self.unlisted_problems += 1


class _Counted(io.RawIOBase):
    """A stream that tells how far it was read."""

    def __init__(self, stream: BinaryIO, progress: Progress | None) -> None:
        self._stream = stream
        self._progress = progress

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._stream.seekable()

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        taken = self._stream.readinto(buffer)  # type: ignore[attr-defined]
        if self._progress:
            self._progress(self._stream.tell())
        return int(taken)


async def import_transcript(
    path: Path,
    open_session: OpenSession,
    *,
    format_name: str | None = None,
    progress: Progress | None = None,
) -> ImportReport:
    """Read one file and record what is in it; `open_session` opens or creates each session that it names."""
    try:
        with await asyncio.to_thread(path.open, "rb") as stream:
            head = stream.read(formats.HEAD_BYTES)
            stream.seek(0)
            name = format_name or formats.detect_transcript(head, path.name)
            report = ImportReport(str(path), name)
            counted = io.BufferedReader(_Counted(stream, progress), buffer_size=1 << 20)
            items = formats.load_transcript(name).read(counted, path.name)
            await _Import(report, open_session).run(items)
            report.bytes_read = stream.tell()
            return report
    except OSError as error:
        raise InputError(f"{path}: can't be read: {error.strerror}") from error


class _Import:
    """The state of one import: the open sessions, and the batch that waits to be recorded."""

    def __init__(self, report: ImportReport, open_session: OpenSession) -> None:
        self._report = report
        self._open_session = open_session
        self._headers: dict[str, Header] = {}
        self._sessions: dict[str, tuple[Session, ImportedSession]] = {}

    async def run(self, items: Iterator[Item]) -> None:
        while batch := await asyncio.to_thread(_take, items):
            for found in _runs(batch, self._report, self._headers):
                await self._record(found)
        for header in self._headers.values():
            if header.session in self._sessions:
                await self._open_session(header)  # a title that became known later

    async def _record(self, found: list[Found]) -> None:
        name = found[0].session
        if name not in self._sessions:
            session = await self._open_session(self._headers.get(name, Header(name)))
            self._sessions[name] = session, ImportedSession(session.id)
            self._report.sessions.append(self._sessions[name][1])
        session, imported = self._sessions[name]
        drafts = await draft_messages(
            [entry.message for entry in found],
            None,
            [entry.key for entry in found],
            session.counter,
            session.compression_level,
        )
        places = await session.append(drafts)
        imported.found += len(found)
        imported.added += sum(place.is_new for place in places)
        imported.turns = max(imported.turns, *(place.turn for place in places))


def _take(items: Iterator[Item]) -> list[Item]:
    """The next batch of a file, bounded in number and in size."""
    batch: list[Item] = []
    size = 0
    for item in items:
        batch.append(item)
        if isinstance(item, Found):
            size += weigh(item.message)
        if len(batch) >= BATCH_MESSAGES or size >= BATCH_CHARS:
            break
    return batch


def _runs(batch: list[Item], report: ImportReport, headers: dict[str, Header]) -> Iterator[list[Found]]:
    """The batch's messages, consecutive ones of a session together; headers and problems are noted on the way."""
    run: list[Found] = []
    for item in batch:
        match item:
            case Problem():
                report.note(item)
            case Header():
                headers[item.session] = _merged(headers.get(item.session), item)
            case Found():
                if run and run[0].session != item.session:
                    yield run
                    run = []
                run.append(item)
    if run:
        yield run


def _merged(old: Header | None, new: Header) -> Header:
    """What is known of a session, the newest word first."""
    if old is None:
        return new
    return Header(
        new.session,
        title=new.title or old.title,
        model=new.model or old.model,
        platform=new.platform or old.platform,
        channel=new.channel or old.channel,
    )
