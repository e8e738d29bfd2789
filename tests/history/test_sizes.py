"""Sizes in memory: read once, and only as many as a budget needs."""

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from foveate.cache import BoundedCache
from foveate.compress.local import LocalCompressor
from foveate.formats.sizes import SentSizes
from foveate.history.sizes import CHUNK_TURNS, SMALLEST_ERA_TOKENS, RunningSteps, SizeCache, Step, gather
from foveate.renditions import Renditions
from foveate.store.rows import ERA_FANOUT, RenditionSizes
from foveate.tokens import exact_counter
from support.engine import assistant, user

RAW, TINY = 100, 20
CHUNKS = 20
"""That a cache holds; fewer than by default."""


@dataclass
class Derived:
    """The derived data of a session of which every turn is compressed; counts what is read."""

    turns: int
    chunks_read: int = 0
    eras_read: int = 0
    renditions: dict[int, int] = field(default_factory=dict)
    """Renditions of a chunk, where it has another number of them than turns."""

    async def counts(self, _id: str, first: int, last: int, *, chunk_turns: int) -> dict[int, int]:
        chunks = range((first - 1) // chunk_turns, (last - 1) // chunk_turns + 1)
        return {chunk: self.renditions.get(chunk, chunk_turns) for chunk in chunks}

    async def sizes_of(self, _id: str, first: int, last: int) -> list[RenditionSizes]:
        self.chunks_read += 1
        return [
            RenditionSizes(turn, RAW, 2, turn, RAW, RAW, TINY, is_pruned=False)
            for turn in range(first, min(last, self.turns) + 1)
        ]

    async def next_era(self, _id: str, level: int) -> int:
        return int(self.turns // ERA_FANOUT**level)

    async def era_tokens(self, _id: str, _level: int, first: int, last: int) -> list[tuple[int, int]]:
        self.eras_read += last - first + 1
        return [(place, SMALLEST_ERA_TOKENS) for place in range(first, last + 1)]


def gathered(derived: Derived, sizes: SizeCache, budget_tokens: int) -> int:
    """How many turns were gathered for a budget."""
    store: Any = SimpleNamespace(derived=derived)
    found = asyncio.run(gather(store, "s", sizes, last_turn=derived.turns, budget_tokens=budget_tokens))
    return len(found.items)


def test_as_many_turns_are_read_as_the_budget_can_show() -> None:
    derived = Derived(1_000_000)
    assert gathered(derived, SizeCache(), 32_000) <= 32_000 // TINY + 2 * CHUNK_TURNS
    assert derived.chunks_read <= 32_000 // TINY // CHUNK_TURNS + 2


def test_chunks_are_read_once_until_their_renditions_change() -> None:
    derived, sizes = Derived(10 * CHUNK_TURNS), SizeCache()
    gathered(derived, sizes, 1_000_000)
    before = derived.chunks_read
    gathered(derived, sizes, 1_000_000)
    assert derived.chunks_read == before + 1  # the newest may still change
    derived.renditions[3] = CHUNK_TURNS + 1
    gathered(derived, sizes, 1_000_000)
    assert derived.chunks_read == before + 3


def test_cached_sizes_are_bounded_while_a_session_grows() -> None:
    derived, sizes = Derived(CHUNK_TURNS), SizeCache(chunks=BoundedCache(CHUNKS))
    budget_tokens = 12_000
    for _ in range(CHUNKS + 5):
        derived.turns += CHUNK_TURNS
        gathered(derived, sizes, budget_tokens)
    assert len(sizes.chunks) == CHUNKS
    most = budget_tokens // SMALLEST_ERA_TOKENS + 2 + 2 * CHUNK_TURNS // ERA_FANOUT
    assert all(len(eras) <= most for eras in sizes.eras.values())


def test_a_budget_that_needs_more_chunks_than_the_limit_keeps_them() -> None:
    derived, sizes = Derived((CHUNKS + 5) * CHUNK_TURNS), SizeCache(chunks=BoundedCache(CHUNKS))
    budget_tokens = derived.turns * TINY
    gathered(derived, sizes, budget_tokens)
    before = derived.chunks_read
    gathered(derived, sizes, budget_tokens)
    assert derived.chunks_read == before + 1


def test_eras_are_read_once() -> None:
    derived, sizes = Derived(400 * ERA_FANOUT), SizeCache()
    gathered(derived, sizes, 2_000)
    before = derived.eras_read
    gathered(derived, sizes, 2_000)
    assert derived.eras_read == before


def test_steps_of_two_turns_compressed_at_once_are_not_mixed_up() -> None:
    counter, local = exact_counter("o200k_base"), LocalCompressor()

    class Interrupted(LocalCompressor):
        """Another context turns to the next turn while a step is compressed."""

        def compress(self, turn: int, *given: Any, **options: Any) -> Renditions:
            if turn == 5:
                running.texts(6, Step(1, (user("Next."),)), counter)
            return local.compress(turn, *given, **options)

    running = RunningSteps(Interrupted(), SentSizes.of(None))
    running.texts(5, Step(2, (assistant("Albatross."), user("Yes."))), counter)
    assert "Heron" in running.texts(6, Step(2, (assistant("Heron."), user("Yes."))), counter).made.smoothed
