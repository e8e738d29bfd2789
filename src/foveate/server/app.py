"""The application: routes of the gateway, the API and MCP behind one access check."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

import foveate
from foveate import telemetry
from foveate.client import Foveate
from foveate.errors import FoveateError
from foveate.server.access import AccessControl, AccessMiddleware, Principal, check_right, is_local_address, view_of
from foveate.server.admission import AdmissionMiddleware
from foveate.server.api.context import OpenSessions
from foveate.server.api.endpoint import BASE, ApiParts, Replies
from foveate.server.api.events import EventHub
from foveate.server.api.jobs import Jobs
from foveate.server.api.table import api_routes
from foveate.server.dashboard.approvals import Approvals
from foveate.server.dashboard.table import dashboard_routes
from foveate.server.gateway.routes import GatewayEndpoints
from foveate.server.health import Health
from foveate.server.mcp import McpApp, build_server
from foveate.server.metrics import MEDIA_TYPE, Metrics, MetricsMiddleware, route_of
from foveate.server.problems import DASHBOARD_PATH, DEFECT, ProblemError, problem_of, refusal
from foveate.server.request_log import RequestLogMiddleware
from foveate.server.settings import ServerSettings
from foveate.server.time_limits import TimeLimitMiddleware
from foveate.tokens import counter_for

NOT_ALLOWED = 405
SERVER_ERROR = 500
CLIENT_CLOSED = 499
"""Status in the metrics for a request whose client disconnected."""

_log = logging.getLogger(__name__)


def create_app(
    fov: Foveate, *, settings: ServerSettings | None = None, extra_routes: Sequence[BaseRoute] = ()
) -> Starlette:
    """Create the server application for an open store, which stays open when the server stops."""
    settings = settings or server_settings(fov)
    access = AccessControl(fov.keys, settings, is_local=is_local_address(settings.host))
    metrics = Metrics()
    mcp = _mcp(fov, settings)
    events = EventHub(fov, settings.event_buffer, metrics)
    jobs, replies = Jobs(settings.max_jobs), Replies(settings.idempotency_buffer)
    gateway = GatewayEndpoints(fov, settings, metrics.count_client_call)
    parts = ApiParts(fov, settings, access, events, jobs, replies, OpenSessions(), Approvals())
    routes = [
        Route("/healthz", _health, methods=["GET"]),
        Route("/readyz", _ready, methods=["GET"]),
        Route("/metrics", _metrics, methods=["GET"]),
        Route("/mcp", mcp),
        *api_routes(parts),
        *gateway.routes(),
        *dashboard_routes(parts),
        *extra_routes,
    ]

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        await access.check_start()
        # The first request should not wait for a vocabulary.
        await asyncio.to_thread(counter_for(None).count, "warm up")
        events.start()
        fov.warm()
        fov.caller.watchers.append(metrics.count_own_call)
        try:
            async with mcp.running():
                yield
        finally:
            fov.caller.watchers.remove(metrics.count_own_call)
            events.stop()
            await replies.stop()
            await jobs.stop()
            await gateway.close()

    app = Starlette(
        routes=routes,
        middleware=[
            Middleware(RequestLogMiddleware),
            *_tracing(),
            Middleware(MetricsMiddleware, metrics=metrics),
            Middleware(AccessMiddleware, access=access),
            Middleware(AdmissionMiddleware),
            Middleware(TimeLimitMiddleware),
            Middleware(_RawPaths),
        ],
        exception_handlers=_HANDLERS,
        lifespan=lifespan,
    )
    app.state.fov = fov
    app.state.settings = settings
    app.state.access = access
    app.state.metrics = metrics
    app.state.health = Health(fov, settings)
    app.state.gateway = gateway
    app.state.end_streams = events.stop
    return app


def _tracing() -> list[Middleware]:
    """Trace requests, if telemetry is on: without its extra, its module can't be imported."""
    if not telemetry.is_on():
        return []
    from foveate.server.tracing import TracingMiddleware  # noqa: PLC0415 - only with the extra

    return [Middleware(TracingMiddleware)]


_RAW = (f"{BASE}/", f"{DASHBOARD_PATH}/")


class _RawPaths:
    """Matches routes of the API and the dashboard against the undecoded path, so that ids may have an encoded slash."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(_RAW) and scope.get("raw_path"):
            raw: bytes = scope["raw_path"].partition(b"?")[0]
            scope["path"] = raw.decode("ascii", "replace")
        await self._app(scope, receive, send)


def server_settings(fov: Foveate) -> ServerSettings:
    """Return the `server` section of an open store's settings."""
    section = fov.settings.server
    assert isinstance(section, ServerSettings)
    return section


def principal_of(request: Request) -> Principal:
    """Return the caller of the request."""
    found: Principal = request.state.principal
    return found


async def _health(request: Request) -> Response:
    """Answer that the process is alive; nothing else is asked."""
    health: Health = request.app.state.health
    seconds = round(health.uptime_seconds, 1)
    return JSONResponse({"status": "ok", "version": foveate.__version__, "uptime_seconds": seconds})


async def _ready(request: Request) -> Response:
    """Answer whether requests can be served: 503 if they would fail."""
    health: Health = request.app.state.health
    access: AccessControl = request.app.state.access
    report = await health.ready()
    try:
        principal = await access.identify(request)
    except ProblemError:
        is_owner = False
    else:
        is_owner = principal.may("admin") and not principal.tenant
    body = report.body(is_owner=is_owner)
    return JSONResponse(body, 503, {"Retry-After": "1"}) if report.failed else JSONResponse(body)


async def _metrics(request: Request) -> Response:
    principal = principal_of(request)
    check_right(principal, "admin")
    metrics: Metrics = request.app.state.metrics
    if principal.tenant:
        raise ProblemError(403, "metrics are for the owner of the store; use a key without a tenant")
    fov: Foveate = request.app.state.fov
    metrics.set("foveate_sessions", len(await fov.sessions()))
    metrics.set_queue(await fov.queue_state(limit=0))
    metrics.set_keys(await fov.keys.budgets(telemetry.MAX_NAMES))
    gateway: GatewayEndpoints = request.app.state.gateway
    metrics.raise_to("foveate_calls_dropped_total", gateway.dropped)
    return PlainTextResponse(metrics.render(), media_type=MEDIA_TYPE)


def _mcp(fov: Foveate, settings: ServerSettings) -> McpApp:
    """Create MCP for the tenant of each request; reading needs the right `read`, pinning `write`."""

    def principal(scope: Scope) -> Principal:
        found: Principal = scope["state"]["principal"]
        return found

    def view_for(scope: Scope) -> Foveate:
        return view_of(fov, principal(scope))

    def may_write(scope: Scope) -> bool:
        return principal(scope).may("write")

    server = build_server(view_for, settings, may_write=may_write)
    return McpApp(server, check=lambda scope: check_right(principal(scope), "read"))


def _tenant_of(request: Request) -> str:
    principal: Principal | None = getattr(request.state, "principal", None)
    return principal.tenant if principal else ""


async def _on_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemError)
    return refusal(request.scope, error)


async def _on_foveate_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, FoveateError)
    problem = problem_of(error, _tenant_of(request))
    if problem.status >= SERVER_ERROR:
        _log.error("%s %s failed", request.method, route_of(request.scope), exc_info=error)
    return refusal(request.scope, problem)


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.scope["path"]
    details = {404: f"there is nothing at {path[:200]}", 405: f"{request.method} is not allowed here"}
    detail = details.get(error.status_code, error.detail)
    headers = {"Allow": _allowed(request)} if error.status_code == NOT_ALLOWED else error.headers
    return refusal(request.scope, ProblemError(error.status_code, detail, headers=headers))


def _allowed(request: Request) -> str:
    """Return the methods of the request's path: those of all its routes, of which each has some."""
    scope = {**request.scope, "path_params": {}}
    matches = [(route, *route.matches(scope)) for route in request.app.routes if isinstance(route, Route)]
    found = [(len(child["path_params"]), route.methods or ()) for route, match, child in matches if match != Match.NONE]
    fewest = min(parameters for parameters, _ in found)  # "/cabinet/prune" is not "/cabinet/{file}"
    return ", ".join(sorted({method for parameters, methods in found if parameters == fewest for method in methods}))


async def _on_defect(request: Request, error: Exception) -> Response:
    _log.error("%s %s failed", request.method, route_of(request.scope), exc_info=error)
    return refusal(request.scope, ProblemError(500, DEFECT))


async def _on_disconnect(_request: Request, _error: Exception) -> Response:
    """Answer a client that disconnected while sending its body; this is not a failure of the server."""
    return Response(status_code=CLIENT_CLOSED)


_HANDLERS: dict[Any, Any] = {
    ClientDisconnect: _on_disconnect,
    ProblemError: _on_problem,
    FoveateError: _on_foveate_error,
    HTTPException: _on_http_error,
    Exception: _on_defect,
}
