"""What recall adds to a call: contexts of one session for questions about it, with recall and without."""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import foveate
from conversation import make_conversation
from foveate.settings import load_settings

SIZES = (1_000, 10_000)
ROUND_TURNS = 5_000
BUDGET_TOKENS = 16_000
PROCESSES = 2


@dataclass(slots=True)
class Cost:
    """Of calls, in seconds."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    def row(self, name: str) -> str:
        return f"| {name} | {_spread(self.cpu)} | {_spread(self.wall)} |"


def cost_all() -> str:
    lines = ["| turns, call | CPU, median / worst | time, median / worst |", "|" + " --- |" * 3]
    with tempfile.TemporaryDirectory() as folder:
        for turns in SIZES:
            print(f"telling and compressing {turns:,} turns", file=sys.stderr, flush=True)
            for name, cost in asyncio.run(_measure(Path(folder) / f"{turns}.db", turns)).items():
                lines.append(cost.row(f"{turns:,}, {name}"))
    return "\n".join(lines)


async def _measure(path: Path, turns: int) -> dict[str, Cost]:
    settings = load_settings(
        environment={}, overrides={"compress": {"processes": PROCESSES}, "store": {"synchronous": "normal"}}
    )
    questions = [fact.question for fact in make_conversation(min(turns, ROUND_TURNS)).facts]
    costs = {"without recall": Cost(), "with recall, first": Cost(), "with recall, again": Cost()}
    async with foveate.open(path, settings=settings) as fov:
        session = await fov.session("s", budget_tokens=BUDGET_TOKENS)
        for seed in range(-(-turns // ROUND_TURNS)):
            for turn in make_conversation(min(turns, ROUND_TURNS), seed + 42).turns:
                await session.record(turn)
        await fov.settle()
        await session.context("Loads what is needed, once?")
        for name, cost in costs.items():
            for question in questions:
                cpu, began = time.process_time(), time.perf_counter()
                await session.context(question, recall=name != "without recall")
                cost.cpu.append(time.process_time() - cpu)
                cost.wall.append(time.perf_counter() - began)
    return costs


def _spread(seconds: list[float]) -> str:
    return f"{statistics.median(seconds) * 1000:.1f} / {max(seconds) * 1000:.1f} ms"
