"""Sizes of a stored conversation for strategies: of turns, as far back as a budget reaches, and of older eras.

Sizes of turns with all renditions are cached until a model has made better ones. Sizes of the messages of closed turns
don't change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby, pairwise
from operator import attrgetter

from foveate.cache import BoundedCache
from foveate.context.costs import content_tokens
from foveate.context.dates import begins
from foveate.context.tags import content_text
from foveate.formats.sizes import SentSizes
from foveate.history.worth import WordTable, WorthCache, is_of_work, weigh
from foveate.plan import Era, MessageSize, ShownLevel, SizeTable, TurnInfo, TurnSizes, WordWeights, step_starts
from foveate.renditions import Compressor, Renditions, without_recalled
from foveate.store import MessageOutline, Store
from foveate.store.rows import ERA_FANOUT, RenditionSizes
from foveate.text import turn_text
from foveate.tokens import Counter
from foveate.turn import Message
from foveate.worker.renditions import compress_safely

CHUNK_TURNS = 512
MAX_CHUNKS = 256
"""Maximum cached chunks of a session; more if one budget reaches further."""
SMALLEST_LINE_TOKENS = 6
"""Minimum tokens of a turn in a context; it limits how far back a budget reaches."""
SMALLEST_ERA_TOKENS = 24
"""Minimum tokens of an era in a context."""
PRUNED = "(removed by a command)"
PRUNED_TOKENS = 10
"""Upper bound of the tokens of `PRUNED`, in either encoding."""
INFOS_CHUNK_TURNS = 512


@dataclass(frozen=True)
class StoredChunk:
    """Sizes of consecutive turns."""

    items: list[TurnSizes]
    """Newest first."""
    renditions: int
    """Number of renditions of the turns when they were read."""

    @cached_property
    def table(self) -> WordTable:
        return WordTable.of(self.items)


@dataclass(slots=True)
class SizeCache:
    """A session's sizes in memory."""

    chunks: BoundedCache[int, StoredChunk] = field(default_factory=lambda: BoundedCache(MAX_CHUNKS))
    eras: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    """Tokens of the newest eras by level and place, without gaps: as many as the last budget can show."""
    worths: WorthCache = field(default_factory=WorthCache)

    async def forget_changed(self, store: Store, session_id: str) -> None:
        """Drop the chunks whose number of renditions has changed."""
        known = dict(self.chunks.items())
        if known:
            first, last = min(known) * CHUNK_TURNS + 1, (max(known) + 1) * CHUNK_TURNS
            now = await store.derived.counts(session_id, first, last, chunk_turns=CHUNK_TURNS)
            for number, chunk in known.items():
                if now.get(number) != chunk.renditions:
                    self.chunks.pop(number)

    async def chunk(self, store: Store, session_id: str, chunk: int, last_turn: int) -> StoredChunk:
        """Return the turns of a chunk; cached unless one of them may still grow or lacks a rendition."""
        known = self.chunks.get(chunk)
        if known is not None:
            return known
        first = chunk * CHUNK_TURNS + 1
        last = first + CHUNK_TURNS - 1
        is_past = last < last_turn
        counts = await store.derived.counts(session_id, first, last, chunk_turns=CHUNK_TURNS) if is_past else {}
        found = await store.derived.sizes_of(session_id, first, last)
        before = [None, *(size.at_us for size in found)]
        items = [_item(size, at_us) for size, at_us in zip(found, before, strict=False)][::-1]
        read = StoredChunk(items, counts.get(chunk, 0))
        if is_past and all(size.tiny is not None or size.is_pruned for size in found):
            self.chunks[chunk] = read
        return read

    async def read_eras(self, store: Store, session_id: str, before: int, budget_tokens: int) -> None:
        """Read the newest eras of each level, as many as a budget can show, including those that overlap turns read."""
        most = budget_tokens // SMALLEST_ERA_TOKENS + 1
        eras: dict[int, Mapping[int, int]] = {}
        level = 1
        while (last := await store.derived.next_era(session_id, level) - 1) >= 0:
            first = max(0, min(before // ERA_FANOUT**level, last) - most)
            known = {place: tokens for place, tokens in self.eras.get(level, {}).items() if first <= place <= last}
            missing = [(first, last)]
            if known:
                missing = [(first, min(known) - 1), (max(known) + 1, last)]
            for low, high in missing:
                if low <= high:
                    known |= dict(await store.derived.era_tokens(session_id, level, low, high))
            eras[level] = known
            level += 1
        self.eras = eras


@dataclass(frozen=True, slots=True)
class StoredSizes:
    """The sizes of a session's turns, as far back as a budget reaches."""

    items: list[TurnSizes]
    """Newest first."""
    known_eras: Mapping[int, Mapping[int, int]]
    """Tokens of eras by level and place."""
    chunks: Sequence[tuple[StoredChunk, int]] = ()
    """The chunks of whole turns among the items, each with the number of newest turns to skip."""
    worths: WorthCache = field(default_factory=WorthCache)

    def table(self, limit: int, by: WordWeights) -> SizeTable:
        tables = [chunk.table.behind(newer) if newer else chunk.table for chunk, newer in self.chunks]
        return weigh(tables, limit, by, self.worths)

    def era(self, level: int, index: int) -> Era | None:
        tokens = self.known_eras.get(level, {}).get(index)
        if tokens is None:
            return None
        turns = ERA_FANOUT**level
        return Era(level, index, index * turns + 1, (index + 1) * turns, tokens)


@dataclass(frozen=True, slots=True)
class Infos:
    """Outlines of a session's turns: their messages without content. Closed turns are read once.

    Immutable, so that several plans can be made at the same time, each from its own value.
    """

    first: int = 0
    """The oldest turn in memory; 0 if there is none."""
    closed: Sequence[TurnInfo] = ()
    """The closed turns from `first` on."""
    newest: TurnInfo | None = None

    async def renewed(self, store: Store, session_id: str, *, last_turn: int, is_open: bool) -> Infos:
        """Add the turns that were recorded since."""
        first = self.first if self.closed else max(1, last_turn - INFOS_CHUNK_TURNS)
        found = await _read_infos(store, session_id, first + len(self.closed), last_turn)
        if found and is_open:
            found[-1] = replace(found[-1], is_open=True)
        return Infos(first, [*self.closed, *found[:-1]], found[-1] if found else None)

    async def reaching(self, store: Store, session_id: str, turn: int) -> Infos:
        """Add older turns back to this one, at least as many as are in memory: a long way back takes few reads."""
        first = max(1, min(turn, self.first - len(self.closed) - 1))
        return replace(
            self, first=first, closed=[*await _read_infos(store, session_id, first, self.first - 1), *self.closed]
        )

    def until(self, step: int) -> Infos:
        """Remove the messages after a step of the newest turn."""
        if self.newest is None:
            return self
        messages = tuple(message for own in self.newest.steps[:step] for message in own)
        return replace(self, newest=replace(self.newest, messages=messages))

    def between(self, first: int, last: int) -> list[TurnInfo]:
        """Return the turns from `first` to `last` that are in memory."""
        found = self.closed[max(0, first - self.first) : max(0, last - self.first + 1)]
        return [*found, self.newest] if self.newest and first <= self.newest.turn <= last else list(found)


async def _read_infos(store: Store, session_id: str, first: int, last: int) -> list[TurnInfo]:
    outlines = await store.outlines(session_id, first, last) if first <= last else []
    return [_info(turn, list(group)) for turn, group in groupby(outlines, key=attrgetter("turn"))]


def _info(turn: int, outlines: Sequence[MessageOutline]) -> TurnInfo:
    sizes: list[MessageSize] = []
    is_answered = False
    moments = [outline.at_us for outline in outlines]
    if all(outline.pruned for outline in outlines):
        outlines = outlines[:1]  # one note replaces all messages, so no plan divides the turn
    for place, outline in enumerate(outlines):
        tokens = outline.tokens
        if outline.pruned:
            tokens = 0 if place else PRUNED_TOKENS
        is_result = bool(outline.tool_results)
        if outline.tool_results is None:
            is_result = outline.role == "tool" or (outline.role == "user" and is_answered)
        is_answered = is_answered or outline.role == "assistant"
        sizes.append(MessageSize(place, outline.role, outline.kind, tokens, is_result))
    return TurnInfo(turn, tuple(sizes), min(moments), max(moments))


async def gather(
    store: Store,
    session_id: str,
    sizes: SizeCache,
    *,
    last_turn: int,
    budget_tokens: int,
    running: Sequence[TurnSizes] = (),
) -> StoredSizes:
    """Read the sizes that a plan within the budget may need; `running` are the steps of a turn in progress."""
    items = list(running)[::-1]
    oldest = items[-1].turn - 1 if items else last_turn
    spent = 0
    chunks: list[tuple[StoredChunk, int]] = []
    sizes.chunks.reserve(budget_tokens // (SMALLEST_LINE_TOKENS * CHUNK_TURNS) + 2)
    await sizes.forget_changed(store, session_id)
    for chunk in range(max(0, oldest - 1) // CHUNK_TURNS, -1, -1):
        if oldest < 1 or spent > budget_tokens:
            break
        read = await sizes.chunk(store, session_id, chunk, last_turn)
        newer = sum(item.turn > oldest for item in read.items[: max(0, (chunk + 1) * CHUNK_TURNS - oldest)])
        found = read.items[newer:]
        chunks.append((read, newer))
        items += found
        spent += sum(max(SMALLEST_LINE_TOKENS, item.tiny or 0) for item in found)
        oldest = chunk * CHUNK_TURNS
    await sizes.read_eras(store, session_id, oldest, budget_tokens)
    return StoredSizes(items, sizes.eras, chunks, sizes.worths)


def _item(size: RenditionSizes, before_us: int | None) -> TurnSizes:
    """Return the sizes of a turn, given when the turn before it began; None: it is not known."""
    is_later = before_us is None or begins(size.at_us, before_us)
    if size.is_pruned:
        least = SMALLEST_LINE_TOKENS
        return TurnSizes(size.turn, 0, least, None, None, least, is_later=is_later, is_pruned=True)
    words = size.words or b""
    return TurnSizes(
        size.turn,
        0,
        size.raw,
        size.smoothed,
        size.compressed,
        size.tiny,
        words=words,
        brief=size.brief,
        is_work=is_of_work(words),
        is_later=is_later,
    )


@dataclass(frozen=True, slots=True)
class Step:
    """A part of a turn in progress: its prompt, or one answer with the results of its tool calls."""

    number: int
    messages: tuple[Message, ...]
    position: int = 0
    """Position of its first message in the turn, from 0."""

    @property
    def is_answered(self) -> bool:
        """Whether every tool call has its result."""
        calls = sum(len(message.tool_calls) for message in self.messages)
        return calls <= sum(len(message.tool_results) for message in self.messages)


def split_steps(messages: Sequence[Message]) -> list[Step]:
    """Split a turn into steps; the first is the part before the first answer. Tool calls stay with their results.

    A pruned turn has no messages, and no steps.
    """
    starts = step_starts([(message.role, message.kind) for message in messages])
    return [
        Step(number, tuple(messages[start:end]), start)
        for number, (start, end) in enumerate(pairwise([*starts, len(messages)]), 1)
    ]


@dataclass(frozen=True, slots=True)
class StepTexts:
    """A step's renditions, and the step as a strategy sees it."""

    messages: int
    made: Renditions
    item: TurnSizes
    extra_tokens: int = 0
    """Tokens of its messages beyond their text, if they are sent as messages; included in the item's raw size."""


MAX_STEP_CHARS = 200_000
"""Of a larger step only the beginning and end of its long texts are compressed, since a request waits for it."""


@dataclass(slots=True)
class RunningSteps:
    """Renditions of the steps of the turn in progress, cached in memory."""

    compressor: Compressor
    sizes: SentSizes
    known: tuple[int, dict[int, StepTexts]] = field(default_factory=lambda: (0, {}))
    """The turn, and its steps by number; one value, since two threads may compress steps of different turns."""

    def texts(self, turn: int, step: Step, counter: Counter) -> StepTexts:
        """Return the renditions of a step; it is compressed again if it has grown."""
        known = self.known
        if known[0] != turn:
            known = self.known = (turn, {})
        made = known[1].get(step.number)
        if made is None or made.messages != len(step.messages):
            made = known[1][step.number] = self._make(turn, step, counter)
        return made

    def items(self, turn: int, steps: Sequence[Step], counter: Counter) -> list[TurnSizes]:
        """Return the sizes of the steps, oldest first; the prompt is always kept."""
        return [self.texts(turn, step, counter).item for step in steps]

    def _make(self, turn: int, step: Step, counter: Counter) -> StepTexts:
        made = compress_safely(
            self.compressor, turn, without_recalled(step.messages), counter, max_chars=MAX_STEP_CHARS
        )

        def size(text: str, level: ShownLevel) -> int:
            return content_tokens(text, level, counter, in_steps=True)

        extra = self.sizes.extra_tokens(step.messages)
        item = TurnSizes(
            turn,
            step.number,
            counter.upper_bound(content_text(turn_text(step.messages), "R", in_steps=True)) + extra,
            size(made.smoothed, "S"),
            size(made.compressed, "C"),
            size(made.tiny, "T"),
            is_kept=step.number == 1,
        )
        return StepTexts(len(step.messages), made, item, extra)
