"""Reads the texts of a session and writes the rows of plans with them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from operator import attrgetter

from foveate.additions import without_added
from foveate.cache import BoundedCache
from foveate.compress.eras import era_text, roll_up
from foveate.compress.local import LocalCompressor
from foveate.context.assemble import BlockText
from foveate.context.costs import counting, overheads
from foveate.context.dates import Dates
from foveate.context.pairs import TurnMessages
from foveate.context.tags import MARKED, SUMS, TagBlock, TagEntry, escape_text
from foveate.formats.sizes import SentSizes, has_media
from foveate.history.blocks import ONLY_NAMED, artefact_entry, joined_removed, log_text, write_text
from foveate.history.sizes import PRUNED, RunningSteps, SizeCache, Step, StoredSizes, gather, split_steps
from foveate.history.times import READ_GAP_TURNS, TurnTimes, runs_of
from foveate.plan import BRIEF_LINE, NO_LINE, Artefact, Block, Overheads, ShownLevel
from foveate.renditions import TINY_TOKENS, Level, Unit, shape_level, without_recalled
from foveate.store import MessageRow, SessionRow, Store, bodies
from foveate.store.codec import restore_message
from foveate.store.rows import ERA_FANOUT, EraRow, Origin, era_turns
from foveate.store.snapshot import KnownTurns, SessionSnapshot
from foveate.strategy.build import SHORT, SourceTurn
from foveate.text import turn_text
from foveate.tokens import Counter
from foveate.turn import Message
from foveate.worker.renditions import compress_safely, unpack_units

RUNNING_SHARE = 0.25
"""Share of the history's room above which a turn in progress is shown step by step."""
MAX_CACHED_TURNS = 64
"""Maximum texts in each cache of an open session; more if one context needs more. What no context shows any more is
rarely read again, and takes about 4 kB a turn; a server has hundreds of sessions open."""
MAX_LOOP_CHARS = 100_000
"""A larger turn is read, written and counted in a thread, so that it does not block the event loop."""
LEAST_OPENED_TOKENS = 60
"""Minimum size of an opened era, even if more pages are needed."""
MAX_OPEN_TURNS = 4
"""Versions of the newest turn in memory: contexts of one session may be made at the same time."""
USER_MARK = "[user] "
HIDDEN_STEPS = "(steps {} to {}: get_turn shows them)"


@dataclass(frozen=True, slots=True)
class RawTurn:
    """A raw turn."""

    messages: tuple[Message, ...]
    """Empty if the turn was pruned."""
    text: str
    counted_tokens: int
    """Tokens of its messages, counted when they were recorded."""
    tokens: int | None
    """Tokens of its text in a block; None if it has escapes or attachments and must be counted."""
    extra_tokens: int = 0
    """Tokens of its messages beyond the text, if they are sent as messages."""


@dataclass(frozen=True, slots=True)
class Survey:
    """Sizes and steps that plans are made from and written with."""

    sizes: StoredSizes
    steps: Sequence[Step]
    """Steps of the newest turn, if it is in progress and large."""
    costs: Overheads


class _TextCache:
    """Cached texts. To drop them, replace the cache: contexts in progress then fill one that is not used any more."""

    def __init__(self) -> None:
        self.closed: BoundedCache[int, RawTurn] = BoundedCache(MAX_CACHED_TURNS)
        """Closed turns by number."""
        self.newest: BoundedCache[tuple[int, int], RawTurn] = BoundedCache(MAX_OPEN_TURNS)
        """The newest turn by its number and the position of its last message."""
        self.blocks: BoundedCache[tuple[Hashable, ...], BlockText] = BoundedCache(MAX_CACHED_TURNS)
        """Written blocks of closed turns."""
        self.eras: BoundedCache[tuple[int, int, int, int], str] = BoundedCache(MAX_CACHED_TURNS)
        """Texts of stored eras by level, first turn, last turn and size."""

    def get(self, turn: int, newest: tuple[int, int]) -> RawTurn | None:
        """Return a turn of a session whose newest message is `newest`."""
        return self.newest.get(newest) if turn == newest[0] else self.closed.get(turn)

    def add(self, turn: int, raw: RawTurn, newest: tuple[int, int]) -> None:
        """Add a turn of a session whose newest message is `newest`."""
        if turn < newest[0]:
            self.closed[turn] = raw
        else:
            self.newest[newest] = raw


class TextReader:
    """Reads the texts of one session. What can't change any more is cached."""

    def __init__(self, store: Store, session_id: str, *, dates: Dates = "auto") -> None:
        self._store = store
        self._session_id = session_id
        self._times = TurnTimes(store, session_id, dates)
        self._sizes = SizeCache()
        self._compressor = LocalCompressor()
        self._sent = SentSizes.of(None)
        self._steps = RunningSteps(self._compressor, self._sent)
        self._cache = _TextCache()
        self.known = KnownTurns()
        """The messages in memory; a snapshot need not include them."""

    async def take(self, snapshot: SessionSnapshot) -> None:
        """Add the messages of a snapshot. The caches are dropped if turns were pruned or the model has changed."""
        session = snapshot.session
        self._renew(snapshot.origin)
        sent = SentSizes.of(session.model, session.encoding)
        if sent != self._sent:
            self._compressor = replace(self._compressor, tiny_tokens=sent.counter.base_within(TINY_TOKENS))
            self._sent, self._steps = sent, RunningSteps(self._compressor, sent)
            self._forget()
        held, known, rows = self.known, snapshot.known, snapshot.messages
        newest = session.newest
        if (held.turn, held.position) > newest or not rows:
            return
        before = self._cache.newest.get((known.turn, known.position))
        restored: dict[int, RawTurn] = {}
        for turn, own in groupby(rows, attrgetter("turn")):
            begun = before if turn == known.turn else None
            if begun is None and rows[0].position > 1 and turn == rows[0].turn:
                # The beginning of the turn is not in memory any more: the next snapshot includes it.
                self.known = KnownTurns(origin=snapshot.origin)
                return
            restored[turn] = await self._restored(list(own), begun)
        if before and rows[0].turn == known.turn + 1:
            restored[known.turn] = before  # the turn was closed without another message
        if self.known is held:  # else another context has added newer messages, or dropped the cache
            for turn, raw in restored.items():
                self._cache.add(turn, raw, newest)
            self.known = KnownTurns(*newest, snapshot.origin)

    def _renew(self, origin: Origin) -> None:
        """Drop all cached data if turns were pruned since, or the session was created again."""
        if origin != self.known.origin:
            self._times = self._times.anew()
            self._sizes = SizeCache()
            self._steps = RunningSteps(self._compressor, self._sent)
            self._forget()
            self.known = KnownTurns(origin=origin)

    def _forget(self) -> None:
        """Drop the cached texts."""
        self._cache = _TextCache()
        self.known = KnownTurns(origin=self.known.origin)

    async def is_dated(self, session: SessionRow) -> bool:
        """Return whether the blocks of the conversation have dates."""
        return await self._times.is_dated(session)

    async def survey(
        self, session: SessionRow, room_tokens: int, *, last_turn: int, last_step: int | None = None
    ) -> Survey:
        """Read the sizes of the turns up to `last_turn`, as far back as the room reaches."""
        counter = session.exact
        steps = await self.running(session, last_turn, room_tokens, last_step)
        is_dated = await self.is_dated(session)
        costs = overheads(last_turn, counter, last_step=len(steps), is_dated=is_dated)
        running = await asyncio.to_thread(self._steps.items, last_turn, steps, counter) if steps else ()
        sizes = await gather(
            self._store, self._session_id, self._sizes, last_turn=last_turn, budget_tokens=room_tokens, running=running
        )
        return Survey(sizes, steps, costs)

    async def write(
        self,
        session: SessionRow,
        rows: Sequence[Block],
        costs: Overheads,
        steps: Sequence[Step] = (),
        made: Mapping[str, Artefact] | None = None,
    ) -> list[BlockText]:
        """Write rows of a plan with their texts in tags; blocks of closed turns from the log are cached."""
        made, counter, cache = made or {}, session.exact, self._cache
        cache.blocks.reserve(len(rows))
        by_step = {step.number: step for step in steps}
        keys = [_key(row, made, by_step) for row in rows]
        cached = [cache.blocks.get(key) if key else None for key in keys]
        unwritten = [row for row, block in zip(rows, cached, strict=True) if block is None]
        turn_rows = [row for row in unwritten if not row.first_step and row.level not in SUMS]
        entries, raws = await self._entries(session, turn_rows, made)
        dated = await self._times.read(session, unwritten)
        eras = await self._eras(session, [row for row in rows if row.level == "E"], costs)
        rest = await self._eras(session, [row for row in unwritten if row.era_tokens], costs)
        blocks = []
        for planned, key, known in zip(rows, keys, cached, strict=True):
            if known and key:
                block = known if known.row == planned else replace(known, row=planned)
                cache.blocks[key] = block
                blocks.append(block)
                continue
            # Hidden steps are written as a range of steps with one line for all.
            row = replace(planned, level="T", is_range=True) if planned.first_step and planned.level == "E" else planned
            if planned.level == "E":
                own = [eras[planned]]
            elif row.level == "A":
                own = [artefact_entry(row, made)]
            elif row.first_step:
                own = [self._step_entry(row, by_step[number], counter, made) for number in _numbers(row)]
            elif row.levels:
                own = [_line(entries[letter, number], letter) for number, letter in _lines(row)]
            else:
                own = [entries[row.level, number] for number in _numbers(row)]
            own = dated.entries(row, joined_removed(own) if row.is_range else own)
            messages = _messages(row, raws, by_step)
            extra = self._extra_tokens(row, messages)
            write = partial(write_text, row, own, counter, costs, messages=messages, extra_tokens=extra)
            is_large = sum(len(entry.text) for entry in own) > MAX_LOOP_CHARS
            block = dated.block(await asyncio.to_thread(write) if is_large else write())
            if planned.era_tokens:
                era_row = _era_of(planned)
                era = write_text(era_row, dated.entries(era_row, [rest[planned]]), counter, costs)
                block = replace(block, text=f"{era.text}{block.text}", tokens=era.tokens + block.tokens)
            blocks.append(block)
            if key and (row.first_step or row.last in cache.closed):
                cache.blocks[key] = blocks[-1]
        return blocks

    async def appended(
        self, session: SessionRow, after_turn: int, after_step: int, until: tuple[int, int]
    ) -> list[BlockText]:
        """Write the later steps of a turn and later turns, all raw, up to the turn `until`, and up to a step of it."""
        last_turn, last_step = until
        first = after_turn + (0 if after_step else 1)
        costs = overheads(session.last_turn, session.exact)
        written: list[BlockText] = []
        for turn in dict.fromkeys((after_turn if after_step else 0, last_turn if last_step else 0)):
            if not turn:
                continue
            steps = [
                step
                for step in split_steps(await self.raw(session, turn))
                if (turn, step.number) > (after_turn, after_step)
                and (turn, step.number) <= (last_turn, last_step or math.inf)
            ]
            whole = range(first, turn)
            rows = [Block(turn, turn, "R", 0, first_step=step.number, last_step=step.number) for step in steps]
            written += await self.write(session, [*map(_raw_row, whole), *rows], costs, steps=steps)
            first = turn + 1
        written += await self.write(session, list(map(_raw_row, range(first, last_turn + 1))), costs)
        if written and session.is_open:
            written[-1] = replace(written[-1], is_stable=False)
        return written

    async def sources(
        self, session: SessionRow, turns: Collection[int], *, messages: bool, units: bool
    ) -> list[SourceTurn]:
        """Read turns to make artefacts from, oldest first; units that no worker has made yet are made now."""
        counter = session.exact
        known: dict[int, tuple[tuple[Unit, ...], str]] = {}
        for first, last in runs_of(turns) if units else ():
            for row in await self._store.derived.renditions(self._session_id, first, last):
                known[row.turn] = unpack_units(row.units), row.tiny
        lacking = [turn for turn in turns if turn not in known] if units else []
        raws = await self._raws(session, turns if messages else lacking)
        for turn in lacking:
            own = without_recalled(raws[turn].messages)
            made = await asyncio.to_thread(compress_safely, self._compressor, turn, own, counter)
            known[turn] = made.units, made.tiny
        return [
            SourceTurn(turn, raws[turn].messages if messages else (), *known.get(turn, ((), "")))
            for turn in sorted(set(turns))
        ]

    async def texts(self, session: SessionRow, level: ShownLevel, first: int, last: int) -> dict[int, str]:
        """Read the texts of turns at a level; turns that were pruned or lack the level are skipped."""
        derived = self._store.derived
        if level == "R":
            self._renew(Origin(session.number, session.created_us, await derived.pruned(self._session_id)))
            return await self.raw_texts(session, first, last)
        if level == "T":
            return {turn: tiny for turn, tiny, _ in await derived.tinies(self._session_id, first, last)}
        made = await derived.renditions(self._session_id, first, last)
        return {row.turn: str(bodies.expand(row.compressed if level == "C" else row.smoothed)) for row in made}

    async def made_now(self, session: SessionRow, level: Level, turns: Collection[int]) -> dict[int, str]:
        """Make the texts of turns at a level from their raw messages, without storing them."""
        texts: dict[int, str] = {}
        for turn, raw in (await self._raws(session, turns)).items():
            own = without_recalled(raw.messages)
            made = await asyncio.to_thread(compress_safely, self._compressor, turn, own, session.exact)
            texts[turn] = {"R": raw.text, "S": made.smoothed, "C": made.compressed, "T": made.tiny}[level]
        return texts

    async def raw_texts(self, session: SessionRow, first: int, last: int) -> dict[int, str]:
        """Read the raw texts of turns; one that was pruned since the last snapshot may be included."""
        found = await self._raws(session, range(first, last + 1))
        return {turn: raw.text for turn, raw in sorted(found.items()) if raw.messages}

    async def eras(self, session: SessionRow, first: int, last: int, room_tokens: int) -> list[TagBlock]:
        """Read the eras inside a range of turns: of the level below the range's own size, then smaller ones.

        Together they fill about the room. Turns that are too new or too few for an era are not included.
        """
        level, reached = 0, first - 1
        while ERA_FANOUT ** (level + 1) < last - first + 1:
            level += 1
        found: list[EraRow] = []
        while level and reached < last:
            turns = ERA_FANOUT**level
            for era in await self._store.derived.eras(self._session_id, level, reached // turns, (last - 1) // turns):
                found.append(era)
                reached = (era.place + 1) * turns
            level -= 1
        counter = session.exact
        frame = overheads(session.last_turn, counter).range
        most = max(LEAST_OPENED_TOKENS, room_tokens // max(1, len(found)) - frame)
        return [await self._era_block(session, era, min(most, era.tokens)) for era in found]

    async def _era_block(self, session: SessionRow, era: EraRow, most_tokens: int) -> TagBlock:
        turns = era_turns(era.level, era.place)
        text = await self._dated_era(session, unpack_units(era.units), most_tokens, turns)
        return TagBlock(turns[0], turns[-1], "E", (TagEntry(turns[0], text or ONLY_NAMED),))

    async def raw(self, session: SessionRow, turn: int) -> tuple[Message, ...]:
        """Return the messages of a turn; none if it was pruned."""
        return (await self.raw_turn(session, turn)).messages

    async def raw_turn(self, session: SessionRow, turn: int) -> RawTurn:
        """Return a turn as it was recorded."""
        return (await self._raws(session, [turn]))[turn]

    async def is_waiting(self, session: SessionRow, prompt: Sequence[Message]) -> bool:
        """Return whether the newest turn ends with exactly this prompt and has no answer yet."""
        if not session.is_open:
            return False
        kept = [message for message in await self.raw(session, session.last_turn) if message.kind == "message"]
        if not kept or kept[-1].role != "user":
            return False
        return [message.parts for message in kept[-len(prompt) :]] == [message.parts for message in prompt]

    async def running(
        self, session: SessionRow, last_turn: int, room_tokens: int, last_step: int | None = None
    ) -> list[Step]:
        """Return the steps of the newest turn if it is in progress and large; else none, and it is planned as a whole.

        With `last_step`, return the steps up to that one, whatever the size of the turn.
        """
        if not last_turn or last_turn != session.last_turn or not session.is_open:
            return []
        raw = await self.raw_turn(session, last_turn)
        if last_step is None and raw.counted_tokens <= RUNNING_SHARE * room_tokens:
            return []
        return [step for step in split_steps(raw.messages) if last_step is None or step.number <= last_step]

    async def _entries(
        self, session: SessionRow, rows: Sequence[Block], made: Mapping[str, Artefact]
    ) -> tuple[dict[tuple[str, int], TagEntry], dict[int, RawTurn]]:
        """Return the text of each turn at its level and in brief, and the raw turns that were read for it."""
        wanted: dict[ShownLevel, list[int]] = {}
        by_turn: dict[int, Block] = {}
        for planned in rows:
            for span in planned.spans():
                wanted.setdefault(span.level, []).extend(range(span.first, span.last + 1))
            turns = range(planned.first, planned.last + 1)
            by_turn |= dict.fromkeys(turns, planned) if planned.level in ("U", "M") else {}
        entries = await self._made_entries(wanted)
        missing = [(level, turn) for level, turns in wanted.items() for turn in turns if (level, turn) not in entries]
        raws = await self._raws(session, {turn for _, turn in missing})
        cut = {turn for row in rows if row.is_cut for turn in range(row.first, row.last + 1)}
        for level, turn in missing:
            raw = raws[turn]
            if level in ("R", "S"):
                entries[level, turn] = TagEntry(turn, _cuttable(raw) if turn in cut else raw.text, raw.tokens)
            elif level in ("U", "M"):
                entries[level, turn] = TagEntry(turn, log_text(by_turn[turn], raw.messages, made))
            else:
                # A level that is not made yet is replaced by a cut of the raw text.
                entries[level, turn] = TagEntry(turn, " ".join(_cuttable(raw).split()))
            if not raw.messages:
                entries[level, turn] = replace(entries[level, turn], is_removed=True)
        for turn in wanted.get("C", ()):
            entries.setdefault((BRIEF_LINE, turn), entries["C", turn])
        return entries, raws

    async def _made_entries(self, wanted: Mapping[ShownLevel, Sequence[int]]) -> dict[tuple[str, int], TagEntry]:
        """Read the stored renditions of turns by level; with C, also the brief form."""
        entries: dict[tuple[str, int], TagEntry] = {}
        tiny, compressed, smoothed = (frozenset(wanted.get(level, ())) for level in ("T", "C", "S"))
        if not (tiny or compressed or smoothed):
            return entries
        tinies, made = await self._store.derived.texts(
            self._session_id,
            list(runs_of(tiny, gap=READ_GAP_TURNS)),
            list(runs_of(compressed | smoothed, gap=READ_GAP_TURNS)),
        )
        for turn, text, tokens in tinies:
            if turn in tiny:
                entries["T", turn] = TagEntry(turn, text, tokens)
        for row in made:
            turn = row.turn
            if turn in smoothed:
                entries["S", turn] = TagEntry(turn, str(bodies.expand(row.smoothed)), row.smoothed_tokens)
            if turn in compressed:
                entries["C", turn] = TagEntry(turn, str(bodies.expand(row.compressed)), row.compressed_tokens)
                if row.brief is not None:
                    entries[BRIEF_LINE, turn] = TagEntry(turn, str(bodies.expand(row.brief)), row.brief_tokens)
        return entries

    async def _raws(self, session: SessionRow, turns: Collection[int]) -> dict[int, RawTurn]:
        """Return turns as they were recorded; of the newest one, the messages up to the session's last position."""
        cache, newest = self._cache, session.newest
        cache.closed.reserve(len(turns))
        found = {turn: raw for turn in turns if (raw := cache.get(turn, newest))}
        for first, last in runs_of(turn for turn in turns if turn not in found):
            groups: dict[int, list[MessageRow]] = {turn: [] for turn in range(first, last + 1)}
            for row in await self._store.read(self._session_id, first, last):
                if (row.turn, row.position) <= newest:
                    groups[row.turn].append(row)
            for turn, rows in groups.items():
                found[turn] = await self._restored(rows)
                cache.add(turn, found[turn], newest)
        return found

    async def _restored(self, rows: Sequence[MessageRow], begun: RawTurn | None = None) -> RawTurn:
        """Restore a turn from its rows, or from its beginning and the rows since; a large one in a thread."""
        restore = partial(_restored, rows, self._sent, begun)
        is_large = sum(len(row.body or b"") for row in rows) > MAX_LOOP_CHARS
        return await asyncio.to_thread(restore) if is_large else restore()

    async def _eras(self, session: SessionRow, rows: Sequence[Block], costs: Overheads) -> dict[Block, TagEntry]:
        """Return the texts of rows that are eras, or that have one of their turns without a line."""
        entries: dict[Block, TagEntry] = {}
        cached = self._cache.eras
        for row in rows:
            room = (row.era_tokens or row.tokens) - costs.range - 1
            key = (row.era_level, row.first, row.last, room)
            text = "" if row.is_cut or row.first_step else cached.get(key)
            if text is None and row.era_level:
                text = cached[key] = await self._era_text(session, row, room)
            elif text is None:  # not cached: better renditions may be made
                text = await self._text_of_rest(session, row, room)
            hidden = HIDDEN_STEPS.format(row.first_step, row.last_step) if row.first_step else ""
            entries[row] = TagEntry(row.first_step or row.first, text or hidden or ONLY_NAMED)
        return entries

    async def _era_text(self, session: SessionRow, row: Block, room_tokens: int) -> str:
        """Write the text of a block of eras; several eras are summarised together, so that none repeats another."""
        turns = ERA_FANOUT**row.era_level
        places = (row.first - 1) // turns, (row.last - 1) // turns
        found = await self._store.derived.eras(self._session_id, row.era_level, *places)
        units = tuple(unit for era in found for unit in unpack_units(era.units))
        shown = range(row.first, row.last + 1)
        if len(found) > 1:
            units = roll_up(units, room_tokens, session.exact.base, turns=shown)
        return await self._dated_era(session, units, room_tokens, shown)

    async def _text_of_rest(self, session: SessionRow, row: Block, room_tokens: int) -> str:
        """Write a text about the turns of a block that have no line."""
        levels = row.levels or NO_LINE * (row.last - row.first + 1)
        turns = [turn for turn, letter in enumerate(levels, row.first) if letter == NO_LINE]
        units: list[Unit] = []
        for first, last in runs_of(turns, gap=READ_GAP_TURNS):
            for made in await self._store.derived.renditions(self._session_id, first, last):
                units += unpack_units(made.units) if made.turn in turns else ()
        rolled = roll_up(units, room_tokens, session.exact.base, turns=turns)
        return await self._dated_era(session, rolled, room_tokens, turns)

    async def _dated_era(
        self, session: SessionRow, units: Sequence[Unit], room_tokens: int, turns: Sequence[int]
    ) -> str:
        """Write the text of an era, with the days of its lines unless there is only one, or they take the room of a
        line."""
        write = partial(era_text, units, room_tokens, counting("E", session.exact), turns=turns)
        days = await self._times.days(session, {unit.turn for unit in units})
        plain, dated = write(), write(days=days) if len(set(days.values())) > 1 else ""
        return dated if dated.count("\n") == plain.count("\n") and dated else plain

    def _extra_tokens(self, row: Block, messages: tuple[Message, ...] | None) -> int:
        if not messages:
            return 0
        whole = None if row.first_step or row.first != row.last else self._cache.closed.get(row.first)
        return whole.extra_tokens if whole else self._sent.beyond_text_tokens(messages)

    def _step_entry(self, row: Block, step: Step, counter: Counter, made_before: Mapping[str, Artefact]) -> TagEntry:
        if row.level in ("U", "M"):
            return TagEntry(step.number, log_text(row, step.messages, made_before, step=step))
        if row.level == "R":
            return TagEntry(
                step.number, self._sent.tagged_text(without_added(step.messages) if row.is_cut else step.messages)
            )
        known = self._steps.texts(row.first, step, counter)
        made, item = known.made, known.item
        match row.level:
            case "S":
                return TagEntry(step.number, made.smoothed, item.smoothed)
            case "C":
                return TagEntry(step.number, made.compressed, item.compressed)
        return TagEntry(step.number, made.tiny, item.tiny)


def _cuttable(raw: RawTurn) -> str:
    """Return the text of a turn to be cut: what people typed comes before what their programs added."""
    typed = without_added(raw.messages)
    return raw.text if typed == raw.messages else turn_text(typed)


def is_from_log(row: Block) -> bool:
    """Return whether a row is raw and whole, so that the log gives the same bytes and messages each time."""
    return row.level == "R" and not row.is_cut and not row.first_step


def _era_of(row: Block) -> Block:
    """Return the era of the turns of a block that have no line."""
    return Block(row.first, row.last, "E", row.era_tokens)


def _raw_row(turn: int) -> Block:
    return Block(turn, turn, "R", 0)


def _numbers(row: Block) -> range:
    return range(row.first_step, row.last_step + 1) if row.first_step else range(row.first, row.last + 1)


def _lines(row: Block) -> Iterator[tuple[int, str]]:
    """Yield the turns with a line in a block of several levels, and their letters."""
    return ((turn, letter) for turn, letter in enumerate(row.levels, row.first) if letter != NO_LINE)


def _line(entry: TagEntry, level: str) -> TagEntry:
    """Shape a text like C and T: on the line of its label, without the mark of the user."""
    return TagEntry(entry.number, shape_level("C", entry.text.removeprefix(USER_MARK))) if level in MARKED else entry


def _messages(row: Block, raws: Mapping[int, RawTurn], steps: Mapping[int, Step]) -> tuple[Message, ...] | None:
    """Return the messages of a raw block; None for other levels, a cut block, or one with a pruned turn."""
    if row.level != "R" or row.is_cut:
        return None
    parts = [steps[number].messages if row.first_step else raws[number].messages for number in _numbers(row)]
    return TurnMessages(message for part in parts for message in part) if all(parts) else None


def _key(row: Block, made: Mapping[str, Artefact], steps: Mapping[int, Step]) -> tuple[Hashable, ...] | None:
    """Return the cache key of a row that depends only on the log and its artefact; None for others.

    It has its turns and level, the short messages, which may be replaced, and the size of a step, which may grow.
    """
    if row.level not in ("R", "U", "M") or row.is_cut:
        return None
    if row.first_step:
        if row.level != "R" or row.first_step != row.last_step:
            return None
        return row.first, row.first_step, len(steps[row.first_step].messages)
    found = made.get(row.artefact) if row.artefact else None
    kept = found.data.get(SHORT) if found else None
    short = tuple((place, kept.get(str(place))) for place in row.short) if isinstance(kept, Mapping) else ()
    return row.first, row.last, row.level, row.is_range, short


def _restored(rows: Sequence[MessageRow], sizes: SentSizes, begun: RawTurn | None = None) -> RawTurn:
    """Restore a turn from its rows, or from its beginning and the rows since."""
    before = begun.messages if begun else ()
    added = tuple(restore_message(row) for row in rows if row.body is not None)
    messages = before + added
    counted = sum(row.tokens for row in rows) + (begun.counted_tokens if begun else 0)
    if not messages:
        return RawTurn((), f"{PRUNED}\n", counted, None)
    text = sizes.tagged_text(messages)
    extra = (begun.extra_tokens if begun else 0) + sizes.beyond_text_tokens(added)
    # A note on an attachment is not in the stored count.
    is_plain = not extra and not has_media(messages) and escape_text(text, "R") == text
    return RawTurn(messages, text, counted, counted if is_plain else None, extra)
