"""Ends requests whose client has gone or that take too long, so that nobody's work goes on without a reader.

The clock starts again with each part of the request that arrives, and stops when the response begins; a stream ends
with its client. Requests of the gateway wait for a provider, within the limits of `gateway.transport`. A write with an
Idempotency-Key continues without its request (`Replies.once`).
"""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from foveate.server.bodies import has_body
from foveate.server.problems import ProblemError, is_gateway_path, note_problem, problem_response

REQUEST_SECONDS = 120.0
"""Time limit of an operation: far above the slowest that was measured, 18 s for 21 MB of small messages."""
LONG_SECONDS = 3_600.0
"""Time limit of an operation that a person starts knowingly, such as an import or a tool with a limit of its own."""
_STATE = "time_limit"


class TimeLimitMiddleware:
    """Cancels a request after `seconds`, or when its client disconnects."""

    def __init__(self, app: ASGIApp, *, seconds: float = REQUEST_SECONDS) -> None:
        self._app = app
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or is_gateway_path(scope["path"]):
            await self._app(scope, receive, send)
            return
        watched = _WatchedRequest(receive, send, self._seconds)
        scope.setdefault("state", {})[_STATE] = watched
        try:
            async with asyncio.timeout(self._seconds) as watched.limit:
                if not has_body(scope):
                    await watched.read_ahead()
                await self._app(scope, watched.receive, watched.send)
        except TimeoutError:
            if not watched.limit.expired():
                raise
            if not watched.is_gone:
                detail = f"the request took longer than {watched.seconds:,.0f} s and {watched.outcome}"
                problem = ProblemError(503, detail, kind="time-limit", headers={"Retry-After": "1"})
                note_problem(scope, problem)
                await problem_response(problem)(scope, receive, send)
        finally:
            watched.close()


def allow_long(request: Request) -> None:
    """Raise the time limit of a request to that of a long operation."""
    watched = getattr(request.state, _STATE, None)
    if isinstance(watched, _WatchedRequest):
        watched.allow(LONG_SECONDS)


def note_kept(request: Request) -> None:
    """Note that the work of a request continues without it and that its response is kept for a repeated request."""
    watched = getattr(request.state, _STATE, None)
    if isinstance(watched, _WatchedRequest):
        watched.outcome = "continues; repeat it with the same Idempotency-Key to get its response"


class _WatchedRequest:
    """The messages of a request; once it has arrived, the next message says that its client has gone."""

    limit: asyncio.Timeout

    def __init__(self, receive: Receive, send: Send, seconds: float) -> None:
        self.seconds = seconds
        self.is_gone = False
        self.outcome = "was stopped; ask for less at a time"
        self._receive = receive
        self._send = send
        self._read: list[Message] = []
        self._has_begun = False
        self._watcher: asyncio.Task[Message] | None = None

    async def read_ahead(self) -> None:
        """Read the empty body, which no endpoint waits for."""
        self._read.append(await self._next())

    async def receive(self) -> Message:
        if self._read:
            return self._read.pop()
        return await self._next() if self._watcher is None else await asyncio.shield(self._watcher)

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and not self.limit.expired():
            self._has_begun = True
            self.limit.reschedule(None)
        await self._send(message)

    def allow(self, seconds: float) -> None:
        self.seconds = seconds
        if not self._has_begun and not self.limit.expired():
            self.limit.reschedule(asyncio.get_running_loop().time() + seconds)

    def close(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()

    async def _next(self) -> Message:
        message = await self._receive()
        self.allow(self.seconds)
        if not message.get("more_body", False) and self._watcher is None:
            self._watcher = asyncio.create_task(self._disconnected(message))
        return message

    async def _disconnected(self, message: Message) -> Message:
        while message["type"] != "http.disconnect":
            message = await self._receive()
        if not self._has_begun and not self.limit.expired():
            self.is_gone = True
            self.limit.reschedule(asyncio.get_running_loop().time())
        return message
