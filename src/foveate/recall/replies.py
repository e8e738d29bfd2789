"""Which passage replies to which, and by whom a passage was said. Pure."""

from __future__ import annotations

import re
from typing import Protocol

from foveate.words.grammar import QUESTION_MARKS

_WORD = r"[^\W\d_][\w.'\u2019-]*"
NAME_AT_START = re.compile(rf"({_WORD}(?: {_WORD}){{0,2}})[:\uff1a]\s")
"""The name that a message begins with, one to three words before a colon: `Anna: the keys are in the shed`."""


class SaidPassage(Protocol):
    """A passage and its speaker."""

    @property
    def speaker(self) -> str: ...

    @property
    def text(self) -> str: ...


class PlacedPassage(SaidPassage, Protocol):
    """A passage with its place in the conversation."""

    @property
    def turn(self) -> int: ...

    @property
    def number(self) -> int:
        """Its place among the turn's passages."""
        ...


def is_reply(asks: PlacedPassage, replies: PlacedPassage) -> bool:
    """Whether one passage is a question and the other, right behind it, is what a person or the model said to it."""
    if not asks.text.rstrip().endswith(QUESTION_MARKS):
        return False
    is_next = replies.number == asks.number + 1 if replies.turn == asks.turn else replies.turn == asks.turn + 1
    return is_next and {asks.speaker, replies.speaker} <= {"user", "assistant"}


def speaker_name(said: SaidPassage, first: SaidPassage) -> str:
    """The name that a passage begins with, or that the first passage of its turn by the same speaker does; or empty."""
    named = NAME_AT_START.match(said.text)
    if not named and first.speaker == said.speaker:
        named = NAME_AT_START.match(first.text)
    return named[1] if named else ""
