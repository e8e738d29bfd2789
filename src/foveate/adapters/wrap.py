"""Clients of the packages `openai` and `anthropic` with an endless conversation.

    client = foveate.wrap(OpenAI(), session=chat)
    client.chat.completions.create(model="gpt-5.6", messages=[{"role": "user", "content": "…"}])

A wrapped client sends its requests through the gateway, in this process: new messages are recorded, the context is
assembled within the session's budget, history tools are answered internally, and streams stay streams. Send the whole
history or only the newest message; either way each message is recorded once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final, TypeVar, cast

import httpx2
import msgspec

from foveate.adapters.bridge import AnySession, Bridge
from foveate.errors import FoveateError, InputError
from foveate.intake.recorder import Recorder, SessionChoice
from foveate.intake.sessions import ClientId
from foveate.server.gateway.exchange import Gateway
from foveate.server.gateway.prepare import ClientCall
from foveate.server.gateway.reply import GatewayReply, error_reply
from foveate.server.gateway.upstream import Target
from foveate.server.gateway.wires import WIRES, Wire
from foveate.session.tenant import public_id

ClientT = TypeVar("ClientT")

_PATHS: Final = {"/chat/completions": "openai", "/responses": "openai-responses", "/messages": "anthropic"}
_END: Final = object()


def wrap(client: ClientT, session: AnySession) -> ClientT:
    """Return the client with its conversation in a session: `OpenAI`, `AsyncOpenAI`, `Anthropic` or `AsyncAnthropic`.

    A synchronous client needs a session of `foveate.sync`, an asynchronous one a session of `foveate`. The passed
    client is not changed.
    """
    original: Any = client
    inner = getattr(original, "_client", None)
    bridge = Bridge(session)
    if not isinstance(inner, httpx2.Client | httpx2.AsyncClient):
        raise InputError(f"wrap takes a client of openai or anthropic, e.g. OpenAI(); got {type(client).__name__}")
    is_async = isinstance(inner, httpx2.AsyncClient)
    if is_async == bridge.is_blocking:
        needed, name = ("foveate", "async with foveate.open") if is_async else ("foveate.sync", "foveate.sync.open")
        raise InputError(f"{type(client).__name__} takes a session of {needed}: {name}(…)")
    requests = _Requests(bridge)
    if isinstance(inner, httpx2.AsyncClient):
        wrapped = original.with_options(http_client=httpx2.AsyncClient(transport=_AsyncTransport(requests, inner)))
    else:
        wrapped = original.with_options(http_client=httpx2.Client(transport=_SyncTransport(requests, inner)))
    return cast("ClientT", wrapped)


class _Requests:
    """The requests of one wrapped client."""

    def __init__(self, bridge: Bridge) -> None:
        self.bridge = bridge
        session = bridge.session
        self._home = session.engine.home
        self._recorder = Recorder(self._home, self._home.clients, self._home.tenant_name)
        self._recorder.use(session)
        self._named = ClientId(public_id(self._home.tenant_name, session.engine.stored_id), "session", is_ours=True)

    async def answer(self, wire: Wire, request: httpx2.Request, raw: bytes, upstream: Any) -> GatewayReply:
        """Return the gateway's reply; `upstream` sends requests to the provider."""
        gateway = Gateway(self._recorder, upstream, window_of=self._home.window_tokens, publish=self._home.publish)
        url = request.url
        try:
            asked = wire.read(msgspec.json.decode(raw), path=url.path)
            call = ClientCall(
                wire=wire,
                request=asked,
                path=str(url.copy_with(query=None)),
                query=url.query.decode(),
                headers={name.lower(): value for name, value in request.headers.items()},
                target=Target(""),
                named=self._named,
                choice=SessionChoice(model=asked.model),
                raw=raw,
            )
            return await gateway.handle(call)
        except FoveateError as error:
            return error_reply(wire, error)


def _wire_of(request: httpx2.Request) -> Wire | None:
    """Return the format of a model request; None for any other."""
    if request.method != "POST":
        return None
    name = next((name for path, name in _PATHS.items() if request.url.path.endswith(path)), None)
    return WIRES[name] if name else None


class _AsyncTransport(httpx2.AsyncBaseTransport):
    def __init__(self, requests: _Requests, inner: httpx2.AsyncClient) -> None:
        self._requests = requests
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        wire = _wire_of(request)
        if wire is None:
            return await self._inner.send(request, stream=True)
        reply = await self._requests.answer(wire, request, await request.aread(), _AsyncUpstream(self._inner, request))
        return _response(reply, _AsyncStream(reply))


class _SyncTransport(httpx2.BaseTransport):
    def __init__(self, requests: _Requests, inner: httpx2.Client) -> None:
        self._requests = requests
        self._inner = inner

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        wire = _wire_of(request)
        if wire is None:
            return self._inner.send(request, stream=True)
        upstream = _SyncUpstream(self._inner, request)
        reply = self._requests.bridge.run(self._requests.answer(wire, request, request.read(), upstream))
        return _response(reply, _SyncStream(reply, self._requests.bridge))


def _response(reply: GatewayReply, stream: Any) -> httpx2.Response:
    headers = {**reply.headers, "content-type": reply.media_type}
    if reply.stream is None:
        return httpx2.Response(reply.status, headers=headers, content=reply.body)
    return httpx2.Response(reply.status, headers=headers, stream=stream)


class _AsyncUpstream:
    """The client's own HTTP client as the gateway uses it, with the timeouts of the client's request."""

    def __init__(self, inner: httpx2.AsyncClient, request: httpx2.Request) -> None:
        self._inner = inner
        self._extensions = request.extensions

    def build_request(self, method: str, url: str, *, headers: Mapping[str, str], content: bytes) -> httpx2.Request:
        return httpx2.Request(method, url, headers=headers, content=content, extensions=self._extensions)

    async def send(self, request: httpx2.Request, *, stream: bool) -> httpx2.Response:
        return await self._inner.send(request, stream=stream)


class _SyncUpstream(_AsyncUpstream):
    """The client's own HTTP client for a synchronous client: each wait for the provider is in a thread."""

    def __init__(self, inner: httpx2.Client, request: httpx2.Request) -> None:
        self._sync = inner
        self._extensions = request.extensions

    async def send(self, request: httpx2.Request, *, stream: bool) -> httpx2.Response:
        response = await asyncio.to_thread(self._sync.send, request, stream=stream)
        return httpx2.Response(response.status_code, headers=response.headers, stream=_ThreadStream(response))


class _ThreadStream(httpx2.AsyncByteStream):
    def __init__(self, response: httpx2.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        assert isinstance(self._response.stream, httpx2.SyncByteStream)
        pieces = iter(self._response.stream)
        while (piece := await asyncio.to_thread(next, pieces, _END)) is not _END:
            assert isinstance(piece, bytes)
            yield piece

    async def aclose(self) -> None:
        await asyncio.to_thread(self._response.close)


class _AsyncStream(httpx2.AsyncByteStream):
    def __init__(self, reply: GatewayReply) -> None:
        self._reply = reply

    async def __aiter__(self) -> AsyncIterator[bytes]:
        assert self._reply.stream is not None
        async for piece in self._reply.stream:
            yield piece

    async def aclose(self) -> None:
        if self._reply.close is not None:
            await self._reply.close()


class _SyncStream(httpx2.SyncByteStream):
    def __init__(self, reply: GatewayReply, bridge: Bridge) -> None:
        self._reply = reply
        self._bridge = bridge

    def __iter__(self) -> Iterator[bytes]:
        assert self._reply.stream is not None
        return self._bridge.iterate(self._reply.stream)

    def close(self) -> None:
        if self._reply.close is not None:
            self._bridge.run(self._reply.close())
