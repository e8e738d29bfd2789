"""Replies to clients: headers and keep-alives of a stream do not wait for a slow provider."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from foveate.errors import BadRequest, BadUpstream, BudgetExceeded, FoveateError, InputError, RightMissing
from foveate.server.gateway.bodies import decoded
from foveate.server.gateway.wires import UpstreamAnswer, Wire
from foveate.server.problems import with_request_id

PING_SECONDS: Final = 10.0
"""Seconds without data after which a keep-alive is sent."""
HEADERS_SECONDS: Final = 8.0
"""Time after the request at which a stream's headers are sent without the provider's. Until then a provider's error
keeps its status and retry headers, by which clients decide whether to try again: an error event in a 200 ends some of
them. Overloaded providers answer within seconds; the least patient known client gives up after 10 seconds without
headers, and two are left for the network."""
MAX_ERROR_CHARS: Final = 2_000


@dataclass(slots=True)
class GatewayReply:
    """A reply to the client: a body, or a stream of bytes, which is always closed."""

    status: int
    headers: dict[str, str]
    body: bytes = b""
    stream: AsyncGenerator[bytes, None] | None = None
    close: Callable[[], Coroutine[Any, Any, None]] | None = None
    media_type: str = "application/json"
    ping: bytes = b""
    """A keep-alive of the stream."""

    def response(self) -> Response:
        headers = {name: value for name, value in self.headers.items() if name.lower() != "content-type"}
        if self.stream is None:
            return Response(self.body, self.status, headers=headers, media_type=self.media_type)
        return ReplyStream(self, self.stream, headers)


def error_reply(wire: Wire, error: FoveateError) -> GatewayReply:
    """Return a Foveate error in the provider's format."""
    match error:
        case BadRequest():
            status, body = 400, wire.error(400, str(error), param=error.param)
        case BudgetExceeded() | InputError():
            status, body = 400, wire.error(400, str(error))
        case RightMissing():
            status, body = 403, wire.error(403, str(error))
        case BadUpstream():
            status, body = 502, wire.error(502, str(error))
        case _:
            status, body = 503, wire.error(503, str(error))
    headers = {"retry-after": "1"} if status > 500 else {}  # noqa: PLR2004 - what a client may try again
    return GatewayReply(status, headers, msgspec.json.encode(with_request_id(body)))


class ReplyStream(StreamingResponse):
    """A stream with keep-alives. It is closed when the client disconnects, even before it started."""

    def __init__(self, reply: GatewayReply, stream: AsyncGenerator[bytes, None], headers: Mapping[str, str]) -> None:
        super().__init__(stream, reply.status, headers=headers, media_type=reply.media_type)
        self._reply = reply
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        relay = asyncio.ensure_future(self._relay(send))
        gone = asyncio.ensure_future(_disconnected(receive))
        gone.add_done_callback(lambda _: relay.cancel())
        try:
            await relay
        except asyncio.CancelledError:
            own = asyncio.current_task()
            if not gone.done() or (own is not None and own.cancelling()):
                raise
        finally:
            gone.cancel()
            if self._reply.close is not None:
                await asyncio.shield(self._reply.close())

    async def _relay(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        pieces = _PieceSender(send, self._reply.ping)
        try:
            async for piece in self._stream:
                await pieces.send(piece)
        finally:
            pieces.stop()
        await pieces.send(b"", more_body=False)


class _PieceSender:
    """Sends the pieces of a stream, and keep-alives while there are none."""

    def __init__(self, send: Send, ping: bytes) -> None:
        self._send = send
        self._ping = ping
        self._loop = asyncio.get_running_loop()
        self._sent_at = self._loop.time()
        self._is_sending = False
        self._sent_pings: set[asyncio.Task[None]] = set()
        self._timer = self._loop.call_later(PING_SECONDS, self._look)

    async def send(self, body: bytes, *, more_body: bool = True) -> None:
        self._is_sending = True
        await self._send({"type": "http.response.body", "body": body, "more_body": more_body})
        self._is_sending = False
        self._sent_at = self._loop.time()

    def stop(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        """Send a keep-alive if due, and reschedule; one timer per stream."""
        left = self._sent_at + PING_SECONDS - self._loop.time()
        if left <= 0:
            left = PING_SECONDS
            if not self._is_sending:
                ping = self._loop.create_task(self.send(self._ping))
                self._sent_pings.add(ping)
                ping.add_done_callback(self._sent_pings.discard)
        self._timer = self._loop.call_later(left, self._look)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def reply_soon(
    sending: Coroutine[Any, Any, GatewayReply],
    answer: UpstreamAnswer,
    ping: bytes,
    headers: Mapping[str, str],
    *,
    waited_seconds: float = 0.0,
) -> GatewayReply:
    """Return the reply, or start a stream that waits for it. The client has waited for `waited_seconds` already."""
    task = asyncio.ensure_future(sending)
    try:
        await asyncio.wait({task}, timeout=max(0.0, HEADERS_SECONDS - waited_seconds))
    except BaseException:
        task.cancel()
        raise
    if task.done():
        return task.result()

    async def close() -> None:
        task.cancel()
        with suppress(asyncio.CancelledError, FoveateError):
            reply = await task
            if reply.close is not None:
                await reply.close()

    return GatewayReply(
        200,
        {**headers, "content-type": answer.media_type},
        stream=_waiting(task, answer, ping),
        close=close,
        media_type=answer.media_type,
        ping=ping,
    )


async def _waiting(
    task: asyncio.Task[GatewayReply], answer: UpstreamAnswer, ping: bytes
) -> AsyncGenerator[bytes, None]:
    yield ping
    try:
        reply = await task
    except FoveateError as error:
        message, kind = str(error), None
    else:
        if reply.stream is not None:
            async with aclosing(reply.stream) as pieces:
                async for piece in pieces:
                    yield piece
            return
        if (streamed := _streamed(reply, answer)) is not None:
            for piece in streamed:
                yield piece
            return
        message, kind = _error_in(reply)
    for piece in answer.abort(message, kind=kind):
        yield piece


def _streamed(reply: GatewayReply, answer: UpstreamAnswer) -> list[bytes] | None:
    """Return a JSON answer as a stream, for a client that has the headers of one; None for an error."""
    if reply.status >= 400:  # noqa: PLR2004 - an error
        return None
    try:
        return answer.streamed(decoded(reply.body))
    except BadUpstream:
        return None


def _error_in(reply: GatewayReply) -> tuple[str, str | None]:
    """Return the message and the type of a provider's error."""
    try:
        error = msgspec.json.decode(reply.body)["error"]
        message, kind = error["message"], error.get("status") or error.get("type")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError, KeyError, AttributeError):
        message, kind = None, None
    if not isinstance(message, str):
        message = f"the upstream answered {reply.status}"
    return message[:MAX_ERROR_CHARS], kind if isinstance(kind, str) else None
