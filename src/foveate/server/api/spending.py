"""`/spending` and `/sessions/{session}/requests`: what calls cost, and what was sent to providers."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from foveate.server.api.endpoint import Call, Endpoints
from foveate.server.api.page import ItemList, Limit
from foveate.server.problems import ProblemError
from foveate.session import Session
from foveate.session.sent import SentRequest
from foveate.session.values import SpendDimension, SpendRow

routes = Endpoints("spending")
MAX_DIGITS = 9


class SpendingQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to list."""

    by: SpendDimension = "day"
    days: Annotated[float, Meta(gt=0, le=36_500)] | None = None
    """Only the last days. Default: all that are kept."""
    session: str | None = None


class SpendList(ItemList[SpendRow], frozen=True):
    """Totals: days oldest first, anything else by cost."""


class RequestsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the list."""

    limit: Limit = 50


class RequestList(ItemList[SentRequest], frozen=True):
    """Requests as they were sent, oldest first, without their bodies."""


@routes.add("GET", "/spending", right="read")
async def list_spending(call: Call, query: SpendingQuery) -> SpendList:
    """List what model calls cost, also those of the gateway's clients, by day, key, project, model and others; with
    what sending whole conversations would have cost."""
    return SpendList(items=await call.view.spending(query.by, days=query.days, session_id=query.session))


@routes.add("GET", "/sessions/{session}/requests", right="read")
async def list_requests(session: Session, query: RequestsQuery) -> RequestList:
    """List the newest requests that the gateway sent for a session."""
    return RequestList(items=await session.requests(query.limit))


@routes.add("GET", "/sessions/{session}/requests/{number}", right="read")
async def get_request(session: Session, number: str) -> SentRequest:
    """Get a request exactly as it was sent, without headers, and what changed since the one before."""
    return await session.request(request_number(number))


def request_number(text: str) -> int:
    """Return the number of a request in a path; `ProblemError` 422 if it is none."""
    if not (text.isascii() and text.isdigit()) or len(text) > MAX_DIGITS:
        raise ProblemError(422, f"a request is named by its number, e.g. 3; got {text[:40]!r}")
    return int(text)
