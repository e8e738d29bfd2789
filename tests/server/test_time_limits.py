"""A request ends with its client, and when its time is over; a response that has begun is not cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.testclient import TestClient

import foveate
from foveate.client import Foveate
from foveate.server.api.endpoint import MAX_RUNNING, Replies
from foveate.server.app import create_app
from foveate.server.problems import ProblemError
from foveate.server.time_limits import LONG_SECONDS, TimeLimitMiddleware, allow_long, note_kept

Endpoint = Callable[[Request], Awaitable[Response]]


async def forever(_request: Request) -> Response:
    await asyncio.Event().wait()
    return PlainTextResponse("never")


def limited(endpoint: Endpoint, seconds: float) -> Starlette:
    route = Route("/slow", endpoint, methods=["GET", "POST"])
    return Starlette(routes=[route], middleware=[Middleware(TimeLimitMiddleware, seconds=seconds)])


def scope_of(path: str, method: str, *, size: int) -> dict[str, Any]:
    headers = [(b"host", b"localhost"), (b"content-length", str(size).encode())]
    return {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "state": {},
    }


def leaves_after(*messages: dict[str, Any]) -> Callable[[], Awaitable[dict[str, Any]]]:
    """The messages of a client that sends these and goes."""
    left = [*messages, {"type": "http.disconnect"}]

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(0)
        return left.pop(0) if left else {"type": "http.disconnect"}

    return receive


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_operation_that_takes_too_long_is_stopped_with_advice(method: str) -> None:
    with TestClient(limited(forever, 0.01)) as client:
        answer = client.request(method, "/slow", content=b"x" if method == "POST" else None)
    assert answer.status_code == 503
    assert answer.json()["type"] == "urn:foveate:time-limit"
    assert "ask for less at a time" in answer.json()["detail"]


def test_the_whole_application_cancels_an_operation_when_its_client_goes(tmp_path: Path) -> None:
    cancelled = asyncio.Event()
    sent: list[Any] = []

    async def slow(request: Request) -> Response:
        await request.body()
        try:
            return await forever(request)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async def send(message: Any) -> None:
        sent.append(message)

    async def job() -> None:
        async with foveate.open(tmp_path / "s.db") as fov:
            app = create_app(fov, extra_routes=[Route("/slow", slow, methods=["GET", "POST"])])
            for method, size in (("GET", 0), ("POST", 2)):
                receive = leaves_after({"type": "http.request", "body": b"x" * size, "more_body": False})
                await app(scope_of("/slow", method, size=size), receive, send)
                assert cancelled.is_set()
                cancelled.clear()

    asyncio.run(job())
    assert sent == []


def test_an_import_has_every_piece_of_its_body_and_ends_with_its_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    is_importing = asyncio.Event()
    transcript = '{"role": "user", "content": "one two three"}\n'
    pieces = [*(letter.encode() for letter in transcript), b""]
    messages = [{"type": "http.request", "body": piece, "more_body": bool(piece)} for piece in pieces]

    async def import_file(_fov: Foveate, path: Path, **_options: Any) -> None:
        events.append(await asyncio.to_thread(path.read_text))
        is_importing.set()
        try:
            await asyncio.Event().wait()
        finally:
            events.append("cancelled")

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(0)
        if messages:
            return messages.pop(0)
        await is_importing.wait()
        return {"type": "http.disconnect"}

    async def send(_message: Any) -> None:
        events.append("answered")

    async def job() -> None:
        async with foveate.open(tmp_path / "s.db") as fov:
            scope = scope_of("/api/v1/import", "POST", size=len(transcript)) | {"query_string": b"name=x.jsonl"}
            await create_app(fov)(scope, receive, send)

    monkeypatch.setattr(Foveate, "import_file", import_file)
    asyncio.run(job())
    assert events == [transcript, "cancelled"]


def test_a_response_that_has_begun_is_sent_to_its_end() -> None:
    async def streams(_request: Request) -> Response:
        async def pieces() -> AsyncIterator[str]:
            yield "a"
            await asyncio.sleep(0.05)
            yield "b"

        return StreamingResponse(pieces())

    with TestClient(limited(streams, 0.02)) as client:
        assert client.get("/slow").text == "ab"


def test_an_operation_that_may_take_long_gets_the_time() -> None:
    async def imports(request: Request) -> Response:
        allow_long(request)
        await asyncio.sleep(0.05)
        return PlainTextResponse("done")

    with TestClient(limited(imports, 0.02)) as client:
        assert client.get("/slow").text == "done"


def test_a_wait_with_a_limit_of_its_own_gets_the_time(tmp_path: Path) -> None:
    async def job() -> float:
        async with foveate.open(tmp_path / "s.db") as fov:
            await fov.session("chat")
            scope = scope_of("/api/v1/sessions/chat/settle", "POST", size=0)
            arriving = [{"type": "http.request", "body": b"", "more_body": False}]

            async def receive() -> dict[str, Any]:
                if not arriving:
                    await asyncio.Event().wait()
                return arriving.pop()

            async def send(message: Any) -> None:
                assert message.get("status", 200) == 200

            await create_app(fov)(scope, receive, send)
            return float(scope["state"]["time_limit"].seconds)

    assert asyncio.run(job()) == LONG_SECONDS


class Write:
    """A write that is committed before its response is made, under one Idempotency-Key."""

    def __init__(self) -> None:
        self.replies = Replies(10)
        self.count = 0
        self.committed, self.may_end = asyncio.Event(), asyncio.Event()

    async def once(self) -> Response:
        return await self.replies.once(("key",), b"digest", self._make)

    async def _make(self) -> Response:
        self.count += 1
        self.committed.set()
        await self.may_end.wait()
        return PlainTextResponse("written")


@pytest.mark.parametrize("client_leaves", [True, False])
def test_a_write_with_a_key_is_done_once_although_its_request_ended_early(client_leaves: bool) -> None:
    async def job() -> tuple[list[Any], str, int]:
        write = Write()
        sent: list[Any] = []

        async def endpoint(request: Request) -> Response:
            note_kept(request)
            return await write.once()

        async def receive() -> dict[str, Any]:
            await (write.committed if client_leaves else asyncio.Event()).wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        arriving = [{"type": "http.request", "body": b"", "more_body": False}]
        app = limited(endpoint, 60.0 if client_leaves else 0.01)

        async def messages() -> dict[str, Any]:
            return arriving.pop() if arriving else await receive()

        await app(scope_of("/slow", "POST", size=0), messages, send)
        write.may_end.set()
        repeated = await write.once()
        assert repeated.headers["idempotent-replayed"] == "true"
        return sent, bytes(repeated.body).decode(), write.count

    sent, body, count = asyncio.run(job())
    assert (body, count) == ("written", 1)
    assert client_leaves == (not sent)
    assert client_leaves or b"repeat it with the same Idempotency-Key" in sent[1]["body"]


def test_writes_with_a_key_end_when_the_server_stops() -> None:
    async def job() -> int:
        write = Write()
        request = asyncio.create_task(write.once())
        await write.committed.wait()
        await write.replies.stop()
        with pytest.raises(ProblemError, match="the server is stopping"):
            await request
        return write.count

    assert asyncio.run(job()) == 1


def test_no_number_of_other_calls_makes_one_in_progress_run_twice() -> None:
    async def job() -> None:
        write = Write()
        first = asyncio.create_task(write.once())
        await write.committed.wait()

        async def quick() -> Response:
            return PlainTextResponse("quick")

        for number in range(20):
            await write.replies.once(("other", str(number)), b"", quick)
        again = asyncio.create_task(write.once())
        await asyncio.sleep(0)
        write.may_end.set()
        bodies = [response.body for response in await asyncio.gather(first, again)]
        assert (bodies, write.count) == ([b"written"] * 2, 1)

    asyncio.run(job())


def test_calls_that_continue_without_their_requests_have_a_limit_per_caller() -> None:
    async def job() -> None:
        write = Write()
        waiting = [
            asyncio.create_task(write.replies.once(("acme", "K-1", str(number)), b"", write._make))
            for number in range(MAX_RUNNING)
        ]
        await write.committed.wait()
        with pytest.raises(ProblemError, match="are in progress") as error:
            await write.replies.once(("acme", "K-1", "more"), b"", write._make)
        assert error.value.status == 429
        write.may_end.set()
        assert (await write.replies.once(("acme", "K-2", "more"), b"", write._make)).body == b"written"
        await asyncio.gather(*waiting)

    asyncio.run(job())
