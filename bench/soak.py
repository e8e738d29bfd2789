"""A running server under load: 64 clients, each with a session of its own, record, assemble and search at once.

    python bench/soak.py                              # 15 minutes
    python bench/soak.py --seconds 120 --clients 64

The server is a process of its own, with the default settings and no limit of requests per minute. Each client repeats
a round without a pause: record a turn (sentences of `bench/conversation`), assemble a context with recall; every fourth
round searches its session, every eighth searches by MCP. A 503 is followed by a pause as its `Retry-After` says, and is
counted apart. Reported: milliseconds by kind of request, errors, the turns without renditions or index entries at
the end and the seconds until there are none, and the server's memory and the database's size during the run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx2

import foveate.sync as foveate
from conversation import make_conversation
from foveate.settings import load_settings

KINDS = ("record", "context", "search", "mcp")
SEARCH_EVERY, MCP_EVERY = 4, 8
TIMEOUT_SECONDS = 120.0
SAMPLES = 30
"""Moments at which memory and size are noted."""
BUDGET_TOKENS = 8_000
OFF = load_settings(environment={}, overrides={"compress": {"enabled": False}})
"""Reads the store beside the server, and leaves its work to it."""


@dataclass(slots=True)
class SoakReport:
    """Milliseconds by kind of request, failures, and what is left for the background at the end."""

    seconds: float
    clients: int
    requests: int = 0
    milliseconds: dict[str, dict[str, float]] = field(default_factory=dict)
    rejected: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    turns: int = 0
    unfinished_turns: int = 0
    settle_seconds: float = 0.0
    megabytes: list[int] = field(default_factory=list)
    database_megabytes: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Load:
    """The clients of one run."""

    client: httpx2.AsyncClient
    texts: list[str]
    until: float
    taken: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    errors: Counter[str] = field(default_factory=Counter)
    rejected: int = 0

    async def play(self, number: int) -> None:
        """Repeat rounds in a session of its own."""
        chance = random.Random(number)
        session = f"/api/v1/sessions/client-{number}"
        await self.client.post("/api/v1/sessions", json={"id": f"client-{number}", "budget_tokens": BUDGET_TOKENS})
        turn = 0
        while time.monotonic() < self.until:
            turn += 1
            said, heard, asked = (chance.choice(self.texts) for _ in range(3))
            messages = [{"role": "user", "content": said}, {"role": "assistant", "content": heard}]
            await self.send("record", "POST", f"{session}/turns", {"messages": messages})
            await self.send("context", "POST", f"{session}/context", {"prompt": asked})
            if turn % SEARCH_EVERY == 0:
                await self.send("search", "GET", f"{session}/search?q={words(asked)}")
            if turn % MCP_EVERY == 0:
                arguments = {"session": f"client-{number}", "query": words(asked)}
                call = {"name": "search_history", "arguments": arguments}
                await self.send(
                    "mcp", "POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
                )

    async def send(self, kind: str, method: str, path: str, body: Mapping[str, Any] | None = None) -> None:
        """Send one request until it is not rejected for load."""
        headers = {"accept": "application/json, text/event-stream"}
        while True:
            began = time.perf_counter()
            try:
                answer = await self.client.request(method, path, json=body, headers=headers)
            except httpx2.HTTPError as error:
                self.errors[f"{kind}: {type(error).__name__}"] += 1
                return
            if answer.status_code == 503:
                self.rejected += 1
                await asyncio.sleep(float(answer.headers.get("retry-after", 1)))
                continue
            self.taken[kind].append((time.perf_counter() - began) * 1000)
            if answer.status_code >= 400:
                self.errors[f"{kind}: {answer.status_code}"] += 1
            return


def words(text: str) -> str:
    return " ".join(text.split()[:6]).replace("&", "").replace("#", "")


async def soak(options: argparse.Namespace, folder: Path) -> SoakReport:
    db = folder / "soak.db"
    server, url = start(db)
    texts = [message.text for turn in make_conversation(60).turns for message in turn.messages if message.text.strip()]
    report = SoakReport(options.seconds, options.clients)
    try:
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=options.clients)
        async with httpx2.AsyncClient(base_url=url, timeout=TIMEOUT_SECONDS, limits=limits) as client:
            load = Load(client, texts, time.monotonic() + options.seconds)
            playing = asyncio.gather(*(load.play(number) for number in range(options.clients)))
            while not playing.done():
                await asyncio.wait([playing], timeout=options.seconds / SAMPLES)
                report.megabytes.append(memory(server.pid))
                report.database_megabytes.append(size(folder))
            await playing
            began = time.perf_counter()
            with foveate.open(db, settings=OFF) as fov:
                report.turns = sum(session.turns for session in fov.sessions())
                report.unfinished_turns = fov.index_state().missing
            for number in range(options.clients):
                await client.post(f"/api/v1/sessions/client-{number}/settle")
            report.settle_seconds = round(time.perf_counter() - began, 1)
    finally:
        server.send_signal(signal.SIGKILL)
        server.wait()
    report.requests = sum(map(len, load.taken.values()))
    report.milliseconds = {kind: spread(load.taken[kind]) for kind in KINDS if load.taken[kind]}
    report.rejected, report.errors = load.rejected, dict(load.errors)
    return report


def start(db: Path) -> tuple[subprocess.Popen[str], str]:
    """Start a server on a new store; return it and its address."""
    environment = os.environ | {"FOVEATE_DB": str(db), "FOVEATE_SERVER__REQUESTS_PER_MINUTE": "0"}
    command = [sys.executable, "-m", "foveate", "serve", "--port", "0", "--json"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert server.stdout
    return server, json.loads(server.stdout.readline())["url"]


def memory(pid: int) -> int:
    """Megabytes of a process and of its children."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/status"):
        try:
            lines = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
        except OSError:
            continue
        if str(pid) in (lines["Pid"].strip(), lines["PPid"].strip()):
            found += int(lines.get("VmRSS", "0 kB").split()[0]) // 1000
    return found


def size(folder: Path) -> int:
    """Megabytes of the files in a folder."""
    return sum(path.stat().st_size for path in folder.iterdir()) // 1_000_000


def spread(milliseconds: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(milliseconds, n=100, method="inclusive") if len(milliseconds) > 1 else milliseconds * 99
    return {
        "count": len(milliseconds),
        "p50": round(cuts[49]),
        "p99": round(cuts[98]),
        "most": round(max(milliseconds)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=900.0)
    parser.add_argument("--clients", type=int, default=64)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = asyncio.run(soak(options, Path(folder)))
    print(json.dumps(asdict(report), indent=1))


if __name__ == "__main__":
    main()
