"""Long tool loops with `thinking: {"type": "enabled"}`, which must begin with thinking."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.gateway import HEADERS, LONG, body_of, gateway, run
from support.upstream import Blocks, Upstream, call, say
from support.validators import faults

TOOLS = [{"name": "Bash", "description": "Run.", "input_schema": {"type": "object"}}]
ENABLED = {"type": "enabled", "budget_tokens": 1_024}
CLEARED = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
STEPS = 30


def thought(number: int) -> dict[str, Any]:
    return {"type": "thinking", "thinking": f"Step {number}.", "signature": f"sig{number}" * 20}


@pytest.mark.parametrize("is_interleaved", [True, False], ids=["each answer thinks", "the first answer thinks"])
def test_a_rebuild_inside_a_tool_loop_leaves_a_request_that_the_provider_accepts(
    tmp_path: Path, *, is_interleaved: bool
) -> None:
    def script(body: dict[str, Any]) -> Blocks:
        number = len(upstream.bodies)
        before = [thought(number)] if "thinking" in body and (is_interleaved or number == 1) else []
        if number > STEPS:
            return [*before, *say("Done.")]
        return [*before, call("Bash", {"command": f"cat file{number}.txt"}, f"toolu_{number}")]

    upstream = Upstream(script)

    async def scenario() -> None:
        history: list[dict[str, Any]] = [{"role": "user", "content": "Read all files."}]
        more: dict[str, Any] = {"tools": TOOLS, "thinking": ENABLED, "context_management": CLEARED, "system": "Work."}
        async with gateway(tmp_path, upstream, budget_tokens=6_000) as (_, client):
            while len(upstream.bodies) <= STEPS + 1:
                reply = await client.post("/v1/messages", json=body_of(history, **more), headers=HEADERS)
                assert reply.status_code == 200, reply.text
                content = reply.json()["content"]
                calls = [block["id"] for block in content if block["type"] == "tool_use"]
                results = [
                    {"type": "tool_result", "tool_use_id": call_id, "content": f"{call_id}: all is well. " * 60}
                    for call_id in calls
                ]
                reminder = {"type": "text", "text": "<system-reminder>Be quick.</system-reminder>"}
                history += [
                    {"role": "assistant", "content": content},
                    {"role": "user", "content": [*results, reminder] if results else "Thanks. And now?"},
                ]

    run(scenario)
    assert "file1.txt" not in json.dumps(upstream.bodies[STEPS]["messages"]), "the turn was rebuilt"
    assert [faults("anthropic", body) for body in upstream.bodies] == [[]] * len(upstream.bodies)
    thinking = [body for body in upstream.bodies if "thinking" in body]
    assert all("sig" not in json.dumps(body) for body in upstream.bodies if "thinking" not in body)
    assert all("context_management" not in body for body in upstream.bodies if "thinking" not in body)
    assert len(thinking) == len(upstream.bodies) if is_interleaved else 1 < len(thinking) < len(upstream.bodies)


def test_a_round_of_own_tools_that_began_without_thinking_is_continued_without_it(tmp_path: Path) -> None:
    def script(body: dict[str, Any]) -> Blocks:
        names = [tool["name"] for tool in body.get("tools", ())]
        is_answered = "tool_result" in json.dumps(body["messages"][-1])
        if "get_turn" not in names or is_answered:
            return say("Done.")
        return [call("get_turn", {"turn_id": "T-1"}, f"toolu_{len(upstream.bodies)}")]

    upstream = Upstream(script)

    async def scenario() -> None:
        history: list[dict[str, Any]] = []
        async with gateway(tmp_path, upstream, budget_tokens=6_000) as (_, client):
            for number in range(10):
                history.append({"role": "user", "content": f"Question {number}: {LONG}"})
                reply = await client.post("/v1/messages", json=body_of(history, thinking=ENABLED), headers=HEADERS)
                assert reply.status_code == 200, reply.text
                history.append({"role": "assistant", "content": reply.json()["content"]})

    run(scenario)
    assert [faults("anthropic", body) for body in upstream.bodies] == [[]] * len(upstream.bodies)
    assert len(upstream.bodies) > 10, "the model called a tool of the history"
