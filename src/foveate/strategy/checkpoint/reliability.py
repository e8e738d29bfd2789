"""The reliability of a compressed conversation, by the model's size and the number of compressions.

    score = model factor x max(1 - 0.15 x compressions, 0.30)

The factor is known if a model's name contains its size. Hosted families publish none: the large ones are rated like the
largest size, their small siblings like the next, any other model like 13B. Both are marked as assumed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

ReliabilityLevel = Literal["high", "medium", "low", "critical"]

FACTORS: tuple[tuple[float, float], ...] = ((70, 0.95), (30, 0.85), (13, 0.70), (7, 0.50), (0, 0.30))
"""Minimum number of parameters in billions, and the factor. The last one also applies below 3B."""
UNKNOWN_FACTOR = 0.70
HOSTED_FACTOR, HOSTED_SMALL_FACTOR = 0.95, 0.85
"""Factors for families whose size is not published."""
LEVELS: tuple[tuple[float, ReliabilityLevel], ...] = ((0.85, "high"), (0.60, "medium"), (0.40, "low"), (0, "critical"))
ADVICE: dict[ReliabilityLevel, str] = {
    "high": "excellent",
    "medium": "good",
    "low": "degraded: check what matters against the full record, or start a new conversation or a larger context",
    "critical": "poor: start a new conversation or a larger context",
}
MAX_NAME_CHARS = 200

_SIZE = re.compile(r"(?<![a-z0-9.])(?:(\d{1,3})x)?(\d{1,4}(?:\.\d{1,3})?)(b|m)(?![a-z0-9])")
_HOSTED = re.compile(r"(?<![a-z])(?:gpt-?[45]|chatgpt|o[134](?![a-z0-9])|claude|gemini|grok)")
_SMALL = re.compile(r"mini|nano|haiku|flash|lite|instant|small|fast")
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class ModelFactor:
    """The reliability factor of a model."""

    value: float
    is_assumed: bool = False
    """The model's name does not contain its size."""


@dataclass(frozen=True, slots=True)
class Reliability:
    """The reliability score of a conversation."""

    score: float
    level: ReliabilityLevel
    factor: ModelFactor
    penalty: float
    """Share that remains after the compressions, 0 to 1."""

    @property
    def advice(self) -> str:
        return ADVICE[self.level]


def model_factor(model: str | None, unknown: float = UNKNOWN_FACTOR) -> ModelFactor:
    """Return the factor by the largest number of parameters in the name (`8x7b` counts as 56b), else by the family."""
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
    """Return the score of a conversation after a number of compressions."""
    factor = model_factor(model, unknown_factor)
    penalty = max(1.0 - penalty_each * compressions, penalty_floor)
    score = factor.value * penalty
    level = next(name for least, name in LEVELS if score >= least - _ROUNDING)
    return Reliability(score, level, factor, penalty)
