"""A context never sends more than it counts: what a provider would count of the request stays within the budget."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import struct
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.context.render import FORMATS
from foveate.turn import Message, Opaque, Text, ToolCall, ToolResult
from support.engine import opened
from support.examples import times
from support.recount import recount

MODELS = (None, "gpt-4o", "claude-sonnet-4-5", "gemini-2.5-pro")
PNG = base64.b64encode(
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + struct.pack(">II", 1_600, 1_200) + b"\x00" * 300
).decode()
WORDS = st.lists(st.sampled_from(["alpha", "é", "日本", "x = 1\n", '"quoted"', "\t"]), max_size=40).map(" ".join)


def call(number: int, arguments: str) -> dict[str, Any]:
    function = {"name": "edit", "arguments": arguments}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}],
    }


def result(number: int, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"c{number}", "content": text}


def image(text: str) -> dict[str, Any]:
    blocks = [
        {"type": "text", "text": text},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
    ]
    return {"role": "user", "content": blocks}


def document(text: str) -> dict[str, Any]:
    source = {"type": "text", "media_type": "text/plain", "data": text * 30}
    return {"role": "user", "content": [{"type": "text", "text": "Read it."}, {"type": "document", "source": source}]}


def thought(text: str) -> dict[str, Any]:
    blocks = [{"type": "thinking", "thinking": text, "signature": "s" * 400}, {"type": "text", "text": text or "."}]
    return {"role": "assistant", "content": blocks}


@st.composite
def conversations(draw: st.DrawFn) -> list[list[dict[str, Any]]]:
    """Turns with escaped and indented arguments, images, documents and signed thinking."""
    turns = []
    for number in range(draw(st.integers(1, 6))):
        words = draw(WORDS)
        match draw(st.sampled_from(["image", "document", "call", "thought"])):
            case "image":
                turns.append([image(words), {"role": "assistant", "content": f"Seen: {words}"}])
            case "document":
                turns.append([document(words), {"role": "assistant", "content": [{"type": "text", "text": "Done."}]}])
            case "call":
                indent = draw(st.sampled_from([None, 8]))
                arguments = json.dumps({"text": words, "n": number}, ensure_ascii=True, indent=indent)
                turns.append([{"role": "user", "content": "Edit."}, call(number, arguments), result(number, words)])
            case "thought":
                turns.append([{"role": "user", "content": words or "?"}, thought(words)])
    return turns


async def sent(turns: list[list[dict[str, Any]]], model: str | None, budget: int, prompt: list[Any]) -> list[int]:
    async with opened(Path(tempfile.mkdtemp()) / "s.db") as fov:
        session = await fov.session("s", model=model, budget_tokens=budget)
        for turn in turns:
            await session.record(turn)
        context = await session.context(prompt, tools=True)
        assert context.tokens <= budget
        counts = [recount(name, context.request(name), model=model) for name in FORMATS]
        assert max(counts) <= context.tokens, dict(zip(FORMATS, counts, strict=True))
        return counts


@given(conversations(), st.sampled_from(MODELS), st.sampled_from([3_000, 8_000, 60_000]), st.booleans())
@settings(max_examples=times(15), deadline=None)
def test_no_request_takes_more_than_was_counted(
    turns: list[list[dict[str, Any]]], model: str | None, budget: int, with_image: bool
) -> None:
    asyncio.run(
        sent(turns, model, budget, [image("And this?") if with_image else {"role": "user", "content": "And now?"}])
    )


STRAY = ToolResult("c1", (Text("done"),), name="edit")
NOTED: dict[str, list[Message]] = {
    "a result without its call": [Message("user", (Text("Look."),)), Message("tool", (STRAY,))],
    "a result between texts": [Message("user", (Text("See"), replace(STRAY, call_id="x" * 60), Text("this.")))],
    "a result of no id": [Message("user", (Text("Look."),)), Message("tool", (replace(STRAY, call_id=None),))],
    "an error without output": [
        Message("assistant", (ToolCall("edit", {}, id="e"),)),
        Message("tool", (ToolResult("e", (Text(""),), is_error=True),)),
    ],
    "an empty message": [Message("user", ())],
    "a blank message": [Message("user", (Text(" \n"),))],
    "system text": [Message("system", (Text("Be brief."),))],
    "a block of another provider": [Message("user", (Opaque("anthropic", {"type": "server_tool_use"}), Text("So?")))],
    "a name that is not allowed": [
        Message("assistant", (ToolCall("edit ✓", {}, id="bad id!"),)),
        Message("tool", (ToolResult("bad id!", (Text("ok"),), name="edit ✓"),)),
    ],
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("kind", NOTED)
def test_notes_that_a_format_needs_are_counted(kind: str, model: str | None) -> None:
    prompt = [*NOTED[kind] * 30, Message("user", (Text("And now?"),))]
    turns = [[{"role": "user", "content": "Go on. " * 60}, {"role": "assistant", "content": "Yes. " * 90}]] * 8
    asyncio.run(sent(turns, model, 8_000, prompt))


@pytest.mark.parametrize("messages", [8, 22, 60])
def test_a_prompt_of_many_messages_leaves_room_for_their_framing(messages: int) -> None:
    async def look() -> None:
        async with opened(Path(tempfile.mkdtemp()) / "s.db") as fov:
            session = await fov.session("s", budget_tokens=1_500)
            for number in range(30):
                await session.record([{"role": "user", "content": f"Question {number}. " * 9}])
                await session.record([{"role": "assistant", "content": f"Answer {number}. " * 20}])
            prompt = [{"role": "user", "content": f"Point {number}"} for number in range(messages)]
            full = (await session.context(prompt)).tokens
            for budget in range(full - 20, full + 21, 4):
                assert (await session.context(prompt, budget_tokens=budget)).tokens <= budget

    asyncio.run(look())


def test_arguments_are_counted_as_they_are_sent() -> None:
    arguments = json.dumps({"text": "日本語" * 400}, ensure_ascii=True, indent=4)
    turn = [
        {"role": "user", "content": "Edit."},
        call(1, arguments),
        result(1, "done"),
        {"role": "assistant", "content": "ok"},
    ]
    counts = asyncio.run(sent([turn], "gpt-4o", 60_000, [{"role": "user", "content": "?"}]))
    assert counts[FORMATS.index("openai")] > 4_000


@pytest.mark.parametrize("budget", [4_000, 60_000])
def test_ten_images_count_and_those_that_do_not_fit_leave_a_note(budget: int) -> None:
    async def look() -> None:
        async with opened(Path(tempfile.mkdtemp()) / "s.db") as fov:
            session = await fov.session("s", model="gpt-4o", budget_tokens=budget)
            prompt = [image(f"Image {number}") for number in range(10)]
            context = await session.context(prompt)
            request = json.dumps(context.request("openai"))
            shown = request.count("data:image/png")
            assert shown == 10 if budget == 60_000 else 0 < shown < 10
            assert request.count("left out, it does not fit") == 10 - shown
            assert context.tokens >= shown * 765
            assert recount("openai", context.request("openai"), model="gpt-4o") <= budget

    asyncio.run(look())


@pytest.mark.parametrize("model", ["gpt-4o", "claude-sonnet-4-5"])
def test_an_image_of_a_turn_in_tags_has_its_size_and_the_way_to_get_it(model: str) -> None:
    async def look() -> None:
        async with opened(Path(tempfile.mkdtemp()) / "s.db") as fov:
            session = await fov.session("s", model=model)
            for number in range(20):
                await session.record([image(f"Plan {number}"), {"role": "assistant", "content": "Wet walls. " * 40}])
            note = "[image] image/png 1600x1200, 324 bytes, not in this text: ask the user to send it again\n"
            assert note in (await session.get_turn("T-1")).content
            for budget in range(6_000, 30_000, 1_000):
                context = await session.context("And now?", budget_tokens=budget)
                raw = re.findall(r"^<T-\d+-R>\n(.*?)^</T", context.text, re.MULTILINE | re.DOTALL)
                assert raw
                assert all(note in text for text in raw)
                for provider in FORMATS:
                    assert recount(provider, context.request(provider), model=model) <= budget

    asyncio.run(look())


def test_a_document_larger_than_the_budget_is_not_sent() -> None:
    async def look() -> None:
        async with opened(Path(tempfile.mkdtemp()) / "s.db") as fov:
            session = await fov.session("s", model="claude-sonnet-4-5", budget_tokens=8_000)
            await session.record([document("word " * 1_000), {"role": "assistant", "content": "Read."}])
            context = await session.context("And now?")
            assert recount("anthropic", context.request("anthropic"), model="claude-sonnet-4-5") <= 8_000
            assert (await session.stats()).tokens > 30_000

    asyncio.run(look())
