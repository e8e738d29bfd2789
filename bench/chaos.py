"""Chaos: workers and writers on one PostgreSQL database are killed every second, and the database is restarted.

    python bench/chaos.py                      # 10 minutes, 4 workers, 8 writers, a restart each minute
    python bench/chaos.py --seconds 60

A writer notes each turn that `record` acknowledged. At the end every noted turn must be there, once; every turn must
have its rendition, once; no job may be lost or stuck; and `doctor` must find nothing. The first sign of damage ends it
with an error.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import psycopg

import foveate
from foveate.errors import StoreError
from foveate.settings import Settings, load_settings
from support.postgres import LocalServer

WORKERS = 4
WRITERS = 8
RESTART_SECONDS = 60.0
SESSIONS_PER_WRITER = 3
LEASE_SECONDS = 3.0
SETTLE_SECONDS = 60.0
DURABLE = """
shared_buffers = 64MB
max_connections = 200
wal_level = replica
"""
"""Unlike in tests, everything is synced."""
LACKING = """SELECT count(*) FROM (SELECT session, turn, count(*) AS messages FROM messages GROUP BY session, turn) t
    WHERE NOT EXISTS (SELECT 1 FROM renditions r
    WHERE r.session = t.session AND r.turn = t.turn AND r.messages = t.messages)"""
DOUBLED = """SELECT count(*) FROM (SELECT 1 FROM renditions GROUP BY session, turn, messages, maker, version
    HAVING count(*) > 1) d"""
KEYS = "SELECT key, count(*) FROM messages WHERE key LIKE 'w%' GROUP BY key"


class Lost(AssertionError):
    """What must never happen."""


@dataclass(slots=True)
class ChaosReport:
    """What a run did."""

    seconds: float = 0.0
    kills: int = 0
    restarts: int = 0
    acknowledged: int = 0
    """Turns that `record` returned for."""
    turns: int = 0
    """Turns in the database: a turn whose writer was killed before the answer counts too."""
    renditions: int = 0
    coarse: int = 0
    """Turns that were parked, because five workers in a row were killed while they had them."""
    settle_seconds: float = 0.0
    """From the last kill until nothing was left to do."""


def quick_settings(*, enabled: bool) -> Settings:
    compress = {"enabled": enabled, "processes": 0, "lease_seconds": LEASE_SECONDS, "quiet_seconds": 0.2}
    return load_settings(environment={}, overrides={"compress": compress, "store": {"readers": 2}})


class Process:
    """A worker or a writer that is started again after each kill; by a server of forks, which has imported Foveate."""

    context = multiprocessing.get_context("forkserver")

    def __init__(self, role: str, number: int, url: str, folder: Path) -> None:
        self._arguments = (role, number, url, folder)
        self.start()

    def start(self) -> None:
        self._process = self.context.Process(target=run_role, args=self._arguments)
        self._process.start()

    def kill(self) -> None:
        self._process.kill()
        self._process.join()

    def stop(self) -> int:
        self._process.terminate()
        self._process.join(timeout=60)
        return self._process.exitcode or 0

    def keep_alive(self) -> None:
        """Start it again if it ended by itself."""
        if not self._process.is_alive():
            self.start()


def run_role(role: str, number: int, url: str, folder: Path) -> None:
    """What a process does until it is killed; what it prints goes to a file."""
    log = os.open(folder / f"{role}-{number}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    asyncio.run(_work(url) if role == "worker" else _write(url, number, folder))


def chaos(seconds: float, folder: Path, *, seed: int = 1) -> ChaosReport:
    """Run, kill, restart, settle and verify."""
    server = LocalServer(folder / "postgres", DURABLE)
    report = ChaosReport()
    try:
        server.execute("CREATE DATABASE chaos TEMPLATE template0 LOCALE 'C' ENCODING 'UTF8'")
        url = server.url("chaos")
        asyncio.run(_create(url))
        began = time.monotonic()
        workers = [Process("worker", number, url, folder) for number in range(WORKERS)]
        writers = [Process("writer", number, url, folder) for number in range(WRITERS)]
        _storm(server, [*workers, *writers], seconds, random.Random(seed), report)
        for writer in writers:
            writer.kill()
        report.settle_seconds = asyncio.run(_settle(url, workers))
        for worker in workers:
            worker.keep_alive()
        ended = [worker.stop() for worker in workers]
        if any(ended):
            raise Lost(f"workers ended with {ended} at SIGTERM")
        asyncio.run(_verify(url, folder, report))
        report.seconds = time.monotonic() - began
    finally:
        server.stop()
    return report


def _storm(
    server: LocalServer, processes: list[Process], seconds: float, chance: random.Random, report: ChaosReport
) -> None:
    began = time.monotonic()
    while (passed := time.monotonic() - began) < seconds:
        time.sleep(1)
        victim = chance.choice(processes)
        victim.kill()
        victim.start()
        report.kills += 1
        for process in processes:
            process.keep_alive()
        if passed > (report.restarts + 0.5) * RESTART_SECONDS:
            server.restart("immediate")
            report.restarts += 1


async def _create(url: str) -> None:
    async with foveate.open(url, settings=quick_settings(enabled=False)) as fov:
        for number in range(WRITERS * SESSIONS_PER_WRITER):
            await fov.session(f"s{number}")


async def _settle(url: str, workers: list[Process]) -> float:
    """Wait until the workers have nothing left to do; as long as they make renditions, there is hope."""
    began = changed = time.monotonic()
    lacking = -1
    async with foveate.open(url, settings=quick_settings(enabled=False)) as fov:
        while time.monotonic() - changed < SETTLE_SECONDS:
            for worker in workers:
                worker.keep_alive()
            state = await fov.queue_state()
            if not state.sessions and not state.leased:
                return time.monotonic() - began
            left = await asyncio.to_thread(_lacking, url)
            if left != lacking:
                lacking, changed = left, time.monotonic()
            await asyncio.sleep(0.5)
    raise Lost(f"for {SETTLE_SECONDS:.0f} s nothing was done of what is left: {state}")


def _lacking(url: str) -> int:
    with psycopg.connect(url) as connection:
        (turns,) = connection.execute(LACKING).fetchone() or (0,)
    return int(turns)


async def _verify(url: str, folder: Path, report: ChaosReport) -> None:
    noted = Counter(line for number in range(WRITERS) for line in _notes(folder, number))
    report.acknowledged = len(noted)
    if not noted:
        raise Lost("no turn was recorded; the machine is too busy for this number of seconds")
    with psycopg.connect(url) as connection:
        stored = {key.partition("#")[0]: count for key, count in connection.execute(KEYS)}
        report.turns = len(stored)
        missing = [key for key in noted if key not in stored]
        if missing:
            raise Lost(f"{len(missing)} acknowledged turns are missing, such as {missing[0]}")
        for statement, what in ((LACKING, "turns lack renditions"), (DOUBLED, "renditions are doubled")):
            (count,) = connection.execute(statement).fetchone() or (0,)
            if count:
                raise Lost(f"{count} {what}")
        (report.renditions,) = connection.execute("SELECT count(*) FROM renditions").fetchone() or (0,)
    async with foveate.open(url, settings=quick_settings(enabled=False)) as fov:
        faults = [finding.problem async for finding in fov.check() if finding.problem]
        if faults:
            raise Lost(f"doctor: {faults}")
        state = await fov.queue_state()
        report.coarse = state.parked
        if state.leased or state.expired or state.sessions:
            raise Lost(f"jobs are stuck: {state}")


def _notes(folder: Path, number: int) -> list[str]:
    path = folder / f"acknowledged-{number}"
    return path.read_text().split() if path.exists() else []


async def _write(url: str, number: int, folder: Path) -> None:
    """Record turns one after another until killed; what was not acknowledged is recorded again with its key."""
    notes = os.open(folder / f"acknowledged-{number}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    run, count, key = f"{time.time_ns():x}", 0, ""
    while True:
        try:
            async with foveate.open(url, settings=quick_settings(enabled=False)) as fov:
                names = [f"s{number * SESSIONS_PER_WRITER + place}" for place in range(SESSIONS_PER_WRITER)]
                sessions = [await fov.session(name) for name in names]
                while True:
                    key = key or f"w{number}-{run}-{count}"
                    text = f"Port {8000 + count} answers on host {number}, says {key}. " * 8
                    turn = [{"role": "user", "content": text}, {"role": "assistant", "content": f"Noted {count}."}]
                    await sessions[count % SESSIONS_PER_WRITER].record(turn, key=key)
                    os.write(notes, f"{key}\n".encode())
                    key, count = "", count + 1
                    await asyncio.sleep(random.uniform(0, 0.05))
        except StoreError as error:
            print("again:", error, file=sys.stderr)
            await asyncio.sleep(0.1)


async def _work(url: str) -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    while not stopping.is_set():
        try:
            async with foveate.open(url, settings=quick_settings(enabled=True)) as fov:
                await fov.run_worker(is_stopping=stopping.is_set)
        except StoreError as error:
            print("again:", error, file=sys.stderr)
            await asyncio.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    Process.context.set_forkserver_preload(["foveate", "foveate.sync", "psycopg", "chaos"])
    with tempfile.TemporaryDirectory() as temporary:
        print(json.dumps(asdict(chaos(options.seconds, Path(temporary), seed=options.seed)), indent=2))


if __name__ == "__main__":
    main()
