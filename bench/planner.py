"""What choosing levels costs: CPU of one plan of the gradient, by turns and budget.

Run from the project's root: python bench/planner.py [--repeats 9] [--json]

The turns have about 45 different words each, drawn by Zipf's law, and 2.5 tokens for each word. The sizes and words
are in memory, as in a session in use; `first` is the first plan of such a session, `next` each of those after one
more turn. Nothing is read from a store.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from foveate.history.sizes import CHUNK_TURNS, StoredChunk, StoredSizes
from foveate.history.worth import FLAG_BITS, HASH_BITS, IN_BRIEF, IN_COMPRESSED, IN_SMOOTHED, IN_TINY, WorthCache
from foveate.plan import Era, Overheads, SizeTable, TurnSizes, WordWeights
from foveate.store.rows import ERA_FANOUT
from foveate.strategy.gradient import Gradient
from foveate.testing.histories import USUAL_OVERHEADS

TURNS = (100, 1_000, 10_000, 100_000)
BUDGETS = (16_000, 100_000, 200_000)
VOCABULARY = 60_000
USUAL_WORDS = 60
"""Words of a turn, the median, with repetitions."""
TOKENS_PER_WORD = 2.5
KEPT = ((IN_SMOOTHED, 0.95), (IN_BRIEF, 0.85), (IN_COMPRESSED, 0.6), (IN_TINY, 0.2))
"""The share of its words that each level keeps, and the brief form."""
USER_SHARE = 0.4
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Cost:
    """Of plans of one session."""

    turns: int
    budget_tokens: int
    turns_read: int
    first_ms: float
    next_ms: float
    """The median of the plans after the first."""
    turns_shown: int
    """Turns that have a text of their own."""
    use: float
    """The share of the budget spent."""


@dataclass(frozen=True, slots=True)
class GatheredSizes:
    """Sizes as a plan of levels sees them."""

    stored: StoredSizes
    last_turn: int
    overheads: Overheads = USUAL_OVERHEADS
    retrieved: Sequence[int] = ()
    fanout: int = ERA_FANOUT

    def newest(self) -> Iterator[TurnSizes]:
        return iter(self.stored.items)

    def table(self, limit: int, by: WordWeights) -> SizeTable:
        return self.stored.table(limit, by)

    def era(self, level: int, index: int) -> Era | None:
        return self.stored.era(level, index)


def make_turns(count: int) -> list[TurnSizes]:
    """Turns with sizes and words, oldest first."""
    drawn = np.random.default_rng(1)
    odds = np.cumsum(1 / np.arange(3, VOCABULARY + 3))
    hashes = drawn.permutation(1 << HASH_BITS)[:VOCABULARY]
    return [_turn(turn, drawn, odds / odds[-1], hashes) for turn in range(1, count + 1)]


def _turn(turn: int, drawn: np.random.Generator, odds: Floats, hashes: Integers) -> TurnSizes:
    count = max(3, int(drawn.lognormal(np.log(USUAL_WORDS), 0.6)))
    words = np.unique(np.searchsorted(odds, drawn.random(count)))
    flags = (drawn.random(len(words)) < USER_SHARE).astype(np.int64)
    luck = drawn.random(len(words))
    for flag, share in KEPT:
        flags |= np.where(luck < share, flag, 0)
    raw = int(len(words) * TOKENS_PER_WORD) + 5
    short = raw * 45 // 100
    packed = (hashes[words] << FLAG_BITS | flags).astype("<u4").tobytes()
    return TurnSizes(turn, 0, raw, raw * 9 // 10, short, min(short, 20), words=packed, brief=raw * 7 // 10)


def measure(turns: list[TurnSizes], budget_tokens: int, repeats: int) -> Cost:
    """As many turns as the budget could show are read; then one more before each plan."""
    gradient, cache = Gradient(), WorthCache()
    count = len(turns) - repeats
    first = max(0, count - budget_tokens // (USUAL_OVERHEADS.line + 1)) // CHUNK_TURNS
    starts = range(first * CHUNK_TURNS, len(turns), CHUNK_TURNS)
    chunks = {start: StoredChunk(turns[start : start + CHUNK_TURNS][::-1], 0) for start in starts}
    eras = {level: dict.fromkeys(range(len(turns) // 32**level), 120) for level in (1, 2, 3)}
    taken: list[float] = []
    for last in range(count, len(turns) + 1):
        found = [
            (chunk, max(0, min(start + CHUNK_TURNS, len(turns)) - last))
            for start, chunk in reversed(chunks.items())
            if start < last
        ]
        items = turns[first * CHUNK_TURNS : last][::-1]
        for chunk, _ in found:
            assert len(chunk.table.turns)  # made when the chunk is read
        sizes = GatheredSizes(StoredSizes(items, eras, chunks=found, worths=cache), last)
        began = time.process_time()
        plan = gradient.levels(sizes, budget_tokens)
        taken.append((time.process_time() - began) * 1_000)
    shown = sum(band.turns for band in plan.bands if band.level != "E")
    use = plan.tokens / budget_tokens
    return Cost(len(turns), budget_tokens, len(items), taken[0], statistics.median(taken[1:]), shown, use)


def print_table(costs: list[Cost]) -> None:
    table = Table("turns", "budget", "turns read", "first, CPU ms", "next, CPU ms", "turns shown", "use")
    for cost in costs:
        table.add_row(
            f"{cost.turns:,}",
            f"{cost.budget_tokens:,}",
            f"{cost.turns_read:,}",
            f"{cost.first_ms:.1f}",
            f"{cost.next_ms:.1f}",
            f"{cost.turns_shown:,}",
            f"{cost.use:.1%}",
        )
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9, help="plans after the first one")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    turns = make_turns(max(TURNS))
    Gradient().levels(GatheredSizes(StoredSizes([], {}), 0), 1_000)
    costs = [measure(turns[:count], budget, options.repeats) for budget in BUDGETS for count in TURNS]
    if options.json:
        print(json.dumps([asdict(cost) for cost in costs], indent=2))
    else:
        print_table(costs)


if __name__ == "__main__":
    main()
