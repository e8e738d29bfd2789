"""Lets a rebuild by interval change the level of few turns."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from foveate.plan import Block, ShownLevel
from foveate.strategy.layout import TINY, LevelChoices

CHANGED_SHARE = 0.2
"""Maximum share of the shown tokens whose level changes in a rebuild by interval."""
PLANNED_SHARE = 0.18
"""The same of a new plan: blocks of the old plan that stay in front of it may be smaller than the planned ones."""
KEEPING_SHARES = (0.18, 0.12, 0.06, 0.0)
"""Shares by the sizes of turns that are tried, until the blocks change by no more than `PLANNED_SHARE`."""


def changed_share(rows: Sequence[Block], shown: Mapping[int, ShownLevel]) -> float:
    """Return the share of the tokens of turns that are shown at a different level now; the turns of a block count
    alike."""
    changed = sum(row.tokens * _changed_turns(row, shown) / (row.last - row.first + 1) for row in rows)
    return changed / max(1, sum(row.tokens for row in rows))


def _changed_turns(row: Block, shown: Mapping[int, ShownLevel]) -> int:
    if row.first_step:
        return 0
    if row.level == "E":
        return row.last - max(row.first - 1, min(row.last, _last_in_eras(shown, row.last)))
    return sum(shown.get(turn) != row.level for turn in range(row.first, row.last + 1))


def keep_levels(
    choices: LevelChoices, shown: Mapping[int, ShownLevel], limit_tokens: int, eras: Sequence[Block], share: float
) -> None:
    """Let fewer turns change if more than a share of the tokens would.

    The newest lowered turns keep their current level. For the room, the oldest turns go down to Tiny. A turn that
    can't keep its level goes down further, if nothing else is left.
    """
    changes = _Changes(choices, limit_tokens)
    eras_tokens = sum(row.tokens for row in eras)
    changes.excess += changed_share(eras, shown) * eras_tokens - share * (choices.cost + eras_tokens)
    lowered = [index for index in reversed(changes.turns) if changes.is_lowered(index)]
    payers = [index for index in changes.turns if choices.chosen[index].level < TINY]
    stuck: list[int] = []
    while changes.excess > 0 and lowered:
        if changes.go_to(lowered[-1], choices.current[lowered[-1]]):
            lowered.pop()
        elif payers and payers[-1] > lowered[-1]:
            changes.go_down(payers.pop())
        else:
            stuck.append(lowered.pop())
    while changes.excess > 0 and stuck:
        changes.go_down(stuck.pop())


class _Changes:
    """The turns whose level a plan changes."""

    def __init__(self, choices: LevelChoices, limit_tokens: int) -> None:
        self.choices = choices
        self.limit_tokens = limit_tokens
        items = choices.items[: len(choices.chosen)]
        self.turns = [index for index, item in enumerate(items) if not item.step and index not in choices.kept]
        """Whole turns, newest first."""
        self.excess: float = sum(map(self._changed, self.turns))
        """Changed tokens, less their maximum."""

    def is_lowered(self, index: int) -> bool:
        return self.choices.chosen[index].level > self.choices.current.get(index, TINY)

    def go_down(self, index: int) -> bool:
        """Show a turn as Tiny, unless more tokens change by that than it frees."""
        tiny, now = self.choices.at(index, TINY), self.choices.chosen[index]
        is_worth = self._changed(index) > 0 or now.text > 2 * tiny.text
        return is_worth and self.go_to(index, TINY)

    def go_to(self, index: int, level: int) -> bool:
        """Show a turn at a level if that exists and fits."""
        option, changed = self.choices.at(index, level), self._changed(index)
        added = self.choices.change(index, option)
        if option.level != level or option.is_cut or self.choices.cost + added > self.limit_tokens:
            return False
        self.choices.replace(index, option, added)
        self.excess += self._changed(index) - changed
        return True

    def _changed(self, index: int) -> int:
        """Return the tokens of a turn if its level changes, else 0."""
        option = self.choices.chosen[index]
        is_same = option.level == self.choices.current.get(index)
        return 0 if is_same else option.text + self.choices.costing.overheads.line


def _last_in_eras(shown: Mapping[int, ShownLevel], last_turn: int) -> int:
    """Return the last turn that is part of an era now; all older ones are too."""
    return bisect_left(range(1, last_turn + 1), True, key=lambda turn: shown.get(turn) != "E")
