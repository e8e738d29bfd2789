"""A server that two tenants share, and one of each alone: what a tenant gets must be the same in both."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import httpx2
import msgspec
from starlette.types import ASGIApp, Message

from foveate.agents.worker import AgentWorker
from foveate.models import Ask
from foveate.server.gateway.transport import UpstreamClient
from foveate.server.problems import MEDIA_TYPE, Problem
from foveate.session.keys import Right
from foveate.testing.scripted import Behaviour, Says, ScriptedModel
from foveate.tokens import count_tokens
from support.chats import FAST, scripted_store
from support.servers import ServerClient, bearer, call, client_of
from support.upstream import Blocks, Upstream, say
from support.upstream import call as tool_call
from support.validators import faults

API = "/api/v1"
MODEL = "scripted:test"
BUDGET_TOKENS = 4_000
MAX_COMPARED_CHARS = 20_000
WORDS = {"acme": "zebra", "rival": "otter"}
"""The tenants, and a word that each text of theirs has and no other."""
KEYS: tuple[tuple[Right, ...], ...] = (("admin",), ("read", "write", "gateway"), ("read",), ("write",), ("gateway",))
FORMATS = {"messages": "anthropic", "completions": "openai", "responses": "openai-responses"}
_DRAWN = re.compile(
    r"(?:(?<![0-9a-z])|(?<=\\n))(?:K|job|a|k|f|resp|msg|chatcmpl|ctx|fov)[-_][0-9a-f]{1,48}(?![0-9a-z])"
    r"|[0-9a-f]{12,}|20\d\d-\d\d-\d\d[T ][\d:.]+(?:Z|\+00:00)?|\"(?:\w+_)?(?:seconds|at)\":[\d.e-]+"
)
"""Ids that are random or count all tenants' requests, and times."""


@dataclass
class Server:
    """A server with its upstream and its keys by tenant and rights."""

    client: ServerClient
    upstream: Upstream
    keys: dict[tuple[str, tuple[Right, ...]], str] = field(default_factory=dict)
    checked: int = 0
    """The upstream's requests that were checked."""

    def send(self, tenant: str, rights: tuple[Right, ...], method: str, path: str, **parts: Any) -> Any:
        headers = {**bearer(self.keys[tenant, rights]), **parts.pop("headers", {})}
        return self.client.request(method, path, headers=headers, **parts)

    def settle(self) -> None:
        call(self.client, self.client.fov.settle)

    def work(self) -> None:
        """Run all agents until nothing is left to do."""
        call(self.client, AgentWorker(self.client.fov).run, drain=True)

    def check_upstream(self) -> None:
        """What was sent upstream is valid, and is not larger than the budget."""
        upstream, begin = self.upstream, self.checked
        self.checked = len(upstream.bodies)
        for path, body in list(zip(upstream.paths, upstream.bodies, strict=True))[begin:]:
            kind = FORMATS.get(path.rpartition("/")[2], "gemini")
            assert not faults(kind, body), (path, faults(kind, body))
            texts = "\n".join(_texts(body))
            assert count_tokens(texts) <= BUDGET_TOKENS, path


def _texts(value: object) -> Iterator[str]:
    """The texts of a request, without the names around them: no protocol counts fewer tokens."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def upstream_script(body: dict[str, Any]) -> Blocks:
    """Call a tool where the newest message asks for it, otherwise answer with its end."""
    newest = json.dumps((body.get("messages") or body.get("contents") or body["input"])[-1])
    asked = re.search(r"use tool (\d+)", newest)
    return [tool_call("look", {"place": "shelf"}, f"toolu_{asked[1]}")] if asked else say(f"You said {newest[-40:]!r}")


def _agent(ask: Ask) -> Behaviour:
    return Says(f"Looked at {ask.messages[-1].text[-60:]}\nSTATUS: done")


@contextmanager
def opened(folder: Path, name: str, *tenants: str) -> Iterator[Server]:
    """A server with these tenants; its models and its upstream are scripted."""
    store = scripted_store(
        folder / f"{name}.db",
        ScriptedModel(_agent, name=MODEL),
        models={**FAST, "chat": MODEL},
        agents={"poll_seconds": 0.01},
        session={"budget_tokens": BUDGET_TOKENS},
        server={"upstream": "http://upstream/v1", "requests_per_minute": 0, "key_cache_seconds": 0},
        context={"now": False},
        store={"synchronous": "normal"},
    )
    with client_of(folder / f"{name}.db", opened=store) as client:
        server = Server(client, Upstream(upstream_script))
        client.server.state.gateway.use(UpstreamClient(transport=httpx2.ASGITransport(server.upstream.app)))
        for tenant in tenants:
            for rights in KEYS:
                made = call(client, client.fov.keys.create, tenant=tenant, rights=rights)
                server.keys[tenant, rights] = made.secret
        yield server


class Failures(logging.Handler):
    """The log's errors and tracebacks."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or record.levelno >= logging.ERROR:
            self.found.append(self.format(record))


class Twins:
    """The shared server of all tenants and each tenant's own."""

    def __init__(self, folder: Path) -> None:
        self._stack = ExitStack()
        self._log = Failures()
        logging.getLogger().addHandler(self._log)
        self._stack.callback(logging.getLogger().removeHandler, self._log)
        self.shared = self._stack.enter_context(opened(folder, "shared", *WORDS))
        self.alone = {tenant: self._stack.enter_context(opened(folder, tenant, tenant)) for tenant in WORDS}

    def close(self) -> None:
        self._stack.close()

    def of(self, tenant: str) -> tuple[Server, Server]:
        return self.shared, self.alone[tenant]

    def check(self) -> None:
        """No request has failed, and what was sent upstream is valid."""
        assert not self._log.found, self._log.found[0]
        for server in (self.shared, *self.alone.values()):
            server.check_upstream()

    def both(
        self, tenant: str, method: str, path: str, *, rights: tuple[Right, ...] = ("admin",), **parts: Any
    ) -> tuple[Any, Any]:
        """Send a request to both servers of a tenant, and compare the answers; `path` may have a pair of ids as {}."""
        ids = parts.pop("ids", ("", ""))
        is_compared = parts.pop("compare", True)
        answers = []
        for server, given in zip(self.of(tenant), ids, strict=True):
            server.settle()
            answer = server.send(tenant, rights, method, path.replace("{}", given), **parts)
            check_answer(answer, tenant, path)
            answers.append(answer)
        one, other = answers
        assert one.status_code == other.status_code, (method, path, one.text, other.text)
        if is_compared:
            assert shown(one) == shown(other), (method, path, _differences(shown(one), shown(other)))
        return one, other

    def refused(self, tenant: str, method: str, path: str, *, rights: tuple[Right, ...], **parts: Any) -> None:
        """Send a request that a key may not send to the shared server alone: any effect is a difference later on."""
        answer = self.shared.send(tenant, rights, method, path, **parts)
        check_answer(answer, tenant, path)
        assert answer.status_code == 403, (method, path, rights, answer.text)


def shown(answer: Any) -> str:
    """What a client sees, without what is drawn."""
    return _DRAWN.sub("…", answer.text)


def _differences(one: str, other: str) -> list[tuple[str, str]]:
    """The first places where two answers differ, with what is around them."""
    matcher = SequenceMatcher(None, one, other, autojunk=False) if len(one) < MAX_COMPARED_CHARS else None
    places = [op for op in matcher.get_opcodes() if op[0] != "equal"] if matcher else []
    return [(one[max(0, i - 60) : j + 20], other[max(0, k - 60) : m + 20]) for _, i, j, k, m in places[:3]]


def check_answer(answer: Any, tenant: str, path: str) -> None:
    """An answer is no failure of the server, has nothing of the other tenant, and explains itself if it is an error."""
    assert answer.status_code != 500, (path, answer.text)
    other = next(word for name, word in WORDS.items() if name != tenant)
    assert other not in answer.text, path
    assert other not in str(answer.headers), path
    if not answer.is_error:
        return
    if path.startswith(API):
        assert answer.headers["content-type"] == MEDIA_TYPE, path
        assert msgspec.json.decode(answer.content, type=Problem).status == answer.status_code
    elif path != "/mcp":
        assert answer.json()["error"], path


async def cut_off(app: ASGIApp, method: str, path: str, headers: dict[str, str], body: bytes, *, after: int) -> None:
    """Send a request whose client leaves after this many messages of the answer."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    gone = asyncio.Event()
    received: list[Message] = []

    async def receive() -> Message:
        if waiting:
            return waiting.pop()
        if len(received) < after:
            await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        received.append(message)
        if len(received) >= after:
            gone.set()
            await asyncio.sleep(0)

    listed = {"host": "127.0.0.1", "content-length": str(len(body)), "content-type": "application/json", **headers}
    await app(
        {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(name.lower().encode(), value.encode()) for name, value in listed.items()],
            "client": ("127.0.0.1", 50_000),
            "server": ("127.0.0.1", 80),
        },
        receive,
        send,
    )
