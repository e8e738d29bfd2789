"""What real clients sent, replayed through the gateway: every prompt is recorded once, in the session it belongs to.

The requests were recorded by `bench/clients/run.py`, and their texts cut by `bench/clients/fixtures.py`.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette

import foveate
from clients.upstream import Upstream
from foveate.client import Foveate
from foveate.server.access import OWNER
from foveate.server.gateway.routes import GatewayEndpoints
from foveate.server.settings import ServerSettings

FIXTURES = Path(__file__).parents[2] / "fixtures" / "clients"
CLIENTS = sorted(path.stem for path in FIXTURES.glob("*.json"))
PROMPTS = ("the code of", "[[call", "What did the tool print?", "And in this branch?", "And what is the code?")
SUMMARY = "Respond with TEXT ONLY"
SESSIONS = {"claude-code": 3, "claude-code-haiku": 3, "opencode": 2}
"""Conversations, forks and sub-agents of a client; others have one."""


def load(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FIXTURES / f"{name}.json").read_text("utf-8"))
    return found


async def replay(fixture: dict[str, Any], path: Path) -> tuple[list[dict[str, Any]], dict[str, list[str]]]:
    """What went upstream, and the texts of the users in each session, without those that a fork shares."""
    log = path / "upstream.jsonl"
    settings = foveate.load_settings(environment={}, overrides={"store": {"synchronous": "normal"}})
    async with foveate.open(path / "chat.db", settings=settings) as fov:
        endpoints = GatewayEndpoints(fov, ServerSettings(upstream="http://upstream/v1"))
        endpoints.use(httpx2.AsyncClient(transport=httpx2.ASGITransport(Upstream(log).app())))
        app = Starlette(routes=endpoints.routes())

        async def as_owner(scope: Any, receive: Any, send: Any) -> None:
            scope.setdefault("state", {})["principal"] = OWNER
            await app(scope, receive, send)

        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(as_owner), base_url="http://gateway") as client:
            for request in fixture["requests"]:
                reply = await client.post(request["path"], json=request["body"], headers=request["headers"])
                assert reply.status_code == 200, (request["path"], reply.text[:500])
        await endpoints.close()
        texts = {info.id: await own_prompts(fov, info.id) for info in await fov.sessions()}
    return [json.loads(line) for line in log.read_text("utf-8").splitlines()], texts


async def own_prompts(fov: Foveate, session_id: str) -> list[str]:
    session = await fov.open_session(session_id)
    shared = int((session.info.fork_turn_id or "T-0").removeprefix("T-"))
    turns = await session.load_turns(shared + 1) if session.info.turns > shared else []
    return [message.text for turn in turns for message in turn.messages if message.role == "user"]


@pytest.mark.parametrize("name", CLIENTS)
def test_every_prompt_of_a_real_client_is_recorded_once_and_the_upstream_accepts_every_request(
    tmp_path: Path, name: str
) -> None:
    fixture = load(name)
    sent, sessions = asyncio.run(replay(fixture, tmp_path))
    assert [entry["faults"] for entry in sent if entry["faults"]] == []
    asked = {prompt for prompt in PROMPTS if prompt in json.dumps(fixture["requests"][-1]["body"]) or name in SESSIONS}
    # A client's own request for a summary is answered on a branch that nothing continues.
    talks = {key: texts for key, texts in sessions.items() if not any(SUMMARY in text for text in texts)}
    counts = Counter(prompt for texts in talks.values() for text in texts for prompt in PROMPTS if prompt in text)
    expected = dict.fromkeys(asked, 1)
    if name.startswith("claude-code"):
        expected["[[call"] = 2
    assert dict(counts) == expected, sessions
    assert len(talks) == SESSIONS.get(name, 1), {key: len(texts) for key, texts in sessions.items()}


def test_an_edited_prompt_behind_what_a_client_adds_repeats_no_other(tmp_path: Path) -> None:
    fixture = load("aider")
    *_, newest = fixture["requests"]
    text = json.dumps(newest).replace("And what is the code?", "And what was the code again?")
    fixture["requests"].append(json.loads(text))
    _, sessions = asyncio.run(replay(fixture, tmp_path))
    said = [text for texts in sessions.values() for text in texts]
    asked = (*PROMPTS[2:3], "Please say echo hello", "And what is the code?", "And what was the code again?")
    assert {prompt: sum(prompt in text for text in said) for prompt in asked} == dict.fromkeys(asked, 1)


@pytest.mark.parametrize("name", CLIENTS)
def test_a_fixture_has_no_text_of_its_clients_maker(name: str) -> None:
    def long_strings(value: object) -> list[str]:
        if isinstance(value, dict):
            return [text for key, one in value.items() if key != "headers" for text in long_strings(one)]
        if isinstance(value, list):
            return [text for one in value for text in long_strings(one)]
        return [value] if isinstance(value, str) and len(value) > 300 and not value.startswith("{") else []

    own = ("[[call", "Scripted answer", "4711")
    found = [text for text in long_strings(load(name)) if not any(mark in text for mark in own)]
    assert found == []
