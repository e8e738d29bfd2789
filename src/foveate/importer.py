"""Import of transcripts: files are read once in constant memory and recorded in batches, without duplicates."""

from __future__ import annotations

import asyncio
import inspect
import io
import os
import re
import zipfile
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, BinaryIO

from foveate import formats
from foveate.errors import InputError, InvalidMessage, SessionNotFound, UnknownFormat
from foveate.formats import SessionHeader, TranscriptItem, TranscriptMessage, TranscriptProblem
from foveate.formats.files import ZIP
from foveate.models.names import plain_model
from foveate.session import Session
from foveate.session.record import check_session_id, printable_text
from foveate.session.tenant import stored_id
from foveate.store import Store
from foveate.store.codec import draft_messages, weigh
from foveate.store.message_keys import stored_forms
from foveate.unpack import archive_bytes

if TYPE_CHECKING:
    from foveate.client import Foveate

BATCH_MESSAGES = 500
"""Messages per batch; also the number of first messages that distinguish files of the same name."""
BATCH_CHARS = 4_000_000
MAX_PROBLEMS = 10_000
"""Maximum number of problems that are listed; further ones are only counted."""
LAST_RESORT = "jsonl"
"""The fallback format, which reads any JSON; a file in which it finds no message is not a transcript."""
MAX_NAME_SHOWN = 50
MAX_DISPLAY_RECORDS = 5_000
"""Maximum number of display-only records that are held until a session's first message."""
MAX_OF_A_NAME = 1_000
"""Maximum number of different files with the same name."""

OpenSession = Callable[[SessionHeader, Sequence[str]], Awaitable[Session]]
"""Opens or creates the session of a header; the strings are the keys of its first messages (see `free_name`)."""
Progress = Callable[[int], object]


@dataclass(slots=True)
class ImportedSession:
    """The result of an import for one session of the transcript."""

    id: str
    name: str
    """The session's name in the transcript; `id` differs if that was taken or another id was requested."""
    found: int = 0
    """Messages of the session in the file."""
    added: int = 0
    """Messages that were new."""
    turns: int = 0
    """Number of the session's newest imported turn."""


@dataclass(slots=True)
class ImportReport:
    """The result of an import: what was read, and what could not be read."""

    source: str
    format: str
    sessions: list[ImportedSession] = field(default_factory=list)
    problems: list[TranscriptProblem] = field(default_factory=list)
    unlisted_problems: int = 0
    bytes_read: int = 0
    skipped_sessions: int = 0
    """Sessions with records but without messages."""

    @property
    def found(self) -> int:
        """Number of messages in the file."""
        return sum(session.found for session in self.sessions)

    @property
    def added(self) -> int:
        """Number of messages that were new."""
        return sum(session.added for session in self.sessions)

    def note(self, problem: TranscriptProblem) -> None:
        """Add a problem to the report; beyond a limit, problems are only counted."""
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)
        else:
            self.unlisted_problems += 1


class _Counted(io.RawIOBase):
    """A stream that reports its position after each read."""

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
        count = self._stream.readinto(buffer)  # type: ignore[attr-defined]
        if self._progress:
            self._progress(self._stream.tell())
        return int(count)


async def import_transcript(
    path: Path,
    open_session: OpenSession,
    *,
    format_name: str | None = None,
    progress: Progress | None = None,
) -> ImportReport:
    """Read a file and record its messages; `open_session` opens or creates each session that it names."""
    try:
        with await asyncio.to_thread(path.open, "rb") as stream:
            name, items = await asyncio.to_thread(_read, stream, path, format_name, progress)
            report = ImportReport(str(path), name)
            modified_at = datetime.fromtimestamp(os.fstat(stream.fileno()).st_mtime, UTC)
            await _Import(report, open_session, modified_at=modified_at).run(items)
            report.bytes_read = stream.tell()
            if name == LAST_RESORT and not report.sessions and not report.problems:
                raise UnknownFormat(f"{path}: no messages found; if it is a transcript, name its format")
            return report
    except OSError as error:
        raise InputError(f"{path}: can't be read: {error.strerror}") from error


@cache
def accepted_files() -> Mapping[str, str]:
    """Describe the files of each transcript format by the first sentence of its documentation."""
    return {
        name: " ".join((inspect.getdoc(format_) or "").partition("\n\n")[0].split())
        for name, format_ in formats.transcript_formats().items()
    }


def unpacked_bytes(path: Path, format_name: str | None = None) -> int:
    """Return how many bytes an import of this file unpacks: 0 if it is no archive."""
    with path.open("rb") as stream:
        head = stream.read(formats.HEAD_BYTES)
        return _unpacked(stream, head, path, format_name or formats.detect_transcript(head, path.name))


def _unpacked(stream: BinaryIO, head: bytes, path: Path, format_name: str) -> int:
    """Check an archive before anything of it is recorded."""
    if not head.startswith(ZIP):
        return 0
    format_ = formats.load_transcript(format_name)
    members = format_.MEMBERS if isinstance(format_, formats.ArchiveFormat) else re.compile(".*", re.DOTALL)
    try:
        return archive_bytes(stream, lambda name: members.fullmatch(PurePath(name).name) is not None)
    except (zipfile.BadZipFile, NotImplementedError):
        return 0  # the format reports how it is damaged
    except ValueError as error:
        raise InputError(f"{path}: {error}") from error


def _read(
    stream: BinaryIO, path: Path, format_name: str | None, progress: Progress | None
) -> tuple[str, Iterator[TranscriptItem]]:
    """Detect the format of a file, and return its name and an iterator that reads the items."""
    head = stream.read(formats.HEAD_BYTES)
    name = format_name or formats.detect_transcript(head, path.name)
    _unpacked(stream, head, path, name)
    stream.seek(0)
    format_ = formats.load_transcript(name)
    if head.startswith(formats.SQLITE) and isinstance(format_, formats.DatabaseFormat):
        return name, format_.read_file(path)
    counted = io.BufferedReader(_Counted(stream, progress), buffer_size=1 << 20)
    return name, format_.read(counted, path.name)


class TranscriptSessions:
    """Opens or creates the sessions that one transcript names."""

    def __init__(self, fov: Foveate, session_id: str | None) -> None:
        """`session_id` renames the first session; the ids of others begin with it and a slash."""
        self._fov = fov
        self._session_id = session_id
        self._names: dict[str, str] = {}
        self._created: set[str] = set()

    async def open(self, header: SessionHeader, keys: Sequence[str]) -> Session:
        """Open or create the session of a header. An existing session gets only the values that it lacks.

        The model's name is stored without an endpoint: a transcript never decides which server is called.
        """
        fov = self._fov
        name = self._names.get(header.session) or await self._name(header, keys)
        known = {
            "title": header.title and printable_text(header.title),
            "model": header.model and plain_model(printable_text(header.model), fov.settings.models),
            "platform": header.platform,
            "channel": header.channel and printable_text(header.channel),
        }
        if name not in self._created:
            await fov.agents.check_directing(name)
            info = (await fov.open_session(name)).info
            known = {field: value for field, value in known.items() if not getattr(info, field)}
        return await fov.session(
            name,
            title=known.get("title"),
            model=known.get("model"),
            platform=known.get("platform"),
            channel=known.get("channel"),
        )

    async def _name(self, header: SessionHeader, keys: Sequence[str]) -> str:
        """Choose the id of a session, and remember whether it is new."""
        fov, own = self._fov, self._session_id
        if own is None:
            name = await free_name(fov.store, header, keys=keys, tenant=fov.tenant_name)
        else:
            name = f"{own}/{header.session}" if self._names else own
        self._names[header.session] = check_session_id(name)
        try:
            await fov.open_session(name)
        except SessionNotFound:
            self._created.add(name)
        return name


async def free_name(store: Store, header: SessionHeader, *, keys: Sequence[str], tenant: str = "") -> str:
    """Choose the id of a session: its name, with a number if it is named by its file and another file has that name.

    A file continues the session that begins with the same messages, so a file that grew is recognised.
    """
    if not header.is_named_by_file:
        return header.session
    for number in range(1, MAX_OF_A_NAME + 1):
        name = header.session if number == 1 else f"{header.session}-{number}"
        if await _is_free_or_same(store, stored_id(tenant, name), keys=keys):
            return name
    raise InputError(f"there are {MAX_OF_A_NAME:,} sessions named like {header.session!r}; rename the file")


async def _is_free_or_same(store: Store, name: str, *, keys: Sequence[str]) -> bool:
    """Return whether no session has this id, or the one that has it begins with the messages of these keys."""
    try:
        kept = await store.keys(name, 1, len(keys))  # a turn has at least one message
    except SessionNotFound:
        return True
    imported = [key for key in kept if key is not None][: len(keys)]
    known = {form for key in keys for form in stored_forms(key)}
    return set(imported) <= known and bool(imported or not kept)


class _Import:
    """The state of one import: the open sessions, and the times of their latest messages."""

    def __init__(self, report: ImportReport, open_session: OpenSession, *, modified_at: datetime) -> None:
        self._report = report
        self._open_session = open_session
        self._modified_at = modified_at
        self._headers: dict[str, SessionHeader] = {}
        self._sessions: dict[str, tuple[Session, ImportedSession]] = {}
        self._latest: dict[str, datetime] = {}
        self._held: dict[str, list[TranscriptMessage]] = {}
        """Display-only records of sessions that have no message yet."""
        self._rejected: set[str] = set()

    async def run(self, items: Iterator[TranscriptItem]) -> None:
        batches = _Batches(items)
        while batch := await asyncio.to_thread(self._next, batches):
            for found in self._runs(batch):
                await self._record(found)
        for header in self._headers.values():
            if header.session in self._sessions:
                await self._open_session(header, ())  # adds a title that came later in the file
        self._report.skipped_sessions = len(self._held)

    def _next(self, batches: _Batches) -> list[TranscriptItem]:
        """Read the next batch, with times. Runs in a thread, so that a server stays responsive."""
        return list(self._dated(batches.take()))

    def _dated(self, batch: list[TranscriptItem]) -> Iterator[TranscriptItem]:
        """Add a time to each message that has none: that of the previous message of its session, else of the next one
        with a time, else of the file. The original record is not changed."""
        following: dict[str, datetime] = {}
        for item in batch:
            if isinstance(item, TranscriptMessage) and item.message.at:
                following.setdefault(item.session, item.message.at)
        for item in batch:
            if isinstance(item, TranscriptMessage):
                at = item.message.at or self._latest.get(item.session) or following.get(item.session)
                if at:
                    self._latest[item.session] = at
                yield replace(item, message=replace(item.message, at=at or self._modified_at))
            else:
                yield item

    def _runs(self, batch: Sequence[TranscriptItem]) -> Iterator[list[TranscriptMessage]]:
        """Group consecutive messages of the same session; headers and problems are stored in passing."""
        run: list[TranscriptMessage] = []
        for item in batch:
            match item:
                case TranscriptProblem():
                    self._report.note(item)
                case SessionHeader():
                    self._headers[item.session] = _merged(self._headers.get(item.session), item)
                case TranscriptMessage():
                    if run and run[0].session != item.session:
                        yield run
                        run = []
                    run.append(item)
        if run:
            yield run

    async def _record(self, found: list[TranscriptMessage]) -> None:
        name = found[0].session
        if name in self._rejected:
            return
        if name not in self._sessions:
            found = self._held.pop(name, []) + found
            keys = [entry.key for entry in found if entry.message.kind != "display"]
            if not keys and self._report.format == LAST_RESORT:
                self._held[name] = found[:MAX_DISPLAY_RECORDS]
                return
            if not await self._begin(name, keys):
                return
        session, imported = self._sessions[name]
        drafts = await draft_messages(
            [entry.message for entry in found],
            None,
            [entry.key for entry in found],
            session.engine.sizes,
            session.engine.compression_level,
        )
        places = await session.engine.append(drafts)
        imported.found += len(found)
        imported.added += sum(place.is_new for place in places)
        imported.turns = max(imported.turns, *(place.turn for place in places))

    async def _begin(self, name: str, keys: Sequence[str]) -> bool:
        """Open a session; False if its id is invalid, which is reported. The import continues without the session."""
        try:
            session = await self._open_session(self._headers.get(name, SessionHeader(name)), keys)
        except InvalidMessage as error:
            self._rejected.add(name)
            self._report.note(TranscriptProblem(f"conversation {name[:MAX_NAME_SHOWN]!r}", error.problem))
            return False
        self._sessions[name] = session, ImportedSession(session.id, name)
        self._report.sessions.append(self._sessions[name][1])
        return True


class _Batches:
    """Splits a file into batches of limited number and size. A session that is named by the file begins a new batch,
    so that it is recognised by several messages and not just one."""

    def __init__(self, items: Iterator[TranscriptItem]) -> None:
        self._items = items
        self._begun: list[TranscriptItem] = []

    def take(self) -> list[TranscriptItem]:
        batch, self._begun = self._begun, []
        size = 0
        for item in self._items:
            if batch and isinstance(item, SessionHeader) and item.is_named_by_file:
                self._begun = [item]
                break
            batch.append(item)
            if isinstance(item, TranscriptMessage):
                size += weigh(item.message)
            if len(batch) >= BATCH_MESSAGES or size >= BATCH_CHARS:
                break
        return batch


def _merged(old: SessionHeader | None, new: SessionHeader) -> SessionHeader:
    """Merge two headers of a session; newer values take precedence."""
    if old is None:
        return new
    return SessionHeader(
        new.session,
        title=new.title or old.title,
        model=new.model or old.model,
        platform=new.platform or old.platform,
        channel=new.channel or old.channel,
        is_named_by_file=new.is_named_by_file,
    )
