"""Stored prompts by tenant, key and version; a change is a new version. Functions of a connection."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from foveate.errors import Damaged
from foveate.store.rows import PromptRow
from foveate.store.sql import Connection, now_us

_COLUMNS = "tenant, key, version, text, created_us, digest"
ADD = """INSERT INTO prompts (tenant, key, version, text, digest, created_us)
    SELECT :tenant, :key, coalesce(max(version), 0) + 1, :text, :digest, :now_us FROM prompts
    WHERE tenant = :tenant AND key = :key RETURNING version"""
NEWEST = f"""SELECT {_COLUMNS} FROM prompts p WHERE tenant = :tenant AND version =
    (SELECT max(version) FROM prompts n WHERE n.tenant = p.tenant AND n.key = p.key) ORDER BY key"""  # noqa: S608
HISTORY = f"SELECT {_COLUMNS} FROM prompts WHERE tenant = :tenant AND key = :key ORDER BY version"  # noqa: S608


def add(connection: Connection, tenant: str, key: str, text: str | None) -> PromptRow:
    """A new version; without a text, a return to the built-in prompt."""
    now = now_us()
    values = {"tenant": tenant, "key": key, "text": text, "digest": digest_of(text), "now_us": now}
    (version,) = connection.execute(ADD, values).fetchone()
    return PromptRow(tenant, key, version, text, now)


def newest(connection: Connection, tenant: str) -> list[PromptRow]:
    """The newest version of each key."""
    return [_row(connection, row) for row in connection.execute(NEWEST, {"tenant": tenant})]


def history(connection: Connection, tenant: str, key: str) -> list[PromptRow]:
    """All versions of a key, the oldest first."""
    return [_row(connection, row) for row in connection.execute(HISTORY, {"tenant": tenant, "key": key})]


def digest_of(text: str | None) -> bytes:
    return hashlib.sha256((text or "").encode("utf-8", "surrogatepass")).digest()


def _row(connection: Connection, row: Sequence[Any]) -> PromptRow:
    tenant, key, version, text, created_us, digest = row
    if digest_of(text) != digest:
        raise Damaged(connection.location, f"version {version} of the prompt {key!r} is damaged; set it again")
    return PromptRow(tenant, key, version, text, created_us)
