"""Where turns are stored, raw and permanently: one protocol, one file per database.

`log`, `derived`, `queue`, `artefacts`, `passages` and `calls` are functions of a connection; `database` runs them in
transactions; `sqlite` is everything particular to SQLite.
"""

from __future__ import annotations

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


FORKED = "was opened by process {process}, whose threads a forked process does not have; open it again in this one"


async def open_store(location: str, settings: StoreSettings) -> Store:
    """The store at a file path (created if there is none) or a database URL."""
    scheme, separator, _ = location.partition("://")
    if separator and scheme.startswith("postgres"):
        raise InputError("PostgreSQL is not supported yet; give the path of a file, e.g. foveate.open('chat.db')")
    if separator:
        raise InputError(f"{scheme}:// is not a kind of store; give the path of a file, e.g. foveate.open('chat.db')")
    from foveate.store.database import DatabaseStore  # noqa: PLC0415 - a store's driver loads when it is used
    from foveate.store.sqlite import SqliteFile  # noqa: PLC0415

    file = SqliteFile(location, settings)
    return await DatabaseStore.open(file, file.prepare, settings)
