"""The store in one SQLite file: WAL, one writing thread with group commit, a few reading threads."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from foveate.errors import (
    Damaged,
    ForkInUse,
    InputError,
    PinLocked,
    PinNotFound,
    StoreClosed,
    TurnNotFound,
)
from foveate.store import (
    UPDATABLE,
    Draft,
    Finding,
    MessageOutline,
    MessageRow,
    NewSession,
    PinRow,
    Place,
    PruneReport,
    SessionRow,
    StoredSizes,
    TurnRow,
    bodies,
    rows,
    sql,
)
from foveate.store.check import check_database
from foveate.store.lineage import NO_LIMIT, spans
from foveate.store.settings import StoreSettings
from foveate.store.sqlite_artefacts import SqliteArtefacts
from foveate.store.sqlite_calls import SqliteCalls
from foveate.store.sqlite_derived import SqliteDerived
from foveate.store.sqlite_file import connect, errors_told, prepare
from foveate.store.sqlite_passages import SqlitePassages, damage_told, forget_passages
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
        self._derived = SqliteDerived(self._read, self._writer.submit)
        self._passages = SqlitePassages(self.location, self._read, self._writer.submit)
        self._artefacts = SqliteArtefacts(self._read, self._writer.submit)
        self._calls = SqliteCalls(self._read, self._writer.submit)

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
    def derived(self) -> SqliteDerived:
        return self._derived

    @property
    def passages(self) -> SqlitePassages:
        return self._passages

    @property
    def artefacts(self) -> SqliteArtefacts:
        return self._artefacts

    @property
    def calls(self) -> SqliteCalls:
        return self._calls

    @property
    def commits(self) -> int:
        """Commits so far, each behind one fsync; concurrent writes share them."""
        return self._writer.commits

    async def create_session(self, session: NewSession) -> SessionRow:
        return await self._writer.submit(lambda connection: rows.create_session(connection, session, None, 0, 0))

    async def fork_session(self, session: NewSession, parent_id: str, turn: int) -> SessionRow:
        def job(connection: sqlite3.Connection) -> SessionRow:
            chain = rows.chain_of(connection, parent_id)
            parent = chain[0]
            if not 1 <= turn <= parent.last_turn:
                raise TurnNotFound(parent_id, turn_id(turn), parent.last_turn)
            (position,) = rows.select_spans(connection, sql.COUNT_POSITIONS, spans(chain), turn, turn)[0]
            row = rows.create_session(connection, session, parent, turn, position)
            for statement in (sql.COPY_PINS, *sql.COPY_GIVEN):
                connection.execute(statement, {"from": parent.number, "to": row.number})
            return row

        return await self._writer.submit(job)

    async def get_session(self, session_id: str) -> SessionRow:
        return await self._read(lambda connection: rows.get_session(connection, session_id))

    async def list_sessions(self, *, platform: str | None = None, channel: str | None = None) -> list[SessionRow]:
        labels = {"platform": platform, "channel": channel}
        return await self._read(lambda connection: rows.session_rows(connection, sql.LIST_SESSIONS, labels))

    async def update_session(self, session_id: str, changes: Mapping[str, object]) -> SessionRow:
        unknown = set(changes) - UPDATABLE
        if unknown:
            raise InputError(f"a session's {', '.join(sorted(unknown))} can't be changed")
        statement = sql.update_session(frozenset(changes))

        def job(connection: sqlite3.Connection) -> SessionRow:
            connection.execute(statement, {**changes, "id": session_id})
            return rows.get_session(connection, session_id)

        return await self._writer.submit(job)

    async def delete_session(self, session_id: str) -> None:
        def job(connection: sqlite3.Connection) -> None:
            number = {"number": rows.get_session(connection, session_id).number}
            forks = tuple(child for child, _ in connection.execute(sql.LIST_CHILDREN, number))
            if forks:
                raise ForkInUse(session_id, forks)
            with damage_told(self.location):
                forget_passages(connection, "session = :session", {"session": number["number"]})
            for statement in sql.DELETE_SESSION:
                connection.execute(statement, number)

        await self._writer.submit(job)

    async def append(self, session_id: str, drafts: Sequence[Draft], *, newest_turn: int | None = None) -> list[Place]:
        return await self._writer.submit(
            lambda connection: rows.append(connection, session_id, drafts, newest_turn=newest_turn)
        )

    async def read(self, session_id: str, first: int, last: int) -> list[MessageRow]:
        def job(connection: sqlite3.Connection) -> list[MessageRow]:
            found = rows.select_spans(
                connection, sql.READ_MESSAGES, spans(rows.chain_of(connection, session_id)), first, last
            )
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
            found = rows.select_spans(
                connection, sql.READ_TURNS, spans(rows.chain_of(connection, session_id)), first, last
            )
            return [TurnRow(*row) for row in found]

        return await self._read(job)

    async def outlines(self, session_id: str, first: int, last: int) -> list[MessageOutline]:
        def job(connection: sqlite3.Connection) -> list[MessageOutline]:
            lineage = spans(rows.chain_of(connection, session_id))
            found = rows.select_spans(connection, sql.READ_OUTLINES, lineage, first, last)
            return [MessageOutline(*row) for row in found]

        return await self._read(job)

    async def keys(self, session_id: str, first: int, last: int) -> list[str | None]:
        def job(connection: sqlite3.Connection) -> list[str | None]:
            lineage = spans(rows.chain_of(connection, session_id))
            return [key for (key,) in rows.select_spans(connection, sql.READ_KEYS, lineage, first, last)]

        return await self._read(job)

    async def sizes(self, session_id: str) -> StoredSizes:
        def job(connection: sqlite3.Connection) -> StoredSizes:
            found = rows.select_spans(
                connection, sql.READ_SIZES, spans(rows.chain_of(connection, session_id)), 1, NO_LIMIT
            )
            messages, tokens, calls, raw, stored = (sum(row[column] for row in found) for column in range(5))
            moments = [moment for row in found for moment in row[5:] if moment is not None]
            return StoredSizes(
                messages, tokens, calls, raw, stored, min(moments, default=None), max(moments, default=None)
            )

        return await self._read(job)

    async def raw_tokens(self, session_id: str, first: int, last: int) -> int:
        def job(connection: sqlite3.Connection) -> int:
            lineage = spans(rows.chain_of(connection, session_id))
            return sum(row[0] for row in rows.select_spans(connection, sql.SUM_TOKENS, lineage, first, last))

        return await self._read(job)

    async def add_pin(self, session_id: str, text: str, *, locked: bool) -> PinRow:
        def job(connection: sqlite3.Connection) -> PinRow:
            now = rows.now_us()
            session = rows.get_session(connection, session_id).number
            values = {"session": session, "text": text, "locked": int(locked), "now_us": now}
            found = connection.execute(sql.FIND_PIN, values).fetchone()
            if found is None:
                (number,) = connection.execute(sql.ADD_PIN, values).fetchone()
                return PinRow(number, text, locked, now)
            number, was_locked, created = found
            if locked and not was_locked:
                connection.execute(sql.LOCK_PIN, {"session": session, "number": number})
            return PinRow(number, text, locked or bool(was_locked), created)

        return await self._writer.submit(job)

    async def list_pins(self, session_id: str) -> list[PinRow]:
        def job(connection: sqlite3.Connection) -> list[PinRow]:
            found = connection.execute(sql.LIST_PINS, {"session": rows.get_session(connection, session_id).number})
            return [PinRow(number, text, bool(locked), created) for number, text, locked, created in found]

        return await self._read(job)

    async def remove_pin(self, session_id: str, number: int, *, even_if_locked: bool) -> None:
        def job(connection: sqlite3.Connection) -> None:
            values = {
                "session": rows.get_session(connection, session_id).number,
                "number": number,
                "now_us": rows.now_us(),
            }
            row = connection.execute(sql.GET_PIN, values).fetchone()
            if row is None:
                raise PinNotFound(session_id, f"P-{number}")
            if row[0] and not even_if_locked:
                raise PinLocked(f"P-{number}")
            connection.execute(sql.REMOVE_PIN, values)

        await self._writer.submit(job)

    async def prune(self, session_id: str, *, before_us: int, dry_run: bool) -> PruneReport:
        def job(connection: sqlite3.Connection) -> PruneReport:
            row = rows.get_session(connection, session_id)
            now = rows.now_us()
            values = {
                "session": row.number,
                "last_turn": row.last_turn,
                "before_us": before_us,
                "now_us": now,
                "mark": str(now).encode(),
            }
            *counts, oldest = connection.execute(sql.COUNT_OLD, values).fetchone()
            children = connection.execute(sql.LIST_CHILDREN, {"number": row.number}).fetchall()
            forks = tuple(child for child, fork_turn in children if oldest is not None and fork_turn >= oldest)
            if forks:
                raise ForkInUse(session_id, forks)
            if not dry_run and oldest is not None:
                with damage_told(self.location):
                    forget_passages(connection, sql.IN_OLD_TURN, values)
                for statement in sql.PRUNE:
                    connection.execute(statement, values)
            return PruneReport(*counts)

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
