"""Signed thinking: how many blocks go out under another prefix than they were made under, over many requests.

    python bench/thinking.py --requests 1000 --budgets 6000 16000

A recorder answers each request with a signed thinking block and remembers the request's bytes under the signature. A
block is invalid if what precedes it differs. The conversation has turns with and without tool calls, forks,
changes of tools and of the system prompt; its history is rebuilt as it fills.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import foveate
from foveate import Session
from foveate.context.assemble import MESSAGE_TOKENS
from foveate.settings import load_settings

WORDS = ("the", "plan", "keeps", "every", "file", "that", "a", "worker", "wrote", "since", "release", "was", "cut")
TOOL = {"name": "extra", "description": "Something more.", "input_schema": {"type": "object", "properties": {}}}
CHANGE_EVERY = 97
FORK_EVERY = 150
SLACK = 0.02
"""Of a budget: what a context keeps free beside a turn in progress."""


def bare(value: Any) -> Any:
    """Without cache hints, which no block is bound to; text content as blocks."""
    if isinstance(value, dict):
        return {key: bare(inner) for key, inner in value.items() if key != "cache_control"}
    return [bare(inner) for inner in value] if isinstance(value, list) else value


def flat(request: dict[str, Any]) -> list[Any]:
    """A request block by block."""
    blocks: list[Any] = [["head", {"system": request.get("system"), "tools": request.get("tools")}]]
    for message in request["messages"]:
        content = message["content"]
        listed = [{"type": "text", "text": content}] if isinstance(content, str) else content
        blocks += [[message["role"], block] for block in bare(listed)]
    return blocks


@dataclass
class Recorder:
    """Answers like a provider that signs its thinking, and counts blocks that it would reject."""

    requests: int = 0
    sent: int = 0
    invalid: int = 0
    invalid_requests: int = 0
    in_progress: int = 0
    in_progress_sent: int = 0
    outgrown: int = 0
    """Blocks of the turn in progress that were not sent because the turn outgrew the budget."""
    made: dict[str, str] = field(default_factory=dict)

    def check(self, request: dict[str, Any], expected: list[str], *, is_outgrown: bool) -> None:
        """Look at every thinking block of a request; `expected` are those of the turn in progress."""
        blocks = flat(request)
        bad, shown = 0, set()
        start = 0
        for index, (side, block) in enumerate(blocks):
            if side != "assistant":
                start = index + 1
            elif block.get("type") == "thinking":
                shown.add(block["signature"])
                bad += self.made[block["signature"]] != json.dumps(blocks[:start], sort_keys=True)
        self.requests += 1
        self.sent += len(shown)
        self.invalid += bad
        self.invalid_requests += bad > 0
        self.in_progress += len(expected)
        self.in_progress_sent += len(shown.intersection(expected))
        self.outgrown += is_outgrown * len(set(expected) - shown)

    def answer(self, request: dict[str, Any], words: str, call: str | None) -> tuple[dict[str, Any], str]:
        signature = f"signature-{len(self.made):06}" + "s" * 200
        self.made[signature] = json.dumps(flat(request), sort_keys=True)
        content: list[dict[str, Any]] = [{"type": "thinking", "thinking": words, "signature": signature}]
        content.append({"type": "text", "text": words})
        if call:
            content.append({"type": "tool_use", "id": call, "name": "exec", "input": {"cmd": words}})
        return {"role": "assistant", "content": content}, signature


async def converse(path: Path, budget: int, requests: int, seed: int) -> Recorder:
    recorder, chance = Recorder(), random.Random(seed)

    def words(low: int, high: int) -> str:
        return " ".join(chance.choices(WORDS, k=chance.randint(low, high)))

    settings = load_settings(environment={}, overrides={"compress": {"processes": 0}})
    async with foveate.open(path, settings=settings) as fov:
        session = await fov.session("s", budget_tokens=budget, model="claude-sonnet-4-5")
        forks, system, extra = 0, "You are a careful engineer.", False
        while recorder.requests < requests:
            if recorder.requests // FORK_EVERY > forks:
                forks += 1
                session = await session.fork(f"fork-{forks}")
            if recorder.requests and recorder.requests % CHANGE_EVERY == 0:
                extra = not extra
                system = f"You are a careful engineer, rule {recorder.requests}."
            session.tools("anthropic", (TOOL,) if extra else ())
            await talk_one_turn(session, recorder, system, words, chance)
    return recorder


async def talk_one_turn(session: Session, recorder: Recorder, system: str, words: Any, chance: random.Random) -> None:
    await session.record({"role": "user", "content": f"Why {words(5, 60)}?"})
    steps = chance.choice([0, 0, 1, 2, 5])
    own: list[str] = []
    needed, is_outgrown = 0, False
    for step in range(steps + 1):
        context = await session.context(system=system)
        request = context.request("anthropic")
        is_outgrown |= needed > context.budget_tokens * (1 - SLACK)
        recorder.check(request, own, is_outgrown=is_outgrown)
        call = f"toolu_{recorder.requests}" if step < steps else None
        answer, signature = recorder.answer(request, words(5, 80), call)
        own.append(signature)
        added = (await session.record(answer, format="anthropic")).tokens
        if call:
            result = {"type": "tool_result", "tool_use_id": call, "content": words(10, 200)}
            said = await session.record({"role": "user", "content": [result]}, format="anthropic")
            needed = context.tokens + added + said.tokens + 2 * MESSAGE_TOKENS


async def main(budgets: list[int], requests: int) -> None:
    columns = (
        "budget",
        "requests",
        "rejected",
        "blocks sent",
        "invalid",
        "of the turn in progress",
        "outgrew the budget",
    )
    print(f"| {' | '.join(columns)} |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for budget in budgets:
        with tempfile.TemporaryDirectory() as folder:
            seen = await converse(Path(folder) / "s.db", budget, requests, seed=7)
        progress = f"{seen.in_progress_sent:,} / {seen.in_progress:,}"
        rejected = f"{seen.invalid_requests} | {seen.sent:,} | {seen.invalid}"
        print(f"| {budget:,} | {seen.requests:,} | {rejected} | {progress} | {seen.outgrown} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=1_000)
    parser.add_argument("--budgets", type=int, nargs="+", default=[6_000, 16_000])
    given = parser.parse_args()
    asyncio.run(main(given.budgets, given.requests))
