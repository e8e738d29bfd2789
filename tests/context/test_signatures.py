"""Signed thinking goes out under the prefix it was made under, and under no other."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from foveate.context.signatures import bound_answer, request_prefix, without_unbound, without_unbound_messages
from foveate.formats import parse_messages
from foveate.turn import Message, Reasoning, Text
from support.engine import opened, settings

PROMPT: dict[str, Any] = {"role": "user", "content": "Why?"}
NEXT: dict[str, Any] = {"role": "user", "content": [{"type": "text", "text": "And now?"}]}


def answer(signature: str, call: str | None = None) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "thinking", "thinking": "Hm.", "signature": signature}]
    content.append({"type": "text", "text": "So."})
    content += [{"type": "tool_use", "id": call, "name": "exec", "input": {}}] if call else []
    return {"role": "assistant", "content": content}


def answered(record: dict[str, Any], prefix: str | None) -> list[Message]:
    (message,) = parse_messages([record], "anthropic")
    return [Message(message.role, message.parts, original=message.original, prefix=prefix)]


def signatures(messages: list[Any]) -> list[str]:
    blocks = [block for message in messages if isinstance(message["content"], list) for block in message["content"]]
    return [block["signature"] for block in blocks if block["type"] == "thinking"]


def test_a_block_is_sent_under_its_own_prefix_whatever_the_cache_hints() -> None:
    prefix = request_prefix("Be brief.", [], [PROMPT])
    marked: dict[str, Any] = {
        "role": "user",
        "content": [{"type": "text", "text": "Why?", "cache_control": {"type": "ephemeral"}}],
    }
    for prompt in (PROMPT, marked):
        sent = without_unbound("Be brief.", [], [prompt, answer("s1"), NEXT], answered(answer("s1"), prefix))
        assert signatures(sent) == ["s1"]


def test_a_block_is_left_out_when_system_tools_or_an_earlier_message_changed() -> None:
    prefix = request_prefix("Be brief.", [], [PROMPT])
    made = answered(answer("s1"), prefix)
    tool = {"name": "exec"}
    for system, tools, prompt in (("Be long.", [], PROMPT), ("Be brief.", [tool], PROMPT), ("Be brief.", [], NEXT)):
        assert signatures(without_unbound(system, tools, [prompt, answer("s1"), NEXT], made)) == []


def test_a_block_of_unknown_prefix_is_sent_in_the_turn_in_progress_only() -> None:
    made = answered(answer("s1", "c1"), None)
    result: dict[str, Any] = {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "ok"}],
    }
    assert signatures(without_unbound("", [], [PROMPT, answer("s1", "c1"), result], made)) == ["s1"]
    assert signatures(without_unbound("", [], [PROMPT, answer("s1", "c1"), result, answer("s2"), NEXT], made)) == []


RESULT: dict[str, Any] = {
    "role": "user",
    "content": [
        {"type": "tool_result", "tool_use_id": "c1", "content": "ok"},
        {"type": "text", "text": "<system-reminder>Be quick.</system-reminder>"},
    ],
}


@pytest.mark.parametrize(
    ("model", "needs_thinking", "kept"),
    [("claude-sonnet-4-5", False, ["s1"]), ("claude-fable-5.1", False, []), (None, True, ["s1"])],
)
def test_a_turn_in_progress_keeps_thinking_that_its_model_does_not_bind(
    model: str | None, needs_thinking: bool, kept: list[str]
) -> None:
    made = [replace(one, model=model) for one in answered(answer("s1", "c1"), "another prefix")]
    sent = [PROMPT, answer("s1", "c1"), RESULT]
    assert signatures(without_unbound("", [], sent, made, needs_thinking=needs_thinking)) == kept
    assert signatures(without_unbound("", [], [*sent, answer("s2"), NEXT], made, needs_thinking=needs_thinking)) == []


def test_an_answer_of_thinking_alone_leaves_alternating_sides() -> None:
    alone = {"role": "assistant", "content": answer("s1")["content"][:1]}
    sent = without_unbound("", [], [PROMPT, alone, NEXT], answered(alone, "another"))
    assert [message["role"] for message in sent if isinstance(message, dict)] == ["user"]


def test_a_session_sends_back_the_thinking_of_its_answers_until_something_before_it_changes(tmp_path: Path) -> None:
    async def job() -> None:
        async with opened(tmp_path / "s.db") as fov:
            session = await fov.session("s", budget_tokens=20_000, model="claude-sonnet-4-5")
            await session.record(PROMPT)
            await session.context(system="Be brief.")
            await session.record(answer("s1", "c1"), format="anthropic")
            result = {"type": "tool_result", "tool_use_id": "c1", "content": "ok"}
            await session.record({"role": "user", "content": [result]}, format="anthropic")
            assert signatures((await session.context(system="Be brief.")).messages("anthropic")) == ["s1"]
            await session.record(answer("s2"), format="anthropic")
            again = await fov.session("s")
            assert signatures((await again.context("Go on.", system="Be brief.")).messages("anthropic")) == ["s1", "s2"]
            assert signatures((await again.context("Go on.", system="Be long.")).messages("anthropic")) == []

    asyncio.run(job())


CLAUDE = "anthropic:claude-fable-5.1"
GO, ON = Message("user", (Text("Go."),)), Message("user", (Text("On."),))


def thought(signature: str, prefix: str | None = None, model: str = CLAUDE) -> Message:
    return Message("assistant", (Reasoning("Hm.", signature=signature), Text("Yes.")), model=model, prefix=prefix)


def test_canonical_thinking_is_sent_under_its_own_prefix_only() -> None:
    one = bound_answer(thought("s1"), [GO], [])
    two = bound_answer(thought("s2"), [GO, one, ON], [])
    assert without_unbound_messages([GO, one, ON, two, GO], []) == (GO, one, ON, two, GO)
    # Without the first block, the second has another prefix too.
    first, second = (message.parts for message in without_unbound_messages([ON, one, ON, two, GO], [])[1:4:2])
    assert first == second == (Text("Yes."),)
    changed = without_unbound_messages([GO, one, ON], [{"name": "more"}])
    assert changed[1].parts == (Text("Yes."),)


def test_canonical_thinking_of_another_family_is_not_bound() -> None:
    kept = thought("s1", model="google:gemini-3")
    assert bound_answer(kept, [GO], []).prefix is None
    assert without_unbound_messages([GO, kept, ON], []) == (GO, kept, ON)


def test_an_answer_is_bound_to_the_request_of_its_turn_whoever_records_it(tmp_path: Path) -> None:
    async def job() -> None:
        async with opened(tmp_path / "s.db") as fov:
            one, other = await fov.session("s"), await fov.session("s")
            async with one.turn("Go?") as turn:
                await turn.request("anthropic", tools=False)
                await other.context("a look from elsewhere", tools=False)
                await turn.record(answer("s1"), format="anthropic")
            asked = await one.context("On?", tools=False)
            assert signatures(asked.messages("anthropic")) == ["s1"]
            await one.record({"role": "user", "content": "On?"})
            prefix = (await one.context(tools=False)).prefix()
            await other.record(answer("s1"), format="anthropic")
            assert (await one.load_turn(2)).messages[-1].prefix == prefix

    asyncio.run(job())


def test_a_setting_has_the_provider_drop_what_does_not_match(tmp_path: Path) -> None:
    async def job() -> None:
        async with opened(tmp_path / "s.db", settings(context={"drop_unbound_thinking": True})) as fov:
            context = await (await fov.session("s")).context("Go?")
            request = context.request("anthropic")
            assert request["thinking"]["block_binding"] == {"prefix_mismatch_behavior": "drop_block"}
            assert request["extra_headers"] == {"anthropic-beta": "thinking-binding-controls-2026-08-01"}
            assert "thinking" not in context.request("openai")

    asyncio.run(job())
