"""Same state, same bytes: pairs of equal `context()` calls while the background works, compared byte by byte.

    python bench/repeat.py --pairs 2000

Turns of the demo conversation are recorded, and after each the same context is requested twice through two handles. A
pair that differs is explained if the background stored something between the two calls, or if recall missed its
deadline (`notes["recall_late"]`). Any other difference is a fault.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sqlite3
import tempfile
from collections import Counter
from pathlib import Path

import foveate
from conversation import make_conversation
from foveate.context.context import Context
from foveate.settings import load_settings
from foveate.strategy import names

BUDGETS = (6_000, 16_000, 48_000)
PROMPTS = ("", "And now?", "Which port does the staging database listen on?", "What did we decide about the ledger?")
TURNS = 120
WRITTEN = ("renditions", "eras", "passages", "artefacts", "states")
"""Tables that the background writes and contexts read."""


def stored(path: Path) -> tuple[object, ...]:
    """Changes whenever the background has stored something."""
    with sqlite3.connect(path) as connection:
        found = [connection.execute(f"SELECT count(*), max(rowid) FROM {table}").fetchone() for table in WRITTEN]
        digests = connection.execute("SELECT digest FROM states UNION ALL SELECT digest FROM artefacts").fetchall()
    connection.close()
    return (*found, *sorted(digests))


def sent(context: Context) -> str:
    return json.dumps(context.request("openai"), sort_keys=True)


async def sweep(path: Path, strategy: str, budget: int, seed: int, counts: Counter[str]) -> None:
    chance = random.Random(seed)
    settings = load_settings(environment={}, overrides={"compress": {"quiet_seconds": 0.05}})
    async with foveate.open(path, settings=settings) as fov:
        session = await fov.session("s", strategy=strategy, budget_tokens=budget)
        twin = await fov.session("s")
        for turn in make_conversation(TURNS, seed).turns:
            await session.record(turn)
            await asyncio.sleep(chance.choice([0, 0, 0.01, 0.05]))
            prompt = chance.choice(PROMPTS)
            before = stored(path)
            one = await session.context(prompt)
            two = await chance.choice([session, twin]).context(prompt)
            between = stored(path) != before
            counts["pairs"] += 1
            if sent(one) == sent(two):
                continue
            late = [context.planned.notes.get("recall_late") for context in (one, two)]
            reason = "recall was late" if any(late) else "the background stored something" if between else "unexplained"
            counts[reason] += 1
            if reason == "unexplained":
                print(f"{strategy} {budget} seed {seed} {turn.id} {prompt!r}: {one.planned} / {two.planned}")


async def main(pairs: int) -> None:
    counts: Counter[str] = Counter()
    seed = 0
    while counts["pairs"] < pairs:
        for strategy in names():
            with tempfile.TemporaryDirectory() as folder:
                budget = BUDGETS[seed % len(BUDGETS)]
                await sweep(Path(folder) / "s.db", strategy, budget, seed, counts)
            seed += 1
            print(dict(counts), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=2_000)
    asyncio.run(main(parser.parse_args().pairs))
