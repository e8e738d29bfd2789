"""How long the first context takes after a store is opened, by the length of the history.

    python bench/first_context.py --turns 1000 10000 100000
    python bench/first_context.py --turns 10000 --strategies gradient --compressed
    python bench/first_context.py --compressed --folder /tmp/histories     keep the histories for the next run

Each strategy plans the history once. Then a new process opens the store and asks for a context with another prompt, and
for a second one. What a process loads once, whatever the history (the tokenizer's vocabulary, numpy, the embedding
model), is measured apart. CPU time is what is comparable on a busy machine.

With `--compressed` every turn gets its renditions and its entry in the index first, which takes minutes for many turns,
and a strategy that works up its history in the background has finished.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import foveate
from foveate import Message, Session, Text
from foveate.recall.embed.static import StaticEmbedder
from foveate.settings import Settings, load_settings
from foveate.strategy import names
from foveate.tokens import count_tokens

BATCH_TURNS = 2_000
BUDGET_TOKENS = 32_000
BUILT_SECONDS = 0.2
"""Pause between two looks whether a strategy has worked up its history."""
PROMPT = "What did we decide about the harbour?"
NEXT_PROMPT = "How many GB did the ledger of site 4,711 take?"
HOSTS = ("harbour", "ledger", "mailer", "index", "cache", "queue")


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds, elapsed and of CPU."""

    elapsed: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Opened:
    """What a new process took."""

    loads: Timing
    """Libraries and models."""
    first: Timing
    second: Timing
    is_meanwhile: bool
    """The gradient showed the history, because the strategy has not worked it up yet."""


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


async def plan(path: Path, strategy: str, *, compressed: bool) -> None:
    async with foveate.open(path, settings=settings(compressed=False)) as fov:
        session = await fov.session("s", strategy=strategy)
        while True:
            _, is_meanwhile = await _timed(session, PROMPT)
            if not (is_meanwhile and compressed):
                break
            await asyncio.sleep(BUILT_SECONDS)


async def measure(path: Path) -> Opened:
    """In this process, which has opened nothing yet."""
    started = _now()
    count_tokens("loads the vocabulary")
    import foveate.recall.index

    await StaticEmbedder().embed(["loads the model"])
    loads = _since(started)
    async with foveate.open(path, settings=settings(compressed=False)) as fov:
        session = await fov.open_session("s")
        first, is_meanwhile = await _timed(session, NEXT_PROMPT)
        second, _ = await _timed(session, PROMPT)
    return Opened(loads, first, second, is_meanwhile)


async def _timed(session: Session, prompt: str) -> tuple[Timing, bool]:
    started = _now()
    context = await session.context(prompt)
    return _since(started), "meanwhile" in context.planned.notes


def _now() -> Timing:
    return Timing(time.perf_counter(), time.process_time())


def _since(started: Timing) -> Timing:
    now = _now()
    return Timing(now.elapsed - started.elapsed, now.cpu - started.cpu)


def measured(path: Path) -> Opened:
    """By a new process."""
    done = subprocess.run(
        [sys.executable, __file__, "--measure", str(path)], check=True, capture_output=True, text=True
    )
    found = json.loads(done.stdout)
    is_meanwhile = found.pop("is_meanwhile")
    return Opened(**{name: Timing(**values) for name, values in found.items()}, is_meanwhile=is_meanwhile)


def print_rows(turns: int, path: Path, *, strategies: list[str], compressed: bool) -> None:
    for strategy in strategies:
        asyncio.run(plan(path, strategy, compressed=compressed))
        found = measured(path)
        cells = [f"{each.elapsed:.3f} ({each.cpu:.3f})" for each in (found.first, found.second, found.loads)]
        name = f"{strategy}, shown by gradient meanwhile" if found.is_meanwhile else strategy
        print(f"| {turns:,} | {name} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--strategies", nargs="+", default=list(names()))
    parser.add_argument("--compressed", action="store_true")
    parser.add_argument("--folder", type=Path, help="where histories are kept, to be used again")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(asdict(asyncio.run(measure(options.measure)))))
        return
    print(
        "| turns | strategy | first context, s (CPU) | second, s (CPU) | libraries and models, s (CPU) |\n"
        "| --- | --- | --- | --- | --- |"
    )
    with tempfile.TemporaryDirectory() as made:
        folder = options.folder or Path(made)
        folder.mkdir(exist_ok=True)
        for turns in options.turns:
            path = folder / f"first-{turns}{'-compressed' if options.compressed else ''}.db"
            if not path.exists():
                asyncio.run(fill(path, turns, compressed=options.compressed))
            print_rows(turns, path, strategies=options.strategies, compressed=options.compressed)


if __name__ == "__main__":
    main()
