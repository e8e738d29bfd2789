"""Admission: no more requests at the same time than there are places, in the order of their arrival."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message

from foveate.server import admission
from foveate.server.admission import PLACES, AdmissionMiddleware
from foveate.server.api.endpoint import BASE
from foveate.server.problems import ProblemError, refusal
from support.patience import PATIENCE_SECONDS

MIDDLEWARE = [Middleware(AdmissionMiddleware)]


async def refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemError)
    return refusal(request.scope, error)


class Held:
    """An application whose requests wait until they are let go."""

    def __init__(self) -> None:
        self.running: list[str] = []
        self.changed = asyncio.Condition()
        self.go = asyncio.Event()
        routes = [
            Route(f"{BASE}/read", self.read, methods=["POST"]),
            Route(f"{BASE}/{{name}}", self.wait),
            Route("/v1/{name}", self.wait),
        ]
        self.app = Starlette(routes=routes, middleware=MIDDLEWARE, exception_handlers={ProblemError: refused})
        self.client = httpx2.AsyncClient(transport=httpx2.ASGITransport(self.app), base_url="http://test")

    async def read(self, request: Request) -> Response:
        return PlainTextResponse(await request.body())

    async def wait(self, request: Request) -> Response:
        async with self.changed:
            self.running.append(request.path_params["name"])
            self.changed.notify_all()
        await self.go.wait()
        return PlainTextResponse("done")

    def ask(self, path: str) -> asyncio.Task[httpx2.Response]:
        return asyncio.create_task(self.client.get(path))

    async def until_running(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS), self.changed:
            await self.changed.wait_for(lambda: len(self.running) >= count)


def test_requests_beyond_the_places_wait_in_the_order_of_their_arrival(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "HELD_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(admission, "WAIT_SECONDS", PATIENCE_SECONDS)

    async def job() -> None:
        held = Held()
        asked = [held.ask(f"{BASE}/{number}") for number in range(PLACES + 3)]
        await held.until_running(PLACES)
        beside = held.ask("/v1/gateway")  # needs no place
        await held.until_running(PLACES + 1)
        assert held.running == [*map(str, range(PLACES)), "gateway"]
        held.go.set()
        assert [answer.status_code for answer in await asyncio.gather(*asked, beside)] == [200] * (PLACES + 4)
        assert held.running[PLACES + 1 :] == [str(PLACES + number) for number in range(3)]

    asyncio.run(job())


def test_a_request_without_a_place_is_rejected_with_the_time_to_try_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "HELD_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(admission, "WAIT_SECONDS", 0.01)

    async def job() -> None:
        held = Held()
        asked = [held.ask(f"{BASE}/{number}") for number in range(PLACES)]
        await held.until_running(PLACES)
        answer = await held.client.get(f"{BASE}/more")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert answer.json()["detail"] == "the server is busy; try again in a moment"
        held.go.set()
        await asyncio.gather(*asked)
        assert (await held.client.get(f"{BASE}/more")).status_code == 200

    asyncio.run(job())


def test_requests_that_wait_for_long_do_not_keep_the_others_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "HELD_SECONDS", 0.01)
    monkeypatch.setattr(admission, "WAIT_SECONDS", PATIENCE_SECONDS)

    async def job() -> None:
        held = Held()
        asked = [held.ask(f"{BASE}/{number}") for number in range(3 * PLACES)]
        await held.until_running(3 * PLACES)
        held.go.set()
        assert {answer.status_code for answer in await asyncio.gather(*asked)} == {200}

    asyncio.run(job())


class Pieces:
    """A body whose last piece is not sent before it may."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"a"
        await self.may_end.wait()
        yield b"b"


def test_slow_bodies_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "HELD_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(admission, "WAIT_SECONDS", PATIENCE_SECONDS)

    async def job() -> None:
        seen: list[bytes] = []
        reading = asyncio.Semaphore(0)

        async def read(request: Request) -> Response:
            reading.release()
            seen.append(await request.body())
            return PlainTextResponse("read")

        app = Starlette(routes=[Route(f"{BASE}/read", read, methods=["POST"])], middleware=MIDDLEWARE)
        bodies = [Pieces() for _ in range(2 * PLACES)]
        slow = [asyncio.create_task(_posted(app, body)) for body in bodies]
        async with asyncio.timeout(PATIENCE_SECONDS):
            for _ in slow:
                await reading.acquire()
        for body in bodies:
            body.may_end.set()
        assert await asyncio.gather(*slow) == [200] * len(bodies)
        assert seen == [b"ab"] * len(bodies)

    asyncio.run(job())


def test_a_body_that_arrives_while_the_server_is_busy_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "HELD_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(admission, "WAIT_SECONDS", 0.01)

    async def job() -> None:
        held = Held()
        body = Pieces()
        slow = asyncio.create_task(_posted(held.app, body))
        await asyncio.sleep(2 * admission.BODY_SECONDS)
        asked = [held.ask(f"{BASE}/{number}") for number in range(PLACES)]
        await held.until_running(PLACES)
        body.may_end.set()
        assert await slow == 503
        held.go.set()
        assert {answer.status_code for answer in await asyncio.gather(*asked)} == {200}

    asyncio.run(job())


async def _posted(app: ASGIApp, body: Pieces) -> int:
    """Send a request in pieces, as a connection does; return the status of its answer."""
    pieces = aiter(body)
    statuses: list[int] = []

    async def receive() -> Message:
        piece = await anext(pieces)
        return {"type": "http.request", "body": piece, "more_body": piece != b"b"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    headers = [(b"host", b"test"), (b"transfer-encoding", b"chunked")]
    path = f"{BASE}/read"
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}
    await app(scope, receive, send)
    return statuses[0]
