"""What a strategy sees of a stored conversation: sizes, read as far back as a budget reaches, and the eras behind.

Sizes of turns whose renditions are all made don't change any more, so they are read once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from foveate.background.making import compress_safely
from foveate.compress import Compressor, Renditions
from foveate.context.costs import content_tokens
from foveate.store import Store
from foveate.store.derived import ERA_FANOUT, RenditionSizes
from foveate.strategy import Era, Item
from foveate.text import turn_text
from foveate.tokens import Counter
from foveate.turn import Message

CHUNK_TURNS = 512
SMALLEST_LINE_TOKENS = 6
"""No turn's line in a context is shorter, so no budget reaches further back than this allows."""
SMALLEST_ERA_TOKENS = 24
PRUNED = "(removed by a prune command)"


@dataclass(slots=True)
class Sizes:
    """A session's sizes in memory: chunks of turns that are complete are kept, the rest is read again."""

    chunks: dict[int, list[RenditionSizes]] = field(default_factory=dict)

    async def read(self, store: Store, session_id: str, chunk: int) -> list[RenditionSizes]:
        known = self.chunks.get(chunk)
        if known is None:
            first = chunk * CHUNK_TURNS + 1
            known = await store.derived.sizes_of(session_id, first, first + CHUNK_TURNS - 1)
            if len(known) == CHUNK_TURNS and all(size.tiny is not None or size.is_pruned for size in known):
                self.chunks[chunk] = known
        return known


@dataclass(slots=True)
class Gathered:
    """A `foveate.strategy.History` in memory."""

    last_turn: int
    items: list[Item]
    """Newest first."""
    known_eras: dict[tuple[int, int], int]
    """The tokens of each era by its level and place."""
    fanout: int = ERA_FANOUT

    def newest(self) -> Iterator[Item]:
        return iter(self.items)

    def era(self, level: int, index: int) -> Era | None:
        tokens = self.known_eras.get((level, index))
        if tokens is None:
            return None
        turns = self.fanout**level
        return Era(level, index, index * turns + 1, (index + 1) * turns, tokens)


async def gather(
    store: Store, session_id: str, sizes: Sizes, *, last_turn: int, budget_tokens: int, running: Sequence[Item] = ()
) -> Gathered:
    """The sizes that a plan within the budget could need; `running` are the newest turn's steps, if it is at work."""
    items = list(running)[::-1]
    oldest = items[-1].turn - 1 if items else last_turn
    spent = 0
    for chunk in range(max(0, oldest - 1) // CHUNK_TURNS, -1, -1):
        if oldest < 1 or spent > budget_tokens:
            break
        for size in reversed(await sizes.read(store, session_id, chunk)):
            if size.turn <= oldest:
                items.append(_item(size))
                spent += max(SMALLEST_LINE_TOKENS, size.tiny or SMALLEST_LINE_TOKENS)
        oldest = chunk * CHUNK_TURNS
    return Gathered(last_turn, items, await _eras(store, session_id, oldest, budget_tokens))


def _item(size: RenditionSizes) -> Item:
    if size.is_pruned:
        return Item(size.turn, 0, SMALLEST_LINE_TOKENS, None, None, SMALLEST_LINE_TOKENS)
    return Item(size.turn, 0, size.raw, size.smoothed, size.compressed, size.tiny)


async def _eras(store: Store, session_id: str, before: int, budget_tokens: int) -> dict[tuple[int, int], int]:
    """The newest eras of each level, as many as a budget could show; those that reach into the turns read, too."""
    found: dict[tuple[int, int], int] = {}
    most = budget_tokens // SMALLEST_ERA_TOKENS + 1
    level = 1
    while True:
        last = await store.derived.next_era(session_id, level) - 1
        if last < 0:
            return found
        first = max(0, min(before // ERA_FANOUT**level, last) - most)
        for era in await store.derived.era_tokens(session_id, level, first, last):
            found[level, era[0]] = era[1]
        level += 1


@dataclass(frozen=True, slots=True)
class Step:
    """A part of a turn at work: its prompt, or one answer with the results of its tool calls."""

    number: int
    messages: tuple[Message, ...]
    first_position: int

    @property
    def is_answered(self) -> bool:
        """Every tool call has its result."""
        calls = sum(len(message.tool_calls) for message in self.messages)
        return calls <= sum(len(message.tool_results) for message in self.messages)


def split_steps(messages: Sequence[Message]) -> list[Step]:
    """A turn's steps; the first is what stands before the first answer. Tool calls stay with their results."""
    groups: list[list[int]] = [[]]
    for index, message in enumerate(messages):
        if message.role == "assistant" and message.kind == "message":
            previous = messages[index - 1] if index else None
            if not (groups[-1] and previous and previous.role == "assistant" and len(groups) > 1):
                groups.append([])
        groups[-1].append(index)
    kept = [group for group in groups if group]
    return [
        Step(number, tuple(messages[index] for index in group), group[0] + 1) for number, group in enumerate(kept, 1)
    ]


@dataclass(slots=True)
class RunningSteps:
    """Renditions of the steps of turns at work, made once and kept in memory."""

    compressor: Compressor
    made: dict[tuple[int, int, int], Renditions] = field(default_factory=dict)

    def renditions(self, turn: int, step: Step, counter: Counter) -> Renditions:
        key = (turn, step.number, len(step.messages))
        if key not in self.made:
            self.made[key] = compress_safely(self.compressor, turn, step.messages, counter)
        return self.made[key]

    def items(self, turn: int, steps: Sequence[Step], counter: Counter) -> list[Item]:
        """The steps as a strategy sees them, oldest first; the prompt is always kept."""
        items = []
        for step in steps:
            made = self.renditions(turn, step, counter)
            raw = content_tokens(turn_text(step.messages), "R", counter, in_steps=True)
            smoothed = content_tokens(made.smoothed, "S", counter, in_steps=True)
            compressed = content_tokens(made.compressed, "C", counter, in_steps=True)
            tiny = content_tokens(made.tiny, "T", counter, in_steps=True)
            items.append(Item(turn, step.number, raw, smoothed, compressed, tiny, is_kept=step.number == 1))
        return items
