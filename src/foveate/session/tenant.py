"""Tenants: each has its own session ids and sees only its own sessions. The owner of the store sees all.

The session `chat` of the tenant `acme` is stored as `acme:chat`.
"""

from __future__ import annotations

import re

from foveate.errors import InputError, Refused
from foveate.store import Store

SEPARATOR = ":"
"""Separates the tenant from the session id in a stored id."""
_TENANT = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def check_tenant(name: str) -> str:
    """Return a tenant's name; `InputError` if it is invalid."""
    if not _TENANT.fullmatch(name):
        raise InputError(
            f"{name[:80]!r} can't be a tenant's name; use 1 to 64 of a-z, 0-9, '.', '_' and '-', "
            "beginning with a letter or digit"
        )
    return name


def stored_id(tenant: str, session_id: str) -> str:
    """Return the stored id of a tenant's session; the owner's session ids are stored unchanged."""
    return f"{tenant}{SEPARATOR}{session_id}" if tenant else session_id


def public_id(tenant: str, session_id: str) -> str:
    """Return the id of a stored session as its tenant uses it."""
    return session_id.removeprefix(f"{tenant}{SEPARATOR}") if tenant else session_id


async def check_unreserved(store: Store, session_id: str) -> None:
    """Raise `InputError` if an id for the owner's session begins with the name of an existing tenant."""
    name, separator, _ = session_id.partition(SEPARATOR)
    if not separator or not _TENANT.fullmatch(name):
        return
    held = {key.tenant for key in await store.access.list_all()}
    if name in held or await store.list_sessions(tenant=name):
        raise InputError(f"session ids that begin with {name + SEPARATOR!r} belong to a tenant; choose another id")


async def reserve(store: Store, tenant: str) -> None:
    """Raise `Refused` if a session of the owner begins with the name of a new tenant."""
    beginning = f"{tenant}{SEPARATOR}"
    for row in await store.list_sessions(tenant=""):
        if row.id.startswith(beginning):
            raise Refused(
                f"the session {row.id!r} of the owner begins with {beginning!r}, as the sessions of a tenant of "
                "this name would; choose another tenant name, or delete the session"
            )
