"""`GET /api/v1/events`: the events of a tenant as server-sent events; a client resumes with Last-Event-ID."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct
from starlette.responses import StreamingResponse

from foveate.cache import BoundedCache
from foveate.client import Foveate
from foveate.events import EVENT_KINDS, Event, Subscription
from foveate.server.api.endpoint import Call, Endpoints, encode
from foveate.server.metrics import Metrics
from foveate.server.problems import ProblemError
from foveate.session.tenant import SEPARATOR

KEEP_ALIVE_SECONDS = 15.0
"""A comment is sent after this long without an event, so that proxies keep the connection."""
MAX_TENANTS = 256
"""Number of tenants whose events are kept, those with the latest events."""
BATCH = 500
routes = Endpoints("events")


class EventsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters of the events."""

    session: str | None = None
    """Only events of this session."""
    kinds: str | None = None
    """Only these kinds, comma-separated."""


class EventData(Struct, frozen=True, kw_only=True):
    """The data of one event in the stream; its `id` and `event` fields have the number and the kind."""

    kind: str
    session_id: str
    turn_id: str | None
    at: datetime
    data: dict[str, Any]
    request_id: str = ""
    """The request that caused it, as in the header X-Foveate-Request-Id; empty for background work."""


@dataclass(frozen=True, slots=True)
class Numbered:
    """An event with its number, which a client resumes from."""

    number: int
    event: Event


@dataclass(slots=True)
class _Ring:
    """The latest events of one tenant, or of all."""

    limit: int
    dropped: int
    """Number of the newest event that is no longer kept."""
    kept: deque[Numbered] = field(default_factory=deque)

    def add(self, numbered: Numbered) -> None:
        self.kept.append(numbered)
        if len(self.kept) > self.limit:
            self.dropped = self.kept.popleft().number


class EventHub:
    """Keeps the latest events of each tenant and wakes the streams that wait for more.

    The owner gets the events of all tenants.
    """

    def __init__(self, fov: Foveate, limit: int, metrics: Metrics) -> None:
        self._fov = fov
        self._limit = limit
        self._metrics = metrics
        # Starting from the clock keeps numbers growing across restarts, up to 1,000 events a second on average.
        self._start = self._number = time.time_ns() // 1_000_000
        self._of_all = _Ring(limit, self._start)
        self._of_tenants: BoundedCache[str, _Ring] = BoundedCache(MAX_TENANTS)
        self._changed = asyncio.Event()
        self._closed = False
        self._subscription: Subscription | None = None

    def start(self) -> None:
        """Start to listen, in the running event loop."""
        loop = asyncio.get_running_loop()
        self._subscription = self._fov.subscribe(lambda event: loop.call_soon_threadsafe(self.take, event))

    def stop(self) -> None:
        """End all streams."""
        self._closed = True
        if self._subscription:
            self._subscription.close()
        self._wake()

    @property
    def last(self) -> int:
        """The number of the newest event."""
        return self._number

    def after(self, tenant: str, number: int) -> list[Numbered]:
        """Return the kept events of a tenant after a number, oldest first."""
        ring = self._of_tenants.get(tenant) if tenant else self._of_all
        return [numbered for numbered in ring.kept if numbered.number > number] if ring else []

    def is_gone(self, tenant: str, number: int) -> bool:
        """Report whether events after this number may have been dropped, or published before the server started."""
        ring = self._of_tenants.get(tenant) if tenant else self._of_all
        return number < (ring.dropped if ring else self._start)

    async def wait(self) -> bool:
        """Wait for another event, up to a limit; return whether the hub is still open."""
        changed = self._changed
        if not self._closed:
            with suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), KEEP_ALIVE_SECONDS)
        return not self._closed

    def take(self, event: Event) -> None:
        """Keep an event, and wake the streams."""
        self._number += 1
        self._metrics.count("foveate_events_total", kind=event.kind)
        numbered = Numbered(self._number, event)
        self._of_all.add(numbered)
        tenant, separator, _ = event.session_id.partition(SEPARATOR)
        if separator:
            ring = self._of_tenants.get(tenant)
            if ring is None:
                # With many tenants, earlier events of this one may have been dropped.
                is_full = len(self._of_tenants) == MAX_TENANTS
                ring = self._of_tenants[tenant] = _Ring(self._limit, self._number - 1 if is_full else self._start)
            ring.add(numbered)
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


@routes.add("GET", "/events", right="read", media="text/event-stream")
async def stream_events(call: Call, query: EventsQuery) -> EventData:
    """Stream events as they happen, as server-sent events.

    The header Last-Event-ID resumes after an event; an event `gap` means that some are no longer kept.
    """
    kinds = frozenset(filter(None, (query.kinds or "").split(",")))
    unknown = kinds - set(EVENT_KINDS)
    if unknown:
        raise ProblemError(422, f"no event {min(unknown)[:50]!r}; available: {', '.join(EVENT_KINDS)}")
    if query.session is not None:
        await call.view.open_session(query.session)
    stream = event_stream(call, session=query.session, kinds=kinds)
    return event_response(stream, {"Cache-Control": "no-store"})  # type: ignore[return-value]


def event_response(stream: AsyncIterator[bytes], headers: Mapping[str, str]) -> StreamingResponse:
    """Return a response that streams events and that proxies do not buffer."""
    return StreamingResponse(stream, media_type="text/event-stream", headers={**headers, "X-Accel-Buffering": "no"})


async def event_stream(
    call: Call, *, session: str | None = None, kinds: frozenset[str] = frozenset()
) -> AsyncIterator[bytes]:
    """Yield the events of the caller's tenant from now on, or after the one in the header Last-Event-ID.

    The stream ends when the caller loses access, e.g. because its key was revoked.
    """
    hub, tenant = call.parts.events, call.principal.tenant
    last = call.request.headers.get("last-event-id", "")
    number = min(hub.last, int(last) if last.isdecimal() and len(last) < 19 else hub.last)  # noqa: PLR2004
    yield b": events\n\n"
    if last and hub.is_gone(tenant, number):
        yield b"event: gap\ndata: {}\n\n"
    is_open = True
    while is_open and await call.parts.access.still_admits(call.request):
        found = hub.after(tenant, number)[:BATCH]
        for numbered in found:
            number = numbered.number
            data = _data(numbered.event, tenant)
            if session in (None, data.session_id) and (not kinds or data.kind in kinds):
                yield b"id: %d\nevent: %s\ndata: %s\n\n" % (number, data.kind.encode(), encode(data))
        if not found:
            is_open = await hub.wait()
            if is_open and not hub.after(tenant, number):
                yield b": waiting\n\n"


def _data(event: Event, tenant: str) -> EventData:
    session = event.session_id.removeprefix(f"{tenant}{SEPARATOR}") if tenant else event.session_id
    data: Mapping[str, Any] = msgspec.to_builtins(dict(event.data), enc_hook=str)
    return EventData(
        kind=event.kind,
        session_id=session,
        turn_id=event.turn_id,
        at=event.at,
        data=dict(data),
        request_id=event.request_id,
    )
