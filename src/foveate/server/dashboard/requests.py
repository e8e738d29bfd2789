"""The requests of a session as the gateway sent them."""

from __future__ import annotations

import json

from starlette.responses import Response

from foveate.server.api.spending import request_number
from foveate.server.dashboard.page import BASE, Pages, Visit
from foveate.session import Session
from foveate.session.sent import SentRequest

MAX_SHOWN_CHARS = 2_000_000
"""A longer body is cut in the page; the API returns all of it."""
pages = Pages()


@pages.add("GET", f"{BASE}/sessions/{{session}}/requests", right="read")
async def show_requests(visit: Visit, session: Session) -> Response:
    """List the newest requests."""
    return visit.page("requests.html", title="Requests as sent", info=session.info, requests=await session.requests())


@pages.add("GET", f"{BASE}/sessions/{{session}}/requests/{{number}}", right="read")
async def show_request(visit: Visit, session: Session, number: str) -> Response:
    """Show a request, its parts and what changed since the one before."""
    found = await session.request(request_number(number))
    title = f"Request {found.number}"
    return visit.page("request.html", title=title, info=session.info, found=found, body=_indented(found))


def _indented(found: SentRequest) -> str:
    body = found.body or ""
    try:
        text = json.dumps(json.loads(body), indent=1, ensure_ascii=False)
    except (ValueError, RecursionError):
        text = body
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}…"
