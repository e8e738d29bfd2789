"""What a strategy sees of a stored conversation: sizes, read as far back as a budget reaches, and the eras behind.

Sizes of turns whose renditions are all made don't change any more, so they are read once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from foveate.background.making import compress_safely, without_recalled
from foveate.compress import Compressor, Renditions
from foveate.context.costs import content_tokens
from foveate.store import Store
from foveate.store.derived import ERA_FANOUT, RenditionSizes
from foveate.strategy import Era, Item, Shown
from foveate.text import turn_text
from foveate.tokens import Counter
from foveate.turn import Message

CHUNK_TURNS = 512
MAX_CHUNKS = 256
"""Chunks that are kept in memory; the oldest goes first."""
SMALLEST_LINE_TOKENS = 6
"""No turn's line in a context is shorter, so no budget reaches further back than this allows."""
SMALLEST_ERA_TOKENS = 24
PRUNED = "(removed by a prune command)"


@dataclass(slots=True)
class Sizes:
    """A session's sizes in memory: what can't change any more is read once."""

    chunks: dict[int, list[Item]] = field(default_factory=dict)
    """Chunks of turns that all have their renditions, newest first."""
    eras: dict[int, dict[int, int]] = field(default_factory=dict)
    """The tokens of each level's eras by their places, which have no gaps."""

    async def items(self, store: Store, session_id: str, chunk: int, last_turn: int) -> list[Item]:
        """The turns of a chunk, newest first; kept unless one of them may still grow or lacks something."""
        known = self.chunks.get(chunk)
        if known is None:
            first = chunk * CHUNK_TURNS + 1
            last = first + CHUNK_TURNS - 1
            found = await store.derived.sizes_of(session_id, first, last)
            known = [_item(size) for size in reversed(found)]
            if last < last_turn and all(size.tiny is not None or size.is_pruned for size in found):
                if len(self.chunks) >= MAX_CHUNKS:
                    del self.chunks[min(self.chunks)]
                self.chunks[chunk] = known
        return known

    async def read_eras(self, store: Store, session_id: str, before: int, budget_tokens: int) -> None:
        """The newest eras of each level, as many as a budget could show; those that reach into the turns read, too."""
        most = budget_tokens // SMALLEST_ERA_TOKENS + 1
        level = 1
        while (last := await store.derived.next_era(session_id, level) - 1) >= 0:
            known = self.eras.setdefault(level, {})
            first = max(0, min(before // ERA_FANOUT**level, last) - most)
            missing = [(first, last)]
            if known:
                missing = [(first, min(known) - 1), (max(known) + 1, last)]
            for low, high in missing:
                if low <= high:
                    known |= dict(await store.derived.era_tokens(session_id, level, low, high))
            level += 1


@dataclass(slots=True)
class Gathered:
    """A `foveate.strategy.History` in memory."""

    last_turn: int
    items: list[Item]
    """Newest first."""
    known_eras: Mapping[int, Mapping[int, int]]
    """The tokens of each level's eras by their places."""
    fanout: int = ERA_FANOUT

    def newest(self) -> Iterator[Item]:
        return iter(self.items)

    def era(self, level: int, index: int) -> Era | None:
        tokens = self.known_eras.get(level, {}).get(index)
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
        found = await sizes.items(store, session_id, chunk, last_turn)
        if found and found[0].turn > oldest:
            found = [item for item in found if item.turn <= oldest]
        items += found
        spent += sum(max(SMALLEST_LINE_TOKENS, item.tiny or 0) for item in found)
        oldest = chunk * CHUNK_TURNS
    await sizes.read_eras(store, session_id, oldest, budget_tokens)
    return Gathered(last_turn, items, sizes.eras)


def _item(size: RenditionSizes) -> Item:
    if size.is_pruned:
        return Item(size.turn, 0, SMALLEST_LINE_TOKENS, None, None, SMALLEST_LINE_TOKENS)
    return Item(size.turn, 0, size.raw, size.smoothed, size.compressed, size.tiny)


@dataclass(frozen=True, slots=True)
class Step:
    """A part of a turn at work: its prompt, or one answer with the results of its tool calls."""

    number: int
    messages: tuple[Message, ...]

    @property
    def is_answered(self) -> bool:
        """Every tool call has its result."""
        calls = sum(len(message.tool_calls) for message in self.messages)
        return calls <= sum(len(message.tool_results) for message in self.messages)


def split_steps(messages: Sequence[Message]) -> list[Step]:
    """A turn's steps; the first is what stands before the first answer. Tool calls stay with their results."""
    groups: list[list[Message]] = [[]]
    for message in messages:
        if message.role == "assistant" and message.kind == "message":
            goes_on = len(groups) > 1 and groups[-1][-1].role == "assistant"
            if not goes_on:
                groups.append([])
        groups[-1].append(message)
    kept = [group for group in groups if group]
    return [Step(number, tuple(group)) for number, group in enumerate(kept, 1)]


@dataclass(frozen=True, slots=True)
class StepTexts:
    """A step's renditions, and the step as a strategy sees it."""

    messages: int
    made: Renditions
    item: Item


@dataclass(slots=True)
class RunningSteps:
    """Renditions of the steps of the turn at work, made once and kept in memory."""

    compressor: Compressor
    turn: int = 0
    known: dict[int, StepTexts] = field(default_factory=dict)

    def texts(self, turn: int, step: Step, counter: Counter) -> StepTexts:
        if turn != self.turn:
            self.turn, self.known = turn, {}
        known = self.known.get(step.number)
        if known is None or known.messages != len(step.messages):
            known = self.known[step.number] = self._make(turn, step, counter)
        return known

    def items(self, turn: int, steps: Sequence[Step], counter: Counter) -> list[Item]:
        """The steps as a strategy sees them, oldest first; the prompt is always kept."""
        return [self.texts(turn, step, counter).item for step in steps]

    def _make(self, turn: int, step: Step, counter: Counter) -> StepTexts:
        made = compress_safely(self.compressor, turn, without_recalled(step.messages), counter)

        def size(text: str, level: Shown) -> int:
            return content_tokens(text, level, counter, in_steps=True)

        item = Item(
            turn,
            step.number,
            size(turn_text(step.messages), "R"),
            size(made.smoothed, "S"),
            size(made.compressed, "C"),
            size(made.tiny, "T"),
            is_kept=step.number == 1,
        )
        return StepTexts(len(step.messages), made, item)
