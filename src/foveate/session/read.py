"""Reading turns: their text at a level, their messages, or only their sizes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import groupby
from operator import attrgetter
from typing import Final, Literal, get_args

from foveate.compress.facts import find_facts
from foveate.context.tags import tag_turn
from foveate.context.tools import order_problem
from foveate.errors import (
    InputError,
    LevelNotReady,
    LevelUnknown,
    TurnNotFound,
    TurnPruned,
    UnknownFormat,
    did_you_mean,
)
from foveate.history.texts import TextReader
from foveate.recall.topics import TopicMatch, topic_titles
from foveate.renditions import LEVELS, Level
from foveate.session.values import LevelDetails, TopicTurns, TurnContent, TurnDetails, TurnOutline
from foveate.store import MessageRow, SessionRow, Store
from foveate.store.codec import restore_message
from foveate.store.rows import RenditionRow, RenditionSizes
from foveate.text import MARK_WORDS
from foveate.tokens import Counter
from foveate.turn import Turn, from_us, turn_id, turn_number

TurnFormat = Literal["tagged", "plain"]
SHAPES: Final[tuple[TurnFormat, ...]] = get_args(TurnFormat)

NEWEST = 2**62
MAX_TOPICS = 5
TOPIC_CHARS = 4_000
"""Characters of each prompt that are read to find its topics."""
TOPIC_KINDS = "win"
"""Kinds of facts that can be topics: words, identifiers and names, but not numbers and paths."""
TOPIC_WEIGHT = 0.6
"""Minimum weight of a word that is a topic."""
_MARK = re.compile(rf"\[(?:{MARK_WORDS})\b[^\]\n]*\]")
_WORD = re.compile(r"[\w-]+")


class Reader:
    """Reads one session's turns, as of the moment it was made."""

    def __init__(self, store: Store, row: SessionRow, counter: Counter, reader: TextReader) -> None:
        self._store = store
        self._row = row
        self._counter = counter
        self._reader = reader

    def between(self, first: str | int, last: str | int | None) -> tuple[int, int]:
        """Parse the first and last turn of a range into numbers. Default of `last`: the newest turn."""
        low = turn_number(first)
        high = NEWEST if last is None else turn_number(last)
        if low is None or high is None:
            raise TurnNotFound(self._row.id, str(first if low is None else last), self._row.last_turn)
        if high < low:
            raise InputError(f"{order_problem(low, high)}; exchange them")
        return low, high

    async def contents(self, low: int, high: int, level: str, shape: str) -> list[TurnContent]:
        """Return the turns' texts at a level, in tags (`tagged`) or plain.

        Pruned turns of a range are skipped; a single one is an error.
        """
        if level not in LEVELS:
            raise LevelUnknown(level, LEVELS)
        if shape not in SHAPES:
            raise UnknownFormat(f"no turns of format {shape!r}; {did_you_mean(shape, SHAPES)}")
        shown: Level = level
        sizes = await self._store.derived.sizes_of(self._row.id, low, high)
        if low != high:
            sizes = [size for size in sizes if not size.is_pruned]
        if not sizes:
            return []
        low, high = sizes[0].turn, sizes[-1].turn  # those that exist, however large the range is
        # `sizes` tells which turns are pruned.
        is_past = high < self._row.last_turn
        row = await self._store.get_session(self._row.id) if shown == "R" and not is_past else self._row
        reader = self._reader
        texts = await (reader.raw_texts(row, low, high) if shown == "R" else reader.texts(row, shown, low, high))
        stored = frozenset(texts)
        lost = [size.turn for size in sizes if size.tiny is not None and size.turn not in texts and not size.is_pruned]
        if shown != "R" and lost:  # damaged since they were made; the worker makes them again
            texts |= await reader.made_now(row, shown, lost)
        return [self._content(size, shown, texts, shape, is_stored=size.turn in stored) for size in sizes]

    async def kept(self, low: int, high: int) -> list[Turn | TurnOutline]:
        """Return the turns of a range; of those that were pruned, the outlines."""
        outlines = await self.outlines(low, high)
        found: list[Turn | TurnOutline] = []
        for is_pruned, group in groupby(outlines, key=attrgetter("is_pruned")):
            own = list(group)
            found += own if is_pruned else await self.turns(own[0].number, own[-1].number)
        return found

    async def on_topic(self, match: TopicMatch, level: str, shape: str) -> TopicTurns:
        """Return the turns on a topic. A turn without a rendition is raw, and pruned turns are skipped."""
        found = TopicTurns(match.titles)
        for number in match.turns:
            with suppress(TurnPruned):
                try:
                    found += await self.contents(number, number, level, shape)
                except LevelNotReady:
                    found += await self.contents(number, number, "R", shape)
        return found

    async def turns(self, low: int, high: int) -> list[Turn]:
        """Load turns with their messages. Pruned turns of a range are skipped; a single one is an error."""
        turns = _by_number(await self._store.read(self._row.id, low, high))
        return [
            self._restore(number, group)
            for number, group in turns.items()
            if low == high or all(row.body is not None for row in group)
        ]

    async def outlines(self, low: int, high: int) -> list[TurnOutline]:
        """List sizes and times of turns, without reading the turns."""
        return [
            TurnOutline(
                id=turn_id(row.turn),
                number=row.turn,
                messages=row.messages,
                tokens=self._counter.scale(row.tokens, self._row.calibration),
                tool_calls=row.tool_calls,
                started_at=from_us(row.first_at_us),
                ended_at=from_us(row.last_at_us),
                raw_bytes=row.size,
                is_pruned=row.pruned,
                erased_at=None if row.erased_us is None else from_us(row.erased_us),
            )
            for row in await self._store.turns(self._row.id, low, high)
        ]

    async def details(self, number: int) -> TurnDetails:
        """Return the details of a turn; `TurnNotFound` if it does not exist."""
        outlines = await self.outlines(number, number)
        if not outlines:
            raise TurnNotFound(self._row.id, turn_id(number), self._row.last_turn)
        (outline,) = outlines
        rows = await self._store.read(self._row.id, number, number)
        made = next(iter(await self._store.derived.renditions(self._row.id, number, number)), None)
        rules = next(iter(await self._store.derived.renditions_by_rules(self._row.id, number, number)), None)
        prompts = [row for row in rows if row.role == "user" and row.kind == "message" and row.body is not None]
        answers = sum(row.tokens for row in rows if row.role == "assistant" and row.kind == "message")
        learned = await topic_titles(self._store, self._row, number)
        raw = LevelDetails("R", outline.tokens, "recorded", None, outline.started_at)
        return TurnDetails(
            id=outline.id,
            messages=outline.messages,
            tokens=outline.tokens,
            tool_calls=outline.tool_calls,
            prompt_tokens=self._scaled(sum(row.tokens for row in prompts)),
            answer_tokens=self._scaled(answers),
            topics=learned or _topics([restore_message(row).text for row in prompts], made.tiny if made else ""),
            is_complete=made is not None and bool(made.is_complete),
            levels=(raw, *self._made_levels(made, rules)) if made else (raw,),
        )

    def _made_levels(self, made: RenditionRow, rules: RenditionRow | None) -> list[LevelDetails]:
        """Return the levels with their makers: a text that the rules had made before is theirs, not the model's."""
        found = []
        for level, text, tokens in (
            ("S", "smoothed", made.smoothed_tokens),
            ("C", "compressed", made.compressed_tokens),
            ("T", "tiny", made.tiny_tokens),
        ):
            by = rules if rules and getattr(rules, text) == getattr(made, text) else made
            found.append(LevelDetails(level, self._scaled(tokens), by.maker, by.version, from_us(by.made_us)))
        return found

    def _scaled(self, tokens: int) -> int:
        return self._counter.scale(tokens, self._row.calibration)

    def _restore(self, number: int, rows: list[MessageRow]) -> Turn:
        if any(row.body is None for row in rows):
            raise TurnPruned(self._row.id, turn_id(number), day_of(rows[0].erased_us))
        tokens = self._counter.scale(sum(row.tokens for row in rows), self._row.calibration)
        return Turn(tuple(restore_message(row) for row in rows), number, tokens)

    def _content(
        self, size: RenditionSizes, level: Level, texts: Mapping[int, str], shape: str, *, is_stored: bool
    ) -> TurnContent:
        available = LEVELS if size.tiny is not None else ("R",)
        if size.is_pruned:
            raise TurnPruned(self._row.id, turn_id(size.turn), day_of(size.erased_us))
        if level not in available:
            raise LevelNotReady(turn_id(size.turn), level, available)
        text = texts[size.turn]
        content = tag_turn(size.turn, level, text) if shape == "tagged" else text
        known = {"R": size.raw, "S": size.smoothed, "C": size.compressed, "T": size.tiny}[level]
        is_known = is_stored and level in ("R", "S") and known is not None
        tokens = known if is_known and known is not None else self._counter.base(text)
        scaled = self._counter.scale(tokens, self._row.calibration)
        return TurnContent(turn_id(size.turn), level, content, scaled, available)


def day_of(moment_us: int | None) -> str:
    """Return the date of a moment; empty for none."""
    return "" if moment_us is None else f"{from_us(moment_us):%Y-%m-%d}"


def _topics(prompts: Iterable[str], tiny: str) -> tuple[str, ...]:
    """Return the words, names and identifiers of highest weight in the prompts and the tiny rendition."""
    text = "\n".join([*(prompt[:TOPIC_CHARS] for prompt in prompts), _MARK.sub(" ", tiny)])
    weights = {key: weight for key, weight in find_facts(text).items() if key[:1] in TOPIC_KINDS}
    heaviest = sorted(weights, key=lambda key: (-weights[key], key))
    words = _WORD.findall(text.casefold())
    found = []
    for key in heaviest:
        # The key of a word (kind w) is only the beginning of it.
        name = key.partition(":")[2]
        found += [next((word for word in words if word.startswith(name)), name)] if weights[key] >= TOPIC_WEIGHT else []
    return tuple(dict.fromkeys(found))[:MAX_TOPICS]


def _by_number(rows: Iterable[MessageRow]) -> dict[int, list[MessageRow]]:
    groups: dict[int, list[MessageRow]] = {}
    for row in rows:
        groups.setdefault(row.turn, []).append(row)
    return groups
