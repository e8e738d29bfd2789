"""The picture of a context: a bar of the budget, and the turns as a timeline. Pure; surfaces draw it.

    picture = picture_of(context.segments, context.budget_tokens)
    picture.parts       # the bar: parts in the order in which they are sent, the history by level
    picture.columns     # the timeline: a turn each, older turns in ranges

Each time a plan changes, the levels of the turns are stored, so that people can see how the picture changed.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

from foveate.context.coverage import turns_without_words
from foveate.plan import NO_LINE, Cause, ShownLevel
from foveate.session.values import Context, Segment
from foveate.store.pictures import PictureRow
from foveate.text import several
from foveate.turn import from_us, to_us

LEVEL_NAMES: Mapping[ShownLevel, str] = {
    "R": "raw",
    "S": "smoothed",
    "C": "compressed",
    "T": "tiny",
    "E": "eras",
    "U": "user's words",
    "M": "some messages short",
    "A": "summaries",
}
HOLLOW_NAME = "without words"
"""The name of turns of which the context says nothing."""
MEANINGS: Mapping[ShownLevel, str] = {
    "R": "word for word",
    "S": "without filler",
    "C": "its main points",
    "T": "one line",
    "E": "a summary of many turns",
    "U": "what the user said",
    "M": "long messages are short",
    "A": "a summary of many turns",
}
FIDELITY: tuple[ShownLevel, ...] = ("R", "M", "S", "U", "C", "A", "T", "E")
"""Levels, the most detailed first."""
HEIGHTS: Mapping[ShownLevel, int] = {level: len(FIDELITY) - place for place, level in enumerate(FIDELITY)}
"""Height of a turn on the timeline, from 1 to 8."""
ABSENT: Literal["-"] = "-"
"""In place of a level: the context says nothing of the turn."""
REMOVED_NAME = "erased or pruned"
IN_PART: ShownLevel = "M"
"""The level of a turn with steps word for word and others that are shorter."""
SUM_LEVELS: tuple[ShownLevel, ...] = ("E", "A")
"""Levels at which a cell is a range of turns."""
CAUSES: Mapping[Cause, str] = {
    "first": "the first one",
    "budget": "the budget or the settings changed",
    "made": "turns that were cut are now compressed",
    "full": "the history was full",
    "interval": "the interval was over",
    "cold": "the provider's cache expired",
}
"""Why a plan was made."""


LEVELS: Mapping[str, ShownLevel] = {level: level for level in LEVEL_NAMES}


@dataclass(frozen=True, slots=True)
class Cell:
    """A turn, or a range of turns that is shown as one text."""

    first: int
    last: int
    level: ShownLevel
    is_cached: bool = False
    """Whether the text is part of the stable prefix, which a provider may have cached."""
    is_hollow: bool = False
    """Whether the context says nothing of its turns."""

    @property
    def turns(self) -> int:
        return self.last - self.first + 1

    @property
    def name(self) -> str:
        """The cell in words."""
        turns = f"T-{self.first}" if self.first == self.last else f"T-{self.first} to T-{self.last}"
        shown = HOLLOW_NAME if self.is_hollow else LEVEL_NAMES[self.level]
        return f"{turns}: {shown}{', cached' if self.is_cached else ''}"


def cells_of(segments: Sequence[Segment]) -> Iterator[Cell]:
    """Make one cell per turn or range, oldest first; turns without words are hollow cells of their own."""
    hollow = list(reversed(turns_without_words(segments)))
    reached = 0
    for cell in _shown_cells(segments):
        start = max(cell.first, reached + 1) if cell.level in SUM_LEVELS else cell.first
        while hollow and hollow[-1].start <= cell.last:
            run = hollow.pop()
            if run.start > start:
                yield replace(cell, first=start, last=run.start - 1)
            yield Cell(run.start, run.stop - 1, "E", cell.is_cached, is_hollow=True)
            reached = run.stop - 1
            start = max(start, run.stop)
        if start <= cell.last:
            yield replace(cell, first=start)


def _shown_cells(segments: Sequence[Segment]) -> Iterator[Cell]:
    """Make one cell per turn, oldest first. A turn with steps at several levels gets its largest step's level."""
    history = [segment for segment in segments if segment.level and segment.first and segment.last]
    partial = {turn.number for turn in _written_turns(_beside_raw(history)) if turn.is_partial}
    for (first, is_summary), group in itertools.groupby(history, key=lambda part: (part.first, part.level == "A")):
        parts = list(group)
        largest = max(parts, key=lambda segment: segment.tokens)
        assert first is not None
        assert largest.level is not None
        last = parts[-1].last or first
        if largest.level == "E" or is_summary:
            yield Cell(first, last, largest.level, largest.is_stable)
        elif largest.levels:
            for turn, letter in enumerate(largest.levels, first):
                # A turn without a line of its own counts as part of its block's summary, like a turn of an era.
                yield Cell(turn, turn, LEVELS.get(letter, "E"), largest.is_stable)
        else:
            for turn in range(first, last + 1):
                yield Cell(turn, turn, IN_PART if turn in partial else largest.level, largest.is_stable)


def _beside_raw(history: Sequence[Segment]) -> list[Segment]:
    """Return the parts with a turn that is word for word, in any of them. An era of a million turns has none."""
    raw = sorted({turn for part in history for level, turns, _ in _spent(part) if level == "R" for turn in turns})
    found = ((part, bisect_left(raw, part.first or 0)) for part in history)
    return [part for part, place in found if place < len(raw) and raw[place] <= (part.last or 0)]


def silent_turns(turns: int) -> str:
    """Name the number of turns without words; empty for none."""
    return f"{turns:,} {'turn' if turns == 1 else 'turns'} {HOLLOW_NAME}" if turns else ""


def joined(cells: Sequence[Cell]) -> Iterator[Cell]:
    """Merge neighbouring cells of the same level."""
    looks = itertools.groupby(cells, key=lambda cell: (cell.level, cell.is_cached, cell.is_hollow))
    for (level, is_cached, is_hollow), group in looks:
        same = list(group)
        yield Cell(same[0].first, same[-1].last, level, is_cached, is_hollow)


@dataclass(frozen=True, slots=True)
class PastPicture:
    """What a context showed after a change of the plan."""

    at: datetime
    turn: int
    """The newest turn at that time."""
    strategy: str
    cause: str
    tokens: int
    budget_tokens: int
    cells: tuple[Cell, ...]
    """Ranges of turns at one level, oldest first."""


_LINE = re.compile(r"^Turn (\d{1,9}): ", re.MULTILINE)
"""The beginning of a turn's line in a block."""
_RANGE = re.compile(r"([A-Za-z])(\d+)-(\d+)")
"""A range of turns and its level; a hollow one has a small letter."""


def keep_row(context: Context, turn: int) -> PictureRow:
    """Make the row that stores the picture of a context."""
    cells = joined([replace(cell, is_cached=False) for cell in cells_of(context.segments)])
    strip = " ".join(
        f"{cell.level.lower() if cell.is_hollow else cell.level}{cell.first}-{cell.last}" for cell in cells
    )
    planned = context.planned
    at_us = to_us(datetime.now(UTC))
    cause = planned.cause or ""
    return PictureRow(at_us, turn, planned.strategy, cause, context.tokens, context.budget_tokens, strip)


def cause_name(cause: str) -> str:
    """Return why a plan was made, in words."""
    return next((text for name, text in CAUSES.items() if name == cause), "the strategy changed what it shows")


def past_picture(row: PictureRow) -> PastPicture:
    """Restore a picture from its row."""
    found = (
        Cell(int(first), int(last), LEVELS[letter.upper()], is_hollow=letter.islower())
        for letter, first, last in _RANGE.findall(row.strip)
    )
    return PastPicture(
        from_us(row.made_us), row.turn, row.strategy, cause_name(row.cause), row.tokens, row.budget_tokens, tuple(found)
    )


@dataclass(frozen=True, slots=True)
class ShownTurn:
    """A turn in a context. The tokens of all turns add up to the history's."""

    number: int
    level: ShownLevel
    tokens: int
    is_cached: bool
    """Its text is part of the stable prefix, which a provider may have cached."""
    is_hollow: bool = False
    """The context says nothing of it."""
    is_native: bool = False
    """Sent as the provider's own messages."""
    verbatim_tokens: int = 0
    """Those of `tokens` that show it word for word."""
    is_removed: bool = False
    """Its messages were erased or pruned; a note is in their place."""
    is_on_board: bool = False
    """Its text is also on the board."""

    @property
    def is_partial(self) -> bool:
        """Whether some of its steps are word for word and others shorter."""
        return self.level == IN_PART and 0 < self.verbatim_tokens < self.tokens

    @property
    def shown_level(self) -> ShownLevel | Literal["-"]:
        return ABSENT if self.is_hollow or self.is_removed else self.level

    @property
    def name(self) -> str:
        """Its level in words."""
        return REMOVED_NAME if self.is_removed else level_name(self.shown_level)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the budget: a part of the context, or the turns of the history at one level."""

    name: str
    colour: str
    """A level, `-` for turns without words, or `fixed`, `documents` or `board`."""
    tokens: int
    turns: tuple[int, ...] = ()
    """The turns that it shows, for a part of the history."""
    is_cached: bool = False
    text: str = ""
    """Its text, for parts other than the history."""
    steps_of: tuple[int, ...] = ()
    """Turns at another level of which it shows some steps."""

    @property
    def shown_turns(self) -> tuple[int, ...]:
        """The turns that it shows, in part or whole."""
        return tuple(sorted({*self.turns, *self.steps_of}))


@dataclass(frozen=True, slots=True)
class Column:
    """A turn on the timeline, or a range of older ones."""

    turns: tuple[ShownTurn, ...]

    @property
    def first(self) -> int:
        return self.turns[0].number

    @property
    def last(self) -> int:
        return self.turns[-1].number

    @property
    def tokens(self) -> int:
        return sum(turn.tokens for turn in self.turns)

    @property
    def counts(self) -> dict[str, int]:
        """Number of turns by level, the most detailed first."""
        counted = Counter(turn.shown_level for turn in self.turns)
        return {level: counted[level] for level in (*FIDELITY, ABSENT) if counted[level]}

    @property
    def height(self) -> float:
        """Mean height of its turns; 0 for turns without words."""
        heights = (0 if turn.shown_level == ABSENT else HEIGHTS[turn.level] for turn in self.turns)
        return sum(heights) / len(self.turns)

    @property
    def name(self) -> str:
        """The column in words."""
        if len(self.turns) == 1:
            (turn,) = self.turns
            cached = ", cached" if turn.is_cached else ""
            board = ", on the board" if turn.is_on_board else ""
            return f"T-{turn.number}: {turn.name}, {turn.tokens:,} tokens{cached}{board}"
        names = Counter(turn.name for turn in sorted(self.turns, key=lambda turn: -HEIGHTS[turn.level]))
        counts = ", ".join(f"{count:,} {name}" for name, count in names.items())
        return f"T-{self.first} to T-{self.last}: {counts}; {self.tokens:,} tokens"


@dataclass(frozen=True, slots=True)
class Tick:
    """A turn on the timeline whose date is shown."""

    place: int
    """Index of its column."""
    turn: int
    at: datetime | None = None

    @property
    def text(self) -> str:
        return f"T-{self.turn}{f', {self.at.day} {self.at:%b}' if self.at else ''}"


@dataclass(frozen=True, slots=True)
class Picture:
    """What a context spends its budget on, and how much it shows of each turn."""

    tokens: int
    budget_tokens: int
    parts: tuple[Part, ...]
    """In the order in which they are sent; consecutive turns of the history by level, the least detailed first."""
    columns: tuple[Column, ...]
    """Turns, oldest first: a turn each, the older ones of a long conversation in ranges of equal length."""
    ticks: tuple[Tick, ...]
    cached_tokens: int
    """Tokens at the beginning that the next context repeats."""

    @property
    def free_tokens(self) -> int:
        return max(0, self.budget_tokens - self.tokens)

    @property
    def turns(self) -> int:
        return sum(len(column.turns) for column in self.columns)

    @property
    def hollow_turns(self) -> int:
        return sum(turn.is_hollow for column in self.columns for turn in column.turns)

    @property
    def ranges(self) -> int:
        """Number of columns that are ranges of turns."""
        return sum(len(column.turns) > 1 for column in self.columns)

    @property
    def headline(self) -> str:
        """The picture in a sentence."""
        used = f"{self.tokens:,} of {self.budget_tokens:,} tokens"
        if not self.columns:
            return f"No turns yet; {used} are used."
        levels = Counter(turn.shown_level for column in self.columns for turn in column.turns)
        removed = sum(turn.is_removed for column in self.columns for turn in column.turns)
        summed = sum(levels[level] for level in SUM_LEVELS)
        shorter = self.turns - levels["R"] - levels[ABSENT] - summed
        counts = {
            "word for word": levels["R"],
            "shorter": shorter,
            "only in a summary": summed,
            HOLLOW_NAME: levels[ABSENT] - removed,
            REMOVED_NAME: removed,
        }
        named = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
        return f"{several(self.turns, 'turn')} in {used}: {named}."

    def dated(self, times: Mapping[int, datetime]) -> Picture:
        """Return the picture with the times at which turns of its ticks began."""
        return replace(self, ticks=tuple(replace(tick, at=times.get(tick.turn)) for tick in self.ticks))


def level_name(level: str) -> str:
    """Name a level, or the lack of one."""
    return HOLLOW_NAME if level == ABSENT else LEVEL_NAMES[LEVELS[level]]


DOCUMENTS = ("pins", "goals", "epic", "tasks", "client-texts")
BOARDS = ("memory", "board")
MAX_COLUMNS = 240
"""Columns of the timeline: 5 pixels each on a wide screen, 1.5 on a phone."""
SINGLE_SHARE = 2 / 3
"""Share of the columns for the newest turns, one each, if there are more turns than columns."""
MAX_TICKS = 6


def picture_of(
    segments: Sequence[Segment],
    budget_tokens: int,
    *,
    columns: int = MAX_COLUMNS,
    removed: Collection[int] = (),
    on_board: Collection[int] = (),
) -> Picture:
    """Return the picture of a context's segments, or of those of a request that was sent.

    `removed` are the turns that were erased or pruned, `on_board` those whose text is on the board.
    """
    turns = tuple(
        replace(turn, is_removed=turn.number in removed, is_on_board=turn.number in on_board)
        for turn in shown_turns(segments)
    )
    shown = tuple(_columns(turns, columns))
    stable = itertools.takewhile(lambda segment: segment.is_stable, segments)
    return Picture(
        tokens=sum(segment.tokens for segment in segments),
        budget_tokens=budget_tokens,
        parts=tuple(_parts(segments, turns)),
        columns=shown,
        ticks=tuple(_ticks(shown)),
        cached_tokens=sum(segment.tokens for segment in stable),
    )


def shown_turns(segments: Sequence[Segment]) -> tuple[ShownTurn, ...]:
    """Return every turn up to the newest one of a context, with its level and tokens.

    A turn with steps at several levels has that of its largest step, or `IN_PART` if only that is word for word. A
    summary counts only for turns without a text of their own.
    """
    hollow = {turn for run in turns_without_words(segments) for turn in run}
    found = {turn.number: turn for turn in _written_turns(segments, hollow)}
    missing = (ShownTurn(turn, "E", 0, is_cached=False, is_hollow=True) for turn in hollow if turn not in found)
    return tuple(sorted([*found.values(), *missing], key=lambda turn: turn.number))


def _written_turns(segments: Sequence[Segment], hollow: Collection[int] = ()) -> Iterator[ShownTurn]:
    """Yield the turns of these parts."""
    found: dict[int, ShownTurn] = {}
    ranks: dict[int, tuple[bool, int]] = {}
    verbatim: Counter[int] = Counter()
    for part in segments:
        if not part.level:
            continue
        for level, turns, tokens in _spent(part):
            is_own = level not in SUM_LEVELS
            for turn, size in zip(turns, _split(tokens, len(turns)), strict=True):
                rank = (is_own, size)
                verbatim[turn] += size if level == "R" else 0
                known = found.get(turn)
                if known and rank <= ranks[turn]:
                    found[turn] = replace(known, tokens=known.tokens + size)
                    continue
                total = size + known.tokens if known else size
                ranks[turn] = rank
                found[turn] = ShownTurn(turn, level, total, part.is_stable, turn in hollow, part.is_native)
    for written in found.values():
        counted = replace(written, verbatim_tokens=verbatim[written.number])
        is_in_part = counted.level == "R" and counted.verbatim_tokens < counted.tokens
        yield replace(counted, level=IN_PART) if is_in_part else counted


def _split(tokens: int, count: int) -> Iterator[int]:
    """Divide tokens among turns, so that they add up."""
    if count == 1:
        return iter((tokens,))
    return (tokens * (place + 1) // count - tokens * place // count for place in range(count))


def _spent(part: Segment) -> Iterator[tuple[ShownLevel, Sequence[int], int]]:
    """Yield the turns of a part of the history by level, with their tokens, which add up to the part's."""
    first, last, level = part.first or 0, part.last or 0, part.level
    assert level, "each part of the history has a level"
    if not part.levels:
        yield level, range(first, last + 1), part.tokens
        return
    hidden = [turn for turn, letter in enumerate(part.levels, first) if letter == NO_LINE]
    own = [turn for turn, letter in enumerate(part.levels, first) if letter != NO_LINE]
    starts = [(int(line[1]), line.start()) for line in _LINE.finditer(part.text) if first <= int(line[1]) <= last]
    if [turn for turn, _ in starts] != own:  # of a request whose texts are not known
        starts = [(turn, place) for place, turn in enumerate(own)]
    size = max(1, len(part.text) if part.text else len(own))
    # The lines of a block are counted together: each has a share of the tokens by its length.
    ends = [*(start for _, start in starts), size]
    tokens = [part.tokens * end // size for end in ends]
    if hidden:
        yield "E", hidden, tokens[0]
    for (turn, _), start, end in zip(starts, tokens, tokens[1:], strict=False):
        before = tokens[0] if not hidden and turn == own[0] else 0  # the tag
        yield LEVELS.get(part.levels[turn - first], "E"), (turn,), end - start + before


def _parts(segments: Sequence[Segment], turns: Sequence[ShownTurn]) -> Iterator[Part]:
    """Yield the parts of the bar."""
    chosen = {turn.number: turn.shown_level for turn in turns}
    covered = 0
    for is_history, group in itertools.groupby(segments, key=lambda segment: segment.level is not None):
        if is_history:
            history = list(group)
            yield from _levels(history, chosen, covered)
            covered = max(covered, history[-1].last or 0)
            continue
        for name, named in itertools.groupby(group, key=lambda segment: segment.name):
            own = list(named)
            colour = "documents" if name in DOCUMENTS else "board" if name in BOARDS else "fixed"
            is_cached = all(segment.is_stable for segment in own)
            text = "\n".join(segment.text for segment in own)
            yield Part(name, colour, sum(segment.tokens for segment in own), (), is_cached, text)


def _levels(history: Sequence[Segment], chosen: Mapping[int, str], covered_before: int) -> Iterator[Part]:
    """Yield a part for each level of the history, the least detailed first; a turn counts at the level of its text.

    Turns without words up to `covered_before` are counted already.
    """
    tokens: Counter[str] = Counter()
    covered: dict[str, set[int]] = {}
    for segment in history:
        for level, turns, size in _spent(segment):
            said = {turn for turn in turns if chosen[turn] != ABSENT}
            shown: str = level if said else ABSENT
            tokens[shown] += size
            covered.setdefault(shown, set()).update(said)
    last = history[-1].last or 0
    if silent := {turn for turn, name in chosen.items() if name == ABSENT and covered_before < turn <= last}:
        covered[ABSENT] = silent
    is_cached = all(segment.is_stable for segment in history)
    for name in (ABSENT, *reversed(FIDELITY)):
        if name in covered:
            own = {turn for turn in covered[name] if chosen[turn] == name}
            if not own and name in SUM_LEVELS:
                own = covered[name]
            steps = () if name in SUM_LEVELS else tuple(sorted(covered[name] - own))
            yield Part(level_name(name), name, tokens[name], tuple(sorted(own)), is_cached, steps_of=steps)


def _columns(turns: Sequence[ShownTurn], most: int) -> Iterator[Column]:
    single = len(turns) if len(turns) <= most else int(most * SINGLE_SHARE)
    older, newest = turns[: len(turns) - single], turns[len(turns) - single :]
    if older:
        size = -(-len(older) // (most - single))
        yield from (Column(tuple(older[start : start + size])) for start in range(0, len(older), size))
    yield from (Column((turn,)) for turn in newest)


def _ticks(columns: Sequence[Column]) -> Iterator[Tick]:
    """Yield ticks at equal distances, the first and the last column included."""
    count = min(MAX_TICKS, len(columns))
    last = len(columns) - 1
    for place in dict.fromkeys(last * tick // max(1, count - 1) for tick in range(count)):
        yield Tick(place, columns[place].last if place == last else columns[place].first)


def bands_of(context: Context) -> list[dict[str, object]]:
    """Return tokens and share of each level of the history, the most detailed first, as the bar shows them.

    `target_share` is the level's share of the history, if the strategy plans by such shares.
    """
    targets = {band.level: band.target_share or None for band in context.planned.bands}
    history = [segment for segment in context.segments if segment.level]
    total = max(1, sum(segment.tokens for segment in history))
    return [
        {
            "level": part.colour,
            "name": part.name,
            "turns": len(part.turns),
            "first": part.shown_turns[0],
            "last": part.shown_turns[-1],
            "tokens": part.tokens,
            "share": part.tokens / total,
            "target_share": next((share for level, share in targets.items() if level == part.colour), None),
        }
        for part in reversed(list(_parts(history, shown_turns(history))))
        if part.shown_turns
    ]
