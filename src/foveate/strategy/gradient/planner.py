"""Spends the gradient's budget: bands from the newest turn on, Tiny for the rest, eras if that is too much.

Every choice is priced to the token when it is made, so a plan always fits; the rest is spent on raising turns. Nothing
older than the budget could reach is read.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from foveate.plan import Block, Plan, ShownLevel, Sizes, TurnSizes
from foveate.strategy.layout import (
    ALONE,
    COMPRESSED,
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
FULL_SHARE = 0.95
"""A plan with eras that uses less of the budget is made again with turns in place of the newest of them."""
LOOSE_TRIES = 3
LOOSE_ERA_SHARE = 0.5
"""Share of Deep for eras if Deep is too small for single turns back to the end of an era."""
TURN_SHARES = (0.10, 0.20, 0.50)
"""Initial ends of Recent, Working and Background, as shares of the turns; the remaining room raises turns."""
TAKE_STEPS = 8
"""Precision of the search for what Deep must take: 1 part in 2**8 of its maximum."""


class Boundary(NamedTuple):
    """The boundary between single turns and eras."""

    length: int
    """Number of items shown one by one."""
    turn: int
    """The newest turn that is part of an era; those between are only named."""


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
        self.overheads = sizes.overheads
        self.shown = shown
        """Current levels of turns of which few are to change."""

    def plan(self) -> Plan:
        rows = self._rows() if self.sizes.last_turn and self.budget >= MIN_HISTORY_TOKENS else None
        if rows is None:
            rows = compact_rows(self.sizes, self.budget, self.overheads)
        return self.plan_of(rows)

    def plan_of(self, rows: list[Block], limit_tokens: int | None = None) -> Plan:
        """Return the plan of these rows, which fit the limit: the budget if None."""
        tokens, limit = sum(row.tokens for row in rows), self.budget if limit_tokens is None else limit_tokens
        assert tokens <= max(0, limit), f"a plan of {tokens} tokens for a budget of {limit}"
        settings = self.settings
        has_eras = any(row.level == "E" for row in rows)
        tiny = settings.tiny_share if has_eras else 1.0
        targets: dict[ShownLevel, float] = {
            "R": settings.recent,
            "S": settings.working,
            "C": settings.background,
            "T": settings.deep * tiny,
            "E": settings.deep * (1 - tiny),
        }
        return Plan(tuple(rows), bands_of(rows, targets), tokens, self.budget)

    def _rows(self) -> list[Block] | None:
        """Return the plan's rows; None if the budget is too small for bands."""
        items, is_all = self._read()
        tiny_limit = max(TINY_TOKENS, int(self.budget * TINY_LIMIT_SHARE))
        choices = LevelChoices(items, CostModel(self.overheads, self.settings.short_turn_tokens, tiny_limit))
        if is_all and _append_all_raw(choices, self.budget):
            return chosen_rows(choices)
        self._keep_prompts(choices)
        if not self._append_newest(choices):
            return None
        if self._append_bands(choices, is_all=is_all):
            raise_levels(choices, self.budget)
            keep_levels(choices, self.shown, self.budget)
            return chosen_rows(choices)
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
        """Lay out the newer part of Deep as Tiny, the rest as eras."""
        chosen, cost = choices.chosen.copy(), choices.cost
        boundary = self._aligned_boundary(choices)
        best = None if boundary is None else self._era_rows(choices, boundary)
        eras = sum(row.tokens for row in best if row.level == "E") if best else self._least_for_eras(cost)
        for _ in range(LOOSE_TRIES):
            if _tokens(best) >= FULL_SHARE * self.budget:
                break
            choices.chosen[:], choices.cost = chosen, cost
            rows = self._era_rows(choices, self._loose_boundary(choices, eras))
            eras = sum(row.tokens for row in rows or () if row.level == "E" and row.era_level)
            best = rows if _tokens(rows) > _tokens(best) else best
        return best

    def _era_rows(self, choices: LevelChoices, boundary: Boundary) -> list[Block] | None:
        """Return the rows of a history whose single turns end here; None if they don't fit."""
        _append_tinies(choices, boundary.length)
        hidden = hidden_step_rows(choices, self.overheads)
        spent = sum(row.tokens for row in hidden if row.level == "E")
        room = self.budget - choices.cost - spent
        last = choices.items[boundary.length - 1].turn - 1
        cover = make_cover(self.sizes, boundary.turn, last, room, self.overheads)
        if cover.least > room:
            return None
        raise_levels(choices, self.budget - spent - min(room, cover.full))
        keep_levels(choices, self.shown, self.budget - spent - cover.least)
        return cover.rows(self.budget - spent - choices.cost) + hidden + chosen_rows(choices)

    def _aligned_boundary(self, choices: LevelChoices) -> Boundary | None:
        """Return the oldest end of an era that leaves eras their share of Deep, or all they can use; None without
        eras."""
        era_tokens = finest_tokens(self.sizes)
        if not era_tokens:
            return None
        start, deep = len(choices.chosen), self.budget - choices.cost
        least, fanout = 2 * choices.costing.stub, self.sizes.fanout
        costs = [0, *choices.tiny_costs(range(start, len(choices.items)), deep - least)]
        first: Boundary | None = None
        best: Boundary | None = None
        for length, cost in enumerate(costs, start):
            oldest = choices.items[length - 1]
            turn = oldest.turn - 1
            if turn % fanout or oldest.step > 1:
                continue
            here = Boundary(length, turn)
            first = here if first is None else first
            eras = turn // fanout * (self.overheads.range + era_tokens)
            if cost <= max(self.settings.tiny_share * deep, deep - eras):
                best = here
        return first if best is None else best

    def _least_for_eras(self, cost: int) -> int:
        """Return the tokens that single turns leave to eras if the boundary is inside an era."""
        return int((self.budget - cost) * LOOSE_ERA_SHARE) if finest_tokens(self.sizes) else 0

    def _loose_boundary(self, choices: LevelChoices, era_tokens: int) -> Boundary:
        """Choose as many single turns as leave this room; the rest of the divided era is only named."""
        start = len(choices.chosen)
        named = 2 if choices.items[0].step else 1
        room = self.budget - choices.cost - era_tokens - named * choices.costing.stub
        length = start + len(choices.tiny_costs(range(start, len(choices.items)), room))
        turn = choices.items[length - 1].turn - 1
        return Boundary(length, turn - turn % self.sizes.fanout)


def _tokens(rows: list[Block] | None) -> int:
    return sum(row.tokens for row in rows or ())


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


CHANGED_SHARE = 0.17
"""Maximum share of the texts that change if few levels are to change; with tags, a fifth of the tokens."""


def keep_levels(choices: LevelChoices, shown: Mapping[int, ShownLevel], limit_tokens: int) -> None:
    """Let fewer turns change: raised ones keep their current level, and so do the newest of the lowered ones.

    To compensate, the oldest of the lowered ones go down one more level each time.
    """
    if not shown:
        return
    changed = {
        index: LEVELS.index(level)
        for index, (item, option) in enumerate(zip(choices.items, choices.chosen, strict=False))
        if (level := shown.get(item.turn)) in LEVELS and LEVELS[option.level] != level and not item.step
    }
    total = sum(option.text for option in choices.chosen)
    excess = sum(choices.chosen[index].text for index in changed) - total * CHANGED_SHARE
    for index, before in changed.items():
        if excess > 0 and before > choices.chosen[index].level:
            excess -= _go_to(choices, index, before, limit_tokens) or 0
    lowered = deque(index for index, before in changed.items() if before < choices.chosen[index].level)
    while excess > 0 and lowered:
        size = _go_to(choices, lowered[0], changed[lowered[0]], limit_tokens)
        if size is not None:
            excess -= size
            lowered.popleft()
            continue
        oldest = lowered[-1]
        before_tokens = choices.chosen[oldest].text
        if choices.chosen[oldest].level == TINY or _go_to(choices, oldest, TINY, limit_tokens) is None:
            lowered.pop()
        else:
            excess -= before_tokens - choices.chosen[oldest].text


def _go_to(choices: LevelChoices, index: int, level: int, limit_tokens: int) -> int | None:
    """Show an item at a level if that exists and fits; return its former tokens, or None."""
    option = choices.at(index, level)
    added = choices.change(index, option)
    if option.level != level or option.is_cut or choices.cost + added > limit_tokens:
        return None
    before = choices.chosen[index].text
    choices.replace(index, option, added)
    return before


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
