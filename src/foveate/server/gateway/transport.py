"""HTTP/1.1 to a provider: a small transport for httpx2, whose own is the slowest part of a request.

Each request in progress has its own connection; idle ones are reused. With a proxy in the environment, httpx2's own
transport is used (`upstream_client`).
"""

from __future__ import annotations

import asyncio
import ssl
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final, TypeAlias, cast
from urllib.request import getproxies

import httptools
import httpx2

from foveate.server.gateway.headers import LATIN

CONNECT_SECONDS: Final = 10.0
READ_SECONDS: Final = 600.0
KEEP_SECONDS: Final = 5.0
"""How long an idle connection is reused; many servers close it later."""
KEPT_CONNECTIONS: Final = 100
"""Maximum number of idle connections to one provider."""
BUFFER_BYTES: Final = 256 * 1024
"""Buffer size from which reading pauses, if a provider sends faster than the client reads."""
MAX_HEADER_BYTES: Final = 256 * 1024
INFORMATIONAL: Final = range(100, 200)
SWITCHING_PROTOCOLS: Final = 101
PORTS: Final = {"http": 80, "https": 443}
_LINE_ENDS: Final = (b"\r", b"\n", b"\x00")

Origin: TypeAlias = tuple[str, str, int]
Headers: TypeAlias = list[tuple[bytes, bytes]]


class UpstreamClient(httpx2.AsyncClient):
    """Forwards headers byte by byte: httpx2 rejects text beyond ASCII."""

    def build_request(self, method: str, url: httpx2.URL | str, **options: Any) -> httpx2.Request:
        headers = options.get("headers")
        if isinstance(headers, Mapping):
            options["headers"] = [(name.encode(LATIN), value.encode(LATIN)) for name, value in headers.items()]
        return super().build_request(method, url, **options)


def upstream_client() -> UpstreamClient:
    """Create the client for all requests to providers."""
    timeout = httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    if any(name in getproxies() for name in ("http", "https", "all")):
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=KEPT_CONNECTIONS)
        return UpstreamClient(timeout=timeout, limits=limits, follow_redirects=False)
    return UpstreamClient(timeout=timeout, transport=UpstreamTransport(), follow_redirects=False)


class UpstreamTransport(httpx2.AsyncBaseTransport):
    """Sends requests of one event loop."""

    def __init__(self) -> None:
        self._idle: dict[Origin, list[_Connection]] = defaultdict(list)
        self._open: set[_Connection] = set()
        self._ssl: ssl.SSLContext | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        origin = _origin(request.url)
        data = _head(request) + await request.aread()
        limits: dict[str, float | None] = request.extensions.get("timeout", {})
        connection = self._kept(origin)
        if connection is not None:
            try:
                return await self._exchange(connection, data, limits)
            except (httpx2.ReadError, httpx2.WriteError):
                if connection.has_received:
                    raise
                # The server closed the idle connection before it saw the request.
        connection = await self._connect(origin, limits.get("connect"))
        return await self._exchange(connection, data, limits)

    async def aclose(self) -> None:
        for connection in list(self._open):
            connection.abort()

    async def _exchange(self, connection: _Connection, data: bytes, limits: dict[str, float | None]) -> httpx2.Response:
        try:
            status, headers = await connection.exchange(data, limits.get("read"))
        except BaseException:
            connection.abort()
            raise
        version = {"http_version": b"HTTP/1.1"}
        return httpx2.Response(status, headers=headers, stream=_Body(connection, self._keep), extensions=version)

    def _kept(self, origin: Origin) -> _Connection | None:
        idle = self._idle[origin]
        now = asyncio.get_running_loop().time()
        while idle:
            connection = idle.pop()
            if connection.is_open and now - connection.idle_since < KEEP_SECONDS:
                return connection
            connection.abort()
        return None

    def _keep(self, connection: _Connection) -> None:
        """Keep a connection whose answer was fully read; close any other."""
        idle = self._idle[connection.origin]
        if connection.is_reusable and len(idle) < KEPT_CONNECTIONS:
            connection.idle_since = asyncio.get_running_loop().time()
            idle.append(connection)
        else:
            connection.abort()

    def _forget(self, connection: _Connection) -> None:
        self._open.discard(connection)
        if connection in (idle := self._idle[connection.origin]):
            idle.remove(connection)

    async def _connect(self, origin: Origin, seconds: float | None) -> _Connection:
        scheme, host, port = origin
        loop = asyncio.get_running_loop()
        context = await self._context() if scheme == "https" else None
        try:
            async with asyncio.timeout(seconds):
                _, connection = await loop.create_connection(
                    lambda: _Connection(origin, self._forget), host, port, ssl=context
                )
        except TimeoutError as error:
            raise httpx2.ConnectTimeout(f"no connection to {host}:{port} within {seconds:g} s") from error
        except OSError as error:
            raise httpx2.ConnectError(str(error)) from error
        self._open.add(connection)
        return connection

    async def _context(self) -> ssl.SSLContext:
        if self._ssl is None:
            context = await asyncio.to_thread(httpx2.create_ssl_context)
            context.set_alpn_protocols(["http/1.1"])
            self._ssl = context
        return self._ssl


class _Connection(asyncio.Protocol):
    """One connection, with one request at a time."""

    def __init__(self, origin: Origin, on_lost: Callable[[_Connection], None]) -> None:
        self.origin = origin
        self.idle_since = 0.0
        self.has_received = False
        """Whether bytes of the answer were received."""
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._error: httpx2.TransportError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._read_seconds: float | None = None
        self._begin()

    def _begin(self) -> None:
        self.has_received = False
        self._headers: Headers = []
        self._header_bytes = 0
        self._has_headers = False
        self._is_complete = False
        self._keeps_alive = False
        self._ends_with_connection = True
        self._chunks: list[bytes] = []
        self._buffered = 0
        self._is_paused = False

    @property
    def is_open(self) -> bool:
        return self._error is None and self._transport is not None and not self._transport.is_closing()

    @property
    def is_reusable(self) -> bool:
        return self._is_complete and self._keeps_alive and not self._chunks and self.is_open

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def exchange(self, data: bytes, read_seconds: float | None) -> tuple[int, Headers]:
        """Send a request; return the status and the headers of its answer."""
        self._begin()
        self._read_seconds = read_seconds
        if self._transport is None or not self.is_open:
            raise httpx2.WriteError("the connection is closed")
        self._transport.write(data)
        while not self._has_headers:
            await self._wait()
        return self._parser.get_status_code(), self._headers

    async def read(self) -> bytes:
        """Return the received part of the body; empty at its end."""
        while not self._chunks:
            if self._is_complete:
                return b""
            await self._wait()
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks, self._buffered = [], 0
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        return data

    async def _wait(self) -> None:
        """Wait for more data; raise if the connection failed."""
        if self._error is not None:
            raise self._error
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(self._read_seconds):
                await self._waiter
        except TimeoutError as error:
            raise httpx2.ReadTimeout(f"nothing was received for {self._read_seconds:g} s") from error
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, error: httpx2.TransportError) -> None:
        self._error = self._error or error
        self._wake()
        self.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._is_complete:  # no request is open
            self._fail(httpx2.RemoteProtocolError("the server sent data without a request"))
            return
        self.has_received = True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(httpx2.RemoteProtocolError(f"the server's answer is not HTTP: {error}"))
            return
        if self._buffered > BUFFER_BYTES and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()
        if self._has_headers:
            self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_lost(self)
        if self._has_headers and not self._is_complete and self._ends_with_connection and exc is None:
            self._is_complete = True
        problem = "the server closed the connection" if exc is None else str(exc) or type(exc).__name__
        self._error = self._error or httpx2.ReadError(problem)
        self._wake()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > MAX_HEADER_BYTES:
            raise httptools.HttpParserError("its headers are too large")
        if name.lower() in (b"content-length", b"transfer-encoding"):
            self._ends_with_connection = False
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status == SWITCHING_PROTOCOLS:
            raise httptools.HttpParserError("it switches to another protocol")
        self._has_headers = status not in INFORMATIONAL

    def on_body(self, body: bytes) -> None:
        self._chunks.append(body)
        self._buffered += len(body)

    def on_message_complete(self) -> None:
        if not self._has_headers:  # an informational response; the answer follows
            self._headers = []
            return
        self._is_complete = True
        self._keeps_alive = self._parser.should_keep_alive()


class _Body(httpx2.AsyncByteStream):
    """The body of an answer; closing it before its end closes the connection."""

    def __init__(self, connection: _Connection, keep: Callable[[_Connection], None]) -> None:
        self._connection: _Connection | None = connection
        self._keep = keep

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self._connection is not None and (data := await self._connection.read()):
            yield data

    async def aclose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._keep(connection)


def _origin(url: httpx2.URL) -> Origin:
    if url.scheme not in PORTS or not url.host:
        raise httpx2.UnsupportedProtocol(f"an upstream's URL must begin with http:// or https://, not {url.scheme!r}")
    return url.scheme, url.host, url.port or PORTS[url.scheme]


def _head(request: httpx2.Request) -> bytes:
    lines = [b"%s %s HTTP/1.1" % (request.method.encode("ascii"), request.url.raw_path)]
    for name, value in request.headers.raw:
        if any(end in value or end in name for end in _LINE_ENDS):
            raise httpx2.LocalProtocolError(f"the header {name.decode('latin-1')!r} has a line end")
        lines.append(b"%s: %s" % (name, value))
    return b"\r\n".join([*lines, b"", b""])
