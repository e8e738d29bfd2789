"""A SQLite file: created private, brought to the current schema, its errors told in our words."""

from __future__ import annotations

import os
import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from foveate.errors import (
    Damaged,
    NewerSchema,
    NotADatabase,
    ReadOnlyStore,
    StorageFull,
    StoreBusy,
    StoreError,
)
from foveate.store import sql
from foveate.store.settings import StoreSettings

CREATE_WORDS = """CREATE VIRTUAL TABLE passage_words USING fts5
    (text, extra, tags, content='', tokenize='porter unicode61 remove_diacritics 2')"""
"""The full-text index of passages; `foveate.store.sqlite_passages` says how it is used."""
TYPES = {
    "serial": "INTEGER PRIMARY KEY",
    "serial_once": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "key": "INTEGER PRIMARY KEY",
    "blob": "BLOB",
}
"""How SQLite spells what the shared schema leaves open; a `serial_once` is never given again, even after a delete."""
OWN_MIGRATIONS = {
    2: ("CREATE VIRTUAL TABLE words USING fts5 (text, content='', tokenize='porter unicode61')",),
    5: ("DROP TABLE words", CREATE_WORDS),
}
"""What a schema version has in SQLite only."""
MAGIC = b"SQLite format 3\x00"
APPLICATION_ID = 0x466F7665
"""`Fove`: what `file` and other tools see in the header."""
PRIVATE_MODE = 0o600
RETRY_SECONDS = 0.02


def create_private(path: Path) -> None:
    """Make an empty file that only its owner can read; SQLite gives its -wal and -shm the same mode."""
    with errors_told(str(path)):
        if path.is_dir():
            raise NotADatabase(str(path), "is a folder; name a file")
        if not path.parent.is_dir():
            raise StoreError(str(path), f"there is no folder {path.parent}; create it first")
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, PRIVATE_MODE))
        except FileExistsError:
            with path.open("rb") as file:
                if file.read(len(MAGIC)) not in (b"", MAGIC):
                    raise NotADatabase(
                        str(path), "is not a database; it was left as it is. Name another file"
                    ) from None


def connect(path: Path, settings: StoreSettings, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection in autocommit mode that waits for locks; any thread may use it, one at a time."""
    connection = sqlite3.connect(
        path, timeout=settings.lock_timeout_seconds, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute(f"PRAGMA synchronous = {settings.synchronous}")
        connection.execute("PRAGMA foreign_keys = ON")
        if read_only:
            connection.execute("PRAGMA query_only = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def prepare(path: Path, settings: StoreSettings) -> None:
    """Bring the file to the current schema, however many processes try that at once."""
    create_private(path)
    deadline = time.monotonic() + settings.lock_timeout_seconds
    while True:
        try:
            with errors_told(str(path)), closing(connect(path, settings)) as connection:
                _migrate(str(path), connection)
            return
        except StoreBusy:
            # Switching a new file to WAL does not wait for the lock, whatever the timeout.
            if time.monotonic() > deadline:
                raise
            time.sleep(RETRY_SECONDS * (0.5 + random.random()))  # noqa: S311 - jitter


def read_version(connection: sqlite3.Connection) -> int | None:
    """The schema's version; 0 for an empty file, None for another program's database."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if sql.SCHEMA_TABLE in tables:
        row = connection.execute(sql.READ_VERSION).fetchone()
        return int(row[0]) if row else None
    return None if tables else 0


def _migrate(location: str, connection: sqlite3.Connection) -> None:
    version = _checked_version(location, connection)
    if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        connection.execute("PRAGMA journal_mode = WAL")
    if version == sql.latest_version():
        return
    connection.execute("BEGIN EXCLUSIVE")
    try:
        version = _checked_version(location, connection)
        if version == 0:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(sql.CREATE_SCHEMA_TABLE)
        for number, statements in sql.migrations(version, TYPES):
            for statement in (*statements, *OWN_MIGRATIONS.get(number, ())):
                connection.execute(statement)
            connection.execute(sql.CLEAR_VERSION)
            connection.execute(sql.WRITE_VERSION, {"version": number})
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _checked_version(location: str, connection: sqlite3.Connection) -> int:
    version = read_version(connection)
    if version is None:
        raise NotADatabase(location, "is a database of another program; it was left as it is. Name another file")
    if version > sql.latest_version():
        raise NewerSchema(
            location,
            f"was written by a later version (schema {version}, this one knows {sql.latest_version()}); upgrade it",
        )
    return version


@contextmanager
def errors_told(location: str) -> Iterator[None]:
    """Turn what SQLite and the system raise into our errors, each with what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translate(location, error) from error
    except PermissionError as error:
        raise ReadOnlyStore(location, "may not be written; check the permissions of the file and its folder") from error
    except OSError as error:
        raise StoreError(location, error.strerror or str(error)) from error


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
        return NotADatabase(location, "is not a database; it was left as it is. Name another file")
    if name.startswith("SQLITE_CORRUPT"):
        return Damaged(location, "the file is damaged; run 'foveate doctor' to see what can be read")
    return StoreError(location, f"{error} ({name or type(error).__name__})")
