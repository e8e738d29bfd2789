"""Lays out the oldest turns as eras: fine ones next to the turns still shown, coarser ones the older they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from foveate.plan import BRIEF_LINE, NO_LINE, Band, Block, Era, Overheads, ShownLevel, Sizes, TurnSizes

ERA_MINIMUM_TOKENS = 24
"""Minimum size of a useful era."""
ERA_GUESS_TOKENS = 100
"""The assumed size of an era before any exists."""
LEVEL_SHARES = (0.9, 0.8, 0.7, 0.6, 0.5, 0.25)
"""Share of what the finer levels leave that each level of eras may spend: the first with which all levels fit."""
MAX_LEVELS = 40
MAX_JOINED_ERAS = 32
"""Limit of the eras of the finest level in one block, so that opening it is one step."""
MAX_MISSING_ERAS = 200
"""A missing era is replaced by its children; after this many missing ones the rest is only named."""


@dataclass(frozen=True, slots=True)
class Cover:
    """Eras and named ranges that together cover the turns 1 to some boundary, newest first."""

    eras: tuple[Era | Block, ...]
    """An existing era, or the row of a range that is only named."""
    overheads: Overheads

    @property
    def least(self) -> int:
        """Their minimum tokens."""
        return sum(self._fixed(era) + self._smallest(era) for era in self.eras)

    @property
    def full(self) -> int:
        """Their tokens in full."""
        return sum(self._fixed(era) + self._largest(era) for era in self.eras)

    def rows(self, room_tokens: int) -> list[Block]:
        """Return the rows, oldest first, as large as the room allows: none is cut while a larger one could be."""
        spare = room_tokens - self.least
        assert spare >= 0, "a cover is made to fit"
        sizes = [self._smallest(era) for era in self.eras]
        level = _water_level(sizes, [self._largest(era) for era in self.eras], spare)
        rows: list[Block] = []
        for era, size in zip(self.eras, sizes, strict=True):
            grown = min(self._largest(era), max(size, level))
            spare -= grown - size
            rows.append(self._row(era, grown))
        for index, era in enumerate(self.eras):
            if spare > 0 and isinstance(era, Era) and rows[index].tokens < self._fixed(era) + era.tokens:
                rows[index] = replace(rows[index], tokens=rows[index].tokens + 1)
                spare -= 1
        rows.reverse()
        return _joined(rows)

    def _row(self, era: Era | Block, size: int) -> Block:
        if isinstance(era, Block):
            return era
        return Block(era.first, era.last, "E", self.overheads.range + size, era_level=era.level)

    def _fixed(self, era: Era | Block) -> int:
        return era.tokens if isinstance(era, Block) else self.overheads.range

    @staticmethod
    def _smallest(era: Era | Block) -> int:
        return 0 if isinstance(era, Block) else min(ERA_MINIMUM_TOKENS, era.tokens)

    @staticmethod
    def _largest(era: Era | Block) -> int:
        return 0 if isinstance(era, Block) else era.tokens


def _joined(rows: list[Block]) -> list[Block]:
    """Join neighbouring eras of the finest level in one block, to spend the tokens of their tags on their texts."""
    joined: list[Block] = []
    eras = 0
    for row in rows:
        last = joined[-1] if joined else None
        if last and row.era_level == last.era_level == 1 and eras < MAX_JOINED_ERAS:
            joined[-1] = replace(last, last=row.last, tokens=last.tokens + row.tokens)
            eras += 1
        else:
            joined.append(row)
            eras = 1
    return joined


def _water_level(sizes: list[int], limits: list[int], spare: int) -> int:
    """Return the largest level to which all sizes can grow, each up to its limit, within the spare tokens."""
    low, high = 0, max(limits, default=0)
    while low < high:
        level = (low + high + 1) // 2
        needed = sum(
            min(limit, level) - size for size, limit in zip(sizes, limits, strict=True) if min(limit, level) > size
        )
        low, high = (level, high) if needed <= spare else (low, level - 1)
    return low


def stub_row(first: int, last: int, overheads: Overheads) -> Block:
    """Return a range that is only named, so that its turns can still be retrieved."""
    return Block(first, last, "E", overheads.range + overheads.cut_note, is_cut=True)


def finest_tokens(sizes: Sizes) -> int:
    """Return the size of an era of the finest level, by the newest or the oldest; 0 if none is made."""
    blocks = sizes.last_turn // sizes.fanout
    sample = (sizes.era(1, blocks - 1) or sizes.era(1, 0)) if blocks else None
    return sample.tokens if sample else 0


def make_cover(sizes: Sizes, boundary: int, last: int, room_tokens: int, overheads: Overheads) -> Cover:
    """Cover the turns 1 to `last`: eras up to `boundary`, where one of the finest ends, the others only named.

    Its minimum cost fits the room if that of one named range does.
    """
    assert boundary <= last, "eras replace turns that are not shown"
    reader = _Reader(sizes)
    found: list[Era | Block] = [stub_row(boundary + 1, last, overheads)] if boundary < last else []
    for level, index in _blocks(sizes, boundary, room_tokens, overheads):
        for piece in reader.resolve(level, index):
            if isinstance(piece, Era):
                found.append(piece)
            elif found and isinstance(found[-1], Block):
                found[-1] = stub_row(piece[0], found[-1].last, overheads)
            else:
                found.append(stub_row(*piece, overheads))
    cover = Cover(tuple(found), overheads)
    least = cover.least
    dropped = 0
    stub = overheads.range + overheads.cut_note
    while dropped < len(found) and least + (stub if dropped else 0) > room_tokens:
        least -= Cover((found[dropped],), overheads).least
        dropped += 1
    if not dropped:
        return cover
    if dropped < len(found) and isinstance(found[dropped], Block):
        dropped += 1
    return Cover((stub_row(found[dropped - 1].first, found[0].last, overheads), *found[dropped:]), overheads)


def _blocks(sizes: Sizes, boundary: int, room_tokens: int, overheads: Overheads) -> list[tuple[int, int]]:
    """Choose the eras to show, newest first: as much of the finest levels as the room allows."""
    counts: list[int] = []
    if not boundary:
        return []
    for share in LEVEL_SHARES:
        counts, cost = _level_counts(sizes, boundary // sizes.fanout, room_tokens, share, overheads)
        if cost <= room_tokens:
            break
    blocks: list[tuple[int, int]] = []
    left = boundary // sizes.fanout
    for level, taken in enumerate(counts, 1):
        blocks.extend((level, index) for index in range(left - 1, left - 1 - taken, -1))
        left = (left - taken) // sizes.fanout
    return blocks


def _level_counts(
    sizes: Sizes, count: int, room_tokens: int, share: float, overheads: Overheads
) -> tuple[list[int], int]:
    """Return the number of eras of each level, finest first, and their cost in full.

    Each level reaches back to the start of an era of the next level, the last to turn 1; beyond that it takes whole
    groups while it spends at most `share` of what the finer ones left.
    """
    fanout, counts, spent = sizes.fanout, list[int](), 0
    for level in range(1, MAX_LEVELS):
        sample = sizes.era(level, count - 1) or sizes.era(level, 0)
        each = overheads.range + (sample.tokens if sample else ERA_GUESS_TOKENS)
        left = room_tokens - spent
        taken = count % fanout
        if count < fanout or (sample and count * each <= left):
            taken = count
        elif sample:
            groups = int((left * share - taken * each) // (fanout * each))
            taken += fanout * max(0, min(groups, count // fanout))
        counts.append(taken)
        spent += taken * each
        count = (count - taken) // fanout
        if not count:
            break
    return counts, spent


class _Reader:
    """Finds the replacement of an era that is not made yet."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.misses_left = MAX_MISSING_ERAS

    def resolve(self, level: int, index: int) -> list[Era | tuple[int, int]]:
        """Return the era, or its children, newest first; a range of turns if there is none."""
        era = self.sizes.era(level, index) if self.misses_left else None
        if era is not None:
            return [era]
        self.misses_left = max(0, self.misses_left - 1)
        fanout = self.sizes.fanout
        if level == 1 or not self.misses_left:
            return [(index * fanout**level + 1, (index + 1) * fanout**level)]
        return [
            piece
            for child in range((index + 1) * fanout - 1, index * fanout - 1, -1)
            for piece in self.resolve(level - 1, child)
        ]


LEVELS: tuple[ShownLevel, ...] = ("R", "S", "C", "T")
RAW, SMOOTHED, COMPRESSED, TINY = range(4)
TINY_TOKENS = 50
"""A turn without a Tiny is cut to this, its note included."""
ALONE = -1
"""The key of a text that never shares a block."""
STEP_KEYS = 8


class Option(NamedTuple):
    """One way to show an item."""

    text: int
    """Tokens, including the note of a cut, without tags."""
    key: int
    """Neighbours with the same key share a block."""
    level: int
    is_cut: bool


@dataclass(frozen=True, slots=True)
class CostModel:
    """Prices items: the cost of structure, which turns are short, and the size above which a Tiny is cut."""

    overheads: Overheads
    short_tokens: int
    tiny_limit: int

    @property
    def pair(self) -> int:
        """Tokens that a second text adds to a block of one."""
        return self.overheads.range + 2 * self.overheads.line - self.overheads.tag

    @property
    def stub(self) -> int:
        """Tokens of a range that is only named."""
        return self.overheads.range + self.overheads.cut_note

    def at(self, item: TurnSizes, level: int) -> Option:
        """Return how the item is shown in a band: if the band's level is not made yet, at the next higher one that
        is."""
        if level == TINY:
            return self._tiny(item)
        if level == COMPRESSED and item.compressed is not None:
            return self.option(item, COMPRESSED, item.compressed)
        if level >= SMOOTHED and item.smoothed is not None:
            return self.option(item, SMOOTHED, item.smoothed)
        return self.option(item, RAW, item.raw)

    def _tiny(self, item: TurnSizes) -> Option:
        """Return the item's Tiny, a higher level that is as small, or a cut."""
        if item.tiny is not None and item.tiny <= self.tiny_limit:
            return self.option(item, TINY, item.tiny)
        higher = self.at(item, COMPRESSED)
        if higher.text <= TINY_TOKENS:
            return higher
        return Option(TINY_TOKENS, ALONE, higher.level if item.tiny is None else TINY, True)

    def option(self, item: TurnSizes, level: int, text: int) -> Option:
        text += self.overheads.date if item.is_later else 0
        if item.step:
            return Option(text, item.turn * STEP_KEYS + len(LEVELS) + level, level, False)
        is_shared = level >= COMPRESSED or text < self.short_tokens
        return Option(text, level if is_shared else ALONE, level, False)

    def block(self, texts: int) -> int:
        """Return the structure tokens of a block with this number of texts."""
        if texts < 2:  # noqa: PLR2004 - one text has its own tag
            return self.overheads.tag if texts else 0
        return self.overheads.range + texts * self.overheads.line


class LevelChoices:
    """The choices made from the newest item on, and their exact cost."""

    def __init__(self, items: list[TurnSizes], costing: CostModel) -> None:
        self.items = items
        self.costing = costing
        self.chosen: list[Option] = []
        self.cost = 0
        self.kept: dict[int, Option] = {}
        self.current: dict[int, int] = {}
        """Current levels of items, which are not raised above them."""

    def at(self, index: int, level: int) -> Option:
        """Return how an item is shown in a band."""
        return self.costing.at(self.items[index], max(level, self.current.get(index, level)))

    def keep(self, index: int, option: Option) -> None:
        """Fix how an item is shown, whatever its band; its cost is added at once."""
        self.kept[index] = option._replace(key=ALONE)
        self.cost += option.text + self.costing.overheads.tag

    def appended(self, option: Option) -> int:
        """Return the cost of the next item if it is shown like this."""
        key, chosen = option.key, self.chosen
        if key == ALONE or not chosen or chosen[-1].key != key:
            return option.text + self.costing.overheads.tag
        if len(chosen) > 1 and chosen[-2].key == key:
            return option.text + self.costing.overheads.line
        return option.text + self.costing.pair

    def append(self, option: Option, added: int) -> None:
        self.cost += added
        self.chosen.append(option)

    def append_kept(self) -> bool:
        """Append the next item if it is a kept one."""
        option = self.kept.get(len(self.chosen))
        if option is None:
            return False
        self.chosen.append(option)
        return True

    def cut_back(self, length: int, cost: int) -> None:
        """Return to an earlier state."""
        del self.chosen[length:]
        self.cost = cost

    def change(self, index: int, option: Option) -> int:
        """Return the change of the cost if an item is shown like this."""
        old = self.chosen[index]
        added = option.text - old.text
        if option.key != old.key:
            added += self._joined(index, option.key) - self._joined(index, old.key)
        return added

    def replace(self, index: int, option: Option, added: int) -> None:
        self.chosen[index] = option
        self.cost += added

    def tiny_costs(self, indexes: Iterable[int], limit_tokens: int) -> list[int]:
        """Return the running cost of these items as Tiny, in this order, up to a limit; kept ones are already
        counted."""
        line, tag, pair = self.costing.overheads.line, self.costing.overheads.tag, self.costing.pair
        tiny_limit, items, kept = self.costing.tiny_limit, self.items, self.kept
        total, last_key, is_pair = 0, ALONE, False
        costs: list[int] = []
        for index in indexes:
            item = items[index]
            if index in kept:
                last_key = ALONE
            else:
                if item.tiny is not None and item.tiny <= tiny_limit and not item.step:
                    text, key = item.tiny + (self.costing.overheads.date if item.is_later else 0), TINY
                else:
                    text, key, _, _ = self.costing.at(item, TINY)
                if key == ALONE or key != last_key:
                    total, is_pair = total + text + tag, False
                else:
                    total, is_pair = total + text + (line if is_pair else pair), True
                last_key = key
                if total > limit_tokens:
                    break
            costs.append(total)
        return costs

    def _joined(self, index: int, key: int) -> int:
        """Return the structure tokens that an item of this key adds between its neighbours."""
        if key == ALONE:
            return self.costing.overheads.tag
        newer, older, chosen = 0, 0, self.chosen
        if index > 0 and chosen[index - 1].key == key:
            newer = 2 if index > 1 and chosen[index - 2].key == key else 1
        if index + 1 < len(chosen) and chosen[index + 1].key == key:
            older = 2 if index + 2 < len(chosen) and chosen[index + 2].key == key else 1
        block = self.costing.block
        return block(newer + 1 + older) - block(newer) - block(older)


def chosen_rows(choices: LevelChoices) -> list[Block]:
    """Return a row for each block of shown items, oldest first."""
    items, chosen = choices.items, choices.chosen
    rows: list[Block] = []
    end = len(chosen)
    while end:
        key = chosen[end - 1].key
        start = end - 1
        while key != ALONE and start and chosen[start - 1].key == key:
            start -= 1
        rows.append(_row(items[start:end], chosen[start:end], choices.costing.block(end - start)))
        end = start
    return rows


def _row(items: Sequence[TurnSizes], options: Sequence[Option], structure_tokens: int) -> Block:
    """Return one block; its items are passed newest first."""
    return Block(
        items[-1].turn,
        items[0].turn,
        LEVELS[options[0].level],
        structure_tokens + sum(option.text for option in options),
        first_step=items[-1].step,
        last_step=items[0].step,
        is_cut=options[0].is_cut,
        is_range=len(items) > 1,
    )


def hidden_step_rows(choices: LevelChoices, overheads: Overheads) -> list[Block]:
    """Return rows for the steps older than the chosen ones, oldest first: ranges that are only named, and the kept
    ones."""
    rows: list[Block] = []
    items = choices.items
    for index in range(len(choices.chosen), len(items)):
        item = items[index]
        if not item.step:
            break
        if index in choices.kept:
            rows.append(_row([item], [choices.kept[index]], overheads.tag))
        elif rows and rows[-1].level == "E":
            rows[-1] = step_stub(item.turn, item.step, rows[-1].last_step, overheads)
        else:
            rows.append(step_stub(item.turn, item.step, item.step, overheads))
    rows.reverse()
    return rows


def step_stub(turn: int, first_step: int, last_step: int, overheads: Overheads) -> Block:
    """Return a row that only names steps of a running turn."""
    tokens = stub_row(turn, turn, overheads).tokens
    return Block(turn, turn, "E", tokens, first_step=first_step, last_step=last_step, is_cut=True)


def bands_of(rows: Sequence[Block], target_shares: Mapping[ShownLevel, float]) -> tuple[Band, ...]:
    """Return the tokens that the rows spend on each level, the most detailed first."""
    spent: dict[str, list[_Spent]] = {}
    for row in rows:
        if not row.levels:
            part = _Spent(row.first, row.last, row.last - row.first + 1, row.tokens, bool(row.last_step))
            spent.setdefault(row.level, []).append(part)
    for level, part in _spent_in_lines([row for row in rows if row.levels]):
        spent.setdefault(level, []).append(part)
    bands: list[Band] = []
    for level, share in target_shares.items():
        if own := spent.get(level):
            turns = sum(part.turns for part in own if not part.is_steps)
            turns += len({part.first for part in own if part.is_steps})
            first, last = min(part.first for part in own), max(part.last for part in own)
            bands.append(Band(level, first, last, turns, share, sum(part.tokens for part in own)))
    return tuple(bands)


class _Spent(NamedTuple):
    """The turns of one level in one or more blocks."""

    first: int
    last: int
    turns: int
    tokens: int
    is_steps: bool = False


def _spent_in_lines(rows: Sequence[Block]) -> Iterator[tuple[str, _Spent]]:
    """Yield the spending by level of blocks with several levels; the first line of each includes the tags."""
    if not rows:
        return
    import numpy as np  # noqa: PLC0415 - such blocks are made with numpy

    letters = np.frombuffer("".join(row.levels for row in rows).replace(BRIEF_LINE, "C").encode(), dtype=np.uint8)
    tokens = np.fromiter(chain.from_iterable(row.sizes for row in rows), dtype=np.int64, count=len(letters))
    lengths = np.array([len(row.levels) for row in rows])
    starts = np.cumsum(lengths) - lengths
    turns = np.arange(len(letters)) + np.repeat(np.array([row.first for row in rows]) - starts, lengths)
    lines = np.flatnonzero(letters != ord(NO_LINE))
    tags = np.array([row.tokens for row in rows]) - np.add.reduceat(tokens, starts)
    tokens[lines[np.searchsorted(lines, starts)]] += tags
    for code in np.unique(letters[lines]).tolist():
        own = np.flatnonzero(letters == code)
        yield chr(code), _Spent(int(turns[own[0]]), int(turns[own[-1]]), len(own), int(tokens[own].sum()))


CUT_MINIMUM_TOKENS = 8


def compact_rows(sizes: Sizes, budget_tokens: int, overheads: Overheads) -> list[Block]:
    """Return rows for a budget too small for bands; empty if the range can't be named."""
    newest = next(iter(sizes.newest()), None)
    if newest is None:
        return []
    others: list[Block] = []
    if newest.turn > 1:
        others.append(stub_row(1, newest.turn - 1, overheads))
    if newest.step > 1:
        others.append(step_stub(newest.turn, 1, newest.step - 1, overheads))
    shown = _shown(newest, budget_tokens - sum(row.tokens for row in others), overheads)
    if shown is not None:
        return [*others, shown]
    everything = stub_row(1, newest.turn, overheads)
    return [everything] if everything.tokens <= budget_tokens else []


def _shown(item: TurnSizes, room_tokens: int, overheads: Overheads) -> Block | None:
    """Return the item at its highest level that fits, else cut."""
    sizes: tuple[tuple[ShownLevel, int | None], ...] = (
        ("R", item.raw),
        ("S", item.smoothed),
        ("C", item.compressed),
        ("T", item.tiny),
    )
    made = [(level, size) for level, size in sizes if size is not None]
    for level, size in made:
        if size + overheads.tag <= room_tokens:
            return Block(item.turn, item.turn, level, size + overheads.tag, item.step, item.step)
    if room_tokens - overheads.tag - overheads.cut_note < CUT_MINIMUM_TOKENS:
        return None
    return Block(item.turn, item.turn, made[-1][0], room_tokens, item.step, item.step, is_cut=True)


TINY_SHARES = (0.75, 0.5, 0.25, 0.0)
"""Shares of the room for rolled-over turns that single Tinies take if eras cover the oldest: the first that fits."""


def rolled_rows(
    sizes: Sizes, items: Sequence[TurnSizes], last: int, room_tokens: int, overheads: Overheads
) -> list[Block]:
    """Show turns 1 to `last` as Tiny, with eras for the oldest if that is too much; only named if nothing else fits,
    and not at all if even that does not.

    `items` are the turns from `last` backwards, as many as are known.
    """
    if not last:
        return []
    choices = LevelChoices(list(items), CostModel(overheads.dated, 0, TINY_TOKENS))
    if _append_tinies(choices, room_tokens) == last:
        return chosen_rows(choices)
    for share in TINY_SHARES:
        choices.cut_back(0, 0)
        shown = _append_tinies(choices, int(room_tokens * share))
        oldest = last - shown
        room = room_tokens - choices.cost
        cover = make_cover(sizes, oldest - oldest % sizes.fanout, oldest, room, overheads)
        if cover.least <= room:
            return cover.rows(room) + chosen_rows(choices)
    stub = stub_row(1, last, overheads)
    return [stub] if stub.tokens <= room_tokens else []


def _append_tinies(choices: LevelChoices, room_tokens: int) -> int:
    for index in range(len(choices.items)):
        option = choices.at(index, TINY)
        added = choices.appended(option)
        if choices.cost + added > room_tokens:
            break
        choices.append(option, added)
    return len(choices.chosen)
