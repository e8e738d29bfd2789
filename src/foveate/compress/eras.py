"""Rolls up ranges of turns: the most informative clauses of the range, best first, so that any prefix is a summary."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from foveate.compress.choose import Choice, best_first
from foveate.compress.cues import estimate_tokens
from foveate.compress.facts import base_weight
from foveate.compress.reader import split_label
from foveate.renditions import Count, Unit
from foveate.turn import turn_id

FADING = 0.85
"""Factor for each further clause of a turn, so that an era covers all its turns."""
AGAIN = 0.3
"""Factor for a fact that the era already has: the same words may say something new together."""
REGIONS = 16
LINE_TOKENS = 120
"""Approximate number of tokens per turn reference."""


def roll_up(units: Sequence[Unit], max_tokens: int, count: Count) -> tuple[Unit, ...]:
    """Return the best units of a range, best first, of at most about `max_tokens` together."""
    rarity = _rarity(units)
    choices = [
        Choice(unit.turn, estimate_tokens(unit.text), _weighted(unit, rarity), region)
        for unit, region in zip(units, _regions(units), strict=True)
    ]
    scale = _scale(units, count)
    kept: list[Unit] = []
    left = float(max_tokens)
    for place in best_first(choices, fading=FADING, again=AGAIN):
        cost = choices[place].tokens * scale + 1
        if cost <= left:
            kept.append(units[place])
            left -= cost
        elif left < LINE_TOKENS // 10:
            break
    return tuple(kept)


def _regions(units: Sequence[Unit]) -> list[int]:
    """Return the part of the range that each unit is from, so that no part is omitted."""
    first = min((unit.turn for unit in units), default=0)
    span = max((unit.turn for unit in units), default=0) - first + 1
    return [(unit.turn - first) * REGIONS // span for unit in units]


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


def era_text(units: Sequence[Unit], budget_tokens: int, count: Count) -> str:
    """Return the longest prefix of the units that fits, in the order of their turns; empty if not even one does."""
    sizes = [estimate_tokens(unit.text) + 1 for unit in units]
    low, high = 0, len(units)
    scale = _scale(units, count) if units else 1.0
    total, guess = 0.0, 0
    while guess < len(units) and total + sizes[guess] * scale <= budget_tokens:
        total += sizes[guess] * scale
        guess += 1
    best = ""
    while low < high:
        text = _lines(units[:guess]) if guess else ""
        tokens = count(text)
        if tokens <= budget_tokens:
            low, best = guess, text
        else:
            high = guess - 1
        step = int((budget_tokens - tokens) / max(1.0, total / max(1, guess)))
        guess = min(high, max(low + 1, guess + step)) if step > 0 else max(low, min(high, guess + min(step, -1)))
        if guess <= low:
            break
    return best


def _lines(units: Sequence[Unit]) -> str:
    """Write `T-12 …; … [assistant] …; …` lines: a few turns each, in order, their first one named.

    Within a line each speaker is named once, the user first: a mark for every clause would cost too many tokens.
    """
    lines: list[str] = []
    group: list[Unit] = []
    room = LINE_TOKENS
    for unit in sorted(units, key=lambda unit: unit.turn):
        size = estimate_tokens(unit.text)
        if group and room < size:
            lines.append(_line(group))
            group, room = [], LINE_TOKENS
        group.append(unit)
        room -= size
    if group:
        lines.append(_line(group))
    return "\n".join(lines)


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
    return split_label(text)
