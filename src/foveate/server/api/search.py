"""`/search`: turns that match a query by words or by meaning, in one session or in all."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import asdict

from foveate.server.api.endpoint import Call, Endpoints
from foveate.server.api.page import ItemList
from foveate.session.values import Hit

routes = Endpoints("search")


class SearchQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The query and its filters."""

    q: Annotated[str, Meta(max_length=10_000)] = ""
    """May be empty with the order `time`."""
    limit: Annotated[int, Meta(ge=1, le=100)] = 10
    role: Literal["user", "assistant", "tool", "system"] | None = None
    tool: str | None = None
    """Only calls and results of this tool."""
    after: str | None = None
    """`2026-11-15`, `7d` (ago), `yesterday` or `September 2022`."""
    before: str | None = None
    file: str | None = None
    """Only turns that name this path."""
    speaker: str | None = None
    """Only messages that begin with this name, `Anna: …`."""
    order: Literal["relevance", "time"] = "relevance"
    """`time` lists the oldest turn first."""


class SearchAllQuery(SearchQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The query and its filters, over all sessions or those of a scope."""

    scope: Annotated[str, Meta(min_length=1, max_length=500)] | None = None
    """Only sessions of this scope, e.g. `user:anna`."""


class SearchPage(ItemList[Hit], frozen=True):
    """Turns that match, best first or by time, each with its best passage and its date."""


@routes.add("GET", "/search", right="read")
async def search_all(call: Call, query: SearchAllQuery) -> SearchPage:
    """Search all sessions, or those of a scope."""
    if query.scope is None:
        return SearchPage(items=await call.view.search(query.q, query.limit, **_filters(query)))
    return SearchPage(items=await call.view.memory(query.scope).search(query.q, query.limit, **_filters(query)))


@routes.add("GET", "/sessions/{session}/search", right="read")
async def search_session(call: Call, session: str, query: SearchQuery) -> SearchPage:
    """Search one session."""
    return SearchPage(items=await call.view.search(query.q, query.limit, session_id=session, **_filters(query)))


def _filters(query: SearchQuery) -> dict[str, Any]:
    return {name: value for name, value in asdict(query).items() if name not in ("q", "limit", "scope")}
