"""Levels by worth: each turn at the level where its tokens tell most.

Choosing one level for each turn within a budget is a knapsack with several options per item. Of each turn's options
only those on the convex hull of tokens and worth matter, so that each step from one to the next tells less per token
than the step before. Taking the steps of all turns by what they tell per token, until the room is used up, is then
within one step of the optimum.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from foveate.plan import NO_LINE, Block, History, Overheads, Plan, ShownLevel, SizeTable
from foveate.strategy.gradient.planner import CUT_MINIMUM_TOKENS, MIN_HISTORY_TOKENS, TINY_LIMIT_SHARE, GradientPlanner
from foveate.strategy.gradient.steps import plan_steps
from foveate.strategy.layout import RAW, SMOOTHED, TINY_TOKENS, Cover, make_cover, stub_row

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from foveate.strategy.gradient import Gradient

CUT, ABSENT = 4, 5
"""Codes of turns beside the four levels: cut, because nothing shorter is made yet; without a line."""
LETTERS = np.frombuffer(b"RSCTR-", dtype=np.uint8)
CUT_FIDELITY = 0.5
"""A cut of a raw text tells this share of what as many tokens of it tell on average."""
MAX_TRIES = 12
"""Choices made until the blocks fit with their tags, each for this much less room than the last one needed:"""
FIRST_MARGIN_TOKENS = 8
"""then twice as much."""
MAX_SKIPPED_STEPS = 300
"""Steps that are looked at behind the first that does not fit."""
SIZE_WORTH = 1e-3
"""Added for each token: so little that words decide, and enough that room which they leave is used, newest first."""
SPARE_SHARE = 0.01
"""Room that is left unused, at most, if one more choice can use it."""
BLOCK_TURNS = 32
"""A block of lines ends where an era does, so that a rebuild can keep the blocks before it."""


class _Choice(NamedTuple):
    """Turns with their levels, oldest first."""

    codes: NDArray[np.int64]
    rows: list[Block]
    tokens: int
    worth: float


class KnapsackPlanner:
    """One plan in the making."""

    def __init__(self, settings: Gradient, history: History, budget_tokens: int, overheads: Overheads) -> None:
        self.settings = settings
        self.history = history
        self.budget = budget_tokens
        self.overheads = overheads
        self.bands = GradientPlanner(settings, history, budget_tokens, overheads)

    def plan(self) -> Plan:
        rows = self._rows() if self.history.last_turn and self.budget >= MIN_HISTORY_TOKENS else None
        return self.bands.plan() if rows is None else self.bands.plan_of(rows)

    def _rows(self) -> list[Block] | None:
        """The plan's rows; None where the bands do as well: everything fits raw, or next to nothing fits."""
        smallest = self.overheads.line + 1
        table = self.history.table(self.budget // smallest, self.settings.answer_weight)
        steps = list(takewhile(lambda item: item.step, self.history.newest()))
        is_all = bool(len(table.turns)) and int(table.turns[-1]) == 1
        raw = int(table.sizes[:, RAW].sum())
        if not len(table.turns) or (is_all and raw + sum(step.raw for step in steps) <= self.budget):
            return None if steps or not is_all or not self._fits_raw(table) else self._raw_rows(table)
        step_rows: list[Block] = []
        if steps:
            share = int(self.budget * self.settings.newest_share)
            lines = len(table.turns) * self.overheads.tag if is_all else 0
            step_rows = plan_steps(steps, max(share, self.budget - raw - lines) if is_all else share, self.overheads)
        room = self.budget - sum(row.tokens for row in step_rows)
        if is_all:
            chosen = self._choose(table, room, has_steps=bool(steps))
            return None if chosen is None else [*chosen.rows, *step_rows]
        return self._with_eras(table, room, step_rows)

    def _fits_raw(self, table: SizeTable) -> bool:
        return int(table.sizes[:, RAW].sum()) + len(table.turns) * self.overheads.tag <= self.budget

    def _raw_rows(self, table: SizeTable) -> list[Block]:
        codes = np.zeros(len(table.turns), dtype=np.int64)
        return _Layout(self, table).choice(codes, np.ones(len(codes))).rows

    def _with_eras(self, table: SizeTable, room: int, step_rows: list[Block]) -> list[Block] | None:
        """Single turns from where an era ends; eras for those before it, with the share of Deep that is theirs."""
        oldest = int(table.turns[-1])
        extra = -(oldest - 1) % self.history.fanout
        count = len(table.turns) - extra
        if count <= 0:
            return None
        single = SizeTable(table.turns[:count], table.sizes[:count], table.worths[:count])
        boundary = int(single.turns[-1]) - 1
        share = int(room * self.settings.deep * (1 - self.settings.tiny_share))
        cover: Cover = make_cover(self.history, boundary, boundary, share, self.overheads)
        if cover.least > share:
            return None
        chosen = self._choose(single, room - min(cover.full, share), has_steps=bool(step_rows))
        if chosen is None:
            return None
        return [*cover.rows(room - chosen.tokens), *chosen.rows, *step_rows]

    def _choose(self, table: SizeTable, room: int, *, has_steps: bool) -> _Choice | None:
        """The best choice for whole turns within the room, at least as good as the newest turns alone."""
        layout = _Layout(self, table)
        fixed = self._newest(table, room, has_steps=has_steps)
        if fixed is None:
            return None
        newest, forced = fixed
        left = room - (newest.tokens if newest else 0)
        weights = self._weights(table)
        layout.newest = newest
        steps = _hull_steps(*layout.options(weights, forced, left))
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
        alone = layout.choice(layout.newest_only(room), weights)
        if alone.tokens <= room and (best is None or alone.worth > best.worth):
            return alone
        return best

    def _newest(self, table: SizeTable, room: int, *, has_steps: bool) -> tuple[Block | None, int] | None:
        """The row of a newest turn that is too large to be shown whole, and how many of the newest turns are raw."""
        raw, tag = table.sizes[:, RAW], self.overheads.tag
        costs = np.cumsum(raw + tag)
        forced = int(np.searchsorted(costs, int(room * self.settings.raw_share), side="right"))
        if has_steps or forced:
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
        """Of each turn, by its age: half of what the newest ones have in addition is lost with each half budget."""
        newer = np.cumsum(table.sizes[:, RAW]) - table.sizes[:, RAW]
        return 1 + self.settings.age_weight * 0.5 ** np.minimum(newer / (self.budget / 2), 60.0)


class _Steps(NamedTuple):
    """Steps up the hulls, those that tell most per token first."""

    turns: NDArray[np.int64]
    """Places of turns."""
    tokens: NDArray[np.int64]
    paths: NDArray[np.int64]
    """The codes of each turn after one step, two, …"""

    def codes(self, start: NDArray[np.int64], room: int) -> NDArray[np.int64]:
        """The codes after as many steps as fit the room; one that is too large is skipped with all of its turn's."""
        sums = np.cumsum(self.tokens)
        taken = int(np.searchsorted(sums, room, side="right"))
        counts = np.bincount(self.turns[:taken], minlength=len(start))
        left = room - (int(sums[taken - 1]) if taken else 0)
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
        codes[moved] = self.paths[moved, counts[moved] - 1]
        return codes


def _hull_steps(costs: NDArray[np.int64], worths: NDArray[np.float64]) -> _Steps:
    """All steps from nothing to the best option of each turn; options with a cost below 0 do not exist."""
    count, places = len(costs), np.arange(len(costs))
    spent, told = np.zeros(count, dtype=np.int64), np.zeros(count)
    paths = np.full((count, costs.shape[1]), ABSENT, dtype=np.int64)
    found: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]] = []
    for step in range(costs.shape[1]):
        more, better = costs[places] - spent[places, None], worths[places] - told[places, None]
        rates = np.where((more > 0) & (better > 0), better / np.maximum(more, 1), 0.0)
        best = rates.argmax(axis=1)
        rate = rates[np.arange(len(places)), best]
        is_up = rate > 0
        places, best, rate = places[is_up], best[is_up], rate[is_up]
        if not len(places):
            break
        found.append((places, costs[places, best] - spent[places], rate))
        paths[places, step] = best
        spent[places], told[places] = costs[places, best], worths[places, best]
    if not found:
        return _Steps(np.empty(0, np.int64), np.empty(0, np.int64), paths)
    turns, tokens, rates = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.argsort(-rates, kind="stable")
    return _Steps(turns[order], tokens[order], paths)


class _Layout:
    """How chosen turns are put into blocks, and what that costs."""

    def __init__(self, planner: KnapsackPlanner, table: SizeTable) -> None:
        self.overheads = planner.overheads
        self.short = planner.settings.short_turn_tokens
        self.tiny_limit = max(TINY_TOKENS, int(planner.budget * TINY_LIMIT_SHARE))
        self.table = table
        self.newest: Block | None = None
        """The row of the newest turn where that is given."""

    def options(
        self, weights: NDArray[np.float64], forced: int, room: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Tokens and worth of each turn at the four levels and cut; below 0 where there is no such option."""
        sizes, line = self.table.sizes, self.overheads.line
        alone = self.overheads.tag + self.overheads.range // 2
        costs = np.full((len(sizes), 5), -1, dtype=np.int64)
        for level in range(4):
            structure = line if level > SMOOTHED else np.where(sizes[:, level] < self.short, line, alone)
            costs[:, level] = np.where(sizes[:, level] < 0, -1, sizes[:, level] + structure)
        tiny = sizes[:, 3]
        no_tiny = (tiny < 0) | (tiny > self.tiny_limit)
        costs[no_tiny, 3] = -1
        is_cut = no_tiny & (sizes[:, RAW] > TINY_TOKENS)
        costs[is_cut, CUT] = TINY_TOKENS + alone
        worths = np.empty(costs.shape)
        worths[:, :4] = self.table.worths
        worths[:, CUT] = self.table.worths[:, RAW] * CUT_FIDELITY * TINY_TOKENS / np.maximum(sizes[:, RAW], 1)
        worths = worths * weights[:, None] + SIZE_WORTH * np.maximum(costs, 0)
        costs[: max(forced, bool(self.newest))] = -1
        costs[costs > room] = -1
        return costs, worths

    def start(self, forced: int) -> NDArray[np.int64]:
        codes = np.full(len(self.table.turns), ABSENT, dtype=np.int64)
        codes[:forced] = RAW
        return codes

    def forced_tokens(self, forced: int) -> int:
        sizes = self.table.sizes[:forced, RAW]
        structure = np.where(sizes < self.short, self.overheads.line, self.overheads.tag)
        return int(sizes.sum() + structure.sum())

    def newest_only(self, room: int) -> NDArray[np.int64]:
        """As many of the newest turns as fit raw."""
        sizes = self.table.sizes[:, RAW]
        structure = np.where(sizes < self.short, self.overheads.line + 1, self.overheads.tag)
        stub = 2 * self.overheads.range + self.overheads.cut_note
        return self.start(int(np.searchsorted(np.cumsum(sizes + structure), room - stub, side="right")))

    def choice(self, codes: NDArray[np.int64], weights: NDArray[np.float64]) -> _Choice:
        """The turns at these levels, newest first, in blocks."""
        rows = list(self._rows(codes[::-1]))
        levels = np.minimum(codes, 3)
        told = np.where(codes < CUT, self.table.worths[np.arange(len(codes)), levels], 0.0)
        return _Choice(codes, rows, sum(row.tokens for row in rows), float((told * weights).sum()))

    def _rows(self, codes: NDArray[np.int64]) -> Iterator[Block]:
        """Oldest first: runs of lines between turns that have a tag of their own."""
        turns, sizes = self.table.turns[::-1], self.table.sizes[::-1]
        texts = np.where(codes < CUT, sizes[np.arange(len(codes)), np.minimum(codes, 3)], 0)
        texts[codes == CUT] = TINY_TOKENS
        is_alone = (codes == CUT) | ((codes <= SMOOTHED) & (texts >= self.short))
        count = len(codes) - (1 if self.newest else 0)
        is_raw = codes[:count] == RAW
        recent = int(np.flatnonzero(~is_raw)[-1]) + 1 if not is_raw.all() else 0
        start = 0
        for place in [*np.flatnonzero(is_alone[:count]).tolist(), count]:
            # Behind `recent` all turns are raw; they go out as messages and share no block with others.
            for low, high in ((start, min(place, recent)), (max(start, recent), place)):
                if low < high:
                    yield from self._run(turns[low:high], codes[low:high], texts[low:high])
            if place < count:
                yield self._alone(int(turns[place]), int(codes[place]), int(texts[place]))
            start = place + 1
        if self.newest:
            yield self.newest

    def _alone(self, turn: int, code: int, text: int) -> Block:
        level: ShownLevel = "S" if code == SMOOTHED else "R"
        return Block(turn, turn, level, text + self.overheads.tag, is_cut=code == CUT)

    def _run(self, turns: NDArray[np.int64], codes: NDArray[np.int64], texts: NDArray[np.int64]) -> Iterator[Block]:
        """Blocks of lines; a turn without a line belongs to the range of the next block, or of the last one."""
        lines = np.flatnonzero(codes != ABSENT)
        if not len(lines):
            yield stub_row(int(turns[0]), int(turns[-1]), self.overheads)
            return
        groups = (turns[lines] - 1) // BLOCK_TURNS
        ends = [*(lines[np.flatnonzero(np.diff(groups))] + 1).tolist(), len(turns)]
        letters = LETTERS[codes].tobytes().decode()
        costs = np.where(codes == ABSENT, 0, texts + self.overheads.line).tolist()
        start = 0
        for end in ends:
            yield self._lines(int(turns[start]), letters[start:end], tuple(costs[start:end]))
            start = end

    def _lines(self, first: int, letters: str, costs: tuple[int, ...]) -> Block:
        """A block of the turns from `first` on: of one level, or with each turn's own."""
        last = first + len(letters) - 1
        kinds = set(letters)
        if len(letters) == 1:
            level: ShownLevel = letters  # type: ignore[assignment]
            return Block(first, last, level, costs[0] - self.overheads.line + self.overheads.tag)
        tokens = sum(costs) + self.overheads.range
        if len(kinds) == 1:
            level = kinds.pop()  # type: ignore[assignment]
            return Block(first, last, level, tokens, is_range=True)
        level = "T" if kinds <= {"T", NO_LINE} else "C"
        return Block(first, last, level, tokens, is_range=True, levels=letters, sizes=costs)
