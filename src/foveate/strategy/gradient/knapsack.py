"""Levels by worth: each turn at the level with the most information per token.

Choosing one level for each turn within a budget is a knapsack with several options per item. Of each turn's options
only those on the convex hull of tokens and worth matter, so that each step from one to the next has less worth per
token than the step before. Taking the steps of all turns by worth per token, until the room is used up, is then within
one step of the optimum.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from foveate.plan import BRIEF_LINE, NO_LINE, Block, Plan, ShownLevel, Sizes, SizeTable, TurnSizes, WordWeights
from foveate.strategy.gradient.planner import CUT_MINIMUM_TOKENS, MIN_HISTORY_TOKENS, TINY_LIMIT_SHARE, GradientPlanner
from foveate.strategy.gradient.steps import plan_steps
from foveate.strategy.layout import (
    COMPRESSED,
    ERA_MINIMUM_TOKENS,
    RAW,
    SMOOTHED,
    TINY,
    TINY_TOKENS,
    Cover,
    make_cover,
    stub_row,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from foveate.strategy.gradient import Gradient

BRIEF, CUT, ABSENT = 4, 5, 6
"""Codes of turns in addition to the four levels: the brief form; cut, because nothing shorter is made yet; without a
line."""
LETTERS = np.frombuffer(f"RSCT{BRIEF_LINE}R{NO_LINE}".encode(), dtype=np.uint8)
_CODES = {"R": RAW, "S": SMOOTHED, "C": COMPRESSED, "T": TINY}
CODES = np.full(128, ABSENT, dtype=np.int64)
CODES[[ord(letter) for letter in (*_CODES, BRIEF_LINE)]] = [*_CODES.values(), BRIEF]
"""The code of each letter."""
WORK_REPEATED = 0.1
"""In work with tools, the weight of a word that a newer turn has too,"""
WORK_AGE_WEIGHT = 4.0
"""and the additional weight of the newest turns."""
CUT_FIDELITY = 0.5
"""Worth of a cut raw text, as a share of the average worth of as many of its tokens."""
LEAST_GAIN = 1e-6
"""Minimum worth per token of a step; less is a rounding error."""
MAX_TRIES = 12
"""Limit of the attempts to fit the blocks with their tags, each with less room than the last one needed."""
FIRST_MARGIN_TOKENS = 8
"""Reduction of the room after the first attempt; doubled after each further one."""
MAX_SKIPPED_STEPS = 300
"""Limit of the steps that are tried after the first that does not fit."""
SIZE_WORTH = 1e-3
"""Worth added per token: small enough that words decide, and large enough that the remaining room is used, newest
first."""
SPARE_SHARE = 0.01
"""Maximum share of unused room if one more choice can use it."""
BLOCK_TURNS = 64
"""A block of lines ends where an era does, so that a rebuild can keep the blocks before it."""
BLOCK_SHARE = 1 / 12
"""Share of the room that a block of lines has at most, about: a rebuild rewrites whole blocks,"""
LEAST_BLOCK_TURNS = 8
"""of at least this many turns."""
ERA_LINE_TURNS, ERA_LINE_TOKENS = 8, 28
"""Turns without a line of their own for which an era has a line, and its maximum tokens."""
DEEP_ERA_SHARE = 0.8
"""Share of Deep for the eras of turns that are too old to be single."""
ERA_SHARE = 0.06
"""Maximum share of the room for such eras; beyond it, they have fewer lines."""


class KnapsackPlanner:
    """Makes one plan."""

    def __init__(
        self,
        settings: Gradient,
        sizes: Sizes,
        budget_tokens: int,
        *,
        has_tail: bool = False,
        is_divided: bool = False,
        work: float = 0.0,
    ) -> None:
        self.settings = settings
        self.sizes = sizes
        self.budget = budget_tokens
        self.overheads = sizes.overheads.dated
        self.has_tail = has_tail
        """The newest turns are shown verbatim behind the plan,"""
        self.is_divided = is_divided
        """and a part of the last turn in it too."""
        self.work = work
        """The share of work with tools, 0 to 1. It uses what was said and read last; chats go back to anything."""
        self.bands = GradientPlanner(settings, sizes, budget_tokens)

    def plan(self) -> Plan:
        rows = self._rows() if self.sizes.last_turn and self.budget >= MIN_HISTORY_TOKENS else None
        return self.bands.plan() if rows is None else self.bands.plan_of(rows)

    def plan_after(self, rows: Sequence[Block], tokens: int) -> Plan | None:
        """Plan the turns after these rows, which stay; None if the turns don't fit."""
        last = rows[-1]
        after = (last.last, last.last_step)
        if (last.last, last.last_step or math.inf) > (self.sizes.last_turn, math.inf) or tokens > self.budget:
            return None
        newer = self._newer_rows(after, self.budget - tokens)
        return None if newer is None else self.bands.plan_of([*rows, *newer], self.budget + _excess(rows, tokens))

    def worth(self, rows: Iterable[Block]) -> float:
        """Return the worth of the turns that these rows show."""
        table = self.table
        if not len(table.turns):
            return 0.0
        codes = np.full(len(table.turns), ABSENT, dtype=np.int64)
        newest = int(table.turns[0])
        for row in rows:
            if row.level not in _CODES or row.first_step or row.is_cut:
                continue
            letters = row.levels or row.level * (row.last - row.first + 1)
            shown = CODES[np.frombuffer(letters.encode(), dtype=np.uint8)][::-1]
            start = newest - row.last
            if 0 <= start < len(codes):
                codes[start : start + len(shown)] = shown[: len(codes) - start]
        return _Layout(self, table).worth(codes, self._weights(table))

    @cached_property
    def table(self) -> SizeTable:
        """The newest turns, as many as the budget could show."""
        answers = self.settings.answer_weight
        by = WordWeights(answers + (1 - answers) * self.work, 1 - (1 - WORK_REPEATED) * self.work)
        return self.sizes.table(self.budget // (self.overheads.line + 1), by)

    @cached_property
    def steps(self) -> list[TurnSizes]:
        """The steps of the turn in progress, newest first."""
        return list(takewhile(lambda item: item.step, self.sizes.newest()))

    def _rows(self) -> list[Block] | None:
        """Return the plan's rows; None if bands are as good: everything fits raw, or next to nothing fits."""
        table, steps = self.table, self.steps
        is_all = bool(len(table.turns)) and int(table.turns[-1]) == 1
        raw = int(table.sizes[:, RAW].sum())
        fits_raw = is_all and not self.has_tail and raw + sum(step.raw for step in steps) <= self.budget
        if not len(table.turns) or fits_raw:
            return None if steps or not is_all else self._raw_rows(table)
        step_rows: list[Block] = []
        if steps:
            share = int(self.budget * self.settings.newest_share)
            lines = len(table.turns) * self.overheads.tag
            steps_room = max(share, self.budget - raw - lines) if is_all else share
            if steps_room < MIN_HISTORY_TOKENS:
                return None
            step_rows = plan_steps(steps, steps_room, self.overheads)
        room = self.budget - sum(row.tokens for row in step_rows)
        if is_all:
            chosen = self._choose(table, room, has_newer=self.has_tail or bool(steps))
            return None if chosen is None else [*chosen, *step_rows]
        return self._with_eras(table, room, step_rows)

    def _newer_rows(self, after: tuple[int, int], room: int) -> list[Block] | None:
        """Return the rows of the turns and steps after a turn, or after a step of it."""
        turn, step = after
        steps = [item for item in self.steps if item.turn > turn or item.step > step]
        table = self.table
        first = turn + (0 if step and not steps else 1)
        count = max(0, int(table.turns[0]) - first + 1) if len(table.turns) else 0
        if count > len(table.turns):
            return None
        step_rows: list[Block] = []
        if steps:
            share = int(room * self.settings.newest_share) if count else room
            if share < MIN_HISTORY_TOKENS:
                return None
            step_rows = plan_steps(steps, share, self.overheads)
        if not count:
            return step_rows
        single = table.newest(count)
        chosen = self._choose(single, room - sum(row.tokens for row in step_rows), has_newer=True)
        return None if chosen is None else [*chosen, *step_rows]

    def _raw_rows(self, table: SizeTable) -> list[Block] | None:
        """Return the rows of all turns raw; None if they don't fit with their tags, labels and dates."""
        layout, codes = _Layout(self, table), np.zeros(len(table.turns), dtype=np.int64)
        choice = layout.choice(codes, np.ones(len(codes)))
        return layout.rows(choice) if choice.tokens <= self.budget else None

    def _with_eras(self, table: SizeTable, room: int, step_rows: list[Block]) -> list[Block] | None:
        """Lay out single turns from the end of an era on; eras for those before it, with their share of Deep."""
        oldest = int(table.turns[-1])
        extra = -(oldest - 1) % self.sizes.fanout
        count = len(table.turns) - extra
        if count <= 0:
            return None
        single = table.newest(count)
        boundary = int(single.turns[-1]) - 1
        share = int(room * self.settings.deep * DEEP_ERA_SHARE)
        cover: Cover = make_cover(self.sizes, boundary, boundary, share, self.overheads)
        if cover.least > share:
            return None
        has_newer = self.has_tail or bool(step_rows)
        chosen = self._choose(single, room - min(cover.full, share), has_newer=has_newer)
        if chosen is None:
            return None
        return [*cover.rows(room - sum(row.tokens for row in chosen)), *chosen, *step_rows]

    def _choose(self, table: SizeTable, room: int, *, has_newer: bool) -> list[Block] | None:
        """Choose the best rows for whole turns within the room, at least as good as the newest turns alone."""
        layout = _Layout(self, table)
        fixed = (None, 0) if has_newer else self._newest(table, room)
        if fixed is None:
            return None
        newest, forced = fixed
        left = room - (newest.tokens if newest else 0)
        weights = self._weights(table)
        layout.newest = newest
        steps = _hull_steps(layout.options(forced, left), weights)
        best: _Choice | None = None
        aim, margin = left - layout.forced_tokens(forced), FIRST_MARGIN_TOKENS
        for _ in range(MAX_TRIES):
            choice = layout.choice(steps.codes(layout.start(forced), aim), weights)
            spare = room - choice.tokens
            if spare >= 0 and (best is None or choice.worth > best.worth):
                best = choice
            if best and (spare < 0 or spare <= room * SPARE_SHARE):
                break
            if spare < 0:
                spare, margin = spare - margin, 2 * margin
            aim += spare
        alone = layout.newest_only(room)
        if not has_newer and (best is None or layout.worth(alone, weights) > best.worth):
            choice = layout.choice(alone, weights)
            best = choice if choice.tokens <= room else best
        return layout.rows(best) if best else None

    def _newest(self, table: SizeTable, room: int) -> tuple[Block | None, int] | None:
        """Return the row of a newest turn that is too large to be shown whole, and how many of the newest turns are
        raw."""
        raw, tag = table.sizes[:, RAW], self.overheads.tag
        costs = np.cumsum(raw + tag)
        forced = int(np.searchsorted(costs, int(room * self.settings.raw_share), side="right"))
        if forced:
            return None, forced
        most = int(room * self.settings.newest_share)
        if raw[0] + tag <= most:
            return None, 1
        turn, smoothed = int(table.turns[0]), int(table.sizes[0, SMOOTHED])
        if smoothed >= 0 and smoothed + tag <= most:
            return Block(turn, turn, "S", smoothed + tag), 0
        if most - tag - self.overheads.cut_note < CUT_MINIMUM_TOKENS:
            return None
        return Block(turn, turn, "R" if smoothed < 0 else "S", most, is_cut=True), 0

    def _weights(self, table: SizeTable) -> NDArray[np.float64]:
        """Return the weight of each turn: more if the model retrieved it, and by its age.

        The additional weight of the newest turns halves with each half of the budget.
        """
        weights = np.ones(len(table.turns))
        age_weight = self.settings.age_weight + WORK_AGE_WEIGHT * self.work
        if age_weight:
            newer = np.cumsum(table.sizes[:, RAW]) - table.sizes[:, RAW]
            weights += age_weight * 0.5 ** np.minimum(newer / (self.budget / 2), 60.0)
        if self.sizes.retrieved:
            weights[np.isin(table.turns, self.sizes.retrieved)] *= self.settings.retrieved_weight
        return weights


class _Options(NamedTuple):
    """Options as rows (R, S, C, the shortest option, which is T or a cut, and the brief form) and turns as columns,
    newest first."""

    tokens: NDArray[np.int64]
    """Tokens of each option; below 0 if it does not exist."""
    worths: NDArray[np.float64]
    shortest: NDArray[np.int64]
    """The code of each turn's shortest option."""


class _Steps(NamedTuple):
    """Steps up the hulls, those with the most worth per token first."""

    turns: NDArray[np.int64]
    """Positions of the turns."""
    tokens: NDArray[np.int64]
    sums: NDArray[np.int64]
    """Tokens of each step and all before it."""
    paths: NDArray[np.int64]
    """A row for each number of steps, from 1: the code of each turn after them."""

    def codes(self, start: NDArray[np.int64], room: int) -> NDArray[np.int64]:
        """Return the codes after as many steps as fit the room; one that is too large is skipped with all later ones of
        its turn."""
        taken = int(np.searchsorted(self.sums, room, side="right"))
        counts = np.bincount(self.turns[:taken], minlength=len(start))
        left = room - (int(self.sums[taken - 1]) if taken else 0)
        skipped: set[int] = set()
        rest = slice(taken, taken + MAX_SKIPPED_STEPS)
        for turn, tokens in zip(self.turns[rest].tolist(), self.tokens[rest].tolist(), strict=True):
            if turn not in skipped and tokens <= left:
                counts[turn] += 1
                left -= tokens
            else:
                skipped.add(turn)
        moved = np.flatnonzero(counts)
        codes = start.copy()
        codes[moved] = self.paths[counts[moved] - 1, moved]
        return codes


def _hull_steps(options: _Options, weights: NDArray[np.float64]) -> _Steps:
    """Return all steps from nothing to the best option of each turn, by worth per token times the turn's weight."""
    costs, worths = options.tokens, options.worths
    paths = np.full(costs.shape, ABSENT, dtype=np.int64)
    places = np.arange(costs.shape[1])
    spent, gained = np.zeros(len(places), dtype=np.int64), np.zeros(len(places))
    turns, tokens, rates = [places[:0]], [spent[:0]], [gained[:0]]
    for path in paths:
        more = costs - spent
        gains = np.where(more > 0, (worths - gained) / np.maximum(more, 1), 0.0)
        gain = gains.max(axis=0)
        up = np.flatnonzero(gain > LEAST_GAIN)
        if not len(up):
            break
        best = gains.take(up, axis=1).argmax(axis=0)
        places, costs, worths = places[up], costs.take(up, axis=1), worths.take(up, axis=1)
        chosen = best * len(up) + np.arange(len(up))
        before, spent, gained = spent[up], costs.take(chosen), worths.take(chosen)
        turns.append(places)
        tokens.append(spent - before)
        rates.append(gain[up] * weights[places])
        path[places] = np.where(best == TINY, options.shortest[places], best)
    order = _falling(np.concatenate(rates))
    sorted_tokens = np.concatenate(tokens)[order]
    return _Steps(np.concatenate(turns)[order], sorted_tokens, np.cumsum(sorted_tokens), paths)


def _falling(rates: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the order of positive rates from the highest down; those that differ by less than about 0.1 % keep their
    order.

    Positive floats sort like their bits, and 16-bit numbers are sorted in linear time.
    """
    bits = rates.astype(np.float32).view(np.uint32)
    below = bits.max(initial=0) - bits
    shift = max(0, int(below.max(initial=0)).bit_length() - 16)
    return np.argsort((below >> np.uint32(shift)).astype(np.uint16), kind="stable")


class _Blocks(NamedTuple):
    """The starts of blocks, among turns from the oldest on, and their tokens."""

    starts: NDArray[np.int64]
    tokens: NDArray[np.int64]
    is_alone: NDArray[np.bool_]
    """Whether each is a turn with its own tag."""
    lines: NDArray[np.int64]
    """Number of lines in each; 0: its turns are in an era, or only named."""
    eras: NDArray[np.int64]
    """Tokens of the era of its turns without a line."""
    texts: NDArray[np.int64]
    """Tokens of each turn's text."""


class _Choice(NamedTuple):
    """Turns with their levels, oldest first, in blocks."""

    codes: NDArray[np.int64]
    blocks: _Blocks
    tokens: int
    worth: float


class _Layout:
    """Puts chosen turns into blocks, and computes their cost."""

    def __init__(self, planner: KnapsackPlanner, table: SizeTable) -> None:
        self.overheads = planner.overheads
        self.short = planner.settings.short_turn_tokens
        self.tiny_limit = max(TINY_TOKENS, int(planner.budget * TINY_LIMIT_SHARE))
        self.table = table
        self.budget = planner.budget
        self.has_tail = planner.has_tail
        self.is_divided = planner.is_divided
        self.newest: Block | None = None
        """The row of the newest turn if it is fixed."""

    @cached_property
    def block_turns(self) -> int:
        """The most turns of a block of lines: a power of two, so that blocks begin at the same turns as the history
        grows."""
        compressed = np.maximum(self.table.sizes[:, COMPRESSED], TINY_TOKENS // 2)
        turns = BLOCK_SHARE * max(self.budget / max(1.0, float(compressed.mean())), len(compressed))
        return min(BLOCK_TURNS, max(LEAST_BLOCK_TURNS, 1 << max(0, int(turns).bit_length() - 1)))

    def options(self, forced: int, room: int) -> _Options:
        """Return the options of each turn that is not fixed; the newest `forced` ones are raw."""
        sizes, worths = np.ascontiguousarray(self.table.sizes.T), np.array(self.table.worths.T)
        raw, tiny = sizes[RAW], sizes[TINY]
        alone = self.overheads.tag + self.overheads.range // 2
        costs = sizes + self.overheads.line
        costs[:COMPRESSED] = np.where(sizes[:COMPRESSED] < self.short, costs[:COMPRESSED], sizes[:COMPRESSED] + alone)
        costs[sizes < 0] = -1
        no_tiny = (tiny < 0) | (tiny > self.tiny_limit)
        is_cut = no_tiny & (raw > TINY_TOKENS)
        costs[TINY, no_tiny] = -1
        costs[TINY, is_cut] = TINY_TOKENS + alone
        worths[TINY, is_cut] = worths[RAW, is_cut] * CUT_FIDELITY * TINY_TOKENS / raw[is_cut]
        worths += SIZE_WORTH * costs
        if self.has_tail:
            costs[RAW, sizes[SMOOTHED] >= 0] = -1
            costs[RAW, : self.is_divided] = -1
        costs[:, : max(forced, bool(self.newest))] = -1
        costs[costs > room] = -1
        return _Options(costs, worths, np.where(is_cut, CUT, TINY))

    def start(self, forced: int) -> NDArray[np.int64]:
        codes = np.full(len(self.table.turns), ABSENT, dtype=np.int64)
        codes[:forced] = RAW
        return codes

    def forced_tokens(self, forced: int) -> int:
        sizes = self.table.sizes[:forced, RAW]
        structure = np.where(sizes < self.short, self.overheads.line, self.overheads.tag)
        return int(sizes.sum() + structure.sum())

    def newest_only(self, room: int) -> NDArray[np.int64]:
        """Return codes that show as many of the newest turns as fit raw."""
        sizes = self.table.sizes[:, RAW]
        structure = np.where(sizes < self.short, self.overheads.line + 1, self.overheads.tag)
        stub = 2 * self.overheads.range + self.overheads.cut_note
        return self.start(int(np.searchsorted(np.cumsum(sizes + structure), room - stub, side="right")))

    def worth(self, codes: NDArray[np.int64], weights: NDArray[np.float64]) -> float:
        """Return the worth of the turns at these levels, newest first; a cut counts as nothing."""
        gained = self.table.worths.take(self._entries(codes)) * weights
        return float(gained[codes < CUT].sum())

    def _entries(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the table positions of the sizes and worths of these levels."""
        options = self.table.sizes.shape[1]
        return np.arange(0, options * len(codes), options) + np.where(codes <= BRIEF, codes, TINY)

    def choice(self, codes: NDArray[np.int64], weights: NDArray[np.float64]) -> _Choice:
        """Put turns at these levels, newest first, into blocks."""
        texts = self.table.sizes.take(self._entries(codes))
        texts[codes == CUT] = TINY_TOKENS
        oldest_first = codes[::-1]
        blocks = self._blocks(oldest_first, texts[::-1])
        tokens = int(blocks.tokens.sum()) + (self.newest.tokens if self.newest else 0)
        return _Choice(oldest_first, blocks, tokens, self.worth(codes, weights))

    def rows(self, choice: _Choice) -> list[Block]:
        """Return the blocks of a choice."""
        codes, blocks = choice.codes, choice.blocks
        first, letters = int(self.table.turns[-1]), LETTERS[codes].tobytes().decode()
        costs = np.where(codes == ABSENT, 0, blocks.texts + self.overheads.line).tolist()
        starts, tokens = blocks.starts.tolist(), blocks.tokens.tolist()
        ends = [*starts, len(codes) - bool(self.newest)][1:]
        rows: list[Block] = []
        for start, end, size, is_alone, lines, era in zip(
            starts, ends, tokens, blocks.is_alone.tolist(), blocks.lines.tolist(), blocks.eras.tolist(), strict=True
        ):
            if is_alone:
                level: ShownLevel = letters[start]  # type: ignore[assignment]
                rows.append(Block(first + start, first + start, level, size, is_cut=bool(codes[start] == CUT)))
            elif lines:
                row = _lines_row(first + start, letters[start:end], size, tuple(costs[start:end]))
                rows.append(replace(row, era_tokens=era))
            elif era:
                rows.append(Block(first + start, first + end - 1, "E", size))
            else:
                rows.append(stub_row(first + start, first + end - 1, self.overheads))
        return [*rows, self.newest] if self.newest else rows

    def _blocks(self, codes: NDArray[np.int64], texts: NDArray[np.int64]) -> _Blocks:
        """Group turns at these levels, oldest first, into blocks: runs of lines between turns with their own tags.

        A turn without a line belongs to the block of the next line, or of the last one of its run.
        """
        line, tag = self.overheads.line, self.overheads.tag
        count = len(codes) - bool(self.newest)
        codes, shown = codes[:count], texts[:count]
        is_alone = (codes == CUT) | ((codes <= SMOOTHED) & (shown >= self.short))
        is_line = (codes != ABSENT) & ~is_alone
        is_start = np.zeros(count + 1, dtype=np.bool_)
        is_start[:count] = is_alone
        is_start[1:] |= is_alone
        others = np.flatnonzero(codes != RAW)
        # From here on all turns are raw: they are sent as messages and share no block with others.
        is_start[[0, int(others[-1]) + 1 if len(others) else 0]] = True
        lines = np.flatnonzero(is_line)
        runs, eras = np.cumsum(is_start)[lines], self._places(codes)[lines]
        is_end = (runs[1:] == runs[:-1]) & (eras[1:] != eras[:-1])
        is_start[lines[:-1][is_end] + 1] = True
        starts = np.flatnonzero(is_start[:count])
        if not len(starts):
            return _Blocks(starts, starts, is_alone, starts, starts, texts)
        # Of each day one of its turns has the date, whichever of them has a line first.
        dates = np.where(self.table.is_later[::-1][:count], self.overheads.date, 0)
        tokens = np.add.reduceat(np.where(is_line, shown + line, 0) + dates, starts)
        found = np.add.reduceat(is_line, starts, dtype=np.int64)
        is_single = np.diff(starts, append=count) == 1
        tokens += np.where(is_single, tag - line, self.overheads.range)
        eras = self._eras(np.add.reduceat(codes == ABSENT, starts, dtype=np.int64))
        tokens[found == 0] = np.where(eras[found == 0] > 0, 0, self.overheads.range + self.overheads.cut_note)
        tokens += eras
        alone = is_alone[starts]
        tokens[alone] = shown[starts[alone]] + tag
        return _Blocks(starts, tokens, alone, found, eras, texts)

    def _places(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the block of lines that each turn belongs to, oldest first.

        Where turns have no line, blocks are large, so that one era tells of many of them.
        """
        oldest = int(self.table.turns[-1]) - 1
        turns = np.arange(len(codes)) + oldest
        groups = (turns - oldest // BLOCK_TURNS * BLOCK_TURNS) // BLOCK_TURNS
        has_absent = np.bincount(groups, codes == ABSENT) > 0
        large = turns // BLOCK_TURNS * (BLOCK_TURNS // self.block_turns)
        return np.where(has_absent[groups], large, turns // self.block_turns)

    def _eras(self, absent: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the tokens of an era for each number of turns without a line, tags included."""
        lines = -(-absent // ERA_LINE_TURNS)
        each = min(ERA_LINE_TOKENS + self.overheads.date, ERA_SHARE * self.budget / max(1, int(lines.sum())))
        texts = (lines * each).astype(np.int64)
        texts[texts < min(ERA_LINE_TOKENS, ERA_MINIMUM_TOKENS)] = 0
        return np.where(texts > 0, texts + self.overheads.range, 0)


def _excess(rows: Sequence[Block], tokens: int) -> int:
    """Return by how much the planned size of rows exceeds that of their texts."""
    return max(0, sum(row.tokens for row in rows) - tokens)


def _lines_row(first: int, letters: str, tokens: int, sizes: tuple[int, ...]) -> Block:
    """Return a block of the turns from `first` on: of one level, or with each turn's own."""
    last, kinds = first + len(letters) - 1, set(letters)
    if len(kinds) == 1 and BRIEF_LINE not in kinds:
        level: ShownLevel = kinds.pop()  # type: ignore[assignment]
        return Block(first, last, level, tokens, is_range=last > first)
    level = "T" if kinds <= {"T", NO_LINE} else "C"
    return Block(first, last, level, tokens, is_range=last > first, levels=letters, sizes=sizes)
