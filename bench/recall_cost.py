"""Time that recall takes: what it adds to a call, and how well its deadline holds when a stage is slow on purpose.

See `recall.py --cost` and `--deadline`.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import foveate
from conversation import make_conversation
from foveate.recall.judge import run_stages
from foveate.settings import load_settings

SIZES = (1_000, 10_000)
ROUND_TURNS = 5_000
BUDGET_TOKENS = 16_000
PROCESSES = 2
DEADLINES_SECONDS = (0.05, 0.2, 1.0)
SLOW_SECONDS = 3.0
TIMES = 10


@dataclass(slots=True)
class Cost:
    """Of calls, in seconds."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    def row(self, name: str) -> str:
        return f"| {name} | {_spread(self.cpu)} | {_spread(self.wall)} |"


def cost_all() -> str:
    """Return the table of contexts of one session for questions about it, with recall and without."""
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


async def quick() -> str:
    return "ready"


async def slow() -> str:
    await asyncio.sleep(SLOW_SECONDS)
    return "late"


async def slow_thread() -> str:
    await asyncio.to_thread(time.sleep, SLOW_SECONDS)
    return "late"


def hold_all() -> str:
    """Return the table of deadlines: what was used, and the worst overrun of each."""
    return asyncio.run(_hold_all())


async def _hold_all() -> str:
    lines = ["| deadline | stages | used | worst overrun |", "|" + " --- |" * 4]
    cases: dict[str, Callable[[], Awaitable[str]]] = {"a slow one": slow, "a slow thread": slow_thread}
    for seconds in DEADLINES_SECONDS:
        for name, stage in cases.items():
            worst, used = 0.0, set()
            for _ in range(TIMES):
                start = time.perf_counter()
                done = await run_stages({"words": quick, "vectors": stage}, seconds)
                worst = max(worst, time.perf_counter() - start - seconds)
                used |= set(done.results)
            lines.append(f"| {seconds * 1000:.0f} ms | {name} | {', '.join(sorted(used))} | {worst * 1000:.1f} ms |")
    return "\n".join(lines)
