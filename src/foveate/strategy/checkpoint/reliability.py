"""How far a compressed conversation can be trusted: by the model's size, and by how often it was compressed.

    score = model factor x max(1 - 0.15 x compressions, 0.30)

The factor is known where a model's name says how large it is. Hosted families don't say: the large ones are taken for
the largest size, their small siblings for the next; any other model for 13B. Both are marked as assumed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

ReliabilityLevel = Literal["high", "medium", "low", "critical"]

FACTORS: tuple[tuple[float, float], ...] = ((70, 0.95), (30, 0.85), (13, 0.70), (7, 0.50), (0, 0.30))
"""Minimum of parameters in billions, and the factor. The last one also applies below 3B."""
UNKNOWN_FACTOR = 0.70
HOSTED_FACTOR, HOSTED_SMALL_FACTOR = 0.95, 0.85
"""For families whose makers don't say how large they are."""
LEVELS: tuple[tuple[float, ReliabilityLevel], ...] = ((0.85, "high"), (0.60, "medium"), (0.40, "low"), (0, "critical"))
ADVICE: dict[ReliabilityLevel, str] = {
    "high": "excellent",
    "medium": "good",
    "low": "degraded: check what matters against the full record",
    "critical": "poor: consider starting a new conversation",
}
MAX_NAME_CHARS = 200

_SIZE = re.compile(r"(?<![a-z0-9.])(?:(\d{1,3})x)?(\d{1,4}(?:\.\d{1,3})?)(b|m)(?![a-z0-9])")
_HOSTED = re.compile(r"(?<![a-z])(?:gpt-?[45]|chatgpt|o[134](?![a-z0-9])|claude|gemini|grok)")
_SMALL = re.compile(r"mini|nano|haiku|flash|lite|instant|small|fast")
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class ModelFactor:
    """What a model's size counts."""

    value: float
    is_assumed: bool = False
    """Its name does not say how large it is."""


@dataclass(frozen=True, slots=True)
class Reliability:
    """A conversation's score."""

    score: float
    level: ReliabilityLevel
    factor: ModelFactor
    penalty: float
    """What the compressions leave of it, 0 to 1."""

    @property
    def advice(self) -> str:
        return ADVICE[self.level]


def model_factor(model: str | None, unknown: float = UNKNOWN_FACTOR) -> ModelFactor:
    """By the largest number of parameters in the name (`8x7b` counts as 56b), else by its family."""
    name = (model or "")[:MAX_NAME_CHARS].casefold()
    sizes = [
        float(size) * int(experts or 1) / (1 if unit == "b" else 1000) for experts, size, unit in _SIZE.findall(name)
    ]
    if sizes:
        return ModelFactor(next(factor for least, factor in FACTORS if max(sizes) >= least))
    if _HOSTED.search(name):
        return ModelFactor(HOSTED_SMALL_FACTOR if _SMALL.search(name) else HOSTED_FACTOR, is_assumed=True)
    return ModelFactor(unknown, is_assumed=True)


def reliability(
    model: str | None,
    compressions: int,
    *,
    unknown_factor: float = UNKNOWN_FACTOR,
    penalty_each: float = 0.15,
    penalty_floor: float = 0.30,
) -> Reliability:
    """The score of a conversation after a number of compressions."""
    factor = model_factor(model, unknown_factor)
    penalty = max(1.0 - penalty_each * compressions, penalty_floor)
    score = factor.value * penalty
    level = next(name for least, name in LEVELS if score >= least - _ROUNDING)
    return Reliability(score, level, factor, penalty)
