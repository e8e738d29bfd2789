"""SQLite: the file, its errors, its full-text index. Everything specific to this database."""

from __future__ import annotations

import functools
import os
import random
import shlex
import sqlite3
import stat
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

from foveate.errors import (
    Damaged,
    InputError,
    NewerSchema,
    NotADatabase,
    ReadOnlyStore,
    StorageFull,
    StoreBusy,
    StoreError,
)
from foveate.store import sql
from foveate.store.bodies import digest_of
from foveate.store.check import RESTORE
from foveate.store.rows import Finding, PassageText
from foveate.store.settings import StoreSettings

CREATE_WORDS = """CREATE VIRTUAL TABLE passage_words USING fts5
    (text, extra, tags, content='', tokenize='porter unicode61 remove_diacritics 2')"""
"""A full-text table without content: an entry is removed by repeating its words."""
DROP_WORDS = "DROP TABLE IF EXISTS passage_words"
ADD_WORDS = "INSERT INTO passage_words (rowid, text, extra, tags) VALUES (?, ?, ?, ?)"
TAKE_WORDS = "INSERT INTO passage_words (passage_words, rowid, text, extra, tags) VALUES ('delete', ?, ?, ?, ?)"
OPTIMIZE_WORDS = "INSERT INTO passage_words (passage_words) VALUES ('optimize')"
CHECK_WORDS = "INSERT INTO passage_words (passage_words) VALUES ('integrity-check')"
MATCH_WORDS = "SELECT rowid FROM passage_words WHERE passage_words MATCH ? AND rowid > ? ORDER BY rowid DESC LIMIT ?"
COUNT_WORDS = "SELECT count(*) FROM passage_words_docsize"
WORD_COLUMNS = ("text", "extra", "tags")
CREATE_INSTANCES = "CREATE VIRTUAL TABLE word_instances USING fts5vocab (passage_words, 'instance')"
LIST_WORDS = "SELECT doc, col, term FROM word_instances ORDER BY doc, col, offset"
DAMAGED_INDEX = "the search index can't be read; 'foveate doctor --rebuild-index' rebuilds it, nothing else is affected"
TYPES = {
    "serial": "INTEGER PRIMARY KEY",
    "serial_once": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "key": "INTEGER PRIMARY KEY",
    "blob": "BLOB",
}
"""SQLite's names of the types in the shared schema; a `serial_once` is never reused, even after a delete."""
OWN_MIGRATIONS = {
    2: ("CREATE VIRTUAL TABLE words USING fts5 (text, content='', tokenize='porter unicode61')",),
    5: ("DROP TABLE words", CREATE_WORDS),
    7: (
        """INSERT INTO requests (session, kind, name, count) SELECT session, 'failures', substr(name, 10),
        CAST(CAST(data AS TEXT) AS INTEGER) FROM keepsakes WHERE name LIKE 'failures/%'""",
        """INSERT INTO requests (session, kind, name, count) SELECT session, 'era', level.key, level.value
        FROM keepsakes, json_each(CASE name WHEN 'roll-up' THEN CAST(data AS TEXT) ELSE '{}' END) level
        WHERE name = 'roll-up'""",
        """UPDATE sessions SET pruned_us = (SELECT CAST(CAST(data AS TEXT) AS INTEGER) FROM keepsakes
        WHERE session = number AND name = 'pruned')""",
        "DROP TABLE keepsakes",
    ),
}
"""Statements of a schema version that are specific to SQLite."""
OTHER_FILE = "Name another file; if it was a store, 'foveate doctor' prints how to restore it"
MAGIC = b"SQLite format 3\x00"
APPLICATION_ID = 0x466F7665
"""`Fove` in ASCII, stored in the header for `file` and other tools."""
PRIVATE_MODE = 0o600
RETRY_SECONDS = 0.02
MAX_PAGE_PROBLEMS = 20
LIST_UNSWEPT = "SELECT id, session_id FROM erasures WHERE swept_us IS NULL ORDER BY id"
SWEEP = "foveate erase {} --sweep"
SWEEP_AGAIN = "when it is done, run 'foveate erase SESSION --sweep'"


class SqliteConnection(sqlite3.Connection):
    """A connection in autocommit mode that waits for locks; usable from any thread, one at a time."""

    location = ""
    skip_locked = ""

    @property
    def heads(self) -> dict[str, sql.HeadRow]:
        return {}

    def clock_us(self) -> int:
        return sql.now_us()

    def signal(self) -> None:
        """Do nothing: workers poll a file often, which is cheap."""

    def select_all(self, queries: Sequence[tuple[str, sql.Values]], /) -> list[list[Any]]:
        return [self.execute(statement, values).fetchall() for statement, values in queries]

    def defer(self, statement: str, parameters: sql.Values, /) -> None:
        self.execute(statement, parameters)

    file_id: tuple[int, int] | None = None
    """The device and inode of its file."""

    def flush(self) -> None:
        """Do nothing: nothing is deferred."""

    def insert(self, statement: str, parameters: Iterable[sql.Values], /) -> list[int]:
        return [self.execute(statement, values).fetchone()[0] for values in parameters]

    def stream(self, statement: str, /) -> Iterator[Any]:
        return self.execute(statement)

    def set_tenant(self, tenant: str) -> None:
        """Do nothing: a file has no row-level security; statements filter by tenant."""

    def repair(self, statement: str, values: sql.Values) -> None:
        self._repairs.append((statement, values))

    def take_repairs(self) -> list[tuple[str, sql.Values]]:
        repairs = self._repairs[:]
        self._repairs.clear()
        return repairs

    @functools.cached_property
    def _repairs(self) -> list[tuple[str, sql.Values]]:
        return []

    @functools.cached_property
    def words(self) -> SqliteWords:
        return SqliteWords(self)

    @property
    def vectors(self) -> sql.NoVectors:
        return sql.NoVectors()


class SqliteWords:
    """The full-text table of passages: see `foveate.store.sql.WordIndex`."""

    def __init__(self, connection: SqliteConnection) -> None:
        self._connection = connection

    @contextmanager
    def guard(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            # The statements are valid and their values quoted, so SQLITE_ERROR means a missing or broken table.
            name = getattr(error, "sqlite_errorname", "") or ""
            if name.startswith("SQLITE_CORRUPT") or name == "SQLITE_ERROR":
                raise Damaged(self._connection.location, DAMAGED_INDEX) from error
            raise

    @contextmanager
    def write(self) -> Iterator[None]:
        # FTS5 writes at a savepoint's release; a fault at the commit would fail every write that shares it.
        execute = self._connection.execute
        execute("SAVEPOINT before_words")
        execute("SAVEPOINT words")
        try:
            with self.guard():
                yield
                execute("RELEASE words")
        except BaseException:
            execute("ROLLBACK TO before_words")
            execute("RELEASE before_words")
            raise
        execute("RELEASE before_words")

    def add(self, session: int, entries: Iterable[tuple[int, PassageText]]) -> None:
        self._connection.executemany(ADD_WORDS, ((key, *_words(text, session)) for key, text in entries))

    def remove(self, session: int, entries: Iterable[tuple[int, PassageText]]) -> None:
        self._connection.executemany(TAKE_WORDS, ((key, *_words(text, session)) for key, text in entries))

    def purge(self) -> None:
        self._connection.execute(OPTIMIZE_WORDS)

    def match(
        self, phrase: str, *, sessions: Sequence[int] = (), field: str | None = None, beyond: int = -1, limit: int = -1
    ) -> list[int]:
        columns = {None: "", "tool": "{tags} : ", "words": "{text extra} : "}[field]
        (found,) = self.match_many([(phrase, beyond)], sessions=sessions, limit=limit, columns=columns)
        return found

    def match_many(
        self, phrases: Sequence[tuple[str, int]], *, sessions: Sequence[int] = (), limit: int = -1, columns: str = ""
    ) -> list[list[int]]:
        names = " OR ".join([f'"{_tag(session)}"' for session in sessions])
        head = f"{{tags}} : ({names}) AND {columns}" if names else columns
        found = []
        for phrase, beyond in phrases:
            quoted = phrase.replace("\x00", " ").replace('"', '""')  # without operators
            rows = self._connection.execute(MATCH_WORDS, (f'{head}"{quoted}"', beyond, limit))
            found.append([key for (key,) in rows])
        return found

    def index_texts(self, texts: Sequence[PassageText]) -> SqliteTextWords:
        return SqliteTextWords(texts)

    def count(self) -> int:
        (count,) = self._connection.execute(COUNT_WORDS).fetchone()
        return int(count)

    def check(self) -> None:
        self._connection.execute(CHECK_WORDS)

    def recreate(self) -> None:
        execute = self._connection.execute
        execute("SAVEPOINT drop_words")
        try:
            execute(DROP_WORDS)
        except sqlite3.DatabaseError:  # an unreadable table is dropped piece by piece
            execute("ROLLBACK TO drop_words")
            execute("PRAGMA writable_schema = ON")
            execute("DELETE FROM sqlite_master WHERE name = 'passage_words'")
            execute("PRAGMA writable_schema = RESET")
            pieces = execute("SELECT name FROM sqlite_master WHERE name LIKE 'passage~_words~_%' ESCAPE '~'")
            for (name,) in pieces.fetchall():
                execute(f"DROP TABLE {name}")
        execute("RELEASE drop_words")
        execute(CREATE_WORDS)


class WordCutter:
    """Splits texts into the words of the full-text index, for databases whose own tokenizer differs."""

    def __init__(self) -> None:
        self._local = threading.local()
        self.phrase = functools.lru_cache(maxsize=4_096)(self._phrase)

    def cut(self, texts: Sequence[PassageText]) -> list[tuple[list[str], list[str], list[str]]]:
        """Return the words of each passage: of its text, its extra words and its tool."""
        memory = self._memory()
        memory.execute("BEGIN")
        try:
            rows = ((key, text.text, text.extra, text.tool or "") for key, text in enumerate(texts))
            memory.executemany(ADD_WORDS, rows)
            found = [([], [], []) for _ in texts]  # type: list[tuple[list[str], list[str], list[str]]]
            for key, column, word in memory.execute(LIST_WORDS):
                found[key][WORD_COLUMNS.index(column)].append(word)
        finally:
            memory.execute("ROLLBACK")
        return found

    def _phrase(self, phrase: str) -> list[str]:
        """Return the words of a phrase."""
        return self.cut([PassageText("user", phrase, None, "")])[0][0]

    def _memory(self) -> SqliteConnection:
        """Return this thread's in-memory table."""
        if not hasattr(self._local, "memory"):
            memory = sqlite3.connect(":memory:", isolation_level=None, factory=SqliteConnection)
            memory.execute(CREATE_WORDS)
            memory.execute(CREATE_INSTANCES)
            self._local.memory = memory
        found: SqliteConnection = self._local.memory
        return found


class SqliteTextWords:
    """See `foveate.store.sql.TextWords`."""

    def __init__(self, texts: Sequence[PassageText]) -> None:
        memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False, factory=SqliteConnection)
        weakref.finalize(self, memory.close)
        memory.execute(CREATE_WORDS)
        memory.execute("BEGIN")
        memory.words.add(0, enumerate(texts))
        memory.execute("COMMIT")
        self._words = memory.words
        self._lock = threading.Lock()

    def match(self, phrases: Sequence[str]) -> list[list[int]]:
        with self._lock:
            return self._words.match_many([(phrase, -1) for phrase in phrases])


def _owner_of_folder(path: Path) -> str | None:
    """Return `UID:GID` of the folder if the file belongs to root and the folder does not; None otherwise."""
    folder = path.absolute().parent.stat()
    return f"{folder.st_uid}:{folder.st_gid}" if path.stat().st_uid == 0 != folder.st_uid else None


def _file_id(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of a file; None if there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


class SqliteFile:
    """A database file: see `foveate.store.sql.Dialect`. `prepare` creates or migrates it."""

    def __init__(self, location: str, settings: StoreSettings) -> None:
        if location.startswith(":") or not location:
            raise InputError(f"{location!r} is not a file; a store needs one to outlive the program")
        self.path = Path(location).expanduser()
        self.location = str(self.path)
        self._settings = settings

    def connect(self, *, read_only: bool) -> SqliteConnection:
        connection = sqlite3.connect(
            self.path,
            timeout=self._settings.lock_timeout_seconds,
            isolation_level=None,
            check_same_thread=False,
            factory=SqliteConnection,
        )
        connection.location = self.location
        connection.file_id = _file_id(self.path)
        connection.create_function("sha256", 1, digest_of, deterministic=True)
        try:
            connection.execute(f"PRAGMA synchronous = {self._settings.synchronous}")
            connection.execute("PRAGMA foreign_keys = ON")
            if read_only:
                connection.execute("PRAGMA query_only = ON")
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def read(self, connection: sql.Connection) -> Iterator[None]:
        connection.execute("BEGIN")
        try:
            yield
        finally:
            connection.execute("COMMIT")

    def write(self, connection: sql.Connection, locks: sql.Locks = sql.NO_LOCKS) -> AbstractContextManager[None]:  # noqa: ARG002
        """Open a write transaction; the file has one writer at a time, so nothing else is locked."""
        return self._durable(connection)

    @contextmanager
    def _durable(self, connection: sql.Connection) -> Iterator[None]:
        """Commit only to the file that has the store's name: what is written to a deleted one is gone."""
        assert isinstance(connection, SqliteConnection), "this dialect opened it"
        with _transaction(connection, "BEGIN IMMEDIATE"):
            connection.file_id = connection.file_id or _file_id(self.path)  # the first transaction creates the file
            yield
            if connection.file_id != (found := _file_id(self.path)):
                what = "deleted" if found is None else "replaced by another file"
                raise StoreError(
                    self.location,
                    f"the file was {what} while it was open, so nothing more is recorded; stop the programs that use "
                    "it, put the file back from a backup, and start them again",
                )

    def is_fault(self, error: Exception) -> bool:
        return isinstance(error, sqlite3.Error) and not isinstance(error, sqlite3.IntegrityError)

    @contextmanager
    def errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise _translate(self.location, error) from error
        except PermissionError as error:
            advice = "may not be written; check the permissions of the file and its folder"
            raise ReadOnlyStore(self.location, advice) from error
        except OSError as error:
            raise StoreError(self.location, error.strerror or str(error)) from error

    def check(self, connection: sql.Connection) -> Iterator[Finding]:
        mode = stat.S_IMODE(self.path.stat().st_mode)
        if mode & ~PRIVATE_MODE:
            problem = f"others on this machine may read the file (mode {mode:o})"
            yield Finding(problem, f"chmod 600 {shlex.quote(str(self.path))}")
        if (owner := _owner_of_folder(self.path)) is not None:
            problem = "the file belongs to root and its folder to another user, whose programs can't open it"
            yield Finding(problem, f"chown {owner} {shlex.quote(str(self.path))}")
        for number, session in connection.execute(LIST_UNSWEPT):
            yield Finding(f"free pages of the file may still have what erasure {number} removed", SWEEP.format(session))
        for (problem,) in connection.execute(f"PRAGMA integrity_check({MAX_PAGE_PROBLEMS})"):
            if problem != "ok":
                yield Finding(f"SQLite reports: {problem}", RESTORE)

    def sweep(self) -> str:
        """Rewrite the file without its free pages, and empty its journal."""
        with self.errors(), closing(self.connect(read_only=False)) as connection:
            connection.execute("VACUUM")
            is_busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if is_busy:
            return f"another program is reading {self.path}: its journal still has what was removed; {SWEEP_AGAIN}"
        return ""

    def close(self) -> None:
        """Do nothing: connections share nothing."""

    def describe(self, connection: sql.Connection) -> dict[str, str]:  # noqa: ARG002
        """Return nothing: a file has no server."""
        return {}

    def wait_for_signal(self, seconds: float) -> None:
        time.sleep(seconds)

    def prepare(self) -> None:
        """Create or migrate the schema; safe for concurrent processes."""
        self._create_private()
        deadline = time.monotonic() + self._settings.lock_timeout_seconds
        while True:
            try:
                with self.errors(), closing(self.connect(read_only=False)) as connection:
                    self._migrate(connection)
                return
            except StoreBusy:
                # Switching a new file to WAL ignores the lock timeout.
                if time.monotonic() > deadline:
                    raise
                time.sleep(RETRY_SECONDS * (0.5 + random.random()))  # noqa: S311 - jitter

    def _create_private(self) -> None:
        """Create an empty file that only its owner can read; SQLite copies its mode to the -wal and -shm files."""
        with self.errors():
            if self.path.is_dir():
                raise NotADatabase(self.location, "is a folder; name a file")
            if not self.path.parent.is_dir():
                raise StoreError(self.location, f"there is no folder {self.path.parent}; create it first")
            try:
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, PRIVATE_MODE))
            except FileExistsError:
                with self.path.open("rb") as file:
                    if file.read(len(MAGIC)) not in (b"", MAGIC):
                        raise self._not_ours("is not a database") from None

    def _migrate(self, connection: SqliteConnection) -> None:
        version = self._version(connection)
        if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            connection.execute("PRAGMA journal_mode = WAL")
        if version == sql.latest_version():
            return
        with _transaction(connection, "BEGIN EXCLUSIVE"):
            version = self._version(connection)
            if version == 0:
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(sql.CREATE_SCHEMA_TABLE)
            for number, statements in sql.migrations(version, TYPES):
                for statement in (*statements, *OWN_MIGRATIONS.get(number, ())):
                    connection.execute(statement)
                connection.execute(sql.CLEAR_VERSION)
                connection.execute(sql.WRITE_VERSION, {"version": number})

    def _version(self, connection: SqliteConnection) -> int:
        """Return the schema version; 0 for an empty file."""
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        row = connection.execute(sql.READ_VERSION).fetchone() if sql.SCHEMA_TABLE in tables else None
        if row is None and tables:
            raise self._not_ours("is a database of another program")
        version, known = int(row[0]) if row else 0, sql.latest_version()
        if version > known:
            advice = f"was written by a later version (schema {version}, this one knows {known}); upgrade it"
            raise NewerSchema(self.location, advice)
        return version

    def _not_ours(self, problem: str) -> NotADatabase:
        return NotADatabase(self.location, f"{problem}; it was not changed. {OTHER_FILE}")


@contextmanager
def _transaction(connection: sql.Connection, begin: str) -> Iterator[None]:
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _words(text: PassageText, session: int) -> tuple[str, str, str]:
    return text.text, text.extra, f"{_tag(session)} {text.tool or ''}"


def _tag(session: int) -> str:
    """Return a word that no tool's name contains."""
    return f"session{session}session"


def _translate(location: str, error: sqlite3.Error) -> StoreError:
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL")):
        return StoreBusy(location, "another process holds the database; try again, or raise store.lock_timeout_seconds")
    if name == "SQLITE_FULL":
        return StorageFull(
            location, "the disk is full; nothing of this write was stored. Free some space and try again"
        )
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
        return ReadOnlyStore(location, f"can't be written ({error}); check the permissions of the file and its folder")
    if name == "SQLITE_NOTADB":
        return NotADatabase(location, f"is not a database; it was not changed. {OTHER_FILE}")
    if name.startswith("SQLITE_CORRUPT"):
        return Damaged(location, "the file is damaged; run 'foveate doctor' to see what can be read")
    return StoreError(location, f"{error} ({name or type(error).__name__})")
