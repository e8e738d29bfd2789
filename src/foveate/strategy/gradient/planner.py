"""Spends the gradient's budget: bands from the newest turn on, Tiny for the rest, eras if that is too much.

Every choice is priced to the token when it is made, so a plan always fits; the rest is spent on raising turns. Nothing
older than the budget could reach is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from foveate.plan import Block, Plan, ShownLevel, Sizes, TurnSizes
from foveate.strategy.gradient.few_changes import PLANNED_SHARE, changed_share, keep_levels
from foveate.strategy.layout import (
    ALONE,
    COMPRESSED,
    ERA_MINIMUM_TOKENS,
    LEVELS,
    RAW,
    SMOOTHED,
    TINY,
    TINY_TOKENS,
    CostModel,
    LevelChoices,
    Option,
    bands_of,
    chosen_rows,
    compact_rows,
    finest_tokens,
    hidden_step_rows,
    make_cover,
)

if TYPE_CHECKING:
    from foveate.strategy.gradient import Gradient


MIN_HISTORY_TOKENS = 256
"""Minimum budget for bands; below it, the newest turn is shown as far as it fits, and one range names all others."""
KEPT_SHARE = 0.25
"""Share of the budget that the prompts of running turns are cut to."""
CUT_MINIMUM_TOKENS = 8
"""Minimum tokens of a cut text, without its note."""
TINY_LIMIT_SHARE = 0.02
"""A single Tiny larger than this share of the budget is cut."""
OVERSIZE_SHARE = 0.5
"""A turn larger than this share of its band gets a lower level alone; the band continues after it."""
ERA_SHARE = 0.25
"""Share of Deep for eras, if not each turn can have its Tiny."""
FULL_SHARE = 0.95
"""If a plan whose eras are all whole uses less of the budget, one of them may be divided."""
KEEPING_SHARES = (0.15, 0.07, 0.0)
"""Shares of the tokens that may change their level, by the sizes of turns: the first with which few tokens change by
those of blocks."""
TURN_SHARES = (0.10, 0.20, 0.50)
"""Initial ends of Recent, Working and Background, as shares of the turns; the remaining room raises turns."""
TAKE_STEPS = 8
"""Precision of the search for what Deep must take: 1 part in 2**8 of its maximum."""


class GradientPlanner:
    """Makes one plan."""

    def __init__(
        self,
        settings: Gradient,
        sizes: Sizes,
        budget_tokens: int,
        shown: Mapping[int, ShownLevel] = MappingProxyType({}),
    ) -> None:
        assert sizes.fanout > 1, "an era replaces at least two turns"
        self.settings = settings
        self.sizes = sizes
        self.budget = budget_tokens
        self.overheads = sizes.overheads.dated
        self.shown = shown
        """Current levels of turns of which few are to change."""

    def plan(self) -> Plan:
        rows = self._rows() if self.sizes.last_turn and self.budget >= MIN_HISTORY_TOKENS else None
        if rows is None:
            rows = compact_rows(self.sizes, self.budget, self.overheads)
        return self.plan_of(rows)

    def plan_of(self, rows: list[Block], limit_tokens: int | None = None) -> Plan:
        """Return the plan of these rows, which fit the limit: the budget if None."""
        tokens, limit = _tokens(rows), self.budget if limit_tokens is None else limit_tokens
        assert tokens <= max(0, limit), f"a plan of {tokens} tokens for a budget of {limit}"
        settings = self.settings
        eras = ERA_SHARE if any(row.level == "E" for row in rows) else 0.0
        targets: dict[ShownLevel, float] = {
            "R": settings.recent,
            "S": settings.working,
            "C": settings.background,
            "T": settings.deep * (1 - eras),
            "E": settings.deep * eras,
        }
        if settings.bands == "optimised":  # by worth, not by shares
            targets = dict.fromkeys(targets, 0.0)
        return Plan(tuple(rows), bands_of(rows, targets), tokens, self.budget)

    def _rows(self) -> list[Block] | None:
        """Return the plan's rows; None if the budget is too small for bands."""
        items, is_all = self._read()
        tiny_limit = max(TINY_TOKENS, int(self.budget * TINY_LIMIT_SHARE))
        choices = LevelChoices(items, CostModel(self.overheads, self.settings.short_turn_tokens, tiny_limit))
        if self.shown:
            levels = ((index, self.shown.get(item.turn)) for index, item in enumerate(items) if not item.step)
            choices.current = {index: LEVELS.index(level) for index, level in levels if level in LEVELS}
        if is_all and _append_all_raw(choices, self.budget):
            return chosen_rows(choices)
        self._keep_prompts(choices)
        if not self._append_newest(choices):
            return None
        if self._append_bands(choices, is_all=is_all):
            raise_levels(choices, self.budget)
            return self._with_few_changes(choices, self.budget, self.budget, list)
        return self._with_eras(choices)

    def _read(self) -> tuple[list[TurnSizes], bool]:
        """Read as many items as could fit at their smallest, always including a running turn's steps; also return
        whether those are all."""
        items: list[TurnSizes] = []
        least, line = 0, self.overheads.line
        for item in self.sizes.newest():
            items.append(item)
            tiny = TINY_TOKENS if item.tiny is None else item.tiny
            least += max(1, line + min(tiny, item.raw, TINY_TOKENS))
            if least > self.budget and item.step <= 1:
                return items, False
        return items, True

    def _keep_prompts(self, choices: LevelChoices) -> None:
        """Reserve the tokens of the prompts of running turns."""
        tag, note = self.overheads.tag, self.overheads.cut_note
        room = int(self.budget * KEPT_SHARE)
        for index, item in enumerate(choices.items):
            if not item.step:
                break
            if not item.is_kept:
                continue
            most = int(self.budget * self.settings.newest_share) if index == 0 else room
            if item.raw + tag <= most:
                choices.keep(index, choices.at(index, RAW))
            elif most - tag - note >= CUT_MINIMUM_TOKENS:
                choices.keep(index, Option(most - tag, ALONE, RAW, is_cut=True))
            else:
                continue
            room -= choices.kept[index].text + tag

    def _append_newest(self, choices: LevelChoices) -> bool:
        """Append the newest item raw or smoothed, cut if necessary; False if not even that fits."""
        if choices.append_kept():
            return True
        room = int((self.budget - choices.cost) * self.settings.newest_share)
        for option in (choices.at(0, RAW), choices.at(0, SMOOTHED)):
            added = choices.appended(option)
            if added <= room:
                choices.append(option, added)
                return True
        text = room - self.overheads.tag
        if text - self.overheads.cut_note < CUT_MINIMUM_TOKENS:
            return False
        choices.append(Option(text, ALONE, choices.at(0, SMOOTHED).level, is_cut=True), room)
        return True

    def _append_bands(self, choices: LevelChoices, *, is_all: bool) -> bool:
        """Fill the bands; Deep takes what it needs for one Tiny per turn. False if that is more than its maximum."""
        settings, count = self.settings, len(choices.items)
        base = sum(option.text + self.overheads.tag for option in choices.kept.values())
        room = self.budget - base
        may_take = settings.background - settings.background_minimum + settings.working - settings.working_minimum
        ends = [math.ceil(share * count) for share in TURN_SHARES]
        if not is_all or choices.items[0].step:
            ends = [count] * len(TURN_SHARES)
        _fill(choices, RAW, base, settings.recent * room, settings.tolerance, ends[0])
        length, cost = len(choices.chosen), choices.cost
        left = choices.tiny_costs(range(count - 1, -1, -1), self.budget) if is_all else []

        def fill(take: float) -> bool:
            choices.cut_back(length, cost)
            background = max(settings.background_minimum, settings.background - take)
            working = settings.working - (take - (settings.background - background))
            start = base + settings.recent * room
            _fill(choices, SMOOTHED, start, working * room, settings.tolerance, ends[1])
            _fill(choices, COMPRESSED, start + working * room, background * room, settings.tolerance, ends[2])
            tinies = count - len(choices.chosen)
            if not is_all or tinies > len(left):
                return False
            rest = left[tinies - 1] if tinies else 0
            return choices.cost + rest + self.overheads.range <= self.budget

        if not is_all or not fill(0.0):
            if not fill(may_take):
                return False
            low, high = 0.0, may_take
            for _ in range(TAKE_STEPS):
                middle = (low + high) / 2
                low, high = (low, middle) if fill(middle) else (middle, high)
            fill(high)
        length, cost = len(choices.chosen), choices.cost
        _append_tinies(choices, count)
        if choices.cost <= self.budget:
            return True
        choices.cut_back(length, cost)
        return False

    def _with_eras(self, choices: LevelChoices) -> list[Block] | None:
        """Show the newest turns of Deep as Tiny, as many as fit next to the eras of the others; None if not even the
        eras fit."""
        chosen, cost = choices.chosen.copy(), choices.cost
        aligned = self._aligned_length(choices)
        best = None if aligned is None else self._era_rows(choices, aligned)
        if best is None or (not self.shown and _tokens(best) < FULL_SHARE * self.budget):
            choices.chosen[:], choices.cost = chosen, cost
            divided = self._era_rows(choices, self._divided_length(choices))
            best = max(best or [], divided or [], key=_tokens) or None
        return best

    def _era_rows(self, choices: LevelChoices, length: int) -> list[Block] | None:
        """Return the rows of a history with this number of items one by one; None if they don't fit."""
        _append_tinies(choices, length)
        hidden = hidden_step_rows(choices, self.overheads)
        spent = sum(row.tokens for row in hidden if row.level == "E")
        room = self.budget - choices.cost - spent
        last = choices.items[length - 1].turn - 1
        cover = make_cover(self.sizes, last - last % self.sizes.fanout, last, room, self.overheads)
        if cover.least > room:
            return None
        limit = self.budget - spent - min(room, cover.full)
        raise_levels(choices, limit)
        most = self.budget - spent - cover.least
        return self._with_few_changes(
            choices, limit, most, lambda: cover.rows(self.budget - spent - choices.cost) + hidden
        )

    def _with_few_changes(
        self, choices: LevelChoices, limit_tokens: int, most_tokens: int, older_rows: Callable[[], list[Block]]
    ) -> list[Block]:
        """Return the plan's rows; if levels are to be kept, with changes of at most a fifth of the tokens, as far as
        the budget allows. The last try takes the room of eras too, up to `most_tokens`."""
        rows = older_rows() + chosen_rows(choices)
        planned, cost = choices.chosen.copy(), choices.cost
        for share in KEEPING_SHARES if self.shown else ():
            if changed_share(rows, self.shown) <= PLANNED_SHARE:
                break
            choices.chosen[:], choices.cost = planned, cost
            keep_levels(choices, limit_tokens if share else most_tokens, share * _tokens(rows))
            rows = older_rows() + chosen_rows(choices)
        return rows

    def _aligned_length(self, choices: LevelChoices) -> int | None:
        """Return the largest number of items, back to the end of an era, that leaves the eras before it their share of
        Deep; None without eras."""
        start, deep = len(choices.chosen), self.budget - choices.cost
        if not (era_tokens := finest_tokens(self.sizes)):
            return None
        costs = [0, *choices.tiny_costs(range(start, len(choices.items)), deep)]
        for length in range(start + len(costs) - 1, start - 1, -1):
            oldest = choices.items[length - 1]
            if oldest.step > 1 or (oldest.turn - 1) % self.sizes.fanout or self.shown.get(oldest.turn) == "E":
                continue
            if costs[length - start] + self._era_room(oldest.turn - 1, deep, era_tokens) <= deep:
                return length
        return None

    def _divided_length(self, choices: LevelChoices) -> int:
        """Return the number of items that fit next to eras; the others of the divided era are only named."""
        start, deep = len(choices.chosen), self.budget - choices.cost
        named = 2 if choices.items[0].step else 1
        eras = int(deep * ERA_SHARE) if finest_tokens(self.sizes) else 0
        room = deep - eras - named * choices.costing.stub
        return start + len(choices.tiny_costs(range(start, len(choices.items)), room))

    def _era_room(self, turn: int, deep: int, era_tokens: int) -> int:
        """Return the tokens that Deep leaves to the eras up to a turn: its share, but at least the minimum of each era,
        and at most all of them in full."""
        fanout, tags = self.sizes.fanout, self.overheads.range
        count = turn // fanout
        full, least = count * (tags + era_tokens), 0
        while count:
            least += count % fanout * (tags + min(era_tokens, ERA_MINIMUM_TOKENS))
            count //= fanout
        return max(least, min(full, int(deep * ERA_SHARE)))


def _tokens(rows: Sequence[Block]) -> int:
    return sum(row.tokens for row in rows)


def _append_all_raw(choices: LevelChoices, budget_tokens: int) -> bool:
    """Append everything raw, if it fits."""
    if sum(item.raw for item in choices.items) > budget_tokens:
        return False
    for index in range(len(choices.items)):
        option = choices.at(index, RAW)
        choices.append(option, choices.appended(option))
    if choices.cost <= budget_tokens:
        return True
    choices.cut_back(0, 0)
    return False


def _append_tinies(choices: LevelChoices, length: int) -> None:
    while len(choices.chosen) < length:
        if not choices.append_kept():
            option = choices.at(len(choices.chosen), TINY)
            choices.append(option, choices.appended(option))


def _fill(choices: LevelChoices, level: int, start: float, room: float, tolerance: float, end: int) -> None:  # noqa: PLR0917
    """Append the items before `end` at a level while the band has room; the band begins at the cost `start`."""
    limit = int(start + room)
    soft_limit, oversize = int(limit + room * tolerance), room * OVERSIZE_SHARE
    for index in range(len(choices.chosen), end):
        if choices.append_kept():
            continue
        option = choices.at(index, level)
        added = choices.appended(option)
        if choices.cost < limit and choices.cost + added <= soft_limit:
            choices.append(option, added)
            continue
        if added <= oversize or limit - choices.cost < oversize:
            return
        lower = (choices.at(index, below) for below in range(level + 1, TINY + 1))
        fitting = next((option for option in lower if choices.cost + choices.appended(option) <= limit), None)
        if fitting is None:
            return
        choices.append(fitting, choices.appended(fitting))


SLACK_SHARE = 0.02
"""Maximum share left unspent rather than dividing a range for one turn in its middle."""


def raise_levels(choices: LevelChoices, limit_tokens: int) -> None:
    """Raise what fits: the newest item, each band's newer edge from the oldest band on, single turns, cut texts."""
    _raise_newest(choices, limit_tokens)
    for level in (TINY, COMPRESSED, SMOOTHED):
        _raise_edge(choices, level, limit_tokens)
    if limit_tokens - choices.cost > limit_tokens * SLACK_SHARE:
        _raise_single(choices, limit_tokens)
    _grow_cuts(choices, limit_tokens)


def _raise_newest(choices: LevelChoices, limit_tokens: int) -> None:
    if not choices.chosen or 0 in choices.kept:
        return
    for level in (RAW, SMOOTHED):
        option = choices.at(0, level)
        if option == choices.chosen[0]:
            return
        added = choices.change(0, option)
        if choices.cost + added <= limit_tokens:
            choices.replace(0, option, added)
            return


def _raise_edge(choices: LevelChoices, level: int, limit_tokens: int) -> None:
    """Raise the band's turns by one level, newest first, until one does not fit."""
    chosen = choices.chosen
    for index in range(len(chosen)):
        now = chosen[index]
        if (now.level < level and not now.is_cut) or now != choices.at(index, level):
            continue
        better = choices.at(index, level - 1)
        if now != better:
            added = choices.change(index, better)
            if choices.cost + added > limit_tokens:
                return
            choices.replace(index, better, added)


def _raise_single(choices: LevelChoices, limit_tokens: int) -> None:
    """Raise any turn to the highest level that fits, newest first."""
    chosen = choices.chosen
    for index in range(1, len(chosen)):
        if index in choices.kept:
            continue
        for level in (RAW, SMOOTHED, COMPRESSED):
            option = choices.at(index, level)
            if option == chosen[index]:
                break
            added = choices.change(index, option)
            if choices.cost + added <= limit_tokens:
                choices.replace(index, option, added)
                break


def _grow_cuts(choices: LevelChoices, limit_tokens: int) -> None:
    """Give cut texts the remaining room, newest first; one that then fits whole is no longer cut."""
    note = choices.costing.overheads.cut_note
    for index, option in enumerate(choices.chosen):
        spare = limit_tokens - choices.cost
        if spare <= 0:
            return
        if not option.is_cut:
            continue
        item = choices.items[index]
        size = (item.raw, item.smoothed, item.compressed, item.tiny)[option.level]
        assert size is not None, "a cut is of a level that exists"
        whole = choices.costing.option(item, option.level, size)
        added = choices.change(index, whole)
        if added <= spare:
            choices.replace(index, whole, added)
        else:
            grown = min(spare, max(0, size + note - 1 - option.text))
            choices.replace(index, option._replace(text=option.text + grown), grown)
