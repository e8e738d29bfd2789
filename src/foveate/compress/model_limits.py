"""How long an answer may be: what a model is told, and where its provider stops it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from foveate.compress import Level
from foveate.compress.model_prompts import NAMES

OTHER_TOKENIZERS = 1.6
"""Another model may need so many times the tokens that we count for a text, JSON's escapes included."""
SHAPE_TOKENS = 40
"""Keys, quotes and braces around a level."""
LEAST_WORDS = 8
FEWEST_WORDS_PER_TOKEN, MOST_WORDS_PER_TOKEN = 0.35, 0.75
"""Where words are rarer the language has no spaces between them, and characters are counted."""


def asked_limits(levels: Sequence[Level], rooms: Mapping[Level, int], source: str, source_tokens: int) -> str:
    """The limits in words, which models can follow better than tokens: `150 words for "compressed"`."""
    per_token = len(source.split()) / max(1, source_tokens)
    unit = "words"
    if per_token < FEWEST_WORDS_PER_TOKEN and not source.isascii():
        unit, per_token = "characters", len(source) / max(1, source_tokens)
    per_token = min(per_token, MOST_WORDS_PER_TOKEN) if unit == "words" else per_token
    said = [
        f'{max(LEAST_WORDS, int(rooms[level] * per_token))} {unit} for "{NAMES[level]}"'
        for level in levels
        if level in rooms
    ]
    if "S" in levels:
        said.append('60 % of each passage for "smoothed"')
    return " and ".join(said)


def answer_tokens(rooms: Mapping[Level, int], passages_tokens: int = 0) -> int:
    """The provider's output limit: enough for every answer that could be let through, and for no essay."""
    needed = sum(passages_tokens if level == "S" else tokens for level, tokens in rooms.items())
    return math.ceil(needed * OTHER_TOKENIZERS) + SHAPE_TOKENS * max(1, len(rooms))
