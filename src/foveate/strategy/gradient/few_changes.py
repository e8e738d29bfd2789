"""Lets a rebuild by interval change the level of few turns."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from foveate.plan import Block, ShownLevel
from foveate.strategy.layout import RAW, TINY, LevelChoices

CHANGED_SHARE = 0.2
"""Maximum share of the shown tokens whose level changes in a rebuild by interval."""
PLANNED_SHARE = 0.18
"""The same of a new plan: blocks of the old plan that stay in front of it may be smaller than the planned ones."""


def changed_share(rows: Sequence[Block], shown: Mapping[int, ShownLevel]) -> float:
    """Return the share of the tokens of turns that are shown at a different level now; the turns of a block count
    alike."""
    changed = sum(row.tokens * _changed_turns(row, shown) / (row.last - row.first + 1) for row in rows)
    return changed / max(1, sum(row.tokens for row in rows))


def _changed_turns(row: Block, shown: Mapping[int, ShownLevel]) -> int:
    if row.first_step:
        return 0
    if row.level == "E":
        return row.last - max(row.first - 1, _last_in_eras(shown, row.last))
    return sum(shown.get(turn) != row.level for turn in range(row.first, row.last + 1))


def _last_in_eras(shown: Mapping[int, ShownLevel], last_turn: int) -> int:
    """Return the last turn that is part of an era now; all older ones are too."""
    return bisect_left(range(1, last_turn + 1), True, key=lambda turn: shown.get(turn) != "E")


def keep_levels(choices: LevelChoices, limit_tokens: int, changed_tokens: float) -> None:
    """Let fewer turns change: those that the plan lowers keep their level, and the oldest of them go down to Tiny until
    the plan fits, only those that free more tokens than they then have; if necessary others too, except
    the newer half of the raw ones.

    The newest of those go down no further than planned, as long as at most `changed_tokens` change. If that does not
    fit, the plan stays as it is.
    """
    chosen, current = choices.chosen, choices.current
    planned, planned_cost = chosen.copy(), choices.cost
    lowered = [index for index, option in enumerate(chosen) if option.level > current.get(index, TINY)]
    for index in lowered:
        _show(choices, index, current[index])
    newest = sum(option.level == RAW for option in planned) // 2
    others = [index for index in range(newest, len(planned)) if planned[index].level == current.get(index)]
    for turns, least_gain in ((lowered, 1), (others, 1), (lowered, 0)):
        for index in reversed(turns):
            tiny = choices.at(index, TINY)
            if choices.cost > limit_tokens and chosen[index].text - tiny.text > least_gain * tiny.text:
                _show(choices, index, TINY)
    if choices.cost > limit_tokens:
        chosen[:], choices.cost = planned, planned_cost
        return
    left = changed_tokens - sum(chosen[index].text for index in lowered if chosen[index].level != current[index])
    for index in lowered:
        more = planned[index].text - chosen[index].text
        if chosen[index].level != current[index] and 0 < more <= left:
            added = choices.change(index, planned[index])
            if choices.cost + added <= limit_tokens:
                choices.replace(index, planned[index], added)
                left -= more


def _show(choices: LevelChoices, index: int, level: int) -> None:
    option = choices.at(index, level)
    choices.replace(index, option, choices.change(index, option))
