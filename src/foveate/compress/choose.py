"""The greedy choice shared by all summaries: the most new information per token comes first."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

FIXED_COST = 2.0
"""Added to each choice's tokens, so that a single rare word does not beat a sentence."""

MIN_LEFT_TOKENS = 5
"""Less room than this is left empty."""

REGION_FADING = 0.99
"""Factor for the other choices of a region after each choice from it, if groups fade."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A candidate, with the weights of its facts by key."""

    group: int
    """Choices of one group share their attention: each further one counts less."""
    tokens: float
    """Cost in tokens."""
    weights: tuple[tuple[str, float], ...]
    region: int = 0
    """Choices of one region share their attention too, but less closely."""


def best_first(
    choices: Sequence[Choice], *, fading: float = 1.0, again: float = 0.0, fixed: float = FIXED_COST
) -> Iterator[int]:
    """Yield the positions of the choices, by uncovered weight per token; each further one of a group counts `fading`
    times as much.

    A fact that was covered counts `again` times its weight, and `fixed` is added to the tokens of each. Choices without
    information are never returned.
    """
    covered: set[str] = set()
    taken: Counter[tuple[str, int]] = Counter()
    heap = [(-_gain(choice, covered, again, fixed), place, 0) for place, choice in enumerate(choices)]
    heapq.heapify(heap)
    turn = 0
    while heap:
        gain, place, seen = heapq.heappop(heap)
        choice = choices[place]
        if seen != turn:
            fresh = _gain(choice, covered, again, fixed) * fading ** taken["group", choice.group]
            fresh *= REGION_FADING ** taken["region", choice.region]
            if fresh <= 0:
                continue
            if heap and -fresh > heap[0][0]:
                heapq.heappush(heap, (-fresh, place, turn))
                continue
        elif gain >= 0:
            continue
        yield place
        turn += 1
        covered.update(key for key, _ in choice.weights)
        taken["group", choice.group] += 1
        taken["region", choice.region] += fading < 1


def best_that_fit(choices: Sequence[Choice], room: float, *, fading: float = 1.0, again: float = 0.0) -> list[int]:
    """Return the positions of the best choices that fit together in `room` tokens, best first; each costs one token
    more."""
    chosen: list[int] = []
    left = float(room)
    for place in best_first(choices, fading=fading, again=again):
        cost = choices[place].tokens + 1
        if cost <= left:
            chosen.append(place)
            left -= cost
        if left < MIN_LEFT_TOKENS:
            break
    return chosen


def _gain(choice: Choice, covered: set[str], again: float, fixed: float) -> float:
    gain = 0.0
    for key, weight in choice.weights:
        gain += weight * again if key in covered else weight
    return gain / (choice.tokens + fixed)
