"""Copy of a whole store into another: from a file to a server, back, or from file to file.

Sessions are copied one after another, parents first, some turns in each transaction, so an interrupted copy
resumes where it stopped. Numbers and ids of rows differ between databases; what refers to them is translated. A session
counts as copied when the hash of its rows is the same on both sides. A repeated copy transfers what is new.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import msgspec

from foveate.errors import StoreError
from foveate.store import passages
from foveate.store.settings import StoreSettings
from foveate.store.sql import Connection, Dialect, Locks, now_us, retried

T = TypeVar("T")

TURNS_PER_COMMIT = 200
ROWS_PER_COMMIT = 500

BY_TURN = ("messages", "renditions", "passages")
"""Tables of a session that are copied turn by turn. `bodies` belong to `messages`."""
OF_SESSION = (
    "eras",
    "pins",
    "plans",
    "offers",
    "recalled",
    "states",
    "boards",
    "requests",
    "artefacts",
    "goals",
    "documents",
    "answer_tails",
    "responses",
    "pictures",
    "turn_topics",
    "content_turns",
    "calls",
)
"""Tables of a session that are copied as a whole, in the transaction that completes it."""
SHARED = {
    "contents": ("tenant", "digest"),
    "cabinet": ("tenant", "key"),
    "prompts": ("tenant", "key", "version"),
    "agents": ("id",),
    "agent_waits": ("agent", "child"),
    "agent_trees": ("tree",),
    "knowledge": ("tenant", "id", "version"),
    "knowledge_sources": ("tenant", "id", "version", "session", "turn"),
    "knowledge_uses": ("tenant", "id"),
    "learn_runs": ("id",),
    "learn_steps": ("run", "name"),
    "access_keys": ("id",),
    "erasures": ("id",),
}
"""Tables of the whole store, with their keys. Rows with the same key are replaced."""
AREAS = Locks(names=frozenset(("agents", "cabinet", "calls", "knowledge", "prompts")))
"""The locks of those tables."""
INDEX = Locks(names=frozenset(("passages",)))
"""The lock of the search index: readers look only beyond the newest entry they saw, so writes to it commit in order."""
LEFT_OUT = ("bodies", "leases", "copies", "passage_words", "sent_requests", "workers")
"""Tables that are copied with others, rebuilt, or local to one database."""
REFERENCES = ("session", "parent", "parent_session")
"""Columns that hold session numbers."""
LOCAL_COLUMNS = ("id", "number", "message", "work_us", *REFERENCES)
"""Columns that differ between databases and are excluded from a session's hash."""

LIST_SESSIONS = "SELECT * FROM sessions ORDER BY number"
GET_SESSION = "SELECT * FROM sessions WHERE id = :id"
GET_COPY = "SELECT digest FROM copies WHERE session = :session"
SET_COPY = """INSERT INTO copies (session, digest, copied_us) VALUES (:session, :digest, :now_us)
    ON CONFLICT (session) DO UPDATE SET digest = :digest, copied_us = :now_us"""
READ_BODIES = """SELECT m.turn, m.position, b.data FROM messages m JOIN bodies b ON b.message = m.id
    WHERE m.session = :session AND m.turn BETWEEN :first AND :last ORDER BY m.turn, m.position"""
ADD_BODY = "INSERT INTO bodies (message, data) VALUES (:message, :data)"
MESSAGE_IDS = "SELECT turn, position, id FROM messages WHERE session = :session AND turn BETWEEN :first AND :last"
PASSAGE_IDS = "SELECT turn, messages, id FROM passages WHERE session = :session AND turn BETWEEN :first AND :last"
READ_TURNS = "SELECT * FROM {table} WHERE session = :session AND turn BETWEEN :first AND :last ORDER BY turn, id"
READ_OWN = "SELECT * FROM {table} WHERE session = :session"
DROP_OWN = "DELETE FROM {table} WHERE session = :session"
MOVE_TURN = "UPDATE sessions SET last_turn = :turn WHERE number = :number"
GET_ID = "SELECT id FROM sessions WHERE number = :number"
DROP_TURNS = (
    "DELETE FROM bodies WHERE message IN (SELECT id FROM messages WHERE session = :session)",
    "DELETE FROM messages WHERE session = :session",
    "DELETE FROM renditions WHERE session = :session",
)
LOOSE_CALLS = "SELECT * FROM calls WHERE session IS NULL ORDER BY at_us, id"
HAS_CALL = """SELECT count(*) FROM calls WHERE session IS NULL AND at_us = :at_us AND model = :model
    AND purpose = :purpose AND input_tokens = :input_tokens AND output_tokens = :output_tokens"""

Row = dict[str, Any]
Progress = Callable[[int, int], object]
"""Called with the number of finished turns and of all turns."""


@dataclass(slots=True)
class CopyReport:
    """Counts of a finished copy."""

    sessions: int = 0
    """Sessions in the source."""
    copied: list[str] = field(default_factory=list)
    unchanged: int = 0
    """Sessions that were identical on both sides before the copy."""
    turns: int = 0
    """Turns written."""
    rows: int = 0
    """Copied rows of tables that belong to no session."""
    conflicts: list[str] = field(default_factory=list)
    """Sessions whose content in the target differs; they were not changed."""


@dataclass(frozen=True, slots=True)
class SessionDigest:
    """Hashes of a session's messages and of all its rows; derived rows of the target may be improved by its workers."""

    raw: str
    whole: str

    def __str__(self) -> str:
        return f"{self.raw}:{self.whole}"


class StoreCopy:
    """A copy in progress between two databases with the current schema."""

    def __init__(
        self, source: Dialect, target: Dialect, settings: StoreSettings, progress: Progress | None = None
    ) -> None:
        self._source = source
        self._target = target
        self._lock_timeout_seconds = settings.lock_timeout_seconds
        self._from = source.connect(read_only=True)
        self._to = target.connect(read_only=False)
        self._progress = progress
        self._numbers: dict[int, int] = {}
        """Session numbers of the source, mapped to those of the target."""
        self._report = CopyReport()
        self._done_turns = self._all_turns = 0

    def run(self) -> CopyReport:
        """Copy everything that the target lacks."""
        try:
            sessions = self._read_source(lambda: _rows(self._from, LIST_SESSIONS, {}))
            self._report.sessions = len(sessions)
            self._all_turns = sum(row["last_turn"] - row["fork_turn"] for row in sessions)
            for row in sessions:
                self._copy_session(row)
            for table in SHARED:
                self._copy_shared(table)
            self._copy_loose_calls()
            self._write(INDEX, self._to.vectors.complete)
            return self._report
        except StoreError as error:
            done = f"{len(self._report.copied) + self._report.unchanged} of {self._report.sessions} sessions"
            error.add_note(f"the copy stopped: {self._target.location} has {done}; the same command continues it")
            raise
        finally:
            self._from.close()
            self._to.close()

    def _copy_session(self, row: Row) -> None:
        own_turns = row["last_turn"] - row["fork_turn"]
        if row["parent"] is not None and row["parent"] not in self._numbers:
            self._report.conflicts.append(row["id"])
            self._advance(own_turns)
            return
        expected = self._digest(self._source, self._from, row)
        found, copied = self._find(row["id"])
        if found is not None and copied != "":
            stored = self._digest(self._target, self._to, found)
            if expected.raw == stored.raw:
                self._numbers[row["number"]] = found["number"]
                if copied != str(stored):
                    self._mark(found["number"], row["id"], stored)
                self._report.unchanged += 1
                self._advance(own_turns)
                return
            if copied != str(stored):
                self._report.conflicts.append(row["id"])
                self._advance(own_turns)
                return
            self._clear(found)
        number = self._numbers[row["number"]] = found["number"] if found else self._begin(row)
        begun = found["last_turn"] if found else _before(row)
        self._advance(max(0, begun - row["fork_turn"]))
        for low in range(begun + 1, row["last_turn"] + 1, TURNS_PER_COMMIT):
            high = min(low + TURNS_PER_COMMIT - 1, row["last_turn"])
            self._copy_turns(row, number, low, high)
            self._report.turns += high - low + 1
            self._advance(min(high, row["last_turn"]) - max(low - 1, row["fork_turn"]))
        self._complete(row, number)
        self._verify(row, expected)

    def _clear(self, found: Row) -> None:
        """Remove the turns of a copied session that has since changed in the source; its forks are kept."""
        values = {"session": found["number"]}

        def clear() -> None:
            passages.forget(self._to, "session = :session", values)
            for statement in DROP_TURNS:
                self._to.execute(statement, values)
            self._to.execute(MOVE_TURN, {"number": found["number"], "turn": _before(found)})
            self._to.execute(SET_COPY, {**values, "digest": "", "now_us": now_us()})

        self._write(_of_session(found["id"]) | INDEX, clear)
        found["last_turn"] = _before(found)

    def _find(self, session_id: str) -> tuple[Row | None, str | None]:
        """Return a session of the target, and the hash it was copied with, empty while it is incomplete."""

        def find() -> tuple[Row | None, str | None]:
            found = _rows(self._to, GET_SESSION, {"id": session_id})
            if not found:
                return None, None
            row = self._to.execute(GET_COPY, {"session": found[0]["number"]}).fetchone()
            return found[0], None if row is None else str(row[0])

        return self._read(self._target, self._to, find)

    def _begin(self, row: Row) -> int:
        """Add a session without turns, which workers ignore."""
        start = {"last_turn": _before(row), "last_position": 0, "head": "closed", "work_us": None}
        values = {**self._translated(row), **start}
        del values["number"]

        def begin() -> int:
            _insert(self._to, "sessions", [values])
            (number,) = self._to.execute("SELECT number FROM sessions WHERE id = :id", {"id": row["id"]}).fetchone()
            self._to.execute(SET_COPY, {"session": number, "digest": "", "now_us": now_us()})
            return int(number)

        return self._write(_of_session(row["id"]), begin)

    def _copy_turns(self, row: Row, number: int, first: int, last: int) -> None:
        span = {"session": row["number"], "first": first, "last": last}
        own = {**span, "session": number}

        def load() -> tuple[dict[str, list[Row]], dict[tuple[int, int], bytes]]:
            tables = {table: _rows(self._from, READ_TURNS.format(table=table), span) for table in BY_TURN}
            return tables, {(turn, place): data for turn, place, data in self._from.execute(READ_BODIES, span)}

        found, bodies = self._read_source(load)

        def store() -> None:
            for table, rows in found.items():
                _insert(self._to, table, [{**_without_id(each), "session": number} for each in rows])
            ids = self._to.execute(MESSAGE_IDS, own).fetchall()
            kept = [(message, bodies[turn, place]) for turn, place, message in ids if (turn, place) in bodies]
            self._to.executemany(ADD_BODY, [{"message": message, "data": data} for message, data in kept])
            self._index(number, own, found["passages"])
            self._to.execute(MOVE_TURN, {"number": number, "turn": last})

        self._write(_of_session(row["id"]) | INDEX, store)

    def _index(self, number: int, span: Row, rows: Sequence[Row]) -> None:
        """Add the words and vectors of passages to the target's own indexes."""
        ids = {(turn, messages): row for turn, messages, row in self._to.execute(PASSAGE_IDS, span).fetchall()}
        with self._to.words.write():
            passages.add_copied(self._to, number, [(ids[each["turn"], each["messages"]], each) for each in rows])

    def _complete(self, row: Row, number: int) -> None:
        values = {"session": row["number"]}

        def load() -> dict[str, list[Row]]:
            return {table: _rows(self._from, READ_OWN.format(table=table), values) for table in OF_SESSION}

        found = self._read_source(load)
        changed = {name: value for name, value in self._translated(row).items() if name not in ("number", "id")}
        assigned = ", ".join(f"{name} = :{name}" for name in changed)

        def complete() -> None:
            for table, rows in found.items():
                self._to.execute(DROP_OWN.format(table=table), {"session": number})
                keep_id = table == "responses"
                plain = (each if keep_id else _without_id(each) for each in rows)
                _insert(self._to, table, [{**each, "session": number} for each in plain])
            statement = f"UPDATE sessions SET {assigned} WHERE number = :number"  # noqa: S608 - names of columns
            self._to.execute(statement, {**changed, "work_us": 0, "number": number})

        self._write(_of_session(row["id"]), complete)

    def _verify(self, row: Row, expected: SessionDigest) -> None:
        found, _ = self._find(row["id"])
        assert found is not None, "it was just written"
        stored = self._digest(self._target, self._to, found)
        if stored != expected:
            problem = f"session {row['id']!r} changed during the copy, or can't be read; run the copy again"
            raise StoreError(self._target.location, problem)
        self._mark(found["number"], row["id"], expected)
        self._report.copied.append(row["id"])

    def _mark(self, number: int, session_id: str, digest: SessionDigest) -> None:
        values = {"session": number, "digest": str(digest), "now_us": now_us()}
        self._write(_of_session(session_id), lambda: self._to.execute(SET_COPY, values))

    def _copy_shared(self, table: str) -> None:
        keys = SHARED[table]
        statement = f"SELECT * FROM {table} ORDER BY {', '.join(keys)}"  # noqa: S608 - names of columns
        rows = self._read_source(lambda: _rows(self._from, statement, {}))
        own = [self._translated(row) for row in rows if self._is_copied(row)]
        for start in range(0, len(own), ROWS_PER_COMMIT):
            batch = own[start : start + ROWS_PER_COMMIT]
            self._write(AREAS, partial(_insert, self._to, table, batch, keys))
            self._report.rows += len(batch)

    def _copy_loose_calls(self) -> None:
        """Copy the costs of deleted sessions."""
        rows = [_without_id(row) for row in self._read_source(lambda: _rows(self._from, LOOSE_CALLS, {}))]

        def store() -> None:
            seen: dict[bytes, int] = {}
            for row in rows:
                same = {name: row[name] for name in ("at_us", "model", "purpose", "input_tokens", "output_tokens")}
                key = msgspec.msgpack.encode(list(same.values()))
                seen[key] = seen.get(key, 0) + 1
                if self._to.execute(HAS_CALL, same).fetchone()[0] < seen[key]:
                    _insert(self._to, "calls", [row])

        if rows:
            self._write(AREAS, store)

    def _is_copied(self, row: Row) -> bool:
        """Return whether the sessions that a row refers to are in the target."""
        return all(row[name] in self._numbers for name in REFERENCES if isinstance(row.get(name), int))

    def _translated(self, row: Row) -> Row:
        """Return a row of the source with the target's numbers."""
        return {**row, **{name: self._numbers[row[name]] for name in REFERENCES if isinstance(row.get(name), int)}}

    def _digest(self, dialect: Dialect, connection: Connection, row: Row) -> SessionDigest:
        """Hash all rows of a session, with the same result in both databases."""
        raw, whole = hashlib.sha256(), hashlib.sha256()
        whole.update(self._read(dialect, connection, lambda: _own_data(connection, row)))
        for first in range(_before(row) + 1, row["last_turn"] + 1, TURNS_PER_COMMIT):
            last = min(first + TURNS_PER_COMMIT - 1, row["last_turn"])
            values = {"session": row["number"], "first": first, "last": last}
            messages, derived, bodies = self._read(dialect, connection, partial(_turn_data, connection, values))
            for part in (messages, derived):
                whole.update(part)
            for part in (messages, bodies):
                raw.update(part)
        return SessionDigest(raw.hexdigest(), whole.hexdigest())

    def _write(self, locks: Locks, job: Callable[[], T]) -> T:
        """Run a job in a write transaction of the target, with retries if it had no effect."""

        def transaction() -> T:
            with self._target.errors(), self._target.write(self._to, locks):
                return job()

        return retried(self._lock_timeout_seconds, transaction)

    def _read_source(self, job: Callable[[], T]) -> T:
        return self._read(self._source, self._from, job)

    def _read(self, dialect: Dialect, connection: Connection, job: Callable[[], T]) -> T:
        """Run a job in a read transaction, with retries if the connection was lost."""

        def transaction() -> T:
            with dialect.errors(), dialect.read(connection):
                return job()

        return retried(self._lock_timeout_seconds, transaction)

    def _advance(self, turns: int) -> None:
        self._done_turns += turns
        if self._progress:
            self._progress(self._done_turns, self._all_turns)


def _of_session(session_id: str) -> Locks:
    return Locks(frozenset((session_id,)))


def _own_data(connection: Connection, row: Row) -> bytes:
    """Return the hashed data of a session's row and of the tables that are copied as a whole."""
    parent = connection.execute(GET_ID, {"number": row["parent"]}).fetchone()
    parts = [_encoded([list(parent or ()), _hashed("sessions", row)])]
    for table in OF_SESSION:
        rows = _rows(connection, READ_OWN.format(table=table), {"session": row["number"]})
        parts += [_encoded(table), *sorted(_encoded(_hashed(table, each)) for each in rows)]
    return b"".join(parts)


def _turn_data(connection: Connection, span: Row) -> tuple[bytes, bytes, bytes]:
    """Return the hashed data of turns: of their messages, of what is derived, and of the messages' bodies."""
    tables = {table: _rows(connection, READ_TURNS.format(table=table), span) for table in BY_TURN}
    messages, *derived = (
        b"".join(_encoded([table, _hashed(table, each)]) for each in rows) for table, rows in tables.items()
    )
    return messages, b"".join(derived), b"".join(_encoded(list(each)) for each in connection.execute(READ_BODIES, span))


def _before(row: Row) -> int:
    """Return the turn before the first one with rows; a fork may have renditions of the turn it forked at."""
    return max(int(row["fork_turn"]) - 1, 0)


def _rows(connection: Connection, statement: str, values: Row) -> list[Row]:
    found = connection.execute(statement, values)
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def _without_id(row: Row) -> Row:
    """Return the row without its id, which the database assigns."""
    return {name: value for name, value in row.items() if name != "id"}


def _insert(connection: Connection, table: str, rows: Sequence[Row], keys: Iterable[str] = ()) -> None:
    """Add rows, replacing those whose keys exist."""
    if not rows:
        return
    names = list(rows[0])
    values = ", ".join(f":{name}" for name in names)
    statement = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({values})"  # noqa: S608 - names of columns
    if keys := list(keys):
        changed = ", ".join(f"{name} = excluded.{name}" for name in names if name not in keys)
        statement += f" ON CONFLICT ({', '.join(keys)}) DO {f'UPDATE SET {changed}' if changed else 'NOTHING'}"
    connection.executemany(statement, rows)


def _hashed(table: str, row: Row) -> list[Any]:
    """Return the values of a row that both databases share, ordered by column name."""
    left_out = LOCAL_COLUMNS[1:] if table == "responses" else LOCAL_COLUMNS
    return [[name, row[name]] for name in sorted(row) if name not in left_out]


def _encoded(value: object) -> bytes:
    return msgspec.msgpack.encode(value)
