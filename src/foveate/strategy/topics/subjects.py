"""The subjects of turns as numbers: the distance of a prompt from the turns before it. Texts are read elsewhere.

A gist is a direction in a space of meanings and the most informative words. A prompt is distant from the turns before
it if it has few of their words, apart from those of the whole conversation, and its direction differs; a prompt of few
words is never distant.
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
ENOUGH_WORDS = 10
"""Minimum number of informative words of a prompt, and of the turns that it is compared with."""
WINDOW_TURNS = 4
"""The number of turns that a prompt is compared with."""
BACKGROUND_TURNS = 16
"""The number of turns before these whose words count less, since the whole conversation has them."""
MIN_BACKGROUND_TURNS = 4
MIN_RARITY = 0.05
"""Factor of a word that all turns of the background have."""
DIRECTION_WEIGHT = 0.3
"""Weight of the distance of directions, beside that of words."""
USUAL = 0.73
"""Distance that counts as none: three of four prompts that continue a subject are nearer (bench/subjects.jsonl)."""

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


def subject_distance(prompt: Gist, before: Sequence[Gist], background: Sequence[Gist] = ()) -> float:
    """Return how far a prompt is from the turns before it: 0 as far as usual, or with too little to compare; about 1
    with nothing in common.

    Words count by how rare they are in the background, the turns before those: what a whole conversation is about
    says nothing about where its subject changes.
    """
    said: dict[int, float] = {}
    for gist in before:
        for word, weight in gist.words.items():
            said[word] = said.get(word, 0.0) + weight
    if min(len(said), len(prompt.words)) < ENOUGH_WORDS:
        return 0.0
    asked = {word: weight * _rarity(word, background) for word, weight in prompt.words.items()}
    said = {word: weight * _rarity(word, background) for word, weight in said.items()}
    shared = sum(weight * said.get(word, 0.0) for word, weight in asked.items())
    lengths = math.hypot(*asked.values()) * math.hypot(*said.values())
    words = 1 - (shared / lengths if lengths else 1.0)
    known = [gist.direction for gist in before if len(gist.direction) == len(prompt.direction)]
    middle = [sum(numbers) for numbers in zip(*known, strict=True)]
    directions = 1 - _cosine(prompt.direction, middle) if middle else 0.0
    distance = (words + DIRECTION_WEIGHT * directions) / (1 + DIRECTION_WEIGHT)
    return max(0.0, (distance - USUAL) / (1 - USUAL))


def _rarity(word: int, background: Sequence[Gist]) -> float:
    """Return a factor from `MIN_RARITY` for a word of all turns to 1 for a word of none."""
    count = len(background)
    if count < MIN_BACKGROUND_TURNS:
        return 1.0
    has_word = sum(word in gist.words for gist in background)
    return max(MIN_RARITY, math.log((count + 1) / (has_word + 1)) / math.log(count + 1))


def _cosine(one: Sequence[int], two: Sequence[int]) -> float:
    lengths = math.sqrt(sum(number * number for number in one) * sum(number * number for number in two))
    return sum(a * b for a, b in zip(one, two, strict=True)) / lengths if lengths else 1.0
