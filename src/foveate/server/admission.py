"""Admission: a limited number of requests runs at the same time; others wait, and are rejected if that takes long.

More at once would not be faster, since they share the processor with each other and with background compression. A
request leaves its place while its body is awaited: a slow client keeps nobody out.
"""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from foveate.server.api.endpoint import BASE
from foveate.server.bodies import has_body
from foveate.server.problems import BUSY_SECONDS, ProblemError, refusal

PLACES = 16
"""Requests in progress. 64 busy clients on two cores: see `bench/soak.py`."""
WAIT_SECONDS = 2.0
"""How long a request waits for a place before it is rejected."""
HELD_SECONDS = 1.0
"""How long a request has its place at most; what takes longer waits for something else: a model, a job, a stream."""
BODY_SECONDS = 0.05
"""How long a request has its place while its body is awaited; one that is complete by then does not wait twice."""
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
        place = _Place(self._places)
        try:
            await place.enter()
        except ProblemError as error:
            await refusal(scope, error)(scope, receive, send)
            return
        is_complete, is_awaited = not has_body(scope), False

        async def received() -> Message:
            """Leave the place if the body is slow, and enter it again when the body is complete."""
            nonlocal is_complete, is_awaited
            if not is_complete and not is_awaited:
                is_awaited = True
                place.hold(BODY_SECONDS)
            message = await receive()
            if not is_complete and not message.get("more_body", False):
                is_complete = True
                await place.enter()
            return message

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                place.end()
            await send(message)

        try:
            await self._app(scope, received, watched)
        finally:
            place.end()


class _Place:
    """A place of one request."""

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places = places
        self._timer: asyncio.TimerHandle | None = None
        """Leaves the place; set while the request has one."""
        self._has_ended = False

    async def enter(self) -> None:
        """Wait for a place, unless the request has one; `ProblemError` 503 if there is none for `WAIT_SECONDS`."""
        if self._has_ended:
            return
        if self._timer is None:
            try:
                async with asyncio.timeout(WAIT_SECONDS):
                    await self._places.acquire()
            except TimeoutError as error:
                problem = "the server is busy; try again in a moment"
                raise ProblemError(503, problem, headers={"Retry-After": str(BUSY_SECONDS)}) from error
            self._timer = asyncio.get_running_loop().call_later(HELD_SECONDS, self.leave)
        self.hold(HELD_SECONDS)

    def hold(self, seconds: float) -> None:
        """Leave the place after this time; no effect without a place."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_later(seconds, self.leave)

    def leave(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._places.release()

    def end(self) -> None:
        """Leave the place for good."""
        self._has_ended = True
        self.leave()
