"""What a client gets, and when: headers and keep-alives of a stream do not wait for a slow provider."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from foveate.errors import FoveateError
from foveate.server.gateway.wires import UpstreamAnswer

T = TypeVar("T")

PING_SECONDS: Final = 10.0
"""Silence after which a client gets a keep-alive."""
HEADERS_SECONDS: Final = 3.0
"""A client waits this long for the headers of a stream; some give up after 10 seconds without any. Until then an error
of the provider is passed on with its status, later as an event of the stream."""
MAX_ERROR_CHARS: Final = 2_000


@dataclass(slots=True)
class GatewayReply:
    """What the client gets: a body, or a stream of bytes, which is closed whatever became of it."""

    status: int
    headers: dict[str, str]
    body: bytes = b""
    stream: AsyncGenerator[bytes, None] | None = None
    close: Callable[[], Coroutine[Any, Any, None]] | None = None
    media_type: str = "application/json"


async def reply_soon(
    sending: Coroutine[Any, Any, GatewayReply], answer: UpstreamAnswer, ping: bytes, headers: Mapping[str, str]
) -> GatewayReply:
    """The reply, or the beginning of a stream that waits for it."""
    task = asyncio.ensure_future(sending)
    try:
        await asyncio.wait({task}, timeout=HEADERS_SECONDS)
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
    )


async def _waiting(
    task: asyncio.Task[GatewayReply], answer: UpstreamAnswer, ping: bytes
) -> AsyncGenerator[bytes, None]:
    yield ping
    async for one in pings_until(task, ping):
        yield one
    try:
        reply = task.result()
    except FoveateError as error:
        message, kind = str(error), None
    else:
        if reply.stream is not None:
            async with aclosing(reply.stream) as pieces:
                async for piece in pieces:
                    yield piece
            return
        message, kind = _error_in(reply)
    for piece in answer.abort(message, kind=kind):
        yield piece


def _error_in(reply: GatewayReply) -> tuple[str, str | None]:
    """What a provider's error says, and its kind."""
    try:
        error = msgspec.json.decode(reply.body)["error"]
        message, kind = error["message"], error.get("status") or error.get("type")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError, KeyError, AttributeError):
        message, kind = None, None
    if not isinstance(message, str):
        message = f"the upstream answered {reply.status}"
    return message[:MAX_ERROR_CHARS], kind if isinstance(kind, str) else None


async def pings_until(working: asyncio.Future[T], ping: bytes) -> AsyncIterator[bytes]:
    """Keep-alives until something is done."""
    while not (await asyncio.wait({working}, timeout=PING_SECONDS))[0]:
        yield ping
