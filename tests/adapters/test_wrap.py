"""Wrapped clients of `openai` and `anthropic`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from anthropic import Anthropic
from openai import AsyncOpenAI, OpenAI

import foveate
from foveate import sync
from foveate.errors import InputError
from foveate.testing.adapters import Case, MakeDoor, fifty_turns_fit_the_budget, run_case
from support.adapter_cases import every_short_case
from support.client_doors import AnthropicDoor, OpenAIDoor


@every_short_case
@pytest.mark.parametrize("make", [OpenAIDoor, AnthropicDoor])
def test_a_wrapped_client_conforms(make: MakeDoor, case: Case, tmp_path: Path) -> None:
    asyncio.run(run_case(case, make, tmp_path / "chat.db"))


def test_fifty_turns_fit_the_budget(tmp_path: Path) -> None:
    asyncio.run(run_case(fifty_turns_fit_the_budget, AnthropicDoor, tmp_path / "chat.db"))


def scripted(bodies: list[dict[str, Any]]) -> httpx2.Client:
    """A provider that answers each prompt with its number, and remembers the requests."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.read())
        bodies.append(body)
        base = {"id": "c", "created": 0, "model": "m", "object": "chat.completion"}
        text = f"answer {len(bodies)}"
        if body.get("stream"):
            chunks = [
                {**base, "choices": [{"index": 0, "delta": {"role": "assistant", "content": text}}]},
                {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
            ]
            events = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
            return httpx2.Response(200, content=events.encode(), headers={"content-type": "text/event-stream"})
        message = {"role": "assistant", "content": text}
        return httpx2.Response(200, json={**base, "choices": [{"index": 0, "message": message}]})

    return httpx2.Client(transport=httpx2.MockTransport(answer))


def test_a_synchronous_client_sends_the_newest_prompt_alone_and_the_model_sees_all(tmp_path: Path) -> None:
    bodies: list[dict[str, Any]] = []
    with sync.open(tmp_path / "chat.db") as fov:
        chat = fov.session("chat")
        client = foveate.wrap(OpenAI(api_key="key", http_client=scripted(bodies)), session=chat)
        first = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "one"}])
        assert first.choices[0].message.content == "answer 1"
        stream = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "two"}], stream=True)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "answer 2"
        assert [message["content"] for message in bodies[1]["messages"]][-3:] == ["one", "answer 1", "two"]
        assert chat.stats().turns == 2


def test_a_request_that_asks_no_model_goes_out_as_it_is(tmp_path: Path) -> None:
    def models(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, json={"object": "list", "data": [{"id": str(request.url), "object": "model"}]})

    with sync.open(tmp_path / "chat.db") as fov:
        http = httpx2.Client(transport=httpx2.MockTransport(models))
        client = foveate.wrap(OpenAI(api_key="key", http_client=http), session=fov.session("chat"))
        assert [model.id for model in client.models.list()] == ["https://api.openai.com/v1/models"]


def test_what_does_not_go_together_is_refused(tmp_path: Path) -> None:
    with sync.open(tmp_path / "chat.db") as fov:
        chat = fov.session("chat")
        with pytest.raises(InputError, match="AsyncOpenAI takes a session of foveate:"):
            foveate.wrap(AsyncOpenAI(api_key="key"), session=chat)
        with pytest.raises(InputError, match="a client of openai or anthropic"):
            foveate.wrap(object(), session=chat)
        nothing: Any = "chat"
        with pytest.raises(InputError, match="session is str; give an open session"):
            foveate.wrap(Anthropic(api_key="key"), session=nothing)
