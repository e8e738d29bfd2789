"""Rolls up ranges of turns: the most informative clauses of the range, best first.

The text of an era has a line for each turn that it shows, and at least one for each group of `LINE_TURNS` turns, so
that it says something of all of them. A line counts from `LINE_WORDS` content words on; a clause with fewer is only
shown where a group has no other.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate

from foveate.compress.choose import MIN_LEFT_TOKENS, Choice, best_first
from foveate.compress.cues import estimate_tokens
from foveate.compress.facts import base_weight
from foveate.compress.reader import LABEL
from foveate.renditions import LINE_TURNS, LINE_WORDS, Count, Unit
from foveate.turn import turn_id
from foveate.words import content_words

FADING = 0.85
"""Factor for each further clause of a turn, so that an era covers all its turns."""
AGAIN = 0.3
"""Factor for a fact that the era already has: the same words may say something new together."""
HEAD_WORDS = LINE_WORDS + 1
"""Content words of a line, one more than it needs to count."""
HEAD_TOKENS = (18, 12)
"""Estimated tokens up to which a group's line is its best clause, beyond them its shortest: first tried, then if the
lines do not fit."""
LABEL_TOKENS = 5
"""Approximate tokens of the turn that a line begins with, and of its end."""


def roll_up(
    units: Sequence[Unit], max_tokens: int, count: Count, *, turns: Sequence[int] | None = None
) -> tuple[Unit, ...]:
    """Return the best units of a range, best first, of at most about `max_tokens` together.

    Each group of `turns` keeps the clauses that its line needs; if not all fit, groups of more turns do.
    """
    rarity = _rarity(units)
    choices = [Choice(unit.turn, estimate_tokens(unit.text), _weighted(unit, rarity)) for unit in units]
    scale = _scale(units, count)
    costs = [choice.tokens * scale + 1 for choice in choices]
    heads = _heads(units, costs, max_tokens, turns)
    left = max_tokens - sum(costs[place] for place in heads)
    kept: list[Unit] = []
    best = best_first(choices, fading=FADING, again=AGAIN)
    for place in sorted(best, key=lambda place: not _is_told([units[place]])):
        if place in heads or costs[place] <= left:
            left -= 0 if heads.pop(place, None) else costs[place]
            kept.append(units[place])
        elif left < MIN_LEFT_TOKENS:
            break
    return (*kept, *heads.values())


def _heads(
    units: Sequence[Unit], costs: Sequence[float], max_tokens: int, turns: Sequence[int] | None
) -> dict[int, Unit]:
    """Return the units of the shortest lines, by their places: of all groups of turns, or of as many as fit."""
    order = sorted(range(len(units)), key=lambda place: -units[place].worth / costs[place])
    lines = _Lines([units[place] for place in order], turns)
    spans = len(lines.groups)
    while spans:
        for most_tokens in HEAD_TOKENS:
            places = [order[place] for place in lines.heads(spans, most_tokens)]
            if sum(costs[place] for place in places) <= max_tokens:
                return {place: units[place] for place in places}
        spans = spans * 7 // 8
    return {}


def with_all_lines(units: Sequence[Unit], others: Sequence[Unit], turns: Sequence[int]) -> tuple[Unit, ...]:
    """Add to the units the shortest lines of the groups of turns of which they say too little."""
    own, known = _Lines(units, turns), _Lines(others, turns)
    told = {group for group in own.groups if own.is_told(own.head(group))}
    missing = (known.head(group) for group in known.groups if group not in told)
    return (*units, *(known.units[place] for head in missing for place in head))


def _scale(units: Sequence[Unit], count: Count) -> float:
    sample = "; ".join(unit.text for unit in units[:: max(1, len(units) // 40)])
    return count(sample) / max(1, estimate_tokens(sample))


def _rarity(units: Sequence[Unit]) -> dict[str, float]:
    """Return the weight of each fact in this range: a fact that many turns share distinguishes none of them."""
    by_turn: dict[int, set[str]] = {}
    for unit in units:
        by_turn.setdefault(unit.turn, set()).update(unit.facts)
    seen = Counter(key for keys in by_turn.values() for key in keys)
    logs = [0.0, *(math.log(1 + len(by_turn) / turns) for turns in range(1, len(by_turn) + 1))]
    return {key: logs[turns] for key, turns in seen.items()}


def _weighted(unit: Unit, rarity: dict[str, float]) -> tuple[tuple[str, float], ...]:
    # The order is fixed, because floats added in another order may differ in their last digit.
    own = [(key, base_weight(key)) for key in sorted(unit.facts)]
    by_itself = sum(weight for _, weight in own)
    said_by = unit.worth / by_itself if by_itself else 0.0
    return tuple((key, weight * rarity[key] * said_by) for key, weight in own)


def era_text(
    units: Sequence[Unit],
    budget_tokens: int,
    count: Count,
    *,
    turns: Sequence[int] | None = None,
    days: Mapping[int, str] | None = None,
) -> str:
    """Write what fits of an era's units, which are best first, in the order of their turns; empty if not even one does.

    `turns` are those that the text is about, in order; by default all from the first unit's to the last's. Each group
    of them has a line with its best short clause, if there is room; else as many do as fit, evenly spread. More room
    adds the other clauses, best first, each on the line of its turn. `days` are the dates of turns: a line begins with
    its own if that is not the date of the line before.
    """
    lines = _Lines(units, turns, days)
    if not lines.units:
        return ""
    scale = _scale(lines.units, count)
    sizes = [estimate_tokens(unit.text) * scale + LABEL_TOKENS for unit in lines.units]
    choices = [lines.heads(len(lines.groups), most_tokens) for most_tokens in HEAD_TOKENS]
    heads = next((heads for heads in choices if count(lines.text(heads)) <= budget_tokens), None)
    if heads is None:
        each = sum(sizes[place] for place in choices[-1]) / len(lines.groups)
        steps = [each] * (len(lines.groups) - 1)
        return _longest(lambda spans: lines.text(lines.heads(spans, HEAD_TOKENS[-1])), steps, budget_tokens, count)
    rest = sorted(set(range(len(sizes))) - set(heads), key=lambda place: (not lines.is_told([place]), place))
    steps = [sizes[place] for place in rest]
    return _longest(lambda more: lines.text([*heads, *rest[:more]]), steps, budget_tokens, count)


def _longest(write: Callable[[int], str], sizes: Sequence[float], budget_tokens: int, count: Count) -> str:
    """Return the text of the most steps that fits; none always does. `sizes` are about the tokens of each step."""
    sums = [0.0, *accumulate(sizes)]
    low, high, best = 0, len(sizes), write(0)
    guess = bisect_right(sums, budget_tokens - count(best)) - 1
    while low < high:
        guess = min(high, max(low + 1, guess))
        text = write(guess)
        tokens = count(text)
        if tokens <= budget_tokens:
            low, best = guess, text
        else:
            high = guess - 1
        guess = bisect_right(sums, sums[guess] + budget_tokens - tokens) - 1
    return best


class _Lines:
    """The units of an era, best first, in groups of consecutive turns of which each has a line in its text."""

    def __init__(
        self, units: Sequence[Unit], turns: Sequence[int] | None, days: Mapping[int, str] | None = None
    ) -> None:
        if turns is None:
            numbers = [unit.turn for unit in units]
            turns = range(min(numbers, default=0), max(numbers, default=-1) + 1)
        self._days = days or {}
        self._group = {turn: place // LINE_TURNS for place, turn in enumerate(turns)}
        self.units = [unit for unit in units if unit.turn in self._group]
        self.groups: dict[int, list[int]] = {}
        """The places of the units of each group, those with enough words for a line first."""
        for place in sorted(range(len(self.units)), key=lambda place: not self.is_told([place])):
            self.groups.setdefault(self._group[self.units[place].turn], []).append(place)

    def is_told(self, places: Iterable[int]) -> bool:
        """Return whether these units have enough words for a line."""
        return _is_told(self.units[place] for place in places)

    def heads(self, spans: int, most_tokens: int) -> list[int]:
        """Return the units of the shortest lines, of the best group in each of `spans` equal parts."""
        heads = [self.head(group, most_tokens) for group in sorted(self.groups)]
        total = len(heads)
        parts = (heads[span * total // spans : (span + 1) * total // spans] for span in range(spans))
        return [place for part in parts for place in min(part, key=lambda head: (not self.is_told(head), head[0]))]

    def head(self, group: int, most_tokens: int = HEAD_TOKENS[0]) -> list[int]:
        """Return the best short clause of a group, its shortest long one, or as many small ones as a line needs."""
        members = self.groups[group]
        told = [place for place in members if self.is_told([place])]
        if told:
            return [min(told, key=lambda place: max(most_tokens, estimate_tokens(self.units[place].text)))]
        ends = (end for end in range(1, len(members)) if self.is_told(members[:end]))
        return members[: next(ends, len(members))]

    def text(self, places: Collection[int]) -> str:
        """Write `T-12 …; … [assistant] …` lines in order, one for each turn; small clauses share a group's line."""
        own = {self.units[place].turn for place in places if self.is_told([place])}
        lines: dict[tuple[int, int], list[Unit]] = {}
        for place in sorted(places, key=lambda place: (self.units[place].turn, place)):
            turn = self.units[place].turn
            lines.setdefault((self._group[turn], turn if turn in own else 0), []).append(self.units[place])
        day, written = "", list[str]()
        for units in lines.values():
            before, day = day, self._days.get(units[0].turn, "")
            written.append(f"{day}: {_line(units)}" if day and day != before else _line(units))
        return "\n".join(written)


def _is_told(units: Iterable[Unit]) -> bool:
    return len(frozenset[str]().union(*(_content(unit.text) for unit in units))) >= HEAD_WORDS


@lru_cache(maxsize=20_000)
def _content(text: str) -> frozenset[str]:
    """Return the content words of a unit, without its speaker."""
    return content_words(_split_speaker(text)[1])


def _line(group: Sequence[Unit]) -> str:
    said: dict[str, list[str]] = {"": []}
    for unit in group:
        who, text = _split_speaker(unit.text)
        said.setdefault(who, []).append(text)
    parts = [f"{who}{'; '.join(texts)}" for who, texts in said.items() if texts]
    return f"{turn_id(group[0].turn)} {' '.join(parts)}"


def _split_speaker(text: str) -> tuple[str, str]:
    if text.startswith("["):
        mark, end, said = text.partition("] ")
        return mark + end, said
    label = LABEL.match(text)
    return (label.group(), text[label.end() :]) if label and text[0].isupper() else ("", text)
