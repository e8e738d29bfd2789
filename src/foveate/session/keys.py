"""Keys of the server: who may use it, for which tenant, with which rights.

new = await fov.keys.create(name="laptop", tenant="acme", rights=("gateway", "read"))
new.secret                # shown once; only its hash is stored
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal, get_args

from foveate.errors import InputError, NotFound
from foveate.session.budgets import BudgetUse, KeyBudget, Period, check_budget
from foveate.session.record import check_text
from foveate.session.tenant import check_tenant, reserve
from foveate.store import Store
from foveate.store.access import AccessKeyRow
from foveate.store.rows import NANO
from foveate.turn import from_us

Right = Literal["gateway", "read", "write", "admin"]
RIGHTS: tuple[Right, ...] = get_args(Right)
DEFAULT_RIGHTS: tuple[Right, ...] = ("gateway", "read", "write")
LIMITED_RIGHTS: tuple[Right, ...] = ("gateway",)
"""Default rights of a key with limits: the limits are those of the gateway."""
RouteName = Literal[
    "chat",
    "models",
    "count_tokens",
    "embeddings",
    "moderations",
    "completions",
    "images",
    "audio",
    "responses",
    "files",
    "batches",
    "caches",
]
"""A group of the gateway's routes."""
ROUTES: tuple[RouteName, ...] = get_args(RouteName)
PREFIX = "fov_"
"""Beginning of every key, so that it is never mistaken for a provider's key."""
SECRET_BYTES = 24
MIN_SECRET_CHARS = len(PREFIX) + 32
"""Of a secret made elsewhere: 32 hexadecimal digits are 128 bits."""
MAX_NAME_CHARS = 200
MAX_PATTERNS = 100
NO_KEY = "no active key {key!r}; 'foveate keys list' lists them"


def includes(held: Right, needed: Right) -> bool:
    """Check whether a right includes another one: `admin` all others, `write` also `read`."""
    return RIGHTS.index(held) >= RIGHTS.index(needed)


def tool_right(rights: Collection[str], *, tenant: str) -> Right:
    """Return the right that a key with these rights has for tools.

    A tenant's key never has `admin` there: tools that need it use the machine, which belongs to the owner of the store.
    """
    if "admin" in rights:
        return "write" if tenant else "admin"
    return "write" if "write" in rights else "read"


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """A key without its secret."""

    id: str
    name: str
    tenant: str
    """The tenant that the key belongs to; empty: the owner, who sees the sessions of all tenants."""
    rights: tuple[str, ...]
    created_at: datetime
    revoked_at: datetime | None
    models: tuple[str, ...] = ()
    """Patterns of the models that the gateway serves with this key, e.g. `gpt-5*`; empty: all."""
    routes: tuple[str, ...] = ()
    """Names of the gateway's routes that it may use; empty: all."""
    budget: KeyBudget = field(default_factory=KeyBudget)
    """What its calls through the gateway may cost."""
    use: BudgetUse | None = None
    """What is used of the budget; in lists of keys, None without a budget."""


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that was just created. `secret` can't be read again."""

    info: KeyInfo
    secret: str


class Keys:
    """The keys of a store. Every change is durable when its method returns."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def create(
        self,
        name: str = "",
        *,
        tenant: str = "",
        rights: Collection[str] | None = None,
        models: Collection[str] = (),
        routes: Collection[str] = (),
        budget_usd: float | None = None,
        soft_usd: float | None = None,
        period: Period = "month",
    ) -> NewKey:
        """Create a key. `admin` includes all other rights.

        `models` (patterns, e.g. `gpt-5*`) and `routes` limit what the gateway serves with it; empty: no limit. The
        default of `rights` is gateway, read and write, with limits gateway alone. From `soft_usd` spent in a `period`
        (`day` or `month`, in UTC) clients are warned; a call that could exceed `budget_usd` is refused.
        """
        check_budget(budget_usd, soft_usd, period)
        if rights is None:
            rights = LIMITED_RIGHTS if models or routes or budget_usd is not None else DEFAULT_RIGHTS
        if len(check_text("name", name)) > MAX_NAME_CHARS:
            raise InputError(f"a key's name may have up to {MAX_NAME_CHARS} characters; got {len(name)}")
        unknown = [right for right in rights if right not in RIGHTS]
        if unknown or not rights:
            problem = f"no right {unknown[0]!r}" if unknown else "a key needs a right"
            raise InputError(f"{problem}; available: {', '.join(RIGHTS)}")
        _check_limits(models, routes)
        if tenant:
            await reserve(self._store, check_tenant(tenant))
        secret = f"{PREFIX}{secrets.token_hex(SECRET_BYTES)}"
        row = replace(
            _row(secret, name, tenant, rights),
            models=" ".join(dict.fromkeys(models)),
            routes=" ".join(route for route in ROUTES if route in routes),
            budget_nano_usd=_nano(budget_usd),
            soft_nano_usd=_nano(soft_usd),
            period=period,
        )
        await self._store.access.add(row)
        return NewKey(_info(row), secret)

    async def adopt(self, secret: str, name: str = "") -> KeyInfo:
        """Create the owner's key with a secret made elsewhere, e.g. by a secret manager; it has all rights."""
        if len(secret) < MIN_SECRET_CHARS or not secret.startswith(PREFIX) or not _is_word(secret):
            raise InputError(
                f"a key is {PREFIX!r} and at least {MIN_SECRET_CHARS - len(PREFIX)} random letters and digits, "
                f"e.g. from: echo {PREFIX}$(openssl rand -hex {SECRET_BYTES})"
            )
        row = _row(secret, name, "", RIGHTS)
        await self._store.access.add(row)
        return _info(row)

    async def list(self) -> Sequence[KeyInfo]:
        """List all keys, oldest first, including revoked ones, with what is used of their budgets."""
        found = [_info(row) for row in await self._store.access.list_all()]
        return [replace(info, use=await self._use(info)) if info.budget.is_limited else info for info in found]

    async def budgets(self, limit: int = 100) -> Sequence[KeyInfo]:
        """List the active keys with a budget, oldest first, with what is used of it."""
        found = [_info(row) for row in await self._store.access.list_all()]
        limited = [info for info in found if info.budget.is_limited and info.revoked_at is None]
        return [replace(info, use=await self._use(info)) for info in limited[:limit]]

    async def _use(self, key: KeyInfo) -> BudgetUse:
        spending = await self._store.calls.spent_by_key(key.id, key.budget.began_us())
        amounts = (spending.spent_nano_usd, spending.booked_nano_usd, spending.lost_nano_usd)
        spent, booked, lost = (amount / NANO for amount in amounts)
        return BudgetUse(spent, booked, key.budget.resets_at(), lost)

    async def set_budget(
        self,
        key_id: str,
        *,
        budget_usd: float | None = None,
        soft_usd: float | None = None,
        period: Period = "month",
    ) -> None:
        """Replace the budget of a key; without amounts it has none."""
        check_budget(budget_usd, soft_usd, period)
        amounts = {"budget_nano_usd": _nano(budget_usd), "soft_nano_usd": _nano(soft_usd)}
        if not await self._store.access.set_budget(key_id, **amounts, period=period):
            raise NotFound(NO_KEY.format(key=key_id))

    async def spent_usd(self, key: KeyInfo) -> float:
        """Return what a key's calls cost in the current period of its budget, with those in progress."""
        return (await self._store.calls.spent_by_key(key.id, key.budget.began_us())).nano_usd / NANO

    async def revoke(self, key_id: str) -> None:
        """Revoke a key permanently."""
        if not await self._store.access.revoke(key_id):
            raise NotFound(NO_KEY.format(key=key_id))

    async def find(self, secret: str) -> KeyInfo | None:
        """Find the key with this secret; None if it does not exist or was revoked."""
        row = await self._store.access.find(_digest(secret))
        return _info(row) if row else None

    async def exist(self) -> bool:
        """Return whether a key was ever created. From then on the server requires one, even if all are revoked."""
        return await self._store.access.exist()


def _row(secret: str, name: str, tenant: str, rights: Collection[str]) -> AccessKeyRow:
    return AccessKeyRow(
        id=f"K-{secrets.token_hex(4)}",
        name=name,
        digest=_digest(secret),
        tenant=tenant,
        rights=" ".join(right for right in RIGHTS if right in rights),
        created_us=time.time_ns() // 1_000,
    )


def _is_word(text: str) -> bool:
    return text.isascii() and text.replace("_", "").isalnum()


def _check_limits(models: Collection[str], routes: Collection[str]) -> None:
    if unknown := [route for route in routes if route not in ROUTES]:
        raise InputError(f"no route {unknown[0]!r}; available: {', '.join(ROUTES)}")
    for model in models:
        if not model.isprintable() or len(check_text("model", model).split()) != 1 or len(model) > MAX_NAME_CHARS:
            raise InputError(f"{model[:100]!r} is no pattern of model names; one is e.g. 'gpt-5*', without spaces")
    if len(models) > MAX_PATTERNS:
        raise InputError(f"a key may have up to {MAX_PATTERNS} patterns of models; got {len(models)}")


def _digest(secret: str) -> bytes:
    # The secret is random and long, so a fast hash without salt is enough.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _info(row: AccessKeyRow) -> KeyInfo:
    revoked = None if row.revoked_us is None else from_us(row.revoked_us)
    return KeyInfo(
        row.id,
        row.name,
        row.tenant,
        tuple(row.rights.split()),
        from_us(row.created_us),
        revoked,
        tuple(row.models.split()),
        tuple(row.routes.split()),
        KeyBudget(_usd(row.budget_nano_usd), _usd(row.soft_nano_usd), "day" if row.period == "day" else "month"),
    )


def _nano(usd: float | None) -> int | None:
    return None if usd is None else round(usd * NANO)


def _usd(nano_usd: int | None) -> float | None:
    return None if nano_usd is None else nano_usd / NANO
