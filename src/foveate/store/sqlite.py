"""The store in one SQLite file: WAL, one writing thread with group commit, a few reading threads."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from foveate.errors import (
    Damaged,
    ForkInUse,
    InputError,
    PinLocked,
    PinNotFound,
    SessionExists,
    SessionNotFound,
    StoreClosed,
    TurnNotFound,
)
from foveate.settings import StoreSettings
from foveate.store import (
    UPDATABLE,
    Draft,
    Finding,
    MessageRow,
    NewSession,
    PinRow,
    Place,
    Pruned,
    SessionRow,
    Sizes,
    TurnRow,
    bodies,
    sql,
)
from foveate.store.check import check_database
from foveate.store.lineage import NO_LIMIT, HeadState, Span, spans
from foveate.store.sqlite_file import connect, errors_told, prepare
from foveate.store.writer import Writer
from foveate.turn import turn_id

T = TypeVar("T")


class SqliteStore:
    """See `foveate.store.Store`."""

    def __init__(self, path: Path, settings: StoreSettings) -> None:
        self.location = str(path)
        self._path = path
        self._settings = settings
        self._writer = Writer(
            self.location, lambda: connect(path, settings), lambda: errors_told(self.location), settings.group_limit
        )
        self._readers = ThreadPoolExecutor(settings.readers, thread_name_prefix="foveate-reader")
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._closed = False

    @classmethod
    async def open(cls, location: str, settings: StoreSettings) -> SqliteStore:
        if location.startswith(":") or not location:
            raise InputError(
                f"{location!r} is no file; a store needs one, since what it keeps must outlive the program"
            )
        path = Path(location).expanduser()  # noqa: ASYNC240 - touches no disk
        await asyncio.to_thread(prepare, path, settings)
        return cls(path, settings)

    @property
    def commits(self) -> int:
        """Commits so far, each behind one fsync; concurrent writes share them."""
        return self._writer.commits

    async def create_session(self, session: NewSession) -> SessionRow:
        return await self._writer.submit(lambda connection: _create(connection, session, None, 0, 0))

    async def fork_session(self, session: NewSession, parent_id: str, turn: int) -> SessionRow:
        def job(connection: sqlite3.Connection) -> SessionRow:
            chain = _chain(connection, parent_id)
            parent = chain[0]
            if not 1 <= turn <= parent.last_turn:
                raise TurnNotFound(parent_id, turn_id(turn), parent.last_turn)
            (position,) = _select(connection, sql.COUNT_POSITIONS, spans(chain), turn, turn)[0]
            row = _create(connection, session, parent, turn, position)
            connection.execute(sql.COPY_PINS, {"from": parent.number, "to": row.number})
            return row

        return await self._writer.submit(job)

    async def get_session(self, session_id: str) -> SessionRow:
        return await self._read(lambda connection: _get(connection, session_id))

    async def list_sessions(self, *, platform: str | None = None, channel: str | None = None) -> list[SessionRow]:
        labels = {"platform": platform, "channel": channel}
        return await self._read(lambda connection: _rows(connection, sql.LIST_SESSIONS, labels))

    async def update_session(self, session_id: str, changes: Mapping[str, object]) -> SessionRow:
        unknown = set(changes) - UPDATABLE
        if unknown:
            raise InputError(f"a session's {', '.join(sorted(unknown))} can't be changed")
        statement = sql.update_session(frozenset(changes))

        def job(connection: sqlite3.Connection) -> SessionRow:
            connection.execute(statement, {**changes, "id": session_id, "now_us": _now_us()})
            return _get(connection, session_id)

        return await self._writer.submit(job)

    async def delete_session(self, session_id: str) -> None:
        def job(connection: sqlite3.Connection) -> None:
            number = {"number": _get(connection, session_id).number}
            forks = tuple(child for child, _ in connection.execute(sql.LIST_CHILDREN, number))
            if forks:
                raise ForkInUse(session_id, forks)
            for statement in sql.DELETE_SESSION:
                connection.execute(statement, number)

        await self._writer.submit(job)

    async def append(self, session_id: str, drafts: Sequence[Draft]) -> list[Place]:
        return await self._writer.submit(lambda connection: _append(connection, session_id, drafts))

    async def read(self, session_id: str, first: int, last: int) -> list[MessageRow]:
        def job(connection: sqlite3.Connection) -> list[MessageRow]:
            found = _select(connection, sql.READ_MESSAGES, spans(_chain(connection, session_id)), first, last)
            return [self._checked(session_id, row) for row in found]

        return await self._read(job)

    def _checked(self, session_id: str, row: tuple[Any, ...]) -> MessageRow:
        turn, position, role, kind, tokens, at_us, recorded_us, digest, pruned_us, data = row
        body = None
        if pruned_us is None:
            try:
                if data is None:
                    raise ValueError("is missing")
                body = bodies.unpack(data, digest)
            except ValueError as error:
                where = f"message {position} of {turn_id(turn)} in session {session_id!r}"
                raise Damaged(
                    self.location, f"{where} {error}; run 'foveate doctor' to see what is affected"
                ) from error
        return MessageRow(turn, position, role, kind, tokens, at_us, recorded_us, body)

    async def turns(self, session_id: str, first: int, last: int) -> list[TurnRow]:
        def job(connection: sqlite3.Connection) -> list[TurnRow]:
            found = _select(connection, sql.READ_TURNS, spans(_chain(connection, session_id)), first, last)
            return [TurnRow(*row) for row in found]

        return await self._read(job)

    async def sizes(self, session_id: str) -> Sizes:
        def job(connection: sqlite3.Connection) -> Sizes:
            found = _select(connection, sql.READ_SIZES, spans(_chain(connection, session_id)), 1, NO_LIMIT)
            messages, tokens, calls, raw, stored = (sum(row[column] for row in found) for column in range(5))
            moments = [moment for row in found for moment in row[5:] if moment is not None]
            return Sizes(messages, tokens, calls, raw, stored, min(moments, default=None), max(moments, default=None))

        return await self._read(job)

    async def add_pin(self, session_id: str, text: str, *, locked: bool) -> PinRow:
        def job(connection: sqlite3.Connection) -> PinRow:
            now_us = _now_us()
            session = _get(connection, session_id).number
            values = {"session": session, "text": text, "locked": int(locked), "now_us": now_us}
            (number,) = connection.execute(sql.ADD_PIN, values).fetchone()
            return PinRow(number, text, locked, now_us)

        return await self._writer.submit(job)

    async def list_pins(self, session_id: str) -> list[PinRow]:
        def job(connection: sqlite3.Connection) -> list[PinRow]:
            found = connection.execute(sql.LIST_PINS, {"session": _get(connection, session_id).number})
            return [PinRow(number, text, bool(locked), created) for number, text, locked, created in found]

        return await self._read(job)

    async def remove_pin(self, session_id: str, number: int, *, even_if_locked: bool) -> None:
        def job(connection: sqlite3.Connection) -> None:
            values = {"session": _get(connection, session_id).number, "number": number, "now_us": _now_us()}
            row = connection.execute(sql.GET_PIN, values).fetchone()
            if row is None:
                raise PinNotFound(session_id, f"P-{number}")
            if row[0] and not even_if_locked:
                raise PinLocked(f"P-{number}")
            connection.execute(sql.REMOVE_PIN, values)

        await self._writer.submit(job)

    async def prune(self, session_id: str, *, before_us: int, dry_run: bool) -> Pruned:
        def job(connection: sqlite3.Connection) -> Pruned:
            row = _get(connection, session_id)
            values = {"session": row.number, "last_turn": row.last_turn, "before_us": before_us, "now_us": _now_us()}
            *counts, oldest = connection.execute(sql.COUNT_OLD, values).fetchone()
            children = connection.execute(sql.LIST_CHILDREN, {"number": row.number}).fetchall()
            forks = tuple(child for child, fork_turn in children if oldest is not None and fork_turn >= oldest)
            if forks:
                raise ForkInUse(session_id, forks)
            if not dry_run:
                for statement in sql.PRUNE:
                    connection.execute(statement, values)
            return Pruned(*counts)

        return await (self._read(job) if dry_run else self._writer.submit(job))

    async def check(self) -> AsyncIterator[Finding]:
        findings = check_database(self._path, self._settings)
        while (finding := await self._run(next, findings, None)) is not None:
            yield finding

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._writer.close()
        self._readers.shutdown()
        for connection in self._connections:
            connection.close()

    async def _read(self, job: Callable[[sqlite3.Connection], T]) -> T:
        return await self._run(self._with_reader, job)

    async def _run(self, function: Callable[..., T], *arguments: object) -> T:
        if self._closed:
            raise StoreClosed(self.location, "the store is closed; open it again")
        return await asyncio.get_running_loop().run_in_executor(self._readers, function, *arguments)

    def _with_reader(self, job: Callable[[sqlite3.Connection], T]) -> T:
        with errors_told(self.location):
            if not hasattr(self._local, "connection"):
                self._local.connection = connect(self._path, self._settings, read_only=True)
                self._connections.append(self._local.connection)
            connection: sqlite3.Connection = self._local.connection
            connection.execute("BEGIN")  # one snapshot for all that a job reads
            try:
                return job(connection)
            finally:
                connection.execute("COMMIT")


def _now_us() -> int:
    return time.time_ns() // 1000


def _rows(connection: sqlite3.Connection, statement: str, values: Mapping[str, object]) -> list[SessionRow]:
    cursor = connection.execute(statement, values)
    columns = [column[0] for column in cursor.description]
    return [SessionRow(**dict(zip(columns, row, strict=True))) for row in cursor]


def _get(connection: sqlite3.Connection, session_id: str) -> SessionRow:
    found = _rows(connection, sql.GET_SESSION, {"id": session_id})
    if not found:
        raise SessionNotFound(session_id)
    return found[0]


def _chain(connection: sqlite3.Connection, session_id: str) -> list[SessionRow]:
    """The session and its ancestors, nearest first."""
    chain = [_get(connection, session_id)]
    while chain[-1].parent is not None:
        chain += _rows(connection, sql.GET_SESSION_BY_NUMBER, {"number": chain[-1].parent})
    return chain


def _select(
    connection: sqlite3.Connection, statement: str, lineage: Sequence[Span], first: int, last: int
) -> list[tuple[Any, ...]]:
    """The rows of a span statement over a session's lineage, oldest turn first."""
    wanted = (span.clamp(first, last) for span in lineage)
    return [row for span in wanted if span for row in connection.execute(statement, asdict(span))]


def _create(
    connection: sqlite3.Connection, session: NewSession, parent: SessionRow | None, turn: int, position: int
) -> SessionRow:
    origin = {
        "parent": parent and parent.number,
        "fork_turn": turn,
        "fork_position": position,
        "calibration": parent.calibration if parent else 1.0,
        "now_us": _now_us(),
    }
    try:
        connection.execute(sql.ADD_SESSION, {**asdict(session), **origin})
    except sqlite3.IntegrityError as error:
        raise SessionExists(session.id) from error
    return _get(connection, session.id)


def _append(connection: sqlite3.Connection, session_id: str, drafts: Sequence[Draft]) -> list[Place]:
    row = connection.execute(sql.GET_HEAD, {"id": session_id}).fetchone()
    if row is None:
        raise SessionNotFound(session_id)
    number, turn, position, head = row
    state = HeadState(turn, position, head)
    known = dict(_known_places(connection, number, drafts))
    fresh = [draft for index, draft in enumerate(drafts) if index not in known]
    if not fresh:
        return [known[index] for index in range(len(drafts))]
    now_us = _now_us()
    placed = list(state.place(fresh))
    for draft, place in zip(fresh, placed, strict=True):
        _add(connection, number, draft, place, now_us)
    moved = {"last_turn": state.turn, "last_position": state.position, "head": state.head}
    connection.execute(sql.MOVE_HEAD, {**moved, "number": number, "now_us": now_us})
    rest = iter(placed)
    return [known[index] if index in known else next(rest) for index in range(len(drafts))]


def _known_places(connection: sqlite3.Connection, session: int, drafts: Sequence[Draft]) -> Iterator[tuple[int, Place]]:
    """The drafts whose key the session has already, by their index, and where they went."""
    for index, draft in enumerate(drafts):
        if draft.key is not None:
            row = connection.execute(sql.FIND_KEY, {"session": session, "key": draft.key}).fetchone()
            if row is not None:
                yield index, Place(row[0], row[1], is_new=False)


def _add(connection: sqlite3.Connection, session: int, draft: Draft, place: Place, now_us: int) -> None:
    values = {
        "session": session,
        "turn": place.turn,
        "position": place.position,
        "role": draft.role,
        "kind": draft.kind,
        "tokens": draft.tokens,
        "tool_calls": draft.tool_calls,
        "at_us": now_us if draft.at_us is None else draft.at_us,
        "now_us": now_us,
        "size": draft.size,
        "digest": draft.digest,
        "key": draft.key,
    }
    (message,) = connection.execute(sql.ADD_MESSAGE, values).fetchone()
    connection.execute(sql.ADD_BODY, {"message": message, "data": draft.body})
