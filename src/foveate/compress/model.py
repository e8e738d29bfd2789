"""Renditions written by a model: what it is asked for one turn, and whether its answer may stand.

Pure, like every compressor: no call is made here. `assign` writes the request, `judge` reads the answer; whoever
calls the model does so in between, at most twice for an assignment: once more with what was missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from foveate.compress import Count, Level, Refusal
from foveate.models import Answer, Ask, Purpose
from foveate.settings import ModelsSettings
from foveate.turn import Message

PROMPT_VERSION = 1
"""Kept with every rendition; changes with any word of the prompts."""


@dataclass(frozen=True, slots=True)
class Group:
    """Levels that one call makes together."""

    levels: tuple[Level, ...]
    purpose: Purpose
    models: tuple[str, ...]
    """The one to ask, then its fallbacks."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a model is asked to make of one turn; can be pickled."""

    levels: tuple[Level, ...]
    ask: Ask
    nonce: str
    is_second: bool = False


@dataclass(frozen=True, slots=True)
class Judged:
    """What the guard lets pass of an answer."""

    texts: Mapping[Level, str]
    refusals: tuple[Refusal, ...] = ()
    again: Assignment | None = None
    """The request to make once more, for the levels that did not pass, with what was missing named."""


def groups(settings: ModelsSettings) -> tuple[Group, ...]:
    """The calls that make a turn's renditions, in the order they depend on each other; none if no model is named."""
    raise NotImplementedError


def assign(
    group: Group,
    turn: int,
    messages: Sequence[Message],
    count: Count,
    *,
    nonce: str,
    settings: ModelsSettings,
    source: str | None = None,
) -> Assignment:
    """The request for one turn. `source` is the level above where levels are chained; else the original is."""
    raise NotImplementedError


def judge(
    assignment: Assignment, answer: Answer, messages: Sequence[Message], count: Count, *, above: Mapping[Level, int]
) -> Judged:
    """What may stand of the answer. `above` has, for each level, the tokens of the next higher level in use."""
    raise NotImplementedError
