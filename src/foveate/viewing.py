"""The history of a context: plans made from stored sizes, and their rows written out from stored texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from foveate.background.making import unpack_units
from foveate.compress.eras import era_text
from foveate.compress.local import LocalCompressor
from foveate.context.assemble import HistoryBlock
from foveate.context.costs import content_tokens, counting, frame_tokens, label_tokens, overheads
from foveate.context.cut import cut_text
from foveate.context.tags import Block, Entry, block_of, escape_text, write_block
from foveate.drafts import restore_message
from foveate.gathering import PRUNED, Gathered, RunningSteps, Sizes, Step, gather, split_steps
from foveate.store import SessionRow, Store, bodies
from foveate.store.derived import ERA_FANOUT
from foveate.strategy import Overheads, Plan, Row, Shown, Strategy
from foveate.text import turn_text
from foveate.tokens import Counter, exact_counter
from foveate.turn import Message

RUNNING_SHARE = 0.25
"""A turn at work that is larger than this share of the history's room is shown step by step."""
MAX_TRIES = 6
"""Plans made until their texts fit: escaping can make a text a little longer than its stored size."""
MAX_CACHED_TURNS = 2_000
K = TypeVar("K")
V = TypeVar("V")

UNSUMMARISED = "(not summarised yet: get_turns opens it)"


@dataclass(frozen=True, slots=True)
class Written:
    """A row's texts, and what they cost in all."""

    block: Block
    tokens: int
    messages: tuple[Message, ...] | None


@dataclass(frozen=True, slots=True)
class _Text:
    """One turn's or step's text at a level; its tokens where they are known already."""

    text: str
    tokens: int | None = None
    messages: tuple[Message, ...] | None = None


class Viewer:
    """Reads one session's texts as plans ask for them; what does not change any more is kept in memory."""

    def __init__(self, store: Store, session_id: str) -> None:
        self._store = store
        self._session_id = session_id
        self._sizes = Sizes()
        self._steps = RunningSteps(LocalCompressor())
        self._raw: dict[int, tuple[Message, ...]] = {}
        self._whole: dict[tuple[int, int], HistoryBlock] = {}

    async def plan(
        self, session: SessionRow, strategy: Strategy, room_tokens: int, *, last_turn: int, last_step: int | None = None
    ) -> tuple[Plan, list[HistoryBlock]]:
        """The turns up to `last_turn` in the room there is, planned afresh; of a turn at work the steps so far."""
        counter = exact_counter(session.encoding)
        costs = overheads(max(last_turn, 1), counter)
        steps = await self.running(session, last_turn, room_tokens, last_step)
        running = self._steps.items(last_turn, steps, counter)
        history = await gather(
            self._store, self._session_id, self._sizes, last_turn=last_turn, budget_tokens=room_tokens, running=running
        )
        room = room_tokens
        for _ in range(MAX_TRIES):
            plan = strategy.plan(history, max(room, 0), costs)
            blocks = await self.write(plan.rows, counter, costs, history, steps)
            excess = sum(block.tokens for block in blocks) - room_tokens
            if excess <= 0:
                return plan, blocks
            room -= excess
        raise AssertionError("a plan's texts did not come to fit")

    async def write(
        self,
        rows: Sequence[Row],
        counter: Counter,
        costs: Overheads,
        history: Gathered | None = None,
        steps: Sequence[Step] = (),
    ) -> list[HistoryBlock]:
        """The rows with their texts, in their tags; raw rows of closed turns are written and counted once."""
        unwritten = [row for row in rows if not (is_from_log(row) and (row.first, row.last) in self._whole)]
        texts = await self._texts([row for row in unwritten if not row.first_step and row.level != "E"])
        eras = await self._eras([row for row in rows if row.level == "E"], counter, costs)
        sizes = {item.turn: item for item in history.items if not item.step} if history else {}
        by_step = {step.number: step for step in steps}
        blocks = []
        for row in rows:
            whole = self._whole.get((row.first, row.last)) if is_from_log(row) else None
            if whole:
                blocks.append(replace(whole, row=row))
                continue
            if row.level == "E":
                written = _written(row, [(row.first, eras[row.first, row.last])], counter, costs)
            elif row.first_step:
                made = ((number, self._step_text(row, by_step[number], counter)) for number in _numbers(row))
                written = _written(row, made, counter, costs)
            else:
                found = ((number, texts[row.level, number]) for number in _numbers(row))
                known = ((number, _sized(text, sizes.get(number), row.level)) for number, text in found)
                written = _written(row, known, counter, costs)
            blocks.append(HistoryBlock(row, write_block(written.block), written.tokens, written.messages))
            if is_from_log(row) and row.last in self._raw:
                _remember(self._whole, (row.first, row.last), blocks[-1])
        return blocks

    async def appended(
        self, session: SessionRow, after_turn: int, after_step: int, counter: Counter, costs: Overheads
    ) -> list[HistoryBlock]:
        """What came after a plan was made: whole turns, and the steps of the turn it reached into, all raw."""
        rows = []
        steps: list[Step] = []
        if after_step:
            steps = [step for step in split_steps(await self.raw(after_turn)) if step.number > after_step]
            rows += [
                Row(after_turn, after_turn, "R", 0, first_step=step.number, last_step=step.number) for step in steps
            ]
        rows += [Row(turn, turn, "R", 0) for turn in range(after_turn + 1, session.last_turn + 1)]
        written = await self.write(rows, counter, costs, steps=steps)
        is_open = session.head != "closed"
        return [
            HistoryBlock(block.row, block.text, block.tokens, block.messages, is_stable=not (is_open and last))
            for block, last in zip(written, [*[False] * (len(written) - 1), True], strict=False)
        ]

    async def texts(self, level: Shown, first: int, last: int) -> dict[int, str]:
        """The turns' texts at a level, of those that have it; a pruned turn has none."""
        derived = self._store.derived
        if level == "R":
            found = await self._raws(range(first, last + 1))
            return {turn: turn_text(messages) for turn, messages in sorted(found.items()) if messages}
        if level == "T":
            return dict(await derived.tinies(self._session_id, first, last))
        made = await derived.renditions(self._session_id, first, last)
        return {row.turn: str(bodies.expand(row.compressed if level == "C" else row.smoothed)) for row in made}

    async def eras(self, session: SessionRow, first: int, last: int) -> list[Block]:
        """The eras that a range of turns opens into, whole: of the level below the range's own size."""
        level = 1
        while ERA_FANOUT ** (level + 1) < last - first + 1:
            level += 1
        turns = ERA_FANOUT**level
        counter = exact_counter(session.encoding)
        found = await self._store.derived.eras(self._session_id, level, (first - 1) // turns, (last - 1) // turns)
        return [
            Block(
                era.place * turns + 1,
                (era.place + 1) * turns,
                "E",
                (Entry(era.place * turns + 1, era_text(unpack_units(era.units), era.tokens, counter.base)),),
            )
            for era in found
        ]

    async def raw(self, turn: int) -> tuple[Message, ...]:
        return (await self._raws([turn]))[turn]

    async def running(
        self, session: SessionRow, last_turn: int, room_tokens: int, last_step: int | None = None
    ) -> list[Step]:
        """The steps of the newest turn, if it is at work and large; else none, and it is planned as a whole."""
        if not last_turn or last_turn != session.last_turn or session.head == "closed":
            return []
        (size,) = await self._store.derived.sizes_of(self._session_id, last_turn, last_turn)
        if size.is_pruned or size.raw <= RUNNING_SHARE * room_tokens:
            return []
        steps = split_steps(await self.raw(last_turn))
        return [step for step in steps if last_step is None or step.number <= last_step]

    async def _texts(self, rows: Sequence[Row]) -> dict[tuple[Shown, int], _Text]:
        wanted: dict[Shown, list[int]] = {}
        for row in rows:
            wanted.setdefault(row.level, []).extend(range(row.first, row.last + 1))
        texts: dict[tuple[Shown, int], _Text] = {}
        derived = self._store.derived
        for first, last in _runs(wanted.get("T", ())):
            texts |= {("T", turn): _Text(tiny) for turn, tiny in await derived.tinies(self._session_id, first, last)}
        for level in ("C", "S"):
            for first, last in _runs(wanted.get(level, ())):
                for made in await derived.renditions(self._session_id, first, last):
                    text = bodies.expand(made.compressed if level == "C" else made.smoothed)
                    texts[level, made.turn] = _Text(str(text))
        missing = [turn for level, turns in wanted.items() for turn in turns if (level, turn) not in texts]
        for turn, messages in (await self._raws(missing)).items():
            text = turn_text(messages) if messages else f"{PRUNED}\n"
            for level in wanted:
                # A level that is not made yet is shown as a cut of the raw text.
                shown = text if level in ("R", "S") else " ".join(text.split())
                texts.setdefault((level, turn), _Text(shown, None, (messages or None) if level == "R" else None))
        return texts

    async def _raws(self, turns: Iterable[int]) -> dict[int, tuple[Message, ...]]:
        """The messages of turns; none of a pruned one. The newest turn may still grow, so it is read again."""
        found = {turn: self._raw[turn] for turn in turns if turn in self._raw}
        lacking = sorted({turn for turn in turns if turn not in found})
        for first, last in _runs(lacking):
            groups: dict[int, list[Message]] = {turn: [] for turn in range(first, last + 1)}
            for row in await self._store.read(self._session_id, first, last):
                if row.body is not None:
                    groups[row.turn].append(restore_message(row))
            found |= {turn: tuple(messages) for turn, messages in groups.items()}
        closed = (await self._store.get_session(self._session_id)).last_turn if lacking else 0
        for turn in lacking:
            if turn < closed:
                _remember(self._raw, turn, found[turn])
        return found

    async def _eras(self, rows: Sequence[Row], counter: Counter, costs: Overheads) -> dict[tuple[int, int], _Text]:
        texts: dict[tuple[int, int], _Text] = {}
        for row in rows:
            place = (row.first - 1) // ERA_FANOUT**row.era_level if row.era_level else 0
            found = (
                await self._store.derived.eras(self._session_id, row.era_level, place, place) if row.era_level else []
            )
            room = row.tokens - costs.range
            text = era_text(unpack_units(found[0].units), room - 1, counting("E", counter)) if found else ""
            texts[row.first, row.last] = _Text(text or UNSUMMARISED)
        return texts

    def _step_text(self, row: Row, step: Step, counter: Counter) -> _Text:
        if row.level == "R":
            return _Text(turn_text(step.messages), None, step.messages)
        made = self._steps.renditions(row.first, step, counter)
        return _Text({"S": made.smoothed, "C": made.compressed, "T": made.tiny}[row.level])


def is_from_log(row: Row) -> bool:
    """Raw and whole: the log gives the same bytes each time, and the provider's own messages with them."""
    return row.level == "R" and not row.is_cut and not row.first_step


def _remember(cache: dict[K, V], key: K, value: V) -> None:
    """Keep something in place of the oldest."""
    if len(cache) >= MAX_CACHED_TURNS:
        del cache[next(iter(cache))]
    cache[key] = value


def _numbers(row: Row) -> range:
    return range(row.first_step, row.last_step + 1) if row.first_step else range(row.first, row.last + 1)


def _sized(text: _Text, item: object, level: Shown) -> _Text:
    """The text with its stored size, which holds unless the text has to be escaped."""
    name = {"R": "raw", "S": "smoothed", "C": "compressed", "T": "tiny"}[level]
    tokens = getattr(item, name, None)
    if tokens is None or text.text.startswith(PRUNED) or escape_text(text.text, level) != text.text:
        return text
    return _Text(text.text, tokens, text.messages)


def _written(row: Row, texts: Iterable[tuple[int, _Text]], counter: Counter, costs: Overheads) -> Written:
    in_steps = bool(row.first_step)
    entries: list[Entry] = []
    tokens = 0
    messages: list[Message] | None = []
    for number, given in texts:
        text, size = given.text, given.tokens
        if row.is_cut and row.level != "E":
            count = counting(row.level, counter, in_steps=in_steps)
            whole = size if size is not None else count(text)
            text, size = cut_text(text, row.tokens - costs.tag, count, whole), None
        known = size is not None
        tokens += size if known and size is not None else content_tokens(text, row.level, counter, in_steps=in_steps)
        tokens += label_tokens(number, row.level, counter, in_steps=in_steps) if row.is_range else 0
        entries.append(Entry(number, text))
        if given.messages is None or row.is_cut or messages is None:
            messages = None
        else:
            messages += given.messages
    block = block_of(row, entries)
    return Written(block, tokens + frame_tokens(block, counter), tuple(messages) if messages else None)


def _runs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Consecutive numbers as ranges, so that each is one query."""
    start = previous = None
    for number in sorted(set(numbers)):
        if start is None or previous is None or number != previous + 1:
            if start is not None and previous is not None:
                yield start, previous
            start = number
        previous = number
    if start is not None and previous is not None:
        yield start, previous
