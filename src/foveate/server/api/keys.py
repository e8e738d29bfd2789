"""`/keys`: the keys of the server. A tenant's admin manages the tenant's own."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from foveate.errors import NotFound
from foveate.server.api.endpoint import Call, Endpoints
from foveate.server.api.page import ItemList
from foveate.server.problems import ProblemError
from foveate.session.keys import KeyInfo, Right
from foveate.session.values import copied

routes = Endpoints("keys")


class KeyList(ItemList[KeyInfo], frozen=True):
    """Keys without their secrets, oldest first."""


class KeyBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key to create."""

    name: Annotated[str, Meta(max_length=200)] = ""
    tenant: str | None = None
    """Default: the tenant of the key that creates it."""
    rights: Annotated[tuple[Right, ...], Meta(min_length=1)] = ("gateway", "read", "write")


class NewKeyAnswer(Struct, frozen=True, kw_only=True):
    """A new key. The secret is not shown again."""

    id: str
    name: str
    tenant: str
    rights: list[str]
    created_at: datetime
    secret: str


@routes.add("GET", "/keys", right="admin")
async def list_keys(call: Call) -> KeyList:
    """List the keys."""
    return KeyList(items=await _keys(call))


@routes.add("POST", "/keys", right="admin", status=201)
async def create_key(call: Call, body: KeyBody) -> NewKeyAnswer:
    """Create a key."""
    own = call.principal.tenant
    tenant = own if body.tenant is None else body.tenant
    if own and tenant != own:
        raise ProblemError(403, "a tenant's key can create keys of its own tenant only")
    made = await call.parts.fov.keys.create(body.name, tenant=tenant, rights=body.rights)
    call.parts.access.note_created()
    return copied(NewKeyAnswer, made.info, rights=list(made.info.rights), secret=made.secret)


@routes.add("DELETE", "/keys/{key}", right="admin")
async def revoke_key(call: Call, key: str) -> None:
    """Revoke a key permanently."""
    if key not in {info.id for info in await _keys(call)}:
        raise NotFound(f"no active key {key!r}; 'foveate keys list' lists them")
    await call.parts.fov.keys.revoke(key)
    call.parts.access.note_revoked(key)


async def _keys(call: Call) -> list[KeyInfo]:
    tenant = call.principal.tenant
    return [info for info in await call.parts.fov.keys.list() if not tenant or info.tenant == tenant]
