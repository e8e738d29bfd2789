"""Shared by all databases: the connection protocol that repositories use, and the numbered migrations.

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
"""Rows that `Connection.stream` fetches at a time."""
MAX_RETRIES = 100
"""Maximum number of retries of a transaction that had no effect."""
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
    """The data that a write reads first: no other process may change it until the write.

    `sessions` are ids; `names` are areas that belong to no session (`agents`, `calls`, …).
    """

    sessions: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()

    def __or__(self, other: Locks) -> Locks:
        return Locks(self.sessions | other.sessions, self.names | other.names)


NO_LOCKS = Locks()


class Undone(Exception):
    """A transaction that certainly had no effect and can be retried; `error` is raised if retries fail."""

    def __init__(self, error: StoreError) -> None:
        super().__init__(str(error))
        self.error = error


class Retries:
    """Waits before retries of a transaction, up to a total time."""

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self._tries = 0

    def wait(self, undone: Undone) -> None:
        """Wait, longer each time; raise the transaction's error once the time is up."""
        if time.monotonic() > self._deadline or self._tries == MAX_RETRIES:
            raise undone.error from undone
        self._tries += 1
        time.sleep(min(MAX_RETRY_SECONDS, RETRY_SECONDS * 2**self._tries) * random.random())  # noqa: S311 - jitter


def retried(seconds: float, transaction: Callable[[], T]) -> T:
    """Run a transaction, with retries while it has no effect and time remains."""
    retries = Retries(seconds)
    while True:
        try:
            return transaction()
        except Undone as undone:
            retries.wait(undone)


class Cursor(Protocol):
    """The rows returned by a statement."""

    @property
    def rowcount(self) -> int: ...

    @property
    def description(self) -> Sequence[Any] | None:
        """One sequence per column, whose first item is the column's name."""

    def __iter__(self) -> Iterator[Any]: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...


class TextWords(Protocol):
    """A full-text index of some texts in memory. Threads may share it."""

    def match(self, phrases: Sequence[str]) -> list[list[int]]:
        """For each phrase the places of the texts that contain it, the last first."""


class WordIndex(Protocol):
    """The full-text index of passages, specific to each database. An entry's key is the passage's."""

    def guard(self) -> AbstractContextManager[None]:
        """Raise `Damaged` where the index can't be read."""

    def write(self) -> AbstractContextManager[None]:
        """Like `guard`; write the changes at the end, or undo all of them."""

    def add(self, session: int, entries: Iterable[tuple[int, PassageText]]) -> None: ...

    def remove(self, session: int, entries: Iterable[tuple[int, PassageText]]) -> None: ...

    def purge(self) -> None:
        """Erase removed words from the file."""

    def match(
        self, phrase: str, *, sessions: Sequence[int] = (), field: str | None = None, beyond: int = -1, limit: int = -1
    ) -> list[int]:
        """Return the keys above `beyond` of passages that contain a phrase, the newest first.

        `field` is `words` or `tool`, None for both. Without `sessions` all sessions are searched; a negative limit is
        no limit.
        """

    def match_many(
        self, phrases: Sequence[tuple[str, int]], *, sessions: Sequence[int] = (), limit: int = -1
    ) -> list[list[int]]:
        """Like `match` for several phrases, each with the key to search beyond."""

    def index_texts(self, texts: Sequence[PassageText]) -> TextWords:
        """Index texts in memory, by the same rules."""

    def count(self) -> int: ...

    def check(self) -> None:
        """Raise `Damaged` where the index is inconsistent."""

    def recreate(self) -> None:
        """Drop the index, in any state, and create an empty one."""


@dataclass(frozen=True, slots=True)
class StoredVectors:
    """The vectors of a turn's passages, each with the number of its passage; they are not normalised."""

    dimensions: int
    rows: Sequence[tuple[int, Sequence[float]]]


class VectorIndex(Protocol):
    """Finds the nearest vectors of all sessions, if the database supports it. A key is the passage's."""

    def add(self, session: int, made: Iterable[tuple[int, StoredVectors]], *, is_bulk: bool = False) -> None:
        """Add the vectors of rows of passages, each with the row's id; after adding in bulk, call `complete`."""

    def complete(self) -> None:
        """Create the missing search structures, which is faster after many vectors were added."""

    def remove(self, rows: Sequence[int]) -> None: ...

    def clear(self) -> None: ...

    def nearest(
        self, vector: Sequence[float], *, sessions: Sequence[int] | None, limit: int
    ) -> list[tuple[int, float]] | None:
        """Return keys and similarities, the nearest first; None if the database has no such index."""


class NoVectors:
    """The vector index of a database without one."""

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
        """Heads of the sessions that the transaction has locked, by id; empty for a tenant, and in a file.

        Code that moves a head updates it here too; code that deletes a session clears them.
        """

    @property
    def skip_locked(self) -> str:
        """The clause that skips rows locked by other transactions; empty for a single writer."""

    def clock_us(self) -> int:
        """Return the clock used for leases: the server's if there is one, since workers' clocks may differ."""

    def signal(self) -> None:
        """Wake waiting workers once this transaction is committed. They also poll, less often."""

    def execute(self, sql: str, parameters: Values = ..., /) -> Cursor: ...

    def executemany(self, sql: str, parameters: Iterable[Values], /) -> Cursor: ...

    def select_all(self, queries: Sequence[tuple[str, Values]], /) -> list[list[Any]]:
        """Run several queries in one round trip; return the rows of each."""

    def defer(self, sql: str, parameters: Values, /) -> None:
        """Run a statement whose result is not needed, now or before the next `execute`.

        Deferred statements with the same text may run together, in the order in which the texts first appeared.
        """

    def flush(self) -> None:
        """Run the deferred statements, at the end of a transaction at the latest."""

    def insert(self, sql: str, parameters: Iterable[Values], /) -> list[int]:
        """Run an `INSERT … RETURNING id` for each set of values in one batch; return the ids."""

    def stream(self, sql: str, /) -> Iterator[Any]:
        """Yield the rows of a large result, a few at a time."""

    def set_tenant(self, tenant: str) -> None:
        """Restrict the rest of the transaction to a tenant's rows, if the database supports it; empty: no
        restriction."""

    def repair(self, statement: str, values: Values) -> None:
        """Run a statement in the next write transaction; a reader uses it to drop a damaged row that can be
        regenerated."""

    def take_repairs(self) -> list[tuple[str, Values]]:
        """Return the statements passed to `repair` since the last call."""

    @property
    def in_transaction(self) -> bool: ...

    def close(self) -> None: ...


class Dialect(Protocol):
    """The differences between databases. A new database is one file that implements this."""

    @property
    def location(self) -> str: ...

    def connect(self, *, read_only: bool) -> Connection: ...

    def errors(self) -> AbstractContextManager[None]:
        """Translate the driver's errors into `foveate.errors`, or into `Undone`."""

    def read(self, connection: Connection) -> AbstractContextManager[None]:
        """Open a read transaction: one snapshot for all its reads."""

    def write(self, connection: Connection, locks: Locks) -> AbstractContextManager[None]:
        """Open a write transaction with these locks: durable at its end, rolled back on an exception."""

    def is_fault(self, error: Exception) -> bool:
        """Return whether the database failed, rather than rejected one statement."""

    def check(self, connection: Connection) -> Iterator[Finding]:
        """Yield problems of the file or server itself."""

    def sweep(self) -> str:
        """Overwrite what removed rows left behind; return what still has it and how to remove it, empty for nothing."""

    def close(self) -> None:
        """Close the resources that connections share."""

    def describe(self, connection: Connection) -> dict[str, str]:
        """Return information about the server for an operator, by topic."""

    def wait_for_signal(self, seconds: float) -> None:
        """Wait for a committed transaction with a `signal`, or until the timeout. Blocks: needs its own thread."""


def now_us() -> int:
    return time.time_ns() // 1000


def keep_data(connection: Connection, table: Table, session: int, name: str, data: bytes) -> None:
    """Store a named value with its hash."""
    values = {"session": session, "name": name, "data": data, "digest": bodies.digest_of(data)}
    connection.execute(KEEP.format(table=table), values)


def load_data(connection: Connection, table: Table, session: int, name: str) -> bytes | None:
    """Load a named value; a damaged one counts as absent."""
    row = connection.execute(GET_KEPT.format(table=table), {"session": session, "name": name}).fetchone()
    return None if row is None else intact_data(connection, table, session, name, row)


def intact_data(connection: Connection, table: Table, session: int, name: str, row: Sequence[Any]) -> bytes | None:
    """Return the data of a row with its hash; None if it is damaged."""
    data, digest = row
    if not bodies.is_intact(digest, data):
        _log.warning("%s: %r in %s of session %d is damaged and ignored", connection.location, name, table, session)
        return None
    return bytes(data)


def keep_record(connection: Connection, table: Table, session: int, name: str, data: bytes) -> None:
    """Store a named value like `keep_data`; a damaged value is set aside under another name for `check`."""
    owner = {"session": session, "name": name}
    row = connection.execute(GET_KEPT.format(table=table), owner).fetchone()
    if row is not None and not bodies.is_intact(row[1], row[0]):
        aside = SET_ASIDE_NAME.format(name=name, now_us=now_us())
        connection.execute(SET_ASIDE.format(table=table), {**owner, "aside": aside})
    keep_data(connection, table, session, name, data)


def latest_version() -> int:
    return _migration_files()[-1][0]


def migrations(after: int, types: Mapping[str, str]) -> Iterator[tuple[int, list[str]]]:
    """Yield each later version with its statements."""
    for number, text in _migration_files():
        if number > after:
            lines = (line for line in text.splitlines() if not line.startswith("--"))
            script = "\n".join(lines).format_map(types)
            yield number, [statement for part in script.split(";") if (statement := part.strip())]


@cache
def _migration_files() -> Sequence[tuple[int, str]]:
    """List the number and text of each migration, in order."""
    folder = files("foveate.store").joinpath("migrations")
    found = [entry for entry in folder.iterdir() if entry.name.endswith(".sql")]
    return sorted((int(entry.name[:4]), entry.read_text("utf-8")) for entry in found)
