"""The subjects of turns as numbers: the distance of a prompt from the turns before it. Texts are read elsewhere.

A gist is a direction in a space of meanings and the most informative words. A prompt is distant from the turns before
it if its direction differs and it has few of their words; a prompt of few words is never distant.
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from struct import Struct

from foveate.turn import Json

SCALE = 127
"""The numbers of a direction are stored as integers from minus to plus this."""
WEIGHT_SCALE = 200
MAX_WORDS = 64
"""Limit of the most informative words kept in a gist."""
ENOUGH_WORDS = 5
"""A prompt with fewer informative words counts less, in proportion."""
WINDOW_TURNS = 8
"""The number of turns that a prompt is compared with."""
FEW_TURNS, FEW_WORDS = 0.15, 5.0
"""Additional distance required if there is little to compare with: these divided by the turns, and by the words."""

_WORD = Struct("<HB")


@dataclass(frozen=True, slots=True)
class Gist:
    """The subject of a text."""

    direction: tuple[int, ...] = ()
    """The direction; empty if it is not known."""
    words: Mapping[int, float] = field(default_factory=dict)
    """Weights of words, by their numbers."""

    def as_json(self) -> dict[str, Json]:
        heaviest = sorted(self.words.items(), key=lambda word: (-word[1], word[0]))[:MAX_WORDS]
        packed = b"".join(_WORD.pack(word, min(255, round(weight * WEIGHT_SCALE))) for word, weight in heaviest)
        direction = bytes(number & 0xFF for number in self.direction)
        return {"direction": b64encode(direction).decode(), "words": b64encode(packed).decode()}

    @classmethod
    def from_json(cls, kept: Json) -> Gist:
        """Return the stored gist; an empty one if the stored value is invalid."""
        if not isinstance(kept, Mapping):
            return cls()
        direction, words = kept.get("direction"), kept.get("words")
        if not isinstance(direction, str) or not isinstance(words, str):
            return cls()
        found = {word: weight / WEIGHT_SCALE for word, weight in _WORD.iter_unpack(b64decode(words))}
        return cls(tuple(number - 256 * (number > SCALE) for number in b64decode(direction)), found)


def subject_distance(prompt: Gist, before: Sequence[Gist]) -> float:
    """Return the distance of a prompt from the turns before it, 0 to about 1; 0 if there is nothing to compare."""
    known = [gist for gist in before if len(gist.direction) == len(prompt.direction)]
    total = sum(prompt.words.values())
    if not known or not prompt.direction or not total:
        return 0.0
    middle = [sum(numbers) for numbers in zip(*(gist.direction for gist in known), strict=True)]
    said = {word for gist in known for word in gist.words}
    new = sum(weight for word, weight in prompt.words.items() if word not in said)
    return (1 - _cosine(prompt.direction, middle)) * new / total * min(1.0, len(prompt.words) / ENOUGH_WORDS)


def is_new_subject(prompt: Gist, before: Sequence[Gist], distance: float) -> bool:
    """Return whether a prompt is at least this far from the subject of the turns before it."""
    near = before[-WINDOW_TURNS:]
    return bool(near) and subject_distance(prompt, near) > distance + margin(near)


def margin(before: Sequence[Gist]) -> float:
    """Return the additional distance required of a prompt because there is little to compare it with."""
    words = {word for gist in before for word in gist.words}
    return FEW_TURNS / max(1, len(before)) + FEW_WORDS / max(1, len(words))


def _cosine(one: Sequence[int], two: Sequence[int]) -> float:
    lengths = math.sqrt(sum(number * number for number in one) * sum(number * number for number in two))
    return sum(a * b for a, b in zip(one, two, strict=True)) / lengths if lengths else 1.0
