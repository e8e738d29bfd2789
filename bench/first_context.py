"""How long the first context takes after a store is opened, by the length of the history.

    python bench/first_context.py --turns 1000 10000 100000
    python bench/first_context.py --turns 10000 --strategies gradient --compressed

Each strategy plans the history once, the store is closed, and a new process's first and second context are timed: what
is in memory only is gone. With `--compressed` every turn gets its renditions first, which takes a while.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

import foveate
from foveate import Message, Session, Text
from foveate.settings import Settings, load_settings
from foveate.strategy import names

BATCH_TURNS = 2_000
BUDGET_TOKENS = 32_000
PROMPT = "What did we decide about the harbour?"
HOSTS = ("harbour", "ledger", "mailer", "index", "cache", "queue")


def turn(number: int) -> list[Message]:
    host = HOSTS[number % len(HOSTS)]
    asked = f"Please check the {host} of site {number}, batch {number * 7}."
    told = f"The {host} of site {number} took {number * 13 % 997} GB and is complete. Next I will verify the checksum."
    return [Message("user", (Text(asked),)), Message("assistant", (Text(told),))]


def settings(*, compressed: bool) -> Settings:
    overrides: dict[str, object] = {"compress": {"enabled": compressed, "processes": 0}}
    return load_settings(environment={}, overrides={**overrides, "store": {"synchronous": "normal"}})


async def fill(path: Path, turns: int, *, compressed: bool) -> None:
    async with foveate.open(path, settings=settings(compressed=compressed)) as fov:
        session = await fov.session("s", budget_tokens=BUDGET_TOKENS)
        for first in range(1, turns + 1, BATCH_TURNS):
            last = min(turns, first + BATCH_TURNS - 1)
            await session.record([message for number in range(first, last + 1) for message in turn(number)])
        if compressed:
            await fov.settle()


async def timed(session: Session) -> float:
    start = time.perf_counter()
    await session.context(PROMPT)
    return time.perf_counter() - start


async def measure(path: Path, strategy: str) -> tuple[float, float, float]:
    """Seconds of the context that plans the history, and of the first and second one after the next opening."""
    async with foveate.open(path, settings=settings(compressed=False)) as fov:
        session = await fov.session("s", strategy=strategy)
        planned = await timed(session)
        await timed(session)
    async with foveate.open(path, settings=settings(compressed=False)) as fov:
        session = await fov.open_session("s")
        return planned, await timed(session), await timed(session)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--strategies", nargs="+", default=list(names()))
    parser.add_argument("--compressed", action="store_true")
    options = parser.parse_args()
    print(
        "| turns | strategy | planned anew, s | first after opening, s | second, s |\n| --- | --- | --- | --- | --- |"
    )
    for turns in options.turns:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "chat.db"
            asyncio.run(fill(path, turns, compressed=options.compressed))
            for strategy in options.strategies:
                planned, first, second = asyncio.run(measure(path, strategy))
                print(f"| {turns:,} | {strategy} | {planned:.3f} | {first:.3f} | {second:.3f} |", flush=True)


if __name__ == "__main__":
    main()
