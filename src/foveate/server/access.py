"""Access control: keys, tenants and rights, Host and Origin checks, limits per key.

While no key exists, direct requests of this machine's owner have the owner's rights; requests through a proxy and those
of other users of the machine do not.
With keys, every request needs one: `Authorization: Bearer fov_…`, `x-api-key: fov_…` or `X-Foveate-Key: fov_…`.
"""

from __future__ import annotations

import ipaddress
import math
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from foveate.cache import BoundedCache
from foveate.client import Foveate
from foveate.errors import StoreError
from foveate.server.local import CREATE_KEY, LoopbackGuard
from foveate.server.problems import LOGIN_PATH, STATIC_PATH, ProblemError, is_dashboard_path, refusal
from foveate.server.settings import ServerSettings
from foveate.session.budgets import KeyBudget
from foveate.session.keys import PREFIX, RIGHTS, KeyInfo, Keys, Right, tool_right

HEALTH_PATHS = ("/healthz", "/readyz")
"""Paths for supervisors, which may use any Host."""
PUBLIC_PATHS = (LOGIN_PATH, f"{LOGIN_PATH}/end")
COOKIE = "foveate_key"
"""The cookie with the key of a dashboard login."""
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")
KEY_HEADERS = ("x-foveate-key", "authorization", "x-api-key", "x-goog-api-key")
"""Headers that are searched for a Foveate key, in this order."""
_FORWARDING = re.compile(
    r"forwarded|^via$|^cdn-loop$|(^|-|client|connecting|real|remote|socket|user)ip(v6)?$|remote-(addr|user)|proxyuser"
    r"|nginx-proxy|^cf-|^x-(arr|envoy|original|rewrite|varnish|vercel)|^tailscale-|^front-end-https$"
    r"|^x-(host|proto|scheme)$"
)
"""Headers by which proxies and content networks tell for whom they send a request: Forwarded, X-Forwarded-…, Via,
X-Real-IP, True-Client-IP, CF-Connecting-IP and their like. Programs of this machine send none of them."""
MAX_CACHED_KEYS = 10_000
BUSY_SECONDS = 1


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller of a request."""

    tenant: str
    """Empty for the owner of the store, who sees all tenants."""
    rights: frozenset[str]
    key_id: str
    """Empty without a key."""
    models: tuple[str, ...] = ()
    """Patterns of the models that it may use through the gateway; empty: all."""
    routes: tuple[str, ...] = ()
    """The gateway's routes that it may use; empty: all."""
    budget: KeyBudget = field(default_factory=KeyBudget)

    def may(self, right: Right) -> bool:
        return right in self.rights or "admin" in self.rights


def view_of(fov: Foveate, principal: Principal) -> Foveate:
    """Return the store as a caller sees it: their tenant's sessions, and tools and agents with their right."""
    view = fov.tenant(principal.tenant) if principal.tenant else fov
    return view.limited(tool_right(principal.rights, tenant=principal.tenant))


OWNER = Principal("", frozenset(RIGHTS), "")
UNAVAILABLE = 503
NOBODY = Principal("", frozenset(), "")
"""The caller of a public path."""


@dataclass(slots=True)
class _Usage:
    """Rate limits of a key: a token bucket of requests, and the number of requests in progress."""

    left: float
    at: float
    running: int = 0


@dataclass(frozen=True, slots=True)
class _Known:
    """A cached key lookup."""

    info: KeyInfo
    until: float


@dataclass(slots=True)
class AccessControl:
    """Identifies the caller of a request, and enforces limits."""

    keys: Keys
    settings: ServerSettings
    is_local: bool = True
    """Whether the server listens on loopback only."""
    guard: LoopbackGuard | None = None
    """Recognises other users of this machine; None, e.g. without real connections: all loopback is the owner's."""
    _known: BoundedCache[str, _Known] = field(default_factory=lambda: BoundedCache(MAX_CACHED_KEYS))
    _usage: BoundedCache[str, _Usage] = field(default_factory=lambda: BoundedCache(MAX_CACHED_KEYS))
    _keys_exist: bool = False
    """Never reset: a store that had keys never serves without one."""
    _keys_checked_at: float = -math.inf

    async def identify(self, connection: HTTPConnection) -> Principal:
        """Return the caller of a request; `ProblemError` 401 without a valid key, 503 if it can't be verified now."""
        secret = find_key(connection)
        try:
            if secret is not None:
                return await self.identify_key(secret)
            if await self._must_have_key():
                raise _denied(f"a key is needed: send 'Authorization: Bearer {PREFIX}…'; {CREATE_KEY}")
        except StoreError as error:
            problem = "the key can't be verified, because the store is not available"
            raise ProblemError(503, problem, headers={"Retry-After": str(BUSY_SECONDS)}) from error
        if not is_loopback(connection):
            raise _denied(f"without a key only direct requests from this machine are served; {CREATE_KEY}")
        if self.guard is not None:
            self.guard.check(connection)
        return OWNER

    async def still_admits(self, connection: HTTPConnection) -> bool:
        """Report whether a request in progress may continue: its key was not revoked and has not expired."""
        try:
            await self.identify(connection)
        except ProblemError as error:
            return error.status == UNAVAILABLE
        return True

    async def check_start(self) -> None:
        """Raise `ProblemError` if the server would listen beyond this machine without any key."""
        if not self.is_local and not await self._must_have_key():
            host = self.settings.host
            raise ProblemError(403, f"listening on {host} needs a key, and none exists; {CREATE_KEY}, or use 127.0.0.1")

    def note_created(self) -> None:
        """Require a key for every request, after one was created."""
        self._keys_exist = True

    def note_revoked(self, key_id: str) -> None:
        """Drop a revoked key from the cache."""
        for secret in [secret for secret, known in self._known.items() if known.info.id == key_id]:
            self._known.pop(secret)

    def check_names(self, connection: HTTPConnection) -> None:
        """Reject a foreign Host (DNS rebinding) and a foreign Origin (another site's web page)."""
        hosts = connection.headers.getlist("host")
        host = hosts[0] if len(hosts) == 1 else ""  # of two, a proxy may have checked the other
        name = host_name(host)
        allowed = self.settings.allowed_hosts
        if (self.is_local or allowed) and name not in (*LOCAL_NAMES, *allowed):
            raise ProblemError(403, f"the Host {host[:100]!r} is not allowed; server.allowed_hosts can add it")
        origin = connection.headers.get("origin")
        if origin is None or origin in self.settings.allowed_origins:
            return
        if origin.lower() not in (f"http://{host.lower()}", f"https://{host.lower()}") or not host:
            raise ProblemError(403, f"the Origin {origin[:100]!r} is not allowed; server.allowed_origins can add it")

    @contextmanager
    def admitted(self, principal: Principal) -> Iterator[None]:
        """Count a request against the limits of its key; `ProblemError` 429 if a limit is reached."""
        if not principal.key_id:
            yield
            return
        now = time.monotonic()
        per_minute, at_once = self.settings.requests_per_minute, self.settings.concurrent_requests
        used = self._usage.get(principal.key_id)
        if used is None:
            used = self._usage[principal.key_id] = _Usage(per_minute, now)
        used.left, used.at = min(per_minute, used.left + (now - used.at) * per_minute / 60), now
        if per_minute and used.left < 1:
            seconds = math.ceil((1 - used.left) * 60 / per_minute)
            raise _too_many(f"this key is limited to {per_minute:,} requests a minute", seconds)
        if at_once and used.running >= at_once:
            raise _too_many(f"this key is limited to {at_once:,} requests in progress", BUSY_SECONDS)
        used.left -= 1
        used.running += 1
        try:
            yield
        finally:
            used.running -= 1

    async def identify_key(self, secret: str) -> Principal:
        """Return the owner of a key; `ProblemError` 401 if the key is not valid."""
        if self.guard is not None and self.guard.is_token(secret) and not await self._must_have_key():
            return OWNER
        known = self._known.get(secret)
        if known is None or known.until < time.monotonic():
            info = await self.keys.find(secret)
            if info is None:
                self._known.pop(secret)
                raise _denied("this key does not exist or was revoked; 'foveate keys list' lists them")
            known = self._known[secret] = _Known(info, time.monotonic() + self.settings.key_cache_seconds)
        info = known.info
        return Principal(info.tenant, frozenset(info.rights), info.id, info.models, info.routes, info.budget)

    async def _must_have_key(self) -> bool:
        now = time.monotonic()
        if not self._keys_exist and now - self._keys_checked_at >= self.settings.key_cache_seconds:
            try:
                self._keys_exist = await self.keys.exist()
            except StoreError:
                if self._keys_checked_at == -math.inf:
                    raise
                return False  # the last lookup is still fresh
            self._keys_checked_at = now
        return self._keys_exist


class AccessMiddleware:
    """Sets `request.state.principal`, or rejects the request."""

    def __init__(self, app: ASGIApp, *, access: AccessControl) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        with ExitStack() as stack:
            try:
                principal = await self._checked(connection)
                scope.setdefault("state", {})["principal"] = principal  # before its limits, for the log
                stack.enter_context(self._access.admitted(principal))
            except ProblemError as error:
                await refusal(scope, error)(scope, receive, send)
                return
            await self._app(scope, receive, send)

    async def _checked(self, connection: HTTPConnection) -> Principal:
        path, method = connection.scope["path"], connection.scope["method"]
        if path in HEALTH_PATHS:
            return NOBODY
        self._access.check_names(connection)
        if path in PUBLIC_PATHS or path.startswith(STATIC_PATH):
            return NOBODY
        if "\0" in path:  # no id has one, and PostgreSQL accepts none
            raise ProblemError(404, "there is nothing at a path with a NUL character")
        if method == "HEAD" and path == "/":
            return NOBODY
        return await self._access.identify(connection)


def check_right(principal: Principal, right: Right) -> None:
    """Raise `ProblemError` 403 if the principal lacks a right."""
    if not principal.may(right):
        has = ", ".join(right for right in RIGHTS if right in principal.rights) or "none"
        raise ProblemError(403, f"this needs the right {right!r}; the key has: {has}", reason=f"needs {right}")


def check_route(principal: Principal, route: str) -> None:
    """Raise `ProblemError` 403 if the principal's key has a list of routes without this one."""
    if principal.routes and route not in principal.routes:
        detail = f"this key may not use the route {route!r}; it has: {', '.join(principal.routes)}"
        raise ProblemError(403, detail, reason=f"may not use {route}")


def check_models(principal: Principal, models: Sequence[str]) -> None:
    """Raise `ProblemError` 403 if the principal's key has a list of models, and one of these is not in it."""
    if not principal.models:
        return
    allowed = ", ".join(principal.models)
    if not models:
        raise ProblemError(403, f"this key is limited to models, so the request must name one; allowed: {allowed}")
    for model in models:
        if not any(fnmatchcase(model, pattern) for pattern in principal.models):
            raise ProblemError(403, f"this key may not use the model {model[:100]!r}; allowed: {allowed}")


def find_key(connection: HTTPConnection) -> str | None:
    """Return the Foveate key in a request, or None; keys of providers are ignored."""
    for name in KEY_HEADERS:
        given = connection.headers.get(name, "").strip()
        if name == "authorization":
            scheme, _, given = given.partition(" ")
            given = given.strip() if scheme.lower() == "bearer" else ""
        if given.startswith(PREFIX) or (given and name == "x-foveate-key"):
            return given
    return connection.cookies.get(COOKIE) if is_dashboard_path(connection.scope.get("path", "")) else None


def is_loopback(connection: HTTPConnection) -> bool:
    """Report whether a request comes directly from this machine, not through a proxy on it.

    A proxy is detected by the headers that it adds, or by the host name of the request.
    """
    if any(_FORWARDING.search(name) for name in connection.headers):
        return False
    if host_name(connection.headers.get("host", "")) not in LOCAL_NAMES:
        return False
    return connection.client is not None and is_local_address(connection.client.host)


def is_local_address(host: str) -> bool:
    """Report whether an address or name is loopback."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def host_name(host: str) -> str:
    """Return the name in a Host header, without its port."""
    if host.startswith("["):
        return host.partition("]")[0].lower() + "]"
    return host.partition(":")[0].lower()


def _denied(detail: str) -> ProblemError:
    return ProblemError(401, detail, headers={"WWW-Authenticate": "Bearer"})


def _too_many(detail: str, seconds: int) -> ProblemError:
    return ProblemError(429, f"{detail}; try again in {seconds} s", headers={"Retry-After": str(max(1, seconds))})
