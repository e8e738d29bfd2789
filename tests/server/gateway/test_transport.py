"""The transport to providers, against servers that are scripted byte by byte."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

import httpx2
import pytest

from foveate.server.gateway import transport
from foveate.server.gateway.transport import UpstreamTransport, upstream_client
from support.patience import PATIENCE_SECONDS

Handler: TypeAlias = Callable[[int, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


async def read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
    )
    return head + await reader.readexactly(length)


@asynccontextmanager
async def server(handle: Handler) -> AsyncIterator[tuple[str, httpx2.AsyncClient, list[int]]]:
    """A server's URL, a client, and the numbers of the connections so far."""
    connections: list[int] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(len(connections))
        try:
            await handle(connections[-1], reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(connected, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    async with listening, httpx2.AsyncClient(transport=UpstreamTransport(), timeout=PATIENCE_SECONDS) as client:
        yield f"http://127.0.0.1:{port}/v1", client, connections


def answering(*answers: bytes) -> Handler:
    """Each request on a connection gets the next answer; after the last one the connection is closed."""

    async def handle(_: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await read_request(reader)
            writer.write(answer)
            await writer.drain()

    return handle


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario()

    asyncio.run(main())


def test_a_connection_is_used_for_the_next_request() -> None:
    async def scenario() -> None:
        interim = b"HTTP/1.1 100 Continue\r\n\r\n"
        async with server(answering(OK, interim + OK, OK)) as (url, client, connections):
            texts = [(await client.post(url, content=b"body")).text for _ in range(3)]
            assert texts == ["ok"] * 3
            assert connections == [0]

    run(scenario)


def test_a_request_on_a_connection_that_the_server_has_closed_is_sent_again() -> None:
    async def handle(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(OK)
        await read_request(reader)
        if number:
            writer.write(OK)

    async def scenario() -> None:
        async with server(handle) as (url, client, connections):
            assert [(await client.post(url, content=b"body")).text for _ in range(2)] == ["ok"] * 2
            assert connections == [0, 1]

    run(scenario)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"", httpx2.ReadError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", httpx2.ReadError),
        (CHUNKED + b"5\r\nhel", httpx2.ReadError),
        (b"<html>no</html>\r\n\r\n", httpx2.RemoteProtocolError),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", httpx2.RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\n" + b"A: " + b"x" * 300_000 + b"\r\n\r\n", httpx2.RemoteProtocolError),
    ],
    ids=["nothing", "cut off", "cut in a chunk", "not HTTP", "another protocol", "endless headers"],
)
def test_a_broken_answer_is_an_error(answer: bytes, problem: type[Exception]) -> None:
    async def scenario() -> None:
        async with server(answering(answer)) as (url, client, connections):
            with pytest.raises(problem):
                await client.post(url, content=b"body")
            assert connections == [0]

    run(scenario)


def test_bodies_without_a_length_end_with_the_connection_and_chunks_come_as_they_are_sent() -> None:
    proceed = asyncio.Event()

    async def handle(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        if number:
            writer.write(b"HTTP/1.1 200 OK\r\n\r\nto the end")
            return
        writer.write(CHUNKED + b"5\r\nfirst\r\n")
        await proceed.wait()
        writer.write(b"4\r\nlast\r\n0\r\n\r\n")
        await reader.read()

    async def scenario() -> None:
        async with server(handle) as (url, client, _), client.stream("POST", url, content=b"body") as response:
            pieces = response.aiter_bytes()
            assert await anext(pieces) == b"first"
            assert (await client.post(url, content=b"body")).text == "to the end"
            proceed.set()
            assert [piece async for piece in pieces] == [b"last"]

    run(scenario)


def test_an_answer_that_is_given_up_closes_its_connection() -> None:
    closed = asyncio.Event()

    async def handle(_: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(CHUNKED + b"5\r\nfirst\r\n")
        await reader.read()
        closed.set()

    async def scenario() -> None:
        async with server(handle) as (url, client, _):
            async with client.stream("POST", url, content=b"body"):
                pass
            await closed.wait()

    run(scenario)


def test_a_fast_server_is_slowed_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "BUFFER_BYTES", 1_000)
    size = 5_000_000

    async def scenario() -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode()
        async with server(answering(head + b"x" * size)) as (url, client, _):
            async with client.stream("POST", url, content=b"body") as response:
                pieces = [len(piece) async for piece in response.aiter_raw()]
            assert sum(pieces) == size
            assert max(pieces) < size // 4

    run(scenario)


def test_unreachable_and_silent_servers_are_errors() -> None:
    async def handle(_: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def scenario() -> None:
        async with server(handle) as (url, client, _):
            with pytest.raises(httpx2.ReadTimeout):
                await client.post(url, content=b"body", timeout=httpx2.Timeout(PATIENCE_SECONDS, read=0.01))
        with pytest.raises(httpx2.ConnectError):
            async with httpx2.AsyncClient(transport=UpstreamTransport()) as other:
                await other.post(url, content=b"body")
        with pytest.raises(httpx2.LocalProtocolError):
            async with httpx2.AsyncClient(transport=UpstreamTransport()) as other:
                await other.post(url, headers={"x-key": "a\r\nb: c"})

    run(scenario)


@pytest.mark.parametrize("variables", [{}, {"https_proxy": "http://127.0.0.1:9"}], ids=["direct", "proxy"])
def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    monkeypatch.setattr(transport, "getproxies", lambda: {name.removesuffix("_proxy"): "" for name in variables})
    own = upstream_client()._transport
    assert isinstance(own, UpstreamTransport) is (not variables)
