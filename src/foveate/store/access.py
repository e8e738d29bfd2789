"""Access keys of the server, with their tenants and rights. Functions of a connection."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from foveate.store.sql import Connection, now_us

_COLUMNS = """id, name, digest, tenant, rights, created_us, revoked_us, models, routes, budget_nano_usd, soft_nano_usd,
    period"""
ADD = f"""INSERT INTO access_keys ({_COLUMNS})
    VALUES (:id, :name, :digest, :tenant, :rights, :created_us, :revoked_us, :models, :routes,
    :budget_nano_usd, :soft_nano_usd, :period)"""  # noqa: S608
LIST = f"SELECT {_COLUMNS} FROM access_keys ORDER BY created_us, id"  # noqa: S608
FIND = f"SELECT {_COLUMNS} FROM access_keys WHERE digest = :digest AND revoked_us IS NULL"  # noqa: S608
SET_BUDGET = """UPDATE access_keys SET budget_nano_usd = :budget_nano_usd, soft_nano_usd = :soft_nano_usd,
    period = :period WHERE id = :id AND revoked_us IS NULL"""
REVOKE = "UPDATE access_keys SET revoked_us = :now_us WHERE id = :id AND revoked_us IS NULL"
ANY = "SELECT EXISTS (SELECT 1 FROM access_keys)"


@dataclass(frozen=True, slots=True)
class AccessKeyRow:
    """A key of the server; its secret is stored as a hash only."""

    id: str
    name: str
    digest: bytes
    tenant: str
    rights: str
    """Space-separated."""
    created_us: int
    revoked_us: int | None = None
    models: str = ""
    """Patterns, space-separated; empty: all."""
    routes: str = ""
    """Space-separated; empty: all."""
    budget_nano_usd: int | None = None
    """What its calls through the gateway may cost in a period; None: no limit."""
    soft_nano_usd: int | None = None
    """From where on a warning is given; None: none."""
    period: str = "month"
    """`day` or `month`, in UTC."""


def add(connection: Connection, key: AccessKeyRow) -> None:
    connection.execute(ADD, asdict(key))


def list_all(connection: Connection) -> list[AccessKeyRow]:
    """List all keys, the oldest first, including revoked ones."""
    return [AccessKeyRow(*row) for row in connection.execute(LIST)]


def find(connection: Connection, digest: bytes) -> AccessKeyRow | None:
    """Return the key with this hash, or None if it is missing or revoked."""
    row = connection.execute(FIND, {"digest": digest}).fetchone()
    return None if row is None else AccessKeyRow(*row)


def revoke(connection: Connection, key_id: str) -> bool:
    """Revoke a key; return False if it is missing or already revoked."""
    return connection.execute(REVOKE, {"id": key_id, "now_us": now_us()}).rowcount > 0


def set_budget(
    connection: Connection, key_id: str, *, budget_nano_usd: int | None, soft_nano_usd: int | None, period: str
) -> bool:
    """Change the budget of a key; return False if the key is missing or revoked."""
    values = {"budget_nano_usd": budget_nano_usd, "soft_nano_usd": soft_nano_usd, "period": period, "id": key_id}
    return connection.execute(SET_BUDGET, values).rowcount > 0


def exist(connection: Connection) -> bool:
    """Return whether any key was ever created; a server without keys serves loopback only."""
    (found,) = connection.execute(ANY).fetchone()
    return bool(found)
