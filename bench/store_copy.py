"""Copies of a large store: `python bench/store_copy.py` copies a file to PostgreSQL and back, with kills.

The store has one session of 100,000 turns with its search index, and a short one with a fork, renditions and eras. A
copy is the command `foveate store copy`, killed with SIGKILL when a third and when two thirds of the turns are there.
Then the hashes of all rows must be equal in all three stores, and searches are timed in the first two.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import count, cycle, islice
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

import foveate
from conversation import make_conversation
from foveate.recall.embed import STATIC
from foveate.recall.passages import index_turn
from foveate.settings import load_settings
from foveate.store import dialect_of
from foveate.store.copy import LIST_SESSIONS, StoreCopy, _rows
from foveate.store.rows import NewPassages
from foveate.store.settings import StoreSettings
from foveate.turn import Message
from postgres import timed
from search import questions, quiet, spread
from support.postgres import LocalServer

LONG = "s"
BATCH = 500
SECOND_US = 1_000_000
SERVER = "shared_buffers = 256MB\nmaintenance_work_mem = 1GB\nmax_wal_size = 4GB\n"


def turns_of(count: int) -> Iterator[list[Message]]:
    """Prompts with their last answers, those of the demo conversation again and again."""
    made = make_conversation(1_000).turns
    pairs = [[turn.messages[0], next(each for each in reversed(turn.messages) if each.text)] for turn in made]
    return islice(cycle(pairs), count)


async def fill(path: str, turns: int, settled: int) -> None:
    """Record the turns; those of the long session are indexed, those of the short one settled."""
    settings = load_settings(environment={}, overrides={"compress": {"processes": 0}})
    async with foveate.open(path, settings=settings) as fov:
        session = await fov.session("short")
        for messages in turns_of(settled):
            await session.record(messages)
        fork = await session.fork("fork", f"T-{settled // 2}")
        await fork.record([{"role": "user", "content": "Which port is it?"}])
        await fov.settle()
        await session.context("Which port is it?", budget_tokens=8_000)
    entries = _entries()
    async with foveate.open(path, settings=quiet()) as fov:
        session = await fov.session(LONG)
        waiting = list(turns_of(turns))
        for start in range(0, turns, BATCH):
            batch = waiting[start : start + BATCH]
            await asyncio.gather(*(session.record(each) for each in batch))
            await fov._store.passages.add(LONG, list(islice(entries, len(batch))))


def _entries() -> Iterator[NewPassages]:
    made: dict[str, NewPassages] = {}
    for number, messages in zip(count(1), turns_of(sys.maxsize), strict=False):
        text = messages[0].text + messages[1].text
        if text not in made:
            made[text] = index_turn(1, messages, at_us=SECOND_US, embeddings=STATIC)
        entry = made[text]
        yield NewPassages(
            turn=number,
            messages=entry.messages,
            at_us=number * SECOND_US,
            maker=entry.maker,
            texts=entry.texts,
            embedded=entry.embedded,
            marks=entry.marks,
            vectors=entry.vectors,
        )


def copied_turns(location: str) -> int:
    """Turns of the long session that the target has so far."""
    if "://" not in location and not Path(location).exists():
        return 0
    dialect = dialect_of(location, StoreSettings())
    try:
        connection = dialect.connect(read_only=True)
        with dialect.errors(), dialect.read(connection):
            row = connection.execute("SELECT last_turn FROM sessions WHERE id = :id", {"id": LONG}).fetchone()
        return int(row[0]) if row else 0
    except foveate.FoveateError:
        return 0  # it has no tables yet
    finally:
        dialect.close()


def copy(source: str, target: str, turns: int) -> None:
    """Run the command, kill it twice, and let it finish."""
    command = [sys.executable, "-m", "foveate", "copy", source, target]
    began = time.perf_counter()
    for share in (1 / 3, 2 / 3):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while copied_turns(target) < share * turns:
            if process.poll() is not None:
                raise SystemExit(f"the copy ended with {process.returncode} before it could be killed")
            time.sleep(0.2)
        process.kill()
        process.wait()
        print(f"killed at {copied_turns(target):,} turns", flush=True)
    subprocess.run(command, check=True)
    print(f"{source} to {target}: {time.perf_counter() - began:.0f} s", flush=True)


def digests(location: str, other: str) -> dict[str, str]:
    """The hash of every session."""
    settings = StoreSettings()
    dialect = dialect_of(location, settings)
    try:
        reader = StoreCopy(dialect, dialect_of(other, settings), settings)
        rows = reader._read_source(lambda: _rows(reader._from, LIST_SESSIONS, {}))
        return {row["id"]: str(reader._digest(dialect, reader._from, row)) for row in rows}
    finally:
        dialect.close()


async def search(kind: str, location: str) -> None:
    """Searches in the long session and over all sessions."""
    for session_id, where in ((LONG, "one session"), (None, "all sessions")):
        async with foveate.open(location, settings=quiet()) as fov:
            first = await timed(fov, "warm up", session_id)
            taken = [await timed(fov, question, session_id) for question in questions()]
        print(f"{kind:<10} search in {where}: first {first:.2f} s, later {spread(taken)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=100_000)
    parser.add_argument("--settled", type=int, default=300)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        first, last = str(Path(folder) / "first.db"), str(Path(folder) / "last.db")
        began = time.perf_counter()
        asyncio.run(fill(first, given.turns, given.settled))
        print(f"{given.turns:,} turns recorded and indexed in {time.perf_counter() - began:.0f} s", flush=True)
        server = LocalServer(Path(folder) / "postgres", SERVER)
        try:
            server.execute("CREATE DATABASE copy TEMPLATE template0 LOCALE 'C' ENCODING 'UTF8'")
            url = server.url("copy")
            copy(first, url, given.turns)
            copy(url, last, given.turns)
            found = [digests(location, other) for location, other in ((first, last), (url, last), (last, first))]
            if not found[0] == found[1] == found[2]:
                raise SystemExit(f"the stores differ: {found}")
            print(f"equal by hash: {', '.join(found[0])}", flush=True)
            for kind, location in (("SQLite", first), ("PostgreSQL", url)):
                asyncio.run(search(kind, location))
        finally:
            server.stop()


if __name__ == "__main__":
    main()
