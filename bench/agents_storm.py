"""Spawns agents on two workers, kills the workers at random moments, and checks what is left.

Run from the project's root: python bench/agents_storm.py [--agents 100] [--killed 0.3] [--seed 1]

Each agent writes one line to a shared file by a tool that must not be repeated, works on for a few model calls, and
reports a number of its own. Workers are killed with SIGKILL while they run agents, until this share of the agents was
interrupted, and started again. In the end: every agent has ended, each one that is done has exactly its own result, no
line was written twice, and the tree's limits on agents, tokens and money were never exceeded, looked at all the time.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from foveate.agents.worker import AgentWorker
from foveate.client import Foveate
from foveate.errors import LimitReached
from foveate.models import Ask
from foveate.models.settings import Price
from foveate.session.subagents import AgentInfo
from foveate.settings import Settings, load_settings
from foveate.store import open_store
from foveate.testing.scripted import Behaviour, CallsTool, Delays, Says, ScriptedModel
from foveate.tools import registry, tool
from foveate.tools.workspace import Workspace

MODEL = "scripted:storm"
WORKERS = 2
THINKING_SECONDS = 0.02
OUTPUT_TOKENS = 200
TOKENS_PER_AGENT = 40_000
"""Enough for each, with what interrupted calls keep reserved."""
KILL_SECONDS = (0.5, 2.5)
"""Between two kills."""
LIMIT_SECONDS = 600
_TASK = re.compile(r"task (\d+)\.")


class Broken(AssertionError):
    """What must never happen."""


@dataclass(slots=True)
class StormReport:
    """What a storm did."""

    agents: int = 0
    kills: int = 0
    interrupted: int = 0
    """Agents that were running in a worker when it was killed."""
    states: Counter[str] = field(default_factory=Counter)
    claims: int = 0
    refused: int = 0
    """Agents beyond the limit, refused."""
    most_open: int = 0
    tokens: int = 0
    max_tokens: int = 0
    seconds: float = 0.0


@tool
def sign(workspace: Workspace, number: int) -> str:
    """Write the number into the book, once."""
    with (workspace.roots[0] / "book.txt").open("a", encoding="utf-8") as book:
        book.write(f"{number}\n")
    time.sleep(THINKING_SECONDS)
    return f"Signed {number}.\n"


def reply(ask: Ask) -> Behaviour:
    """By what it is shown, so that any process answers the same."""
    said = "\n".join(message.text for message in ask.messages)
    number = int(_TASK.findall(said)[0])
    results = [result for message in ask.messages for result in message.tool_results if result.name == "sign"]
    worked = sum("Worked on" in message.text for message in ask.messages if message.role == "assistant")
    if not results:
        return Delays(THINKING_SECONDS, CallsTool("sign", {"number": number}, id=f"sign-{number}"))
    if worked < number % 3:
        return Delays(THINKING_SECONDS, Says(f"Worked on {number}, part {worked}."))
    return Delays(THINKING_SECONDS, CallsTool("finish", {"summary": f"Result {number * 7919}"}, id=f"f-{number}"))


def settings_for(agents: int) -> Settings:
    overrides = {
        "compress": {"enabled": False},
        "store": {"synchronous": "normal"},
        "tools": {"packs": {"book": ["sign"]}},
        "agents": {
            "lease_seconds": 3.0,
            "poll_seconds": 0.05,
            "concurrency": 8,
            "max_attempts": 20,
            "max_agents": agents,
            "max_tokens": TOKENS_PER_AGENT * agents,
        },
    }
    return load_settings(environment={}, overrides=overrides)


async def opened(path: Path, agents: int) -> Foveate:
    registry.register(sign)
    settings = settings_for(agents)
    model = ScriptedModel(reply, name=MODEL, price=Price(input=1.0, output=4.0))
    return Foveate(await open_store(str(path), settings.store), settings, load=lambda _name, _settings: model)


async def child(path: Path, agents: int) -> None:
    """A worker process; it writes its name."""
    fov = await opened(path, agents)
    worker = AgentWorker(fov)
    os.write(sys.stdout.fileno(), worker.owner.encode())
    try:
        await worker.run()
    finally:
        await fov.close()


class WorkerProcesses:
    """The worker processes of a storm."""

    def __init__(self, path: Path, agents: int) -> None:
        self._command = [sys.executable, __file__, "--child", str(path), "--agents", str(agents)]
        self._children = [self._start() for _ in range(WORKERS)]

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, stdout=subprocess.PIPE, bufsize=0)

    def kill(self, index: int) -> str:
        """Kill one, and start another in its place; the name of the one that was killed."""
        name = self.end(self._children[index])
        self._children[index] = self._start()
        return name

    def end_all(self) -> None:
        for process in self._children:
            self.end(process)

    @staticmethod
    def end(process: subprocess.Popen[bytes]) -> str:
        process.kill()
        name, _ = process.communicate()
        return name.decode()


async def storm(agents: int, share: float, directory: Path, seed: int = 1) -> StormReport:
    """Spawn, kill and wait; raises `Broken` if anything was lost, doubled, stuck or beyond a limit."""
    began = time.monotonic()
    chance = random.Random(seed)
    report = StormReport(agents=agents)
    fov = await opened(directory / "storm.db", agents)
    try:
        await fov.session("boss", model=MODEL)
        spawned = await asyncio.gather(*(_spawn(fov, number, directory) for number in range(agents)))
        report.refused = await _spawn_beyond(fov, directory)
        workers = WorkerProcesses(directory / "storm.db", agents)
        try:
            await _kill_and_wait(fov, workers, chance, report, wanted=round(agents * share))
        finally:
            workers.end_all()
        await _check(fov, [agent.id for agent in spawned], directory, report)
    finally:
        await fov.close()
    report.seconds = time.monotonic() - began
    return report


async def _spawn(fov: Foveate, number: int, directory: Path) -> AgentInfo:
    return await fov.agents.spawn(
        f"Do task {number}.",
        parent="boss",
        model=MODEL,
        packs=["book"],
        roots=[str(directory)],
        max_output_tokens=OUTPUT_TOKENS,
    )


async def _spawn_beyond(fov: Foveate, directory: Path) -> int:
    """As many again are refused, all at once."""
    refused = await asyncio.gather(*(_spawn(fov, -1, directory) for _ in range(20)), return_exceptions=True)
    if not all(isinstance(error, LimitReached) for error in refused):
        raise Broken("more agents were spawned than the tree may have")
    return len(refused)


async def _kill_and_wait(
    fov: Foveate, workers: WorkerProcesses, chance: random.Random, report: StormReport, *, wanted: int
) -> None:
    end = time.monotonic() + LIMIT_SECONDS
    pause_until = 0.0
    while True:
        found = await fov.agents.list(parent="boss")
        totals = await fov.agents.totals(found[0].id)
        report.most_open = max(report.most_open, totals.agents)
        report.tokens, report.max_tokens = totals.tokens, totals.limits.max_tokens
        if totals.agents > totals.limits.max_agents or totals.tokens > totals.limits.max_tokens:
            raise Broken(f"a limit was exceeded: {totals}")
        if totals.nano_usd > totals.limits.max_nano_usd:
            raise Broken(f"the tree spent more than it may: {totals}")
        if not totals.agents:
            return
        if time.monotonic() > end:
            raise Broken(f"stuck: {Counter(agent.state for agent in found)}")
        running = [agent for agent in found if agent.state == "running"]
        if running and report.interrupted < wanted and time.monotonic() >= pause_until:
            name = workers.kill(chance.randrange(WORKERS))
            rows = await fov.agents.rows.list_agents(state="running")
            report.kills += 1
            report.interrupted += sum(row.owner == name for row in rows)
            pause_until = time.monotonic() + chance.uniform(*KILL_SECONDS)
        await asyncio.sleep(0.05)


async def _check(fov: Foveate, ids: list[str], directory: Path, report: StormReport) -> None:
    ended = {agent.id: agent for agent in await fov.agents.list(parent="boss")}
    report.states = Counter(agent.state for agent in ended.values())
    rows = [await fov.agents.rows.get(agent_id) for agent_id in ids]
    report.claims = sum(row.claims for row in rows)
    if sorted(ended) != sorted(ids):
        raise Broken("an agent is missing")
    if set(report.states) != {"done"}:
        raise Broken(
            f"not all are done: {report.states}; {[agent.problem for agent in ended.values() if agent.problem]}"
        )
    for number, agent_id in enumerate(ids):
        if ended[agent_id].result != f"Result {number * 7919}":
            raise Broken(f"agent {number} has the result {ended[agent_id].result!r}")
    signed = Counter((directory / "book.txt").read_text("utf-8").split())
    doubled = [number for number, times in signed.items() if times > 1]
    if doubled:
        raise Broken(f"calls were repeated: {doubled}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--agents", type=int, default=100)
    parser.add_argument("--killed", type=float, default=0.3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--child")
    options = parser.parse_args()
    if options.child:
        asyncio.run(child(Path(options.child), options.agents))
        return
    with tempfile.TemporaryDirectory() as directory:
        report = asyncio.run(storm(options.agents, options.killed, Path(directory), options.seed))
    print(f"{report.agents} agents on {WORKERS} workers, {report.kills} kills, {report.interrupted} agents interrupted")
    print(f"states: {dict(report.states)}; claims: {report.claims}; {report.refused} beyond the limit refused")
    print(f"most agents open: {report.most_open}; tokens: {report.tokens:,} of {report.max_tokens:,}")
    print(f"no result lost or doubled, none stuck, no limit exceeded; {report.seconds:.1f} s")


if __name__ == "__main__":
    main()
