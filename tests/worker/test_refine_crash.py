"""A process that is killed while models are asked: nothing is made twice, and no turn costs more than its limit."""

import asyncio
import os
import random
import re
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from foveate.models import Ask
from foveate.testing.scripted import Behaviour, Delays, Fails
from support.refining import MODEL, honest, kept, scripted_store, talk, with_model

TURNS = 12
MAX_CALLS = 4
LEASE_SECONDS = 0.5
KILLS = 2
SETTINGS = with_model(max_calls_per_turn=MAX_CALLS, max_retries=1, lease_seconds=LEASE_SECONDS, timeout_seconds=60)


def script(log: Path, chance: random.Random, delay_seconds: float):  # type: ignore[no-untyped-def]
    """Notes each request in a file before anything comes of it."""

    def choose(ask: Ask) -> Behaviour:
        found = re.search(r"backup of (db-\d+) ", ask.messages[1].text)
        assert found
        with log.open("a") as file:
            file.write(f"{found[1]}\n")
        then = Fails("server") if chance.random() < 0.3 else honest(ask)
        return Delays(delay_seconds, then)

    return choose


async def work(path: Path, log: Path, seed: int) -> None:
    """Record on the first run; then work until killed."""
    async with scripted_store(path, script(log, random.Random(seed), 0.05), SETTINGS) as (fov, _):
        session = await fov.session("s")
        if not (await session.stats()).turns:
            await talk(session, TURNS)
        while True:
            await fov.settle()
            os.write(1, b".")
            await asyncio.sleep(0.05)


def test_a_killed_process_doubles_no_version_and_exceeds_no_bound(tmp_path: Path) -> None:
    path, log = tmp_path / "chat.db", tmp_path / "asked.txt"
    chance = random.Random(3)
    for seed in range(KILLS):
        child = subprocess.Popen(
            [sys.executable, __file__, str(path), str(log), str(seed)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
        )
        asked = log.read_text() if log.exists() else ""
        deadline = time.monotonic() + 60
        while (log.read_text() if log.exists() else "") == asked and child.poll() is None:
            if time.monotonic() > deadline or not _waits(path):
                break
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.2))
        child.kill()
        child.communicate()

    async def finish() -> None:
        async with scripted_store(path, script(log, chance, 0), SETTINGS) as (fov, _):
            session = await fov.session("s")
            for _ in range(MAX_CALLS + 1):
                await fov.settle()
            stats = await session.stats()
            assert (stats.rendered + stats.fallbacks, stats.waiting, stats.pending) == (TURNS + 1, 0, 0)
            assert stats.by_model > 0
            assert len(await session.get_turns(1, TURNS + 1, "T")) == TURNS + 1

    asyncio.run(finish())
    assert max(Counter(log.read_text().split()).values()) <= MAX_CALLS
    assert not kept(path, "turn", "GROUP BY turn, messages, maker, version HAVING count(*) > 1")
    assert len(kept(path, "turn", f"WHERE maker = '{MODEL}'")) == len(kept(path, "turn", "WHERE turn <= 12")) - TURNS
    assert max(calls for (calls,) in kept(path, "calls")) <= MAX_CALLS


def _waits(path: Path) -> bool:
    """False once everything is recorded and nothing is due any more."""
    try:
        return not kept(path, "id") or bool(kept(path, "id", "WHERE due_us IS NOT NULL AND turn <= 12"))
    except sqlite3.Error:  # the file is being made
        return True


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])))
