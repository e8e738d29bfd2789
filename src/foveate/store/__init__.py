"""Store turns, raw and permanently, in one SQLite file or in PostgreSQL.

`log`, `derived`, `queue`, `artefacts`, `passages`, `calls` and others are functions of a connection; `operations` makes
them the methods of a `Store`; `database` runs them in transactions; `sqlite` and `postgres` are everything particular
to a database.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from foveate.errors import InputError, StoreError
from foveate.store.database import FORKED, Database
from foveate.store.operations import Store
from foveate.store.rows import (
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
)
from foveate.store.settings import StoreSettings

if TYPE_CHECKING:
    from foveate.store.copy import CopyReport
    from foveate.store.postgres import PostgresServer
    from foveate.store.sqlite import SqliteFile

__all__ = [
    "FORKED",
    "Draft",
    "Finding",
    "MessageOutline",
    "MessageRow",
    "NewSession",
    "PinRow",
    "Place",
    "PruneReport",
    "SessionRow",
    "Store",
    "StoredSizes",
    "TurnRow",
    "open_store",
]


POSTGRES_SCHEMES = ("postgresql", "postgres")


async def open_store(location: str, settings: StoreSettings) -> Store:
    """Open the store at a file path (created if missing) or a database URL."""
    dialect = dialect_of(location, settings)
    await asyncio.to_thread(dialect.prepare)
    return Store(dialect, Database(dialect, settings))


def dialect_of(location: str, settings: StoreSettings) -> SqliteFile | PostgresServer:
    """Return the dialect of the database at a file path or a URL."""
    scheme, separator, _ = location.partition("://")
    if separator and scheme not in POSTGRES_SCHEMES:
        kinds = "the path of a file, e.g. foveate.open('chat.db'), or postgresql://user:password@host/database"
        raise InputError(f"{scheme}:// is not a kind of store; use {kinds}")
    if separator:
        return _server(location, settings)
    from foveate.store.sqlite import SqliteFile  # noqa: PLC0415 - a store's driver loads when it is used

    return SqliteFile(location, settings)


def copy_store(
    source: str, target: str, settings: StoreSettings, progress: Callable[[int, int], object] | None = None
) -> CopyReport:
    """Copy everything that the target lacks; see `foveate.store.copy`."""
    from foveate.store.copy import StoreCopy  # noqa: PLC0415

    origin, goal = dialect_of(source, settings), dialect_of(target, settings)
    if origin.location == goal.location:
        raise InputError("the source and the target are the same store")
    if "://" not in source and not Path(origin.location).exists():
        raise StoreError(origin.location, "does not exist")
    try:
        origin.prepare()
        goal.prepare()
        return StoreCopy(origin, goal, settings, progress).run()
    finally:
        origin.close()
        goal.close()


def _server(url: str, settings: StoreSettings) -> PostgresServer:
    try:
        from foveate.store.postgres import PostgresServer  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise InputError("PostgreSQL needs its driver: pip install 'foveate[postgres]'") from error
    return PostgresServer(url, settings)
