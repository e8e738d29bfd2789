"""What a long session costs: `record` and `get_turn` in sessions of several lengths. Prints JSON.

python store_growth.py DIRECTORY SAMPLES LENGTH…
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import statistics
import sys
import time
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import foveate
from foveate.formats import parse_messages
from foveate.store.codec import draft_messages
from store_turns import chat_turns, endless

FILL_TURNS = 2_000
WORKING_SIZE_TURNS = 3 * FILL_TURNS
"""Put into each file first: a write-ahead log that still grows makes every fsync slower, whatever the session."""
WARM_UP_TURNS = 20
READS = 3_000


@dataclass(frozen=True, slots=True)
class Cost:
    """Of single calls in a session of so many turns."""

    turns: int
    record_p50_ms: float
    record_p99_ms: float
    record_cpu_ms: float
    """Of all threads: what the disk's moods leave alone."""
    get_turn_cpu_ms: float


async def fill(session: foveate.Session, turns: int) -> None:
    """So many turns in a few large batches; their drafts are made once."""
    messages = [message for turn in itertools.islice(endless(chat_turns()), FILL_TURNS) for message in turn]
    parsed = parse_messages(cast("list[Any]", messages))
    engine = session.engine
    drafts = await draft_messages(parsed, None, [None] * len(parsed), engine.sizes, engine.compression_level)
    for start in range(0, turns, FILL_TURNS):
        await engine.append(drafts[: 2 * min(FILL_TURNS, turns - start)])


async def measure(directory: Path, samples: int, lengths: list[int]) -> list[Cost]:
    """Sessions of all lengths are recorded into by turns, so that what disturbs one disturbs all."""
    async with AsyncExitStack() as stack:
        sessions: dict[int, foveate.Session] = {}
        for length in lengths:
            fov = await stack.enter_async_context(foveate.open(directory / f"{length}.db"))
            await fill(await fov.session("another"), WORKING_SIZE_TURNS)
            sessions[length] = await fov.session("a")
            await fill(sessions[length], length)
        given = endless(chat_turns())
        taken: dict[int, list[float]] = {length: [] for length in lengths}
        worked: dict[int, list[float]] = {length: [] for length in lengths}
        for number in range(samples + WARM_UP_TURNS):
            turn = cast("list[dict[str, Any]]", next(given))
            for length in random.sample(lengths, len(lengths)):
                began, cpu = time.perf_counter(), time.process_time()
                await sessions[length].record(turn)
                if number >= WARM_UP_TURNS:
                    taken[length].append((time.perf_counter() - began) * 1000)
                    worked[length].append((time.process_time() - cpu) * 1000)
        return [
            Cost(
                turns=length,
                record_p50_ms=statistics.median(taken[length]),
                record_p99_ms=statistics.quantiles(taken[length], n=100)[98],
                record_cpu_ms=statistics.median(worked[length]),
                get_turn_cpu_ms=await read_cost(session, length),
            )
            for length, session in sessions.items()
        ]


async def read_cost(session: foveate.Session, length: int) -> float:
    """CPU of all threads for one `get_turn`, in ms."""
    await session.get_turn(1)
    began = time.process_time()
    for _ in range(READS):
        await session.get_turn(f"T-{random.randint(1, length)}")
    return (time.process_time() - began) / READS * 1000


def main() -> None:
    directory, samples, *lengths = sys.argv[1:]
    costs = asyncio.run(measure(Path(directory), int(samples), [int(length) for length in lengths]))
    print(json.dumps([asdict(cost) for cost in costs]))


if __name__ == "__main__":
    main()
