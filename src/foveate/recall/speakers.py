"""Who said a passage, in conversations whose messages begin with a name: `Anna: the keys are in the shed`. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from foveate.recall.words import telling_words

LEAST_NAMED_SHARE = 0.5
"""Of the passages of a role, at least this share must begin with a name; else `Error: …` is a heading, not a name."""

_WORD = r"[^\W\d_][\w.'\u2019-]*"
_NAME = re.compile(rf"({_WORD}(?: {_WORD}){{0,2}})[:\uff1a]\s")


@dataclass(frozen=True, slots=True)
class SpeakerName:
    """The role of a passage's speaker, and the name that the message begins with; empty if with none."""

    role: str
    name: str


def name_at_start(text: str) -> str:
    """The name that a text begins with, one to three words before a colon; empty if it begins with none."""
    match = _NAME.match(text)
    return match[1] if match else ""


def said_by_named(query: str, speakers: Sequence[SpeakerName | None]) -> list[bool]:
    """For each passage whether its speaker is named in the query; None: the passage is gone."""
    asked = telling_words(query)
    of_role = Counter(speaker.role for speaker in speakers if speaker)
    with_name = Counter(speaker.role for speaker in speakers if speaker and speaker.name)
    roles = {role for role, count in with_name.items() if count >= LEAST_NAMED_SHARE * of_role[role]}
    return [
        speaker is not None and speaker.role in roles and bool(asked & telling_words(speaker.name))
        for speaker in speakers
    ]
