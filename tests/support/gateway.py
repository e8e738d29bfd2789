"""The gateway in front of a scripted upstream, without a network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

import foveate
from foveate.client import Foveate
from foveate.server.access import OWNER
from foveate.server.gateway.routes import GatewayEndpoints
from foveate.server.gateway.transport import UpstreamClient
from foveate.server.settings import ServerSettings
from support.servers import ServerClient, client_of
from support.upstream import Upstream

HEADERS = {"anthropic-version": "2023-06-01", "x-api-key": "sk-client"}
LONG = "A sentence about the tide tables of the harbour, with many words in it. " * 60


class AsOwner:
    """The application with the owner as the principal of every request."""

    def __init__(self, app: Starlette) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})["principal"] = OWNER
        await self._app(scope, receive, send)


@asynccontextmanager
async def gateway(
    path: Path, upstream: Upstream, *, budget_tokens: int = 100_000, bypass: bool = False, compress: bool = True
) -> AsyncIterator[tuple[Foveate, httpx2.AsyncClient]]:
    settings = foveate.load_settings(
        environment={},
        overrides={
            "session": {"budget_tokens": budget_tokens},
            "store": {"synchronous": "normal"},
            "compress": {"enabled": compress},
            "recall": {"deadline_seconds": None},
        },
    )
    async with foveate.open(path / "chat.db", settings=settings) as fov:
        endpoints = GatewayEndpoints(fov, ServerSettings(upstream="http://upstream/v1", bypass=bypass))
        endpoints.use(UpstreamClient(transport=httpx2.ASGITransport(upstream.app)))
        app = AsOwner(Starlette(routes=endpoints.routes()))
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://gateway") as client:
            yield fov, client
        await endpoints.close()


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


def body_of(messages: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"model": "claude-haiku-4-5", "max_tokens": 1_000, "messages": messages, **more}


def events_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]


async def log_of(fov: Foveate, session: str) -> list[tuple[str, str]]:
    chat = await fov.open_session(session)
    turns = await chat.load_turns()
    return [(message.role, message.text) for turn in turns for message in turn.messages]


FORMATS: dict[str, tuple[str, dict[str, Any]]] = {
    "anthropic": ("/v1/messages", body_of([{"role": "user", "content": "hi"}])),
    "openai": ("/v1/chat/completions", {"model": "gpt-5", "messages": [{"role": "user", "content": "hi"}]}),
    "openai-responses": ("/v1/responses", {"model": "gpt-5", "input": "hi"}),
    "gemini": (
        "/v1beta/models/gemini-2.5-flash:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
    ),
}


@contextmanager
def serving(path: Path, upstream: Upstream, **server: Any) -> Iterator[ServerClient]:
    with client_of(path, **{"upstream": "http://upstream/v1", **server}) as client:
        client.server.state.gateway.use(UpstreamClient(transport=httpx2.ASGITransport(upstream.app)))
        yield client
