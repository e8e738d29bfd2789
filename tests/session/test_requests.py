"""What a request has is what was counted, in every format: system, explanation, pins, tools."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from google.genai import types
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from foveate import Foveate
from foveate.context.assemble import MESSAGE_TOKENS, REPLY_TOKENS, ContextParts, assemble
from foveate.context.pins import write_pins
from foveate.context.render import FORMATS
from foveate.errors import BudgetExceeded, UnknownFormat
from foveate.text import encodable
from support import contexts
from support.contexts import sample_parts
from support.engine import opened, talk, with_store
from support.examples import times

FEW = examples(
    max_examples=times(6),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
OWN = {"type": "function", "function": {"name": "read_tide", "parameters": {"type": "object", "properties": {}}}}


def system_of(name: str, request: dict[str, Any]) -> str:
    """The system prompt, where the provider's own call has it."""
    match name:
        case "anthropic":
            return str(request.get("system", ""))
        case "gemini":
            return str(request.get("config", {}).get("system_instruction", ""))
    first: dict[str, Any] = next(iter(messages_of(name, request)), {})
    return str(first["content"]) if first.get("role") == "system" else ""


def messages_of(name: str, request: dict[str, Any]) -> list[Any]:
    found: list[Any] = request[{"openai-responses": "input", "gemini": "contents"}.get(name, "messages")]
    return found


def tools_of(name: str, request: dict[str, Any]) -> list[Any]:
    found: list[Any] = (request.get("config", {}) if name == "gemini" else request).get("tools", [])
    return found


@FEW
@given(parts=contexts.parts())
def test_whatever_the_format_everything_counted_is_in_the_request(parts: ContextParts) -> None:
    context = assemble(parts)
    assert context.system.startswith(parts.system)
    assert parts.explanation in context.system
    assert context.system.endswith(write_pins(parts.pins))
    for name in FORMATS:
        request = context.request(name)
        assert messages_of(name, request) == context.messages(name)
        assert system_of(name, request) == encodable(context.system)
        assert tools_of(name, request) == []


def test_each_provider_has_its_own_arguments() -> None:
    context = assemble(sample_parts())
    assert {name: sorted(context.request(name)) for name in FORMATS} == {
        "openai": ["messages"],
        "openai-responses": ["input"],
        "anthropic": ["messages", "system"],
        "gemini": ["config", "contents"],
    }
    with pytest.raises(UnknownFormat, match="available: openai"):
        context.request("cohere")  # type: ignore[arg-type]


@FEW
@given(
    model=st.sampled_from(["gpt-5", "gpt-4", "claude-sonnet-4-5", "unheard-of"]),
    budget_tokens=st.integers(600, 3_000),
    tools=st.sampled_from([True, False, None]),
    is_own=st.booleans(),
)
def test_the_tools_of_a_request_are_within_what_was_counted_for_them(
    tmp_path: Path, model: str, budget_tokens: int, *, tools: bool | None, is_own: bool
) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session(f"s{len(await fov.sessions())}", budget_tokens=budget_tokens, model=model)
        await session.pin("Never deploy on a Friday.")
        await talk(session, 5)
        if is_own:
            session.tools("openai", extra_tools=[OWN])
        try:
            context = await session.context("And now?", system="You help.", tools=tools)
        except BudgetExceeded:
            return
        counted = sum(segment.tokens for segment in context.segments if segment.name == "tools")
        for name in FORMATS[:1] if is_own else FORMATS:
            request = context.request(name)
            sent = tools_of(name, request)
            assert bool(sent) == (tools or (tools is None and is_own)) == bool(counted)
            base = session.counter.base(json.dumps(sent, separators=(",", ":"))) if sent else 0
            # A segment's share of the rounded sum is known to a token.
            assert session.counter.scale(base) <= counted + (not session.counter.exact)
            spoken = sum(session.counter.base(text) for text in texts_of(messages_of(name, request)))
            spoken += session.counter.base(system_of(name, request)) if name in ("anthropic", "gemini") else 0
            if name == "openai":
                framing = MESSAGE_TOKENS * len(request["messages"]) + REPLY_TOKENS
                assert session.counter.scale(spoken + base + framing) <= context.tokens <= budget_tokens

    asyncio.run(with_store(tmp_path / "chat.db", job))


def texts_of(value: object) -> list[str]:
    """Every text that is said in messages."""
    if isinstance(value, list):
        return [text for entry in value for text in texts_of(entry)]
    if isinstance(value, dict):
        return [text for key in ("content", "parts", "text") for text in texts_of(value.get(key))]
    return [value] if isinstance(value, str) else []


def test_tools_of_ones_own_go_out_in_the_format_they_were_given_in(tmp_path: Path) -> None:
    async def run() -> None:
        async with opened(tmp_path / "chat.db") as fov:
            session = await fov.session("s", budget_tokens=2_000)
            assert session.tools("openai", extra_tools=[OWN])[-1] == OWN
            context = await session.context("Hello?")
            assert context.request("openai")["tools"] == session.tools("openai", extra_tools=[OWN])
            with pytest.raises(UnknownFormat, match=r"tools\('anthropic', extra_tools=…\)"):
                context.request("anthropic")

    asyncio.run(run())


def test_googles_own_package_takes_the_request(tmp_path: Path) -> None:
    async def run() -> None:
        async with opened(tmp_path / "chat.db") as fov:
            session = await fov.session("s", budget_tokens=4_000)
            await talk(session, 3)
            request = (await session.context("And now?", system="Be brief.", tools=True)).request("gemini")
            taken = types.GenerateContentConfig(**request["config"])
            assert isinstance(taken.system_instruction, str)
            assert taken.system_instruction.startswith("Be brief.")
            assert len(taken.tools[0].function_declarations) == 5
            said = [types.Content.model_validate(content) for content in request["contents"]]
            assert said[-1].parts[-1].text == "And now?"

    asyncio.run(run())
