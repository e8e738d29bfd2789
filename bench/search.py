"""What a search costs: `python bench/search.py` prints CPU time at 1,000, 10,000 and 100,000 turns, and an import's.

The turns are those of the demo conversation, each of 10,000 made once and told again beyond that; the questions are
those about its planted facts, in other words than the facts, and their keywords.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

import foveate
from conversation import make_conversation
from foveate.recall.embed import STATIC
from foveate.recall.embed.static import StaticEmbedder
from foveate.recall.passages import index_turn
from foveate.renditions import without_recalled
from foveate.settings import load_settings
from foveate.store import Store, open_store
from foveate.store.rows import NewPassages
from foveate.store.settings import StoreSettings
from store_turns import agent_turns, endless
from support.stores import new_session

SIZES = (1_000, 10_000, 100_000)
DISTINCT_TURNS = 10_000
ROUND_TURNS = 5_000
BATCH = 500
LIMIT = 10
RECORDED_TURNS = 400
IMPORTS = 5
SESSIONS = 2_000
SESSION_TURNS = 10
SECOND_US = 1_000_000


def entries(turns: int) -> Iterator[NewPassages]:
    """As many turns' entries as asked for."""
    made: list[NewPassages] = []
    for seed in range(-(-min(turns, DISTINCT_TURNS) // ROUND_TURNS)):
        for turn in make_conversation(min(turns, ROUND_TURNS), seed + 42).turns:
            kept = without_recalled(turn.messages)
            made.append(index_turn(1, kept, at_us=SECOND_US, embeddings=STATIC))
    for number, entry in enumerate(islice(cycle(made), turns), 1):
        yield replace(entry, turn=number, at_us=number * SECOND_US)


def questions() -> list[str]:
    facts = make_conversation(300).facts
    return [fact.question for fact in facts] + [fact.needle for fact in facts]


async def fill(store: Store, turns: int) -> int:
    """An index of so many turns; how many passages it has."""
    await store.create_session(new_session())
    batch: list[NewPassages] = []
    passages = 0
    for entry in entries(turns):
        batch.append(entry)
        passages += len(entry.texts)
        if len(batch) == BATCH:
            await store.passages.add("s", batch)
            batch = []
    await store.passages.add("s", batch)
    return passages


def spread(seconds: Sequence[float]) -> str:
    ordered = sorted(seconds)
    worst = ordered[int(len(ordered) * 0.95)]
    middle = statistics.median(ordered)
    return f"mean {statistics.mean(ordered) * 1e3:6.2f}  median {middle * 1e3:6.2f}  p95 {worst * 1e3:6.2f} ms"


async def measure(folder: Path, turns: int) -> None:
    """A search in one session of so many turns."""
    path = folder / f"search-{turns}.db"
    if not path.exists():
        store = await open_store(str(path), StoreSettings(synchronous="normal"))
        await fill(store, turns)
        await store.close()
    async with foveate.open(path, settings=quiet()) as fov:
        passages = (await fov.index_state()).passages
        began = time.process_time()
        await fov.search("warm up", session_id="s")
        loaded = time.process_time() - began
        held = f"{turns:>7,} turns  {passages:>8,} passages  {path.stat().st_size / turns:,.0f} bytes a turn"
        print(f"{held}  loaded in {loaded:.2f} s of CPU")
        for name in ("each asked for the first time", "again"):
            taken = []
            for question in questions():
                began = time.process_time()
                await fov.search(question, LIMIT, session_id="s")
                taken.append(time.process_time() - began)
            print(f"        {name:<30} CPU {spread(taken)}")


async def measure_all(folder: Path, sessions: int) -> None:
    """A search over all of so many sessions of ten turns: the first one, as a new process has it, and later ones."""
    path = folder / f"search-{sessions}-sessions.db"
    if not path.exists():
        store = await open_store(str(path), StoreSettings(synchronous="normal"))
        made = entries(sessions * SESSION_TURNS)
        for number in range(sessions):
            await store.create_session(replace(new_session(), id=f"s{number}"))
            own = [replace(entry, turn=turn) for turn, entry in enumerate(islice(made, SESSION_TURNS), 1)]
            await store.passages.add(f"s{number}", own)
        await store.close()
    async with foveate.open(path, settings=quiet()) as fov:
        taken = []
        for question in questions():
            began = time.process_time()
            await fov.search(question, LIMIT)
            taken.append(time.process_time() - began)
        print(f"{sessions:>7,} sessions of {SESSION_TURNS} turns: first search {taken[0]:.2f} s of CPU")
        print(f"        {'later ones':<30} CPU {spread(taken[1:])}")


def quiet() -> foveate.Settings:
    """Settings without background work."""
    return load_settings(environment={}, overrides={"compress": {"enabled": False, "processes": 0}})


async def recorded(path: Path, *, is_indexed: bool) -> tuple[float, float, float]:
    """Record some turns and settle: the median of a record, the CPU of all, and the time to the end."""
    settings = load_settings(environment={}, overrides={"compress": {"processes": 0}})
    async with foveate.open(path, settings=settings) as fov:
        if not is_indexed:
            fov._worker._embeddings = None  # type: ignore[assignment]
        session = await fov.session("s")
        taken = []
        began, cpu = time.perf_counter(), time.process_time()
        for turn in islice(endless(agent_turns()), RECORDED_TURNS):
            start = time.perf_counter()
            await session.record(turn)
            taken.append(time.perf_counter() - start)
        await fov.settle()
        return statistics.median(taken), time.process_time() - cpu, time.perf_counter() - began


async def import_cost(folder: Path) -> None:
    """What the index adds, in this one process; by default another one compresses and indexes."""
    agent_turns()
    await StaticEmbedder().embed(["loads the model"])
    await recorded(folder / f"recorded-{os.getpid()}.db", is_indexed=True)  # the first one loads everything
    found: dict[bool, list[tuple[float, float, float]]] = {True: [], False: []}
    for number in range(2 * IMPORTS):
        is_indexed = number % 2 == 0
        path = folder / f"recorded-{os.getpid()}-{number}.db"
        found[is_indexed].append(await recorded(path, is_indexed=is_indexed))
    medians = {
        is_indexed: [statistics.median(column) for column in zip(*own, strict=True)]
        for is_indexed, own in found.items()
    }
    for is_indexed, (record, cpu, wall) in medians.items():
        name = "with the index" if is_indexed else "without it"
        print(
            f"{RECORDED_TURNS} turns recorded and settled {name:<15}"
            f"record {record * 1e3:.2f} ms, CPU {cpu:.2f} s, {wall:.2f} s in all (medians of {IMPORTS})"
        )
    print(f"        the index adds {medians[True][1] / medians[False][1] - 1:+.0%} of CPU")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, nargs="*", default=SIZES)
    parser.add_argument("--sessions", type=int, nargs="*", default=[SESSIONS])
    parser.add_argument("--folder", type=Path, help="Where indexes are kept, to be used again.")
    parser.add_argument("--no-import", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = given.folder or Path(made)
        folder.mkdir(exist_ok=True)
        for turns in given.turns:
            asyncio.run(measure(folder, turns))
        for sessions in given.sessions:
            asyncio.run(measure_all(folder, sessions))
        if not given.no_import:
            asyncio.run(import_cost(folder))


if __name__ == "__main__":
    main()
