"""The requests of a session as the gateway sent them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from starlette.responses import Response

from foveate.server.api.spending import request_number
from foveate.server.dashboard.page import BASE, Pages, Visit
from foveate.server.dashboard.picture import draw
from foveate.session import Session
from foveate.session.picture import cause_name
from foveate.session.sent import RequestPart, SentRequest, values_of

MAX_SHOWN_CHARS = 2_000_000
"""A longer body is cut in the page; the API returns all of it."""
TEXTS = ("content", "text", "parts")
LABELS = ("role", "type", "cache_control")
"""A part with one of `TEXTS` and nothing but these is shown as text."""
pages = Pages()


@pages.add("GET", f"{BASE}/sessions/{{session}}/requests", right="read")
async def show_requests(visit: Visit, session: Session) -> Response:
    """List the newest requests."""
    return visit.page("requests.html", title="Requests as sent", info=session.info, requests=await session.requests())


@pages.add("GET", f"{BASE}/sessions/{{session}}/requests/{{number}}", right="read")
async def show_request(visit: Visit, session: Session, number: str) -> Response:
    """Show a request: its picture, its parts, and what changed since the one before."""
    found = await session.request(request_number(number))
    newest = await session.requests(1)
    return visit.page(
        "request.html",
        title=f"Request {found.number}",
        info=session.info,
        found=found,
        following=found.number + 1 if newest and newest[0].number > found.number else None,
        cause=cause_name(found.cause) if found.cause else "",
        chart=draw(found.picture) if found.picture else None,
        parts=list(_parts(found)),
        body=_shortened(found.body or ""),
    )


def _parts(found: SentRequest) -> Iterator[tuple[RequestPart, str]]:
    """Yield the parts with their texts; all of them together are not longer than a page shows."""
    room = MAX_SHOWN_CHARS
    for part, value in zip(found.parts, values_of(found.body or ""), strict=True):
        text = _shortened(_shown(value), room)
        room -= len(text)
        yield part, text


def _shown(value: Any) -> str:
    """Return a part as text if it is nothing else, otherwise as indented JSON."""
    text = _text(value)
    return json.dumps(value, indent=1, ensure_ascii=False) if text is None else text


def _text(value: Any) -> str | None:
    """Return the text of a message or a list of texts; None if it has anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        texts = [_text(inner) for inner in value]
        return None if None in texts or not texts else "\n".join(filter(None, texts))
    fields = [key for key in value if key not in LABELS] if isinstance(value, dict) else []
    return _text(value[fields[0]]) if len(fields) == 1 and fields[0] in TEXTS else None


def _shortened(text: str, most_chars: int = MAX_SHOWN_CHARS) -> str:
    return text if len(text) <= most_chars else f"{text[: max(0, most_chars)]}…"
