"""How much conversation a budget holds, how all of it is reached, and what a turn costs as the conversation grows.

Run from the project's root: python bench/capacity.py [--quick] [--json] [--directory DIR]

Turns shown singly: turns of about 2,000 tokens, compressed by the local compressor; the largest number of which each
still has a text of its own. Reach: short made-up turns loaded straight into the file; from the context, eras are
opened with the history tools until the turn is there. Facts: planted in such turns, found by opening eras level by
level. Costs: CPU of this process.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

import foveate
from bulk import load, said_in
from conversation import make_conversation
from foveate.context.context import Context
from foveate.context.costs import overheads
from foveate.context.tags import TagBlock, parse_blocks
from foveate.history.sizes import SizeCache, gather
from foveate.settings import Settings, load_settings
from foveate.store import open_store
from foveate.strategy.gradient import Gradient
from foveate.text import turn_text
from foveate.tokens import O200K
from foveate.turn import Message, Turn
from planner import GatheredSizes

LONG_TURN_TOKENS = 2_000
SEED = 7
PROMPT = "Where were we?"
_PAGE = re.compile(r"\APage \d+ of (\d+)\.\n")


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is tried."""

    long_turns: int = 1_000
    reach_turns: int = 1_000_000
    reach_samples: int = 1_000
    fact_turns: int = 100_000
    facts: int = 50
    cost_turns: tuple[int, ...] = (100, 1_000, 10_000, 100_000)
    cost_samples: int = 40
    records: int = 300


QUICK = Scale(120, 20_000, 100, 10_000, 10, (100, 1_000, 4_000), 15, 60)


@dataclass(frozen=True, slots=True)
class Holds:
    """How many turns of about 2,000 tokens a budget shows singly."""

    budget_tokens: int
    one_off_turns: int
    after_rebuild_turns: int
    """In the watermark mode at its worst moment, right after a rebuild."""
    mean_turn_tokens: float
    is_limited_by_bench: bool
    """There were not more turns to try."""


@dataclass(frozen=True, slots=True)
class Reach:
    turns: int
    context_tokens: int
    first_context_ms: float
    context_ms: float
    one_off_ms: float
    sampled: int
    calls: dict[int, int]
    """How many of the sampled turns took so many tool calls."""
    seconds: float


@dataclass(frozen=True, slots=True)
class Found:
    turns: int
    facts: int
    found: int
    most_calls: int
    seen_in_context: int
    """Facts that the context itself tells, without any call."""


@dataclass(frozen=True, slots=True)
class Cost:
    turns: int
    record_ms: float
    context_ms: float
    plan_ms: float
    one_off_ms: float


@dataclass(slots=True)
class Report:
    holds: list[Holds] = field(default_factory=list)
    reach: Reach | None = None
    found: Found | None = None
    costs: list[Cost] = field(default_factory=list)
    growth: float = 0.0
    """Record and context at the largest number of turns to those at 1,000."""
    record_ms: dict[str, float] = field(default_factory=dict)


def make_settings(**compress: object) -> Settings:
    return load_settings(environment={}, overrides={"compress": {"processes": 0, **compress}})


# Turns shown singly


def long_turns(count: int) -> list[Turn]:
    """Turns of about 2,000 tokens: what a generated conversation says, several exchanges joined to one turn."""
    turns: list[Turn] = []
    messages: list[Message] = []
    tokens = 0
    for seed in itertools.count(SEED):
        for turn in make_conversation(5_000, seed).turns:
            size = O200K.base(turn_text(turn.messages))
            if tokens + size <= LONG_TURN_TOKENS * 1.2:
                messages += turn.messages
                tokens += size
            if tokens >= LONG_TURN_TOKENS * 0.85:
                turns.append(Turn(tuple(messages)))
                messages, tokens = [], 0
            if len(turns) == count:
                return turns
    raise AssertionError("seeds don't end")


async def measure_holds(folder: Path, scale: Scale) -> list[Holds]:
    async with foveate.open(folder / "long.db", settings=make_settings(processes=1)) as fov:
        session = await fov.session("long", budget_tokens=100_000)
        for turn in long_turns(scale.long_turns):
            await session.record(turn)
        await fov.settle()
        mean = (await session.stats()).tokens / scale.long_turns
        found = []
        for budget in (100_000, 200_000):
            singly = await _largest(scale.long_turns, _shows_all(fov, session, budget, one_off=True))
            rebuilt = await _largest(scale.long_turns, _shows_all(fov, session, budget, one_off=False))
            found.append(Holds(budget, singly, rebuilt, mean, singly == scale.long_turns))
        return found


def _shows_all(
    fov: foveate.Foveate, session: foveate.Session, budget: int, *, one_off: bool
) -> Callable[[int], Awaitable[bool]]:
    async def shows_all(turns: int) -> bool:
        name = f"first-{turns}-{budget}-{one_off}"
        fork = await session.fork(name, turns)
        if not one_off:
            fork = await fov.session(name, budget_tokens=budget)
        context = await fork.context(PROMPT, budget_tokens=budget + 1 if one_off else None)
        return all(block.level != "E" for block in parse_blocks(context.history))

    return shows_all


async def _largest(most: int, holds: Callable[[int], Awaitable[bool]]) -> int:
    """The largest number up to `most` for which something holds that holds for all smaller ones."""
    low, high = 1, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if await holds(middle) else (low, middle - 1)
    return low


# Reach


async def walk(session: foveate.Session, context: Context, turn: int) -> tuple[int, str]:
    """How many tool calls lead from the context to a turn's own words, and what they were."""
    blocks, calls = parse_blocks(context.history), 0
    while True:
        block = _covering(blocks, turn)
        assert block is not None, f"nothing shows T-{turn}"
        if block.level != "E" or block.last - block.first < 32:
            answer = await session.call_tool("get_turn", {"turn_id": f"T-{turn}"})
            return calls + 1, answer
        page, pages = 1, 1
        blocks = []
        while page <= pages and _covering(blocks, turn) is None:
            asked = {"first": f"T-{block.first}", "last": f"T-{block.last}", "level": "E", "page": page}
            answer = await session.call_tool("get_turns", asked)
            calls += 1
            header = _PAGE.match(answer)
            pages = int(header[1]) if header else 1
            blocks = parse_blocks(answer[header.end() :] if header else answer)
            page += 1


def _covering(blocks: Sequence[TagBlock], turn: int) -> TagBlock | None:
    return next((block for block in blocks if block.first <= turn <= block.last), None)


async def measure_reach(folder: Path, scale: Scale) -> Reach:
    began = time.perf_counter()
    path = folder / "reach.db"
    await load(path, scale.reach_turns)
    async with foveate.open(path, settings=make_settings()) as fov:
        await fov.settle(session_id="bulk")
    async with foveate.open(path, settings=make_settings()) as fov:
        session = await fov.session("bulk")
        timed = [await _timed(session, None), await _timed(session, None), await _timed(session, 99_999)]
        context = timed[1][0]
        assert context.tokens <= context.budget_tokens
        calls: dict[int, int] = {}
        for turn in random.Random(SEED).sample(range(1, scale.reach_turns + 1), scale.reach_samples):
            count, answer = await walk(session, context, turn)
            assert said_in(turn, {})[1] in answer, f"T-{turn} is not what it should be: {answer[:200]}"
            calls[count] = calls.get(count, 0) + 1
        first, again, one_off = (milliseconds for _, milliseconds in timed)
        seconds = time.perf_counter() - began
        sampled = scale.reach_samples
        return Reach(
            scale.reach_turns, context.tokens, first, again, one_off, sampled, dict(sorted(calls.items())), seconds
        )


async def _timed(session: foveate.Session, budget_tokens: int | None) -> tuple[Context, float]:
    began = time.process_time()
    context = await session.context(PROMPT, budget_tokens=budget_tokens)
    return context, (time.process_time() - began) * 1_000


async def measure_found(folder: Path, scale: Scale) -> Found:
    chance = random.Random(SEED)
    turns = chance.sample(range(1, scale.fact_turns + 1), scale.facts)
    facts = {
        turn: f"The vault of ship {number} opens with {chance.randrange(10**8, 10**9)}."
        for number, turn in enumerate(turns)
    }
    path = folder / "facts.db"
    await load(path, scale.fact_turns, facts)
    async with foveate.open(path, settings=make_settings()) as fov:
        await fov.settle(session_id="bulk")
        session = await fov.session("bulk")
        context = await session.context(PROMPT)
        walks = [(await walk(session, context, turn), fact) for turn, fact in facts.items()]
        found = sum(fact in answer for (_, answer), fact in walks)
        seen = sum(fact.split()[-1].rstrip(".") in context.text for fact in facts.values())
        return Found(scale.fact_turns, scale.facts, found, max(calls for (calls, _), _ in walks), seen)


# Costs


async def measure_cost(folder: Path, turns: int, samples: int) -> Cost:
    path = folder / f"cost-{turns}.db"
    await load(path, turns, filler_words=60)
    settings = make_settings(enabled=False)
    async with foveate.open(path, settings=make_settings()) as fov:
        await fov.settle(session_id="bulk")
    async with foveate.open(path, settings=settings) as fov:
        session = await fov.session("bulk")
        await session.context(PROMPT)
        recorded, shown, planned = [], [], []
        for number in range(samples):
            asked, answered = said_in(turns + number, {}, 60)
            began = time.process_time()
            await session.record([{"role": "user", "content": asked}, {"role": "assistant", "content": answered}])
            recorded.append((time.process_time() - began) * 1_000)
            shown.append((await _timed(session, None))[1])
        await _timed(session, 99_999)
        one_off = [(await _timed(session, 99_999))[1] for _ in range(5)]
    planned = await _plan_times(path, turns)
    return Cost(turns, _median(recorded), _median(shown), _median(planned), _median(one_off))


async def _plan_times(path: Path, turns: int) -> list[float]:
    store = await open_store(str(path), make_settings().store)
    try:
        stored = await gather(store, "bulk", SizeCache(), last_turn=turns, budget_tokens=90_000)
        sizes = GatheredSizes(stored, turns, overheads(turns, O200K))
        times = []
        for _ in range(9):
            began = time.process_time()
            Gradient().levels(sizes, 90_000)
            times.append((time.process_time() - began) * 1_000)
        return times
    finally:
        await store.close()


async def measure_records(folder: Path, count: int) -> dict[str, float]:
    """Wall-clock time of `record` for ordinary turns, without and with compression in the background."""
    turns = make_conversation(count, SEED).turns
    found = {}
    for name, compress in (("alone", {"enabled": False}), ("with compression", {"processes": 1})):
        async with foveate.open(folder / f"{name}.db", settings=make_settings(**compress)) as fov:
            session = await fov.session("s")
            await session.record(turns[0])
            await fov.settle()
            taken = []
            for turn in turns[1:]:
                began = time.perf_counter()
                await session.record(turn)
                taken.append((time.perf_counter() - began) * 1_000)
            found[name] = _median(taken)
    return found


def _median(values: Sequence[float]) -> float:
    return round(statistics.median(values), 2)


# All


async def measure(folder: Path, scale: Scale) -> Report:
    report = Report()
    report.record_ms = await measure_records(folder, scale.records)
    report.costs = [await measure_cost(folder, turns, scale.cost_samples) for turns in scale.cost_turns]
    per_turn = {cost.turns: cost.record_ms + cost.context_ms for cost in report.costs}
    report.growth = round(per_turn[max(per_turn)] / per_turn[1_000], 2)
    report.holds = await measure_holds(folder, scale)
    report.found = await measure_found(folder, scale)
    report.reach = await measure_reach(folder, scale)
    return report


def print_tables(report: Report) -> None:
    console = Console(width=None if sys.stdout.isatty() else 130)
    holds = Table(
        "budget", "turns shown singly", "right after a rebuild", "tokens a turn", title="Turns of ~2,000 tokens"
    )
    for hold in report.holds:
        singly = f"{hold.one_off_turns:,}{' (all there were)' if hold.is_limited_by_bench else ''}"
        holds.add_row(
            f"{hold.budget_tokens:,}", singly, f"{hold.after_rebuild_turns:,}", f"{hold.mean_turn_tokens:,.0f}"
        )
    costs = Table("turns", "record ms", "context ms", "plan ms", "one-off at 100k ms", title="CPU per turn")
    for cost in report.costs:
        row = (cost.record_ms, cost.context_ms, cost.plan_ms, cost.one_off_ms)
        costs.add_row(f"{cost.turns:,}", *(f"{value:.1f}" for value in row))
    console.print(holds)
    if reach := report.reach:
        calls = ", ".join(f"{count:,} in {number}" for number, count in reach.calls.items())
        console.print(
            f"{reach.turns:,} turns: {reach.context_tokens:,} tokens, {reach.first_context_ms:.0f} ms of CPU at first, "
            f"then {reach.context_ms:.0f}, one-off {reach.one_off_ms:.0f}. Calls to reach {reach.sampled:,} turns: "
            f"{calls}. {reach.seconds:.0f} s in all."
        )
    if found := report.found:
        console.print(
            f"{found.found} of {found.facts} facts in {found.turns:,} turns found by opening eras, in at most "
            f"{found.most_calls} calls; the context alone tells {found.seen_in_context}."
        )
    console.print(costs)
    console.print(f"A turn at {report.costs[-1].turns:,} turns costs {report.growth} x one at 1,000.")
    alone, beside = report.record_ms["alone"], report.record_ms["with compression"]
    ratio = beside / alone
    console.print(f"record: {alone:.2f} ms alone, {beside:.2f} ms with compression beside it ({ratio:.2f} x).")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small part of everything")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--directory", type=Path, help="where the files are made; a temporary folder if not said")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.directory or Path(temporary)
        report = asyncio.run(measure(folder, QUICK if options.quick else Scale()))
    if options.json:
        print(json.dumps(asdict(report), indent=2))
    else:
        print_tables(report)


if __name__ == "__main__":
    main()
