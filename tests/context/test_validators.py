"""Every request passes a strict validator of its provider, whatever was recorded; validators reject what APIs do."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from foveate import Foveate
from foveate.context.context import Context
from foveate.errors import BudgetExceeded, InputError, InvalidMessage
from foveate.formats import ProviderFormat
from support.engine import with_store
from support.messages import FORMATS, random_turns
from support.validators import faults

STRATEGIES = ("gradient", "standard", "checkpoint", "topics", "hybrid", "oneshot")
USER = {"role": "user", "content": "Go."}
CALL = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}


@pytest.mark.parametrize("seed", range(12))
def test_no_request_is_rejected_whatever_was_recorded(tmp_path: Path, seed: int) -> None:
    async def job(fov: Foveate) -> None:
        rng = random.Random(seed)
        session = await fov.session(
            "s", strategy=STRATEGIES[seed % 6], budget_tokens=rng.choice([1_000, 4_000, 64_000])
        )
        for _ in range(10):
            recorded = rng.choice(FORMATS) if rng.random() < 0.3 else FORMATS[seed % 4]
            await session.record(random_turns(rng, recorded, turns=1)[0], format=recorded)
        if seed % 2:
            await session.record(USER)
        for other in (None, 700, 3_000, 16_000):
            try:
                context = await session.context("" if seed % 2 else "And now?", budget_tokens=other, tools=True)
            except BudgetExceeded:
                continue
            for name in FORMATS:
                assert faults(name, context.request(name)) == []

    asyncio.run(with_store(tmp_path / "chat.db", job))


def sent(path: Path, recorded: list[dict[str, Any]], format: str, name: ProviderFormat) -> Any:  # noqa: A002
    async def job(fov: Foveate) -> Context:
        session = await fov.session("s")
        await session.record(recorded, format=format)
        return await session.context("And now?")

    request = asyncio.run(with_store(path, job)).request(name)
    assert faults(name, request) == []
    return request


def anthropic_step(number: int) -> list[dict[str, Any]]:
    call = {"type": "tool_use", "id": "toolu_1", "name": "ls", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": f"result {number}"}
    said = {"role": "assistant", "content": f"Done {number}."}
    return [USER, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}, said]


def call_ids(path: Path, turns: int) -> list[str]:
    recorded = [message for number in range(turns) for message in anthropic_step(number)]
    messages = sent(path, recorded, "anthropic", "anthropic")["messages"]
    blocks = [block for message in messages for block in message["content"] if isinstance(block, dict)]
    return [block["id"] for block in blocks if "id" in block]


def test_ids_that_repeat_across_turns_are_replaced_and_stay_the_same_as_turns_follow(tmp_path: Path) -> None:
    ids = call_ids(tmp_path / "three.db", 3)
    assert ids[0] == "toolu_1"
    assert len(set(ids)) == 3
    assert call_ids(tmp_path / "two.db", 2) == ids[:2]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    "recorded",
    [
        pytest.param([{"role": "user", "content": []}, {"role": "assistant", "content": "Hm?"}], id="empty content"),
        pytest.param([USER, {"role": "assistant", "content": None}], id="null content"),
        pytest.param([USER, {"role": "assistant", "content": "a", "tool_calls": []}], id="no tool calls"),
        pytest.param([USER, {"role": "system", "content": "b"}, {"role": "assistant", "content": "c"}], id="system"),
        pytest.param([{"role": "assistant", "content": "Hello."}, USER], id="the assistant begins"),
        pytest.param([{"role": "user", "content": "a\ud800b"}], id="a lone surrogate"),
        pytest.param([USER, {"role": "assistant", "content": None, "tool_calls": [{**CALL, "id": "x" * 90}]},
                      {"role": "tool", "tool_call_id": "x" * 90, "content": "ok"}], id="a long id"),
        pytest.param([USER, {"role": "tool", "tool_call_id": "c1", "content": "ok"},
                      {"role": "assistant", "content": None, "tool_calls": [CALL]}], id="a result before its call"),
        pytest.param([USER, *[{"role": "assistant", "content": "x"}] * 2], id="sides that do not alternate"),
    ],
)  # fmt: skip
def test_odd_shapes_are_sent_in_a_form_that_every_provider_takes(
    tmp_path: Path, recorded: list[dict[str, Any]], name: ProviderFormat
) -> None:
    sent(tmp_path / "chat.db", recorded, "openai", name)


def test_a_tool_name_of_another_provider_is_spelled_as_this_one_allows(tmp_path: Path) -> None:
    parts = [{"functionCall": {"name": "ns:tool.run", "args": {}}}]
    answer = [{"functionResponse": {"name": "ns:tool.run", "response": {"output": "ok"}}}]
    sides = [("user", [{"text": "a"}]), ("model", parts), ("user", answer)]
    recorded: list[dict[str, Any]] = [{"role": role, "parts": own} for role, own in sides]
    messages = sent(tmp_path / "chat.db", recorded, "gemini", "openai")["messages"]
    names = [call["function"]["name"] for message in messages for call in message.get("tool_calls", ())]
    assert names == ["ns_tool_run"]
    assert sent(tmp_path / "own.db", recorded, "gemini", "gemini")["contents"][1]["parts"] == parts


def test_a_prompt_that_ends_in_a_call_is_an_error_that_says_so(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        with pytest.raises(InvalidMessage, match="has a call of 'ls' without its result"):
            await session.context([USER, {"role": "assistant", "content": None, "tool_calls": [CALL]}])

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_prompt_that_waits_is_never_dropped_silently(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s", strategy="standard")
        await session.record({"role": "user", "content": "word " * 30})
        with pytest.raises(BudgetExceeded, match="turn in progress"):
            await session.context(budget_tokens=500, tools=True)

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_an_integer_too_long_to_be_written_is_a_typed_error(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        call = {"type": "tool_use", "id": "t", "name": "ls", "input": {"n": 10**5_000}}
        with pytest.raises(InputError, match="send it as text"):
            await session.record([USER, {"role": "assistant", "content": [call]}], format="anthropic")

    asyncio.run(with_store(tmp_path / "chat.db", job))


@pytest.mark.parametrize(
    ("name", "request_", "says"),
    [
        ("openai", {"messages": []}, "empty array"),
        ("openai", {"messages": [{"role": "user", "content": []}]}, "empty array"),
        ("openai", {"messages": [{"role": "assistant", "content": None, "tool_calls": [CALL]}, USER]}, "not followed"),
        ("openai", {"messages": [{"role": "tool", "tool_call_id": "c", "content": ""}]}, "which no call"),
        ("openai", {"messages": [{"role": "user", "content": "\ud800"}]}, "can't be written as JSON"),
        ("openai-responses", {"input": [{"type": "function_call", "call_id": "c", "name": "a"}]}, "no output"),
        ("openai-responses", {"input": [{"type": "function_call_output", "call_id": "c", "output": ""}]}, "no call"),
        ("anthropic", {"messages": [{"role": "assistant", "content": "a"}]}, "where 'user' is due"),
        ("anthropic", {"messages": [{"role": "user", "content": " "}]}, "no visible character"),
        ("anthropic", {"system": [{"type": "text", "text": " "}], "messages": [USER]}, "system: no visible character"),
        ("anthropic", {"messages": [*anthropic_step(1), *anthropic_step(2)]}, "must be unique"),
        ("gemini", {"contents": [{"role": "user", "parts": []}]}, "must not be empty"),
        ("gemini", {"contents": [{"role": "user", "parts": [{"text": ""}]}]}, "empty"),
    ],
)  # fmt: skip
def test_the_validators_reject_what_the_providers_do(name: str, request_: dict[str, Any], says: str) -> None:
    assert any(says in fault for fault in faults(name, request_))


def test_a_system_prompt_may_be_a_list_of_blocks() -> None:
    blocks = [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}]
    assert faults("anthropic", {"system": blocks, "messages": [USER]}) == []


def test_an_id_that_two_turns_have_is_sent_once(tmp_path: Path) -> None:
    said: dict[str, Any] = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    content = [{"type": "output_text", "text": "Yes.", "annotations": []}]
    thought: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": []}
    searched = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    answer = [{**thought, "encrypted_content": "c2VhbGVk"}, searched, {**said, "content": content}]
    recorded: list[dict[str, Any]] = [*[USER, *answer] * 2, USER, thought, {**said, "content": content}]
    items = sent(tmp_path / "s.db", recorded, "openai-responses", "openai-responses")["input"]
    assert [item.get("id") for item in items if item.get("type") == "message"] == ["msg_1", None, None]
    assert [item.get("id") for item in items if item.get("type") == "reasoning"] == ["rs_1", None]
    assert [item.get("id") for item in items if item.get("type") == "web_search_call"] == ["ws_1", "ws_1_2"]


def test_a_system_prompt_of_white_space_is_left_out(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        request = (await session.context("Go.", system=" \n")).request("anthropic")
        assert "system" not in request
        assert faults("anthropic", request) == []

    asyncio.run(with_store(tmp_path / "s.db", job))
