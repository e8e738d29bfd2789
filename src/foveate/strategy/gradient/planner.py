"""How the gradient spends a budget: bands from the newest turn on, Tiny for the rest, eras where that is too much.

Every choice is priced to the token when it is made, so a plan fits by construction; the rest is spent on
raising turns. Nothing older than the budget could reach is read.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from foveate.plan import Block, History, Overheads, Plan, ShownLevel, TurnSizes
from foveate.strategy.layout import (
    ALONE,
    COMPRESSED,
    LEVELS,
    RAW,
    SMOOTHED,
    TINY,
    TINY_TOKENS,
    CostModel,
    Ledger,
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
"""With less there are no bands: the newest turn as far as it fits, and one range for all others."""
KEPT_SHARE = 0.25
"""The prompts of running turns are cut to this share of the budget."""
CUT_MINIMUM_TOKENS = 8
"""A cut text is not shorter than this, its note not counted."""
TINY_LIMIT_SHARE = 0.02
"""A single Tiny larger than this share of the budget is cut."""
OVERSIZE_SHARE = 0.5
"""A turn that takes more than this share of its band falls to a lower level alone; the band goes on behind it."""
FULL_SHARE = 0.95
"""A plan with eras that uses less of the budget is made again with turns in place of the newest of them."""
LOOSE_TRIES = 3
LOOSE_ERA_SHARE = 0.5
"""Where Deep is too small to reach back to the end of an era with single turns, eras have this share of it."""
TURN_SHARES = (0.10, 0.20, 0.50)
"""Where Recent, Working and Background end at first, as shares of the turns; what is left then raises turns."""
TAKE_STEPS = 8
"""How finely it is found out what Deep has to take: to 1 part in 2**8 of what it may."""


class Boundary(NamedTuple):
    """Where single turns end and eras begin."""

    length: int
    """The number of items shown one by one."""
    turn: int
    """The newest turn that is part of an era; those between are only named."""


class GradientPlanner:
    """One plan in the making."""

    def __init__(self, settings: Gradient, history: History, budget_tokens: int, overheads: Overheads) -> None:
        assert history.fanout > 1, "an era replaces two turns at least"
        self.settings = settings
        self.history = history
        self.budget = budget_tokens
        self.overheads = overheads

    def plan(self) -> Plan:
        rows = self._rows() if self.history.last_turn and self.budget >= MIN_HISTORY_TOKENS else None
        if rows is None:
            rows = compact_rows(self.history, self.budget, self.overheads)
        return self.plan_of(rows)

    def plan_of(self, rows: list[Block]) -> Plan:
        """The plan of these rows."""
        tokens = sum(row.tokens for row in rows)
        assert tokens <= max(0, self.budget), f"a plan of {tokens} tokens for a budget of {self.budget}"
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
        """The plan's rows; None where the budget is too small for bands."""
        items, is_all = self._read()
        tiny_limit = max(TINY_TOKENS, int(self.budget * TINY_LIMIT_SHARE))
        ledger = Ledger(items, CostModel(self.overheads, self.settings.short_turn_tokens, tiny_limit))
        if is_all and _append_all_raw(ledger, self.budget):
            return chosen_rows(ledger)
        self._keep_prompts(ledger)
        if not self._append_newest(ledger):
            return None
        if self._append_bands(ledger, is_all=is_all):
            raise_levels(ledger, self.budget)
            keep_levels(ledger, self.history.shown, self.budget)
            return chosen_rows(ledger)
        return self._with_eras(ledger)

    def _read(self) -> tuple[list[TurnSizes], bool]:
        """As many items as could fit at their smallest, and whether those are all; a running turn's steps always."""
        items: list[TurnSizes] = []
        least, line = 0, self.overheads.line
        for item in self.history.newest():
            items.append(item)
            tiny = TINY_TOKENS if item.tiny is None else item.tiny
            least += max(1, line + min(tiny, item.raw, TINY_TOKENS))
            if least > self.budget and item.step <= 1:
                return items, False
        return items, True

    def _keep_prompts(self, ledger: Ledger) -> None:
        """Sets aside what the prompts of running turns take."""
        tag, note = self.overheads.tag, self.overheads.cut_note
        room = int(self.budget * KEPT_SHARE)
        for index, item in enumerate(ledger.items):
            if not item.step:
                break
            if not item.is_kept:
                continue
            most = int(self.budget * self.settings.newest_share) if index == 0 else room
            if item.raw + tag <= most:
                ledger.keep(index, ledger.at(index, RAW))
            elif most - tag - note >= CUT_MINIMUM_TOKENS:
                ledger.keep(index, Option(most - tag, ALONE, RAW, is_cut=True))
            else:
                continue
            room -= ledger.kept[index].text + tag

    def _append_newest(self, ledger: Ledger) -> bool:
        """The newest item raw or smoothed, cut at worst; False where not even that fits."""
        if ledger.append_kept():
            return True
        room = int((self.budget - ledger.cost) * self.settings.newest_share)
        for option in (ledger.at(0, RAW), ledger.at(0, SMOOTHED)):
            added = ledger.appended(option)
            if added <= room:
                ledger.append(option, added)
                return True
        text = room - self.overheads.tag
        if text - self.overheads.cut_note < CUT_MINIMUM_TOKENS:
            return False
        ledger.append(Option(text, ALONE, ledger.at(0, SMOOTHED).level, is_cut=True), room)
        return True

    def _append_bands(self, ledger: Ledger, *, is_all: bool) -> bool:
        """Fills the bands, Deep taking what it needs for a Tiny each; False where that is more than it may take."""
        settings, count = self.settings, len(ledger.items)
        base = sum(option.text + self.overheads.tag for option in ledger.kept.values())
        room = self.budget - base
        may_take = settings.background - settings.background_minimum + settings.working - settings.working_minimum
        ends = [math.ceil(share * count) for share in TURN_SHARES]
        if not is_all or ledger.items[0].step:
            ends = [count] * len(TURN_SHARES)
        _fill(ledger, RAW, base, settings.recent * room, settings.tolerance, ends[0])
        length, cost = len(ledger.chosen), ledger.cost
        left = ledger.tiny_costs(range(count - 1, -1, -1), self.budget) if is_all else []

        def fill(take: float) -> bool:
            ledger.cut_back(length, cost)
            background = max(settings.background_minimum, settings.background - take)
            working = settings.working - (take - (settings.background - background))
            start = base + settings.recent * room
            _fill(ledger, SMOOTHED, start, working * room, settings.tolerance, ends[1])
            _fill(ledger, COMPRESSED, start + working * room, background * room, settings.tolerance, ends[2])
            tinies = count - len(ledger.chosen)
            if not is_all or tinies > len(left):
                return False
            rest = left[tinies - 1] if tinies else 0
            return ledger.cost + rest + self.overheads.range <= self.budget

        if not is_all or not fill(0.0):
            if not fill(may_take):
                return False
            low, high = 0.0, may_take
            for _ in range(TAKE_STEPS):
                middle = (low + high) / 2
                low, high = (low, middle) if fill(middle) else (middle, high)
            fill(high)
        length, cost = len(ledger.chosen), ledger.cost
        _append_tinies(ledger, count)
        if ledger.cost <= self.budget:
            return True
        ledger.cut_back(length, cost)
        return False

    def _with_eras(self, ledger: Ledger) -> list[Block] | None:
        """Tiny for the newer part of Deep, eras for the rest."""
        chosen, cost = ledger.chosen.copy(), ledger.cost
        boundary = self._aligned_boundary(ledger)
        best = None if boundary is None else self._era_rows(ledger, boundary)
        eras = sum(row.tokens for row in best if row.level == "E") if best else self._least_for_eras(cost)
        for _ in range(LOOSE_TRIES):
            if _tokens(best) >= FULL_SHARE * self.budget:
                break
            ledger.chosen[:], ledger.cost = chosen, cost
            rows = self._era_rows(ledger, self._loose_boundary(ledger, eras))
            eras = sum(row.tokens for row in rows or () if row.level == "E" and row.era_level)
            best = rows if _tokens(rows) > _tokens(best) else best
        return best

    def _era_rows(self, ledger: Ledger, boundary: Boundary) -> list[Block] | None:
        """The rows of a history whose single turns end here; None where they don't fit."""
        _append_tinies(ledger, boundary.length)
        hidden = hidden_step_rows(ledger, self.overheads)
        spent = sum(row.tokens for row in hidden if row.level == "E")
        room = self.budget - ledger.cost - spent
        last = ledger.items[boundary.length - 1].turn - 1
        cover = make_cover(self.history, boundary.turn, last, room, self.overheads)
        if cover.least > room:
            return None
        raise_levels(ledger, self.budget - spent - min(room, cover.full))
        keep_levels(ledger, self.history.shown, self.budget - spent - cover.least)
        return cover.rows(self.budget - spent - ledger.cost) + hidden + chosen_rows(ledger)

    def _aligned_boundary(self, ledger: Ledger) -> Boundary | None:
        """The oldest end of an era that leaves eras their share of Deep, or all they can use; None without eras."""
        era_tokens = finest_tokens(self.history)
        if not era_tokens:
            return None
        start, deep = len(ledger.chosen), self.budget - ledger.cost
        least, fanout = 2 * ledger.costing.stub, self.history.fanout
        costs = [0, *ledger.tiny_costs(range(start, len(ledger.items)), deep - least)]
        first: Boundary | None = None
        best: Boundary | None = None
        for length, cost in enumerate(costs, start):
            oldest = ledger.items[length - 1]
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
        """What single turns leave to eras, if there are any, where they end in the middle of one."""
        return int((self.budget - cost) * LOOSE_ERA_SHARE) if finest_tokens(self.history) else 0

    def _loose_boundary(self, ledger: Ledger, era_tokens: int) -> Boundary:
        """As many single turns as leave the given room; the rest of an era that they break up is only named."""
        start = len(ledger.chosen)
        named = 2 if ledger.items[0].step else 1
        room = self.budget - ledger.cost - era_tokens - named * ledger.costing.stub
        length = start + len(ledger.tiny_costs(range(start, len(ledger.items)), room))
        turn = ledger.items[length - 1].turn - 1
        return Boundary(length, turn - turn % self.history.fanout)


def _tokens(rows: list[Block] | None) -> int:
    return sum(row.tokens for row in rows or ())


def _append_all_raw(ledger: Ledger, budget_tokens: int) -> bool:
    """Everything as it was, if that fits."""
    if sum(item.raw for item in ledger.items) > budget_tokens:
        return False
    for index in range(len(ledger.items)):
        option = ledger.at(index, RAW)
        ledger.append(option, ledger.appended(option))
    if ledger.cost <= budget_tokens:
        return True
    ledger.cut_back(0, 0)
    return False


def _append_tinies(ledger: Ledger, length: int) -> None:
    while len(ledger.chosen) < length:
        if not ledger.append_kept():
            option = ledger.at(len(ledger.chosen), TINY)
            ledger.append(option, ledger.appended(option))


def _fill(ledger: Ledger, level: int, start: float, room: float, tolerance: float, end: int) -> None:  # noqa: PLR0917
    """Shows the items before `end` at a level while the band has room, which begins where the cost was to be by now."""
    limit = int(start + room)
    soft_limit, oversize = int(limit + room * tolerance), room * OVERSIZE_SHARE
    for index in range(len(ledger.chosen), end):
        if ledger.append_kept():
            continue
        option = ledger.at(index, level)
        added = ledger.appended(option)
        if ledger.cost < limit and ledger.cost + added <= soft_limit:
            ledger.append(option, added)
            continue
        if added <= oversize or limit - ledger.cost < oversize:
            return
        lower = (ledger.at(index, below) for below in range(level + 1, TINY + 1))
        fitting = next((option for option in lower if ledger.cost + ledger.appended(option) <= limit), None)
        if fitting is None:
            return
        ledger.append(fitting, ledger.appended(fitting))


CHANGED_SHARE = 0.17
"""Where few levels are to change, the texts that do take no more than this share; with tags, a fifth of the tokens."""


def keep_levels(ledger: Ledger, shown: Mapping[int, ShownLevel], limit_tokens: int) -> None:
    """Fewer turns change: raised ones keep the level they are shown at now, and so do the newest of the lowered ones.

    The oldest of the lowered ones pay for it, one more level each time.
    """
    if not shown:
        return
    changed = {
        index: LEVELS.index(level)
        for index, (item, option) in enumerate(zip(ledger.items, ledger.chosen, strict=False))
        if (level := shown.get(item.turn)) in LEVELS and LEVELS[option.level] != level and not item.step
    }
    total = sum(option.text for option in ledger.chosen)
    excess = sum(ledger.chosen[index].text for index in changed) - total * CHANGED_SHARE
    for index, before in changed.items():
        if excess > 0 and before > ledger.chosen[index].level:
            excess -= _go_to(ledger, index, before, limit_tokens) or 0
    lowered = deque(index for index, before in changed.items() if before < ledger.chosen[index].level)
    while excess > 0 and lowered:
        size = _go_to(ledger, lowered[0], changed[lowered[0]], limit_tokens)
        if size is not None:
            excess -= size
            lowered.popleft()
            continue
        oldest = lowered[-1]
        before_tokens = ledger.chosen[oldest].text
        if ledger.chosen[oldest].level == TINY or _go_to(ledger, oldest, TINY, limit_tokens) is None:
            lowered.pop()
        else:
            excess -= before_tokens - ledger.chosen[oldest].text


def _go_to(ledger: Ledger, index: int, level: int, limit_tokens: int) -> int | None:
    """Shows an item at a level if that exists and fits: what it took before, or None."""
    option = ledger.at(index, level)
    added = ledger.change(index, option)
    if option.level != level or option.is_cut or ledger.cost + added > limit_tokens:
        return None
    before = ledger.chosen[index].text
    ledger.replace(index, option, added)
    return before


SLACK_SHARE = 0.02
"""Less than this is left unspent rather than breaking up a range for one turn in its middle."""


def raise_levels(ledger: Ledger, limit_tokens: int) -> None:
    """Raises what fits: the newest item, each band's newer edge from the oldest band on, single turns, cut texts."""
    _raise_newest(ledger, limit_tokens)
    for level in (TINY, COMPRESSED, SMOOTHED):
        _raise_edge(ledger, level, limit_tokens)
    if limit_tokens - ledger.cost > limit_tokens * SLACK_SHARE:
        _raise_single(ledger, limit_tokens)
    _grow_cuts(ledger, limit_tokens)


def _raise_newest(ledger: Ledger, limit_tokens: int) -> None:
    if not ledger.chosen or 0 in ledger.kept:
        return
    for level in (RAW, SMOOTHED):
        option = ledger.at(0, level)
        if option == ledger.chosen[0]:
            return
        added = ledger.change(0, option)
        if ledger.cost + added <= limit_tokens:
            ledger.replace(0, option, added)
            return


def _raise_edge(ledger: Ledger, level: int, limit_tokens: int) -> None:
    """The band's turns one level up, newest first, until one does not fit."""
    chosen = ledger.chosen
    for index in range(len(chosen)):
        now = chosen[index]
        if (now.level < level and not now.is_cut) or now != ledger.at(index, level):
            continue
        better = ledger.at(index, level - 1)
        if now != better:
            added = ledger.change(index, better)
            if ledger.cost + added > limit_tokens:
                return
            ledger.replace(index, better, added)


def _raise_single(ledger: Ledger, limit_tokens: int) -> None:
    """Any turn to the highest level that fits, newest first."""
    chosen = ledger.chosen
    for index in range(1, len(chosen)):
        if index in ledger.kept:
            continue
        for level in (RAW, SMOOTHED, COMPRESSED):
            option = ledger.at(index, level)
            if option == chosen[index]:
                break
            added = ledger.change(index, option)
            if ledger.cost + added <= limit_tokens:
                ledger.replace(index, option, added)
                break


def _grow_cuts(ledger: Ledger, limit_tokens: int) -> None:
    """Cut texts get the remaining room, newest first; one that then fits whole is no longer cut."""
    note = ledger.costing.overheads.cut_note
    for index, option in enumerate(ledger.chosen):
        spare = limit_tokens - ledger.cost
        if spare <= 0:
            return
        if not option.is_cut:
            continue
        item = ledger.items[index]
        size = (item.raw, item.smoothed, item.compressed, item.tiny)[option.level]
        assert size is not None, "a cut is of a level that exists"
        whole = ledger.costing.option(item, option.level, size)
        added = ledger.change(index, whole)
        if added <= spare:
            ledger.replace(index, whole, added)
        else:
            grown = min(spare, max(0, size + note - 1 - option.text))
            ledger.replace(index, option._replace(text=option.text + grown), grown)
