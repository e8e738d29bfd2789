"""All endpoints of the API, and the routes of a server."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from foveate.server.api import (
    agents,
    cabinet,
    context,
    events,
    files,
    jobs,
    keys,
    knowledge,
    notes,
    prompts,
    runs,
    search,
    sessions,
    spending,
    tools,
    topics,
    transfer,
    turns,
)
from foveate.server.api.endpoint import BASE, JSON, ApiParts, Endpoint, encode, make_routes
from foveate.server.api.schema import describe

RESOURCES = (
    *(sessions, turns, context, search, notes, topics, transfer, jobs, events, keys, cabinet, prompts, agents, tools),
    knowledge,
    files,
    runs,
    spending,
)
ENDPOINTS: tuple[Endpoint, ...] = tuple(endpoint for module in RESOURCES for endpoint in module.routes.listed)


def api_routes(parts: ApiParts) -> list[Route]:
    """Return the routes of the API and of its OpenAPI document."""
    document = encode(describe(ENDPOINTS))

    async def openapi(_request: Request) -> Response:
        return Response(document, media_type=JSON)

    return [Route(f"{BASE}/openapi.json", openapi, methods=["GET"]), *make_routes(ENDPOINTS, parts)]
