"""Stored prompts by tenant, key and version; a change is a new version. Functions of a connection."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from foveate.store.sql import Connection, now_us

_COLUMNS = "tenant, key, version, text, created_us, digest"
ADD = """INSERT INTO prompts (tenant, key, version, text, digest, created_us)
    SELECT :tenant, :key, coalesce(max(version), 0) + 1, :text, :digest, :now_us FROM prompts
    WHERE tenant = :tenant AND key = :key RETURNING version"""
NEWEST = f"""SELECT {_COLUMNS} FROM prompts p WHERE tenant = :tenant AND version =
    (SELECT max(version) FROM prompts n WHERE n.tenant = p.tenant AND n.key = p.key) ORDER BY key"""  # noqa: S608
HISTORY = f"SELECT {_COLUMNS} FROM prompts WHERE tenant = :tenant AND key = :key ORDER BY version"  # noqa: S608

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PromptRow:
    """A version of a stored prompt. None as its text restores the built-in prompt."""

    tenant: str
    key: str
    version: int
    text: str | None
    created_us: int


def add(connection: Connection, tenant: str, key: str, text: str | None) -> PromptRow:
    """Add a version; without a text, restore the built-in prompt."""
    now = now_us()
    values = {"tenant": tenant, "key": key, "text": text, "digest": digest_of(text), "now_us": now}
    (version,) = connection.execute(ADD, values).fetchone()
    return PromptRow(tenant, key, version, text, now)


def newest(connection: Connection, tenant: str) -> list[PromptRow]:
    """List the newest version of each key."""
    return _intact(connection, connection.execute(NEWEST, {"tenant": tenant}))


def history(connection: Connection, tenant: str, key: str) -> list[PromptRow]:
    """List all versions of a key, the oldest first."""
    return _intact(connection, connection.execute(HISTORY, {"tenant": tenant, "key": key}))


def texts(connection: Connection, rows: Iterable[Sequence[Any]]) -> dict[str, str]:
    """Return the texts of rows of `NEWEST`, by key."""
    return {row.key: row.text for row in _intact(connection, rows) if row.text is not None}


def digest_of(text: str | None) -> bytes:
    return hashlib.sha256((text or "").encode("utf-8", "surrogatepass")).digest()


def _intact(connection: Connection, rows: Iterable[Sequence[Any]]) -> list[PromptRow]:
    """Return the undamaged prompts; `check` reports the damaged ones."""
    found = []
    for tenant, key, version, text, created_us, digest in rows:
        if digest_of(text) == digest:
            found.append(PromptRow(tenant, key, version, text, created_us))
        else:
            _log.warning("%s: version %d of the prompt %r is damaged", connection.location, version, key)
    return found
