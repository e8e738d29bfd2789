"""All pages of the dashboard, and its static files."""

from __future__ import annotations

from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from foveate.server.api.endpoint import ApiParts
from foveate.server.dashboard import (
    chat,
    compare,
    knowledge,
    login,
    operations,
    requests,
    session,
    sessions,
    transfer,
    turns,
    work,
)
from foveate.server.dashboard.page import HEADERS, PageRoute, make_routes
from foveate.server.problems import STATIC_PATH

MODULES = (sessions, session, turns, requests, chat, compare, knowledge, operations, work, transfer, login)
PAGES: tuple[PageRoute, ...] = tuple(page for module in MODULES for page in module.pages.listed)
TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
STATIC = {
    **{
        name: ("foveate.server.dashboard", f"static/{name}")
        for name in (
            "dashboard.css",
            "dashboard.js",
            "icon.svg",
            "vendor/htmx.min.js",
        )
    },
    **{name: ("foveate.replay", name) for name in ("report.css", "report.js", "uplot.min.css", "uplot.min.js")},
}
"""The only files that are served, each with its package."""


def dashboard_routes(parts: ApiParts) -> list[BaseRoute]:
    """Return the routes of the dashboard."""
    return [*make_routes(PAGES, parts), Route(f"{STATIC_PATH}{{name:path}}", _static, methods=["GET"])]


async def _static(request: Request) -> Response:
    """Serve a static file of the dashboard."""
    place = STATIC.get(request.path_params["name"])
    if place is None:
        return Response("there is no such file", 404, HEADERS, "text/plain")
    package, name = place
    headers = {**HEADERS, "Cache-Control": "no-cache"}
    return Response(files(package).joinpath(name).read_bytes(), headers=headers, media_type=TYPES[name.rsplit(".")[-1]])
