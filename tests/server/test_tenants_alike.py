"""Two tenants with equal names do the same at the same time; each gets, byte for byte, what it gets alone."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

import foveate
from foveate.client import Foveate
from foveate.events import Event
from foveate.knowledge.run import learn
from foveate.server.access import Principal
from foveate.server.gateway.routes import GatewayEndpoints
from foveate.server.gateway.transport import UpstreamClient
from foveate.server.settings import ServerSettings
from support.upstream import Upstream, say

TENANTS = ("acme", "rival")
WORDS = {"acme": "zebra", "rival": "otter"}
SETTINGS: dict[str, Any] = {
    "session": {"budget_tokens": 3_000},
    "store": {"synchronous": "normal"},
    "recall": {"deadline_seconds": None},
    "context": {"now": False},
}
_DRAWN = re.compile(r"[0-9a-f]{16,}|msg_\d+|datetime\.datetime\([^()]*\)|20\d\d-\d\d-\d\d[T ][\d:.+Z]+")


@dataclass(frozen=True, slots=True)
class Side:
    """A tenant's view, the gateway as its key sees it, and the events that it received."""

    tenant: str
    view: Foveate
    client: httpx2.AsyncClient
    events: list[Event]

    @property
    def word(self) -> str:
        return WORDS[self.tenant]


class _AsTenant:
    def __init__(self, app: Starlette, tenant: str) -> None:
        self._app = app
        self._principal = Principal(tenant, frozenset({"gateway", "read", "write"}), "K-1")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})["principal"] = self._principal
        await self._app(scope, receive, send)


@asynccontextmanager
async def opened(path: Path, *tenants: str) -> AsyncIterator[list[Side]]:
    """The sides of these tenants in one store."""
    upstream = Upstream(lambda body: say(f"You said {json.dumps(body['messages'][-1])[-60:]}"))
    settings = foveate.load_settings(environment={}, overrides=SETTINGS)
    async with foveate.open(path, settings=settings) as fov, AsyncExitStack() as stack:
        endpoints = GatewayEndpoints(fov, ServerSettings(upstream="http://upstream/v1"))
        endpoints.use(UpstreamClient(transport=httpx2.ASGITransport(upstream.app)))
        sides = []
        for tenant in tenants:
            transport = httpx2.ASGITransport(_AsTenant(Starlette(routes=endpoints.routes()), tenant))
            client = await stack.enter_async_context(httpx2.AsyncClient(transport=transport, base_url="http://gateway"))
            side = Side(tenant, fov.tenant(tenant), client, [])
            subscription = side.view.subscribe(side.events.append)
            stack.callback(subscription.close)
            sides.append(side)
        yield sides
        await endpoints.close()


async def use_everything(side: Side) -> AsyncIterator[object]:
    """Yield what each use returns; the caller chooses when the next one begins."""
    view, word = side.view, side.word
    for strategy in ("gradient", "checkpoint", "topics", "hybrid"):
        chat = await view.session(f"chat-{strategy}", channel="shop", strategy=strategy)
        for number in range(8):
            at = f"2026-11-{1 + number:02}T10:00:00Z"
            said = f"Always name release {number} {word}-{number}. " + f"The {word} listens on {8000 + number}. " * 12
            prompt = {"role": "user", "content": said}
            yield await chat.record([prompt, {"role": "assistant", "content": f"Noted {word}."}], at=at)
            if number % 4 == 3:
                yield (await chat.context(f"Where does the {word} of release 2 listen?")).text
        yield (await chat.pin(f"The {word} is pinned.")).text
        await chat.goals.add(f"Ship the {word}", steps=["Test it"])
        await chat.documents.give("epic", f"All about the {word}.")
        yield str(await chat.board())
        yield await chat.call_tool("search_history", {"query": "release 3"})
        yield [(hit.text, hit.keyword) for hit in await chat.search("listens on 8005", 5)]
        yield [(hit.text, hit.keyword) for hit in await view.search("listens on 8005")]
        context = await chat.context("And now?")
        recorded = await chat.record([{"role": "user", "content": "And now?"}, said_by(word)], context=context.token)
        yield recorded
        async for piece in chat.export("markdown"):
            yield piece
    chat = await view.open_session("chat-gradient")
    entry = await chat.cabinet.file(f"Content of the {word}.".encode(), name="notes.txt")
    yield (entry.key, await chat.cabinet.text(entry.key))
    topics = await view.open_session("chat-topics")
    await topics.topics.seal_current_topic()
    yield str(await topics.topics.get_history())
    yield str(await (await view.open_session("chat-checkpoint")).checkpoints.list())
    yield str(await learn(view, "project:shop"))
    for item in await view.knowledge.list():
        yield (item.id, item.title, item.text, item.sources)
        await view.knowledge.approve(item.id)
    yield (await chat.context("How are releases named, always?")).text
    yield [(info.id, info.title) for info in await view.sessions()]
    messages: list[dict[str, Any]] = []
    for number in range(5):
        messages.append({"role": "user", "content": f"Question {number} of the {word}? " + "More of it. " * 150})
        body = {"model": "claude-haiku-4-5", "max_tokens": 1_000, "messages": messages}
        reply = await side.client.post("/s/talk/v1/messages", json=body, headers={"x-api-key": "sk-client"})
        assert reply.status_code == 200, reply.text
        yield reply.text
        messages.append({"role": "assistant", "content": reply.json()["content"]})
    yield (await (await view.open_session("talk")).context("What was asked?")).text


def said_by(word: str) -> dict[str, Any]:
    return {"role": "assistant", "content": f"Now the {word} listens on 9000."}


def shown(value: object) -> str:
    """What was returned, without what is drawn or depends on the clock."""
    return _DRAWN.sub("…", value if isinstance(value, str) else repr(value))


async def played(path: Path, *tenants: str) -> dict[str, tuple[list[str], list[str]]]:
    """What each tenant got, step by step in turns, and its events."""
    got: dict[str, list[str]] = {tenant: [] for tenant in tenants}
    async with opened(path, *tenants) as sides:
        running = {side.tenant: use_everything(side) for side in sides}
        views = {side.tenant: side.view for side in sides}
        while running:
            for tenant, steps in list(running.items()):
                await views[tenant].settle()
                try:
                    got[tenant].append(shown(await anext(steps)))
                except StopAsyncIteration:
                    del running[tenant]
        for view in views.values():
            await view.settle()
    events = {
        side.tenant: sorted(f"{event.kind} {event.session_id} {event.turn_id}" for event in side.events)
        for side in sides
    }
    return {tenant: (got[tenant], events[tenant]) for tenant in tenants}


def test_two_tenants_with_equal_names_get_what_each_gets_alone(tmp_path: Path) -> None:
    async def run() -> None:
        together = await played(tmp_path / "both.db", *TENANTS)
        for tenant in TENANTS:
            alone = await played(tmp_path / f"{tenant}.db", tenant)
            for place, (one, other) in enumerate(zip(together[tenant][0], alone[tenant][0], strict=True)):
                assert one == other, (tenant, place)
            assert together[tenant][1] == alone[tenant][1]
            assert "session-resolved talk T-1" in alone[tenant][1]
            others = WORDS[next(each for each in TENANTS if each != tenant)]
            assert not any(others in text for text in together[tenant][0])

    asyncio.run(run())
