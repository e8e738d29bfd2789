"""Admission: a limited number of requests runs at the same time; others wait, and are rejected if that takes long.

More at once would not be faster, since they share the processor with each other and with background compression.
"""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from foveate.server.api.endpoint import BASE
from foveate.server.problems import BUSY_SECONDS, ProblemError, refusal

PLACES = 16
"""Requests in progress. 64 busy clients on two cores: see `bench/soak.py`."""
WAIT_SECONDS = 2.0
"""How long a request waits for a place before it is rejected."""
HELD_SECONDS = 1.0
"""How long a request has its place at most; what takes longer waits for something else: a model, a job, a stream."""
LIMITED = (f"{BASE}/", "/mcp")
"""Paths whose requests need a place. Those of the gateway wait for a provider."""


class AdmissionMiddleware:
    """Gives requests their places in the order of their arrival; 503 if there is none for `WAIT_SECONDS`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._places = asyncio.Semaphore(PLACES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(LIMITED):
            await self._app(scope, receive, send)
            return
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await self._places.acquire()
        except TimeoutError:
            problem = ProblemError(
                503, "the server is busy; try again in a moment", headers={"Retry-After": str(BUSY_SECONDS)}
            )
            await refusal(scope["path"], problem)(scope, receive, send)
            return
        place = _Place(self._places)

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                place.leave()
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            place.leave()


class _Place:
    """A place that is left once."""

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places: asyncio.Semaphore | None = places
        self._timer = asyncio.get_running_loop().call_later(HELD_SECONDS, self.leave)

    def leave(self) -> None:
        places, self._places = self._places, None
        if places:
            self._timer.cancel()
            places.release()
