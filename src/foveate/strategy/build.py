"""What strategies have made of turns: checkpoints, summaries of topics, short forms of messages.

A strategy requests an artefact (`foveate.plan.ArtefactSpec`), a maker makes it. A maker is a pure function of its
material, quick and local: no I/O, no model, the same text for the same material. Its kind is its name in `MAKERS`; a
strategy from elsewhere has a method `make(material)` of its own for kinds that are not listed here.

The driver counts the result: it fills in `Artefact.tokens` and `Artefact.sizes`, whatever a maker says.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final

from foveate.plan import Artefact, ArtefactSpec
from foveate.renditions import Count, Unit
from foveate.text import message_text
from foveate.turn import Json, Message, Part

MAKERS: Final[Mapping[str, str]] = {
    "checkpoint": "foveate.strategy.checkpoint.build:make_checkpoint",
    "checkpoints": "foveate.strategy.checkpoint.build:make_merged",
    "topic": "foveate.strategy.topics.build:make_topic",
    "bulk": "foveate.strategy.topics.build:make_bulk",
    "boundary": "foveate.strategy.topics.build:make_boundary",
    "truncated": "foveate.strategy.topics.build:make_truncated",
    "short": "foveate.strategy.hybrid.build:make_short",
}
"""The makers by the kind of what they make; a module is loaded when something of its kind is wanted."""

WITHOUT_MESSAGES: Final = frozenset({"bulk", "checkpoints"})
"""Kinds made from units and what was made before: their turns come without messages, which are not read then."""
WITHOUT_UNITS: Final = frozenset({"short", "truncated", "boundary"})
"""Kinds made from messages alone: their turns come without units and a tiny, which need not be made first."""

WORDED: Final = frozenset({"checkpoint", "checkpoints", "topic", "bulk"})
"""Kinds that a model may word, in its own time: see `foveate.strategy.wording`."""

SHORT: Final = "short"
"""The key in `Made.data` of the short messages: their texts by position, as in {"3": "[result] 212 lines\\n"}."""


@dataclass(frozen=True, slots=True)
class SourceTurn:
    """A turn that something is made of."""

    number: int
    messages: tuple[Message, ...]
    """As they came, display-only ones included, so that a message's place is its position; none of a pruned turn."""
    units: tuple[Unit, ...]
    """What the turn says, the best first; `compress.eras` makes a summary of them."""
    tiny: str
    """The turn in a sentence."""


@dataclass(frozen=True, slots=True)
class Material:
    """Everything a maker may use."""

    wanted: ArtefactSpec
    turns: Sequence[SourceTurn]
    """The turns from `wanted.first` to `wanted.last`, oldest first."""
    count: Count
    """What a text costs as the content of an A block."""
    cut: Callable[[str, int], str]
    """A text, or as much of it as fits so many tokens, with a note that it was cut."""
    made: Mapping[str, Artefact] = field(default_factory=dict)
    """What the strategy had made before, by name."""
    goals: Sequence[Mapping[str, Json]] = ()
    """The session's goals as they are kept, in order."""
    model: str | None = None


Maker = Callable[[Material], Artefact]


@cache
def load_maker(kind: str) -> Maker | None:
    """The maker of a kind; None if none is listed."""
    place = MAKERS.get(kind)
    if place is None:
        return None
    module, _, name = place.partition(":")
    maker: Maker = getattr(importlib.import_module(module), name)
    return maker


def made_of(wanted: ArtefactSpec, text: str = "", data: Mapping[str, Json] | None = None) -> Artefact:
    """What was made, under the name and for the turns it was wanted for."""
    return Artefact(wanted.name, wanted.kind, wanted.first, wanted.last, text=text, data=data or {})


def made_short(wanted: ArtefactSpec, texts: Mapping[int, str], data: Mapping[str, Json] | None = None) -> Artefact:
    """Short messages of one turn, by position; each text as `short_message` writes it."""
    assert wanted.first == wanted.last, "positions are of one turn"
    assert all(text.endswith("\n") or not text for text in texts.values()), "a message's text ends in a newline"
    kept: dict[str, Json] = {str(position): text for position, text in sorted(texts.items())}
    return made_of(wanted, data={**(data or {}), SHORT: kept})


def short_texts(made: Artefact) -> dict[int, str]:
    """The short messages of something made, by position."""
    kept = made.data.get(SHORT)
    return {int(position): str(text) for position, text in kept.items()} if isinstance(kept, Mapping) else {}


def short_message(message: Message, show: Callable[[Part], str]) -> str:
    """A message with its parts written shorter, behind the same marks: `show` is like `foveate.text.part_text`.

    Give `part_text(part, words)` for what is to stand in a part's place, so that no words can forge a mark.
    """
    return message_text(replace(message, original=None), show)
