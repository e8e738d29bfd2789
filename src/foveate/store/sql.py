"""What all databases share: the connection that repositories are functions of, and the numbered migrations.

Statements are portable and take `:name` parameters; each repository has its own at the top of its file. A dialect
(`foveate.store.sqlite`, `foveate.store.postgres`) adds type names, locks and its full-text index.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, Protocol, TypeVar

from foveate.errors import StoreError
from foveate.store import bodies
from foveate.store.rows import Finding, Head, PassageText

SCHEMA_TABLE = "foveate_schema"

CREATE_SCHEMA_TABLE = f"CREATE TABLE {SCHEMA_TABLE} (version BIGINT NOT NULL)"
READ_VERSION = f"SELECT version FROM {SCHEMA_TABLE}"  # noqa: S608 - a constant
CLEAR_VERSION = f"DELETE FROM {SCHEMA_TABLE}"  # noqa: S608
WRITE_VERSION = f"INSERT INTO {SCHEMA_TABLE} (version) VALUES (:version)"  # noqa: S608

KEEP = """INSERT INTO {table} (session, name, data, digest) VALUES (:session, :name, :data, :digest)
    ON CONFLICT (session, name) DO UPDATE SET data = :data, digest = :digest"""
GET_KEPT = "SELECT data, digest FROM {table} WHERE session = :session AND name = :name"
SET_ASIDE = "UPDATE {table} SET name = :aside WHERE session = :session AND name = :name"
SET_ASIDE_NAME = "{name} damaged {now_us}"

STREAMED_ROWS = 200
"""Rows that `Connection.stream` reads together."""
MAX_RETRIES = 100
"""Of a transaction that had no effect."""
RETRY_SECONDS = 0.005
MAX_RETRY_SECONDS = 1.0

T = TypeVar("T")
Table = Literal["plans", "offers", "recalled", "states", "boards"]
Values = Mapping[str, Any]
HeadRow = tuple[int, int, int, Head]
"""A session's number, last turn, last position and the state of its newest turn."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Locks:
    """What a write reads before it writes: no other process may change it in between.

    `sessions` are ids; `names` are areas that belong to no session (`agents`, `calls`, …).
    """

    sessions: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()

    def __or__(self, other: Locks) -> Locks:
        return Locks(self.sessions | other.sessions, self.names | other.names)


NO_LOCKS = Locks()


class Undone(Exception):
    """A transaction that surely had no effect, and may be run again; `error` is raised if that does not help."""

    def __init__(self, error: StoreError) -> None:
        super().__init__(str(error))
        self.error = error


class Retries:
    """Waits before a transaction is run again, for some time in all."""

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self._tries = 0

    def wait(self, undone: Undone) -> None:
        """Wait a little longer each time; the error of the transaction if the time is over."""
        if time.monotonic() > self._deadline or self._tries == MAX_RETRIES:
            raise undone.error from undone
        self._tries += 1
        time.sleep(min(MAX_RETRY_SECONDS, RETRY_SECONDS * 2**self._tries) * random.random())  # noqa: S311 - jitter


def retried(seconds: float, transaction: Callable[[], T]) -> T:
    """Run a transaction, again while it has no effect and the time is not over."""
    retries = Retries(seconds)
    while True:
        try:
            return transaction()
        except Undone as undone:
            retries.wait(undone)


class Cursor(Protocol):
    """The rows that a statement returned."""

    @property
    def rowcount(self) -> int: ...

    @property
    def description(self) -> Sequence[Any] | None:
        """A sequence for each column, whose first item is the column's name."""

    def __iter__(self) -> Iterator[Any]: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...


class TextWords(Protocol):
    """A full-text index of some texts in memory. Threads may share it."""

    def match(self, phrases: Sequence[str]) -> list[list[int]]:
        """For each phrase the places of the texts that contain it, the last first."""


class WordIndex(Protocol):
    """The full-text index of passages, which every database has in its own way. An entry's key is the passage's."""

    def guard(self) -> AbstractContextManager[None]:
        """Raise `Damaged` where the index can't be read."""

    def write(self) -> AbstractContextManager[None]:
        """Like `guard`; changes inside are written at its end, or all of them undone."""

    def add(self, session: int, entries: Iterable[tuple[int, PassageText]]) -> None: ...

    def remove(self, session: int, entries: Iterable[tuple[int, PassageText]]) -> None: ...

    def purge(self) -> None:
        """Erase removed words from the file."""

    def match(
        self, phrase: str, *, sessions: Sequence[int] = (), field: str | None = None, beyond: int = -1, limit: int = -1
    ) -> list[int]:
        """The keys above `beyond` of passages that contain a phrase, the newest first.

        `field` is `words` or `tool`, None for both. Without `sessions` all sessions are searched; a negative limit is
        no limit.
        """

    def match_many(
        self, phrases: Sequence[tuple[str, int]], *, sessions: Sequence[int] = (), limit: int = -1
    ) -> list[list[int]]:
        """Like `match` for each phrase, given with the key to look beyond."""

    def index_texts(self, texts: Sequence[PassageText]) -> TextWords:
        """Index texts in memory, by the same rules."""

    def count(self) -> int: ...

    def check(self) -> None:
        """Raise `Damaged` where the index is inconsistent."""

    def recreate(self) -> None:
        """Drop the index, whatever state it is in, and create an empty one."""


@dataclass(frozen=True, slots=True)
class StoredVectors:
    """The vectors of a turn's passages, each with the number of its passage; their lengths tell nothing."""

    dimensions: int
    rows: Sequence[tuple[int, Sequence[float]]]


class VectorIndex(Protocol):
    """Finds the nearest vectors of all sessions, where the database can. A key is the passage's."""

    def add(self, session: int, made: Iterable[tuple[int, StoredVectors]], *, is_bulk: bool = False) -> None:
        """Add the vectors of rows of passages, each given with its id; in bulk, `complete` is called at the end."""

    def complete(self) -> None:
        """Create what lets vectors be found quickly, if it does not exist; this is quicker after many were added."""

    def remove(self, rows: Sequence[int]) -> None: ...

    def clear(self) -> None: ...

    def nearest(
        self, vector: Sequence[float], *, sessions: Sequence[int] | None, limit: int
    ) -> list[tuple[int, float]] | None:
        """Keys and similarities, the nearest first; None if the database has no such index."""


class NoVectors:
    """Of a database that has no such index."""

    def add(self, session: int, made: Iterable[tuple[int, StoredVectors]], *, is_bulk: bool = False) -> None:
        pass

    def complete(self) -> None:
        pass

    def remove(self, rows: Sequence[int]) -> None:
        pass

    def clear(self) -> None:
        pass

    def nearest(self, vector: Sequence[float], *, sessions: Sequence[int] | None, limit: int) -> None:  # noqa: ARG002
        return None


class Connection(Protocol):
    """A database connection inside a transaction."""

    @property
    def location(self) -> str:
        """The database's path or URL, for messages."""

    @property
    def words(self) -> WordIndex: ...

    @property
    def vectors(self) -> VectorIndex: ...

    @property
    def heads(self) -> dict[str, HeadRow]:
        """Of the sessions that the transaction has locked, by id; for a tenant, and in a file, there are none.

        Who moves a head changes it here too; who deletes a session clears them.
        """

    @property
    def skip_locked(self) -> str:
        """The clause that skips rows which other transactions have locked; empty where there is one writer."""

    def clock_us(self) -> int:
        """The time that leases go by: the server's where there is one, so that clocks of workers may differ."""

    def signal(self) -> None:
        """Wake the workers that wait for work, once this transaction is committed. They look anyway, less often."""

    def execute(self, sql: str, parameters: Values = ..., /) -> Cursor: ...

    def executemany(self, sql: str, parameters: Iterable[Values], /) -> Cursor: ...

    def select_all(self, queries: Sequence[tuple[str, Values]], /) -> list[list[Any]]:
        """Run several queries in one round trip; the rows of each."""

    def defer(self, sql: str, parameters: Values, /) -> None:
        """Run a statement whose result nobody reads, at once or before the next one that `execute` runs.

        Deferred statements of the same text may run together, in the order in which the texts first came.
        """

    def flush(self) -> None:
        """Run what was deferred, at the end of a transaction at the latest."""

    def insert(self, sql: str, parameters: Iterable[Values], /) -> list[int]:
        """Run an `INSERT … RETURNING id` for each of these values, together; the ids."""

    def stream(self, sql: str, /) -> Iterator[Any]:
        """The rows of a large result, a few at a time."""

    def set_tenant(self, tenant: str) -> None:
        """Restrict the rest of the transaction to the rows of a tenant, where the database can; empty: to none."""

    def repair(self, statement: str, values: Values) -> None:
        """Run a statement in the next write transaction: how a reader drops a damaged row that can be made again."""

    def take_repairs(self) -> list[tuple[str, Values]]:
        """The statements given to `repair` since the last call."""

    @property
    def in_transaction(self) -> bool: ...

    def close(self) -> None: ...


class Dialect(Protocol):
    """What differs between databases. A new database is one file that has these."""

    @property
    def location(self) -> str: ...

    def connect(self, *, read_only: bool) -> Connection: ...

    def errors(self) -> AbstractContextManager[None]:
        """Translate the driver's errors into `foveate.errors`, or into `Undone`."""

    def read(self, connection: Connection) -> AbstractContextManager[None]:
        """A read transaction: one snapshot for everything that is read inside."""

    def write(self, connection: Connection, locks: Locks) -> AbstractContextManager[None]:
        """A write transaction with these locks: durable at its end, rolled back on an exception."""

    def is_fault(self, error: Exception) -> bool:
        """Whether the database failed, as opposed to one statement that it rejected."""

    def check(self, connection: Connection) -> Iterator[Finding]:
        """Problems of the file or server itself."""

    def close(self) -> None:
        """Close what connections share."""

    def describe(self, connection: Connection) -> dict[str, str]:
        """What an operator wants to know about the server, by topic."""

    def wait_for_signal(self, seconds: float) -> None:
        """Return when a transaction with a `signal` was committed, or after this time. For a thread of its own."""


def now_us() -> int:
    return time.time_ns() // 1000


def keep_data(connection: Connection, table: Table, session: int, name: str, data: bytes) -> None:
    """Store a value by its name, with its hash."""
    values = {"session": session, "name": name, "data": data, "digest": bodies.digest_of(data)}
    connection.execute(KEEP.format(table=table), values)


def load_data(connection: Connection, table: Table, session: int, name: str) -> bytes | None:
    """A value that was stored by its name; a damaged one counts as absent."""
    row = connection.execute(GET_KEPT.format(table=table), {"session": session, "name": name}).fetchone()
    return None if row is None else intact_data(connection, table, session, name, row)


def intact_data(connection: Connection, table: Table, session: int, name: str, row: Sequence[Any]) -> bytes | None:
    """The data of a row with its hash; None if it is damaged."""
    data, digest = row
    if not bodies.is_intact(digest, data):
        _log.warning("%s: %r in %s of session %d is damaged and ignored", connection.location, name, table, session)
        return None
    return bytes(data)


def keep_record(connection: Connection, table: Table, session: int, name: str, data: bytes) -> None:
    """Like `keep_data`; but a damaged value is set aside under another name, where `check` finds it."""
    owner = {"session": session, "name": name}
    row = connection.execute(GET_KEPT.format(table=table), owner).fetchone()
    if row is not None and not bodies.is_intact(row[1], row[0]):
        aside = SET_ASIDE_NAME.format(name=name, now_us=now_us())
        connection.execute(SET_ASIDE.format(table=table), {**owner, "aside": aside})
    keep_data(connection, table, session, name, data)


def latest_version() -> int:
    return _migration_files()[-1][0]


def migrations(after: int, types: Mapping[str, str]) -> Iterator[tuple[int, list[str]]]:
    """Each later version with the statements that lead to it."""
    for number, text in _migration_files():
        if number > after:
            lines = (line for line in text.splitlines() if not line.startswith("--"))
            script = "\n".join(lines).format_map(types)
            yield number, [statement for part in script.split(";") if (statement := part.strip())]


@cache
def _migration_files() -> Sequence[tuple[int, str]]:
    """The number and text of each migration, in order."""
    folder = files("foveate.store").joinpath("migrations")
    found = [entry for entry in folder.iterdir() if entry.name.endswith(".sql")]
    return sorted((int(entry.name[:4]), entry.read_text("utf-8")) for entry in found)
