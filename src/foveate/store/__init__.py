"""Where turns are stored, raw and permanently: one protocol, one file per database.

`log`, `derived`, `queue`, `artefacts`, `passages` and `calls` are functions of a connection; `database` runs them in
transactions; `sqlite` and `postgres` are everything particular to a database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foveate.errors import InputError
from foveate.store.protocol import Store
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
    from foveate.store.postgres import PostgresServer

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
FORKED = "was opened by process {process}, whose threads a forked process does not have; open it again in this one"


async def open_store(location: str, settings: StoreSettings) -> Store:
    """The store at a file path (created if there is none) or a database URL."""
    scheme, separator, _ = location.partition("://")
    if separator and scheme not in POSTGRES_SCHEMES:
        kinds = "the path of a file, e.g. foveate.open('chat.db'), or postgresql://user:password@host/database"
        raise InputError(f"{scheme}:// is not a kind of store; give {kinds}")
    from foveate.store.database import DatabaseStore  # noqa: PLC0415 - a store's driver loads when it is used

    if separator:
        server = _server(location, settings)
        return await DatabaseStore.open(server, server.prepare, settings)
    from foveate.store.sqlite import SqliteFile  # noqa: PLC0415

    file = SqliteFile(location, settings)
    return await DatabaseStore.open(file, file.prepare, settings)


def _server(url: str, settings: StoreSettings) -> PostgresServer:
    try:
        from foveate.store.postgres import PostgresServer  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise InputError("PostgreSQL needs its driver: pip install 'foveate[postgres]'") from error
    return PostgresServer(url, settings)
