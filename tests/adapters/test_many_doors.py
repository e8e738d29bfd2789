"""One history, many doors: a conversation goes on in other programs, and each of its turns is recorded once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
from mcp.client.client import Client
from starlette.applications import Starlette

import foveate
from foveate.server.access import OWNER
from foveate.server.app import create_app
from foveate.server.dashboard.page import BASE
from foveate.server.gateway.routes import GatewayEndpoints
from foveate.server.mcp import build_server
from foveate.server.settings import ServerSettings
from foveate.session import Session
from foveate.testing.adapters import Reply
from support.langchain_door import LangChainDoor
from support.openai_agents_door import OpenAIAgentsDoor
from support.pydantic_ai_door import PydanticAIDoor
from support.upstream import Upstream, call, say

SESSION = "claude-code-5f2c"
HEADERS = {"anthropic-version": "2023-06-01", "x-api-key": "key", "x-claude-code-session-id": "5f2c"}


def test_one_session_is_continued_by_every_program_and_has_each_turn_once(tmp_path: Path) -> None:
    asyncio.run(_scenario(tmp_path / "chat.db"))


async def _scenario(path: Path) -> None:
    settings = foveate.load_settings(environment={}, overrides={"compress": {"processes": 0}})
    async with foveate.open(path, settings=settings) as fov:
        await _ask_claude_code(fov)
        chat = await fov.open_session(SESSION)
        pydantic_ai = PydanticAIDoor(chat, _weather)
        await pydantic_ai.ask("And in Rome?", [Reply(cities=("Rome",)), Reply("Sunny in Rome.")])
        agents = OpenAIAgentsDoor(chat, _weather)
        await agents.ask("Where was it sunny?", [Reply("In Oslo and Rome.")])
        langchain = LangChainDoor(chat, _weather)
        await langchain.ask("Thanks.", [Reply("You are welcome.")])
        for door in (pydantic_ai, agents, langchain):
            assert "The weather in Oslo?" in door.requests[-1]
            assert "sunny in Oslo" in door.requests[-1]
        assert "Sunny in Rome." in agents.requests[-1]
        assert await _prompts(chat) == ["The weather in Oslo?", "And in Rome?", "Where was it sunny?", "Thanks."]
        assert [info.id for info in await fov.sessions()] == [SESSION]
        await _read_by_mcp(fov)
        await _see_in_the_dashboard(fov)


async def _weather(city: str) -> str:
    return f"sunny in {city}"


async def _ask_claude_code(fov: foveate.Foveate) -> None:
    """A prompt with a call of a tool, as Claude Code sends it through the gateway."""
    replies = iter([[call("weather", {"city": "Oslo"})], say("Sunny in Oslo.")])
    upstream = Upstream(lambda _: next(replies))
    endpoints = GatewayEndpoints(fov, ServerSettings(upstream="http://upstream/v1"))
    endpoints.use(httpx2.AsyncClient(transport=httpx2.ASGITransport(upstream.app)))
    app = Starlette(routes=endpoints.routes())

    async def as_owner(scope: Any, receive: Any, send: Any) -> None:
        scope.setdefault("state", {})["principal"] = OWNER
        await app(scope, receive, send)

    history: list[dict[str, Any]] = [{"role": "user", "content": "The weather in Oslo?"}]
    tools = [{"name": "weather", "input_schema": {"type": "object"}}]
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(as_owner), base_url="http://gateway") as client:
        for _ in range(2):
            body = {"model": "claude-haiku-4-5", "max_tokens": 500, "messages": history, "tools": tools}
            reply = await client.post("/v1/messages", json=body, headers=HEADERS)
            assert reply.headers["x-foveate-session"] == SESSION
            result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": await _weather("Oslo")}
            history += [
                {"role": "assistant", "content": reply.json()["content"]},
                {"role": "user", "content": [result]},
            ]
    await endpoints.close()


async def _prompts(chat: Session) -> list[str]:
    return [turn.messages[0].text for turn in await chat.load_turns()]


async def _read_by_mcp(fov: foveate.Foveate) -> None:
    async with Client(build_server(lambda _scope: fov), mode="legacy") as client:
        found: Any = await client.call_tool("get_turn", {"session": SESSION, "turn": "T-2", "level": "R"})
    assert "Sunny in Rome." in str(found)


async def _see_in_the_dashboard(fov: foveate.Foveate) -> None:
    transport = httpx2.ASGITransport(create_app(fov), client=("127.0.0.1", 50_000))
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        page = await client.get(f"{BASE}/sessions/{SESSION}/turns")
    assert page.status_code == 200
    assert all(f"T-{number}" in page.text for number in range(1, 5))
    assert "T-5" not in page.text
