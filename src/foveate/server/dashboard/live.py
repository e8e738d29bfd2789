"""`/ui/events`: what happens in the store, for pages that are open."""

from __future__ import annotations

from functools import partial

from starlette.responses import Response, StreamingResponse

from foveate.server.api.events import event_stream
from foveate.server.dashboard.page import BASE, HEADERS, Pages, Visit

pages = Pages()


@pages.add("GET", f"{BASE}/events", right="read")
async def stream_events(visit: Visit) -> Response:
    """Events as they happen; the browser reconnects by itself and resumes behind the last one it has seen."""
    last = visit.request.headers.get("last-event-id", "")
    admitted = partial(visit.parts.access.still_admits, visit.request)
    stream = event_stream(visit.parts.events, visit.principal.tenant, last, admitted)
    return StreamingResponse(stream, media_type="text/event-stream", headers={**HEADERS, "X-Accel-Buffering": "no"})
