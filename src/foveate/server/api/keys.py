"""`/keys`: the keys of the server. A tenant's admin manages the tenant's own."""

from __future__ import annotations

from datetime import datetime
from fnmatch import fnmatchcase
from typing import Annotated

from msgspec import Meta, Struct

from foveate.errors import NotFound
from foveate.server.api.endpoint import Call, Endpoints
from foveate.server.api.page import ItemList
from foveate.server.problems import ProblemError
from foveate.session.budgets import MAX_USD, KeyBudget, Period
from foveate.session.keys import NO_KEY, KeyInfo, Right, RouteName
from foveate.session.values import copied

routes = Endpoints("keys")
Dollars = Annotated[float, Meta(ge=0, le=MAX_USD)]


class KeyList(ItemList[KeyInfo], frozen=True):
    """Keys without their secrets, oldest first."""


class KeyBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key to create."""

    name: Annotated[str, Meta(max_length=200)] = ""
    tenant: str | None = None
    """Default: the tenant of the key that creates it."""
    rights: Annotated[tuple[Right, ...], Meta(min_length=1)] | None = None
    """Default: gateway, read and write; with `models` or `routes` gateway alone."""
    models: tuple[str, ...] = ()
    """Patterns of the models that the gateway serves with the key, e.g. `gpt-5*`. Default: those of the key that
    creates it."""
    routes: tuple[RouteName, ...] = ()
    """The gateway's routes that the key may use. Default: those of the key that creates it."""
    budget_usd: Dollars | None = None
    """What its calls through the gateway may cost in a period: one that could exceed it is refused. Default: no
    limit."""
    soft_usd: Dollars | None = None
    """From where on clients are warned."""
    period: Period = "month"
    """In UTC."""


class BudgetBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key's new budget; without amounts it has none."""

    budget_usd: Dollars | None = None
    soft_usd: Dollars | None = None
    period: Period = "month"


class NewKeyAnswer(Struct, frozen=True, kw_only=True):
    """A new key. The secret is not shown again."""

    id: str
    name: str
    tenant: str
    rights: list[str]
    models: list[str]
    routes: list[str]
    budget: KeyBudget
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
    models = _within(body.models, call.principal.models, "model")
    routes = _within(body.routes, call.principal.routes, "route")
    if call.principal.budget.is_limited:
        raise ProblemError(403, "a key with a budget can't create keys, which would not be limited by it")
    made = await call.parts.fov.keys.create(
        body.name,
        tenant=tenant,
        rights=body.rights,
        models=models,
        routes=routes,
        budget_usd=body.budget_usd,
        soft_usd=body.soft_usd,
        period=body.period,
    )
    call.parts.access.note_created()
    info = made.info
    lists = {"rights": list(info.rights), "models": list(info.models), "routes": list(info.routes)}
    return copied(NewKeyAnswer, info, **lists, secret=made.secret)


@routes.add("PUT", "/keys/{key}/budget", right="admin")
async def set_budget(call: Call, key: str, body: BudgetBody) -> KeyInfo:
    """Replace the budget of a key."""
    if key not in {info.id for info in await _keys(call)}:
        raise NotFound(NO_KEY.format(key=key))
    if call.principal.budget.is_limited:
        raise ProblemError(403, "a key with a budget can't change budgets")
    await call.parts.fov.keys.set_budget(key, budget_usd=body.budget_usd, soft_usd=body.soft_usd, period=body.period)
    call.parts.access.note_revoked(key)  # it is looked up again
    return next(info for info in await _keys(call) if info.id == key)


@routes.add("DELETE", "/keys/{key}", right="admin")
async def revoke_key(call: Call, key: str) -> None:
    """Revoke a key permanently."""
    if key not in {info.id for info in await _keys(call)}:
        raise NotFound(NO_KEY.format(key=key))
    await call.parts.fov.keys.revoke(key)
    call.parts.access.note_revoked(key)


def _within(wanted: tuple[str, ...], own: tuple[str, ...], what: str) -> tuple[str, ...]:
    """Return the limits of a new key; `ProblemError` 403 if they exceed those of the key that creates it."""
    if not own:
        return wanted
    for one in wanted:
        is_exact = not any(sign in one for sign in "*?[")
        if one not in own and not (is_exact and any(fnmatchcase(one, pattern) for pattern in own)):
            raise ProblemError(403, f"this key can't give away the {what} {one[:100]!r}; it has: {', '.join(own)}")
    return wanted or own


async def _keys(call: Call) -> list[KeyInfo]:
    tenant = call.principal.tenant
    return [info for info in await call.parts.fov.keys.list() if not tenant or info.tenant == tenant]
