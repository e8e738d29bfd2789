"""Artefacts: texts made from turns for a strategy, such as checkpoints, topic summaries and short messages.

A strategy requests an artefact (`foveate.plan.ArtefactSpec`) and declares its kind (`ArtefactKind`): a maker makes it
at once, a pure function of its material without I/O or model, and a model may word it afterwards.

The driver counts the result: it fills in `Artefact.tokens` and `Artefact.sizes`, whatever a maker says.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from foveate.models import Answer, Ask
from foveate.models.settings import ModelsSettings
from foveate.plan import Artefact, ArtefactSpec
from foveate.renditions import Count, Unit
from foveate.text import message_text
from foveate.turn import Json, Message, Part

SHORT: Final = "short"
"""The key in `Made.data` of the short messages: their texts by position, e.g. {"3": "[result] 212 lines\\n"}."""


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
    """Input of a maker."""

    wanted: ArtefactSpec
    turns: Sequence[SourceTurn]
    """The turns from `wanted.first` to `wanted.last`, oldest first."""
    count: Count
    """Counts a text as the content of an A block."""
    cut: Callable[[str, int], str]
    """Cuts a text to a number of tokens, with a note if it was cut."""
    made: Mapping[str, Artefact] = field(default_factory=dict)
    """Artefacts made before, by name."""
    goals: Sequence[Mapping[str, Json]] = ()
    """The session's goals, in order."""
    model: str | None = None
    file_summaries: Mapping[str, str] = field(default_factory=dict)
    """Summaries that were given for files, by path."""


Maker = Callable[[Material], Artefact]


@dataclass(frozen=True, slots=True)
class ArtefactAssignment:
    """What a model is asked to make of the turns of an artefact."""

    ask: Ask
    nonce: str


@dataclass(frozen=True, slots=True)
class WordingReport:
    """An artefact as a model has worded it; or the reason why it stays as it was."""

    made: Artefact | None = None
    reason: str = ""


class Wording(Protocol):
    """How a model may word artefacts of one kind. Both methods are pure and run in the worker's process."""

    def request(self, material: Material, *, nonce: str, settings: ModelsSettings) -> ArtefactAssignment | None:
        """The request; None if the maker's text can't be improved."""
        ...

    def judge(
        self, assignment: ArtefactAssignment, answer: Answer, material: Material, before: Artefact
    ) -> WordingReport:
        """The artefact with what passes of an answer."""
        ...


@dataclass(frozen=True, slots=True)
class ArtefactKind:
    """How artefacts of one kind are made and worded."""

    maker: Maker | str | None = None
    """A function of the material, or its place as `package.module:name`, which is imported when it is first needed.
    None: the strategy's own `make` is overridden."""
    reads_messages: bool = True
    """The maker reads messages; otherwise its turns come without them."""
    reads_units: bool = True
    """The maker reads units and tinies; otherwise they need not be made first."""
    wording: Wording | str | None = None
    """How a model may word it, or the place of that; None: no model is asked."""

    def load_maker(self) -> Maker:
        """The maker, imported if it is given as a place."""
        found: Maker = _loaded(self.maker)
        return found

    def load_wording(self) -> Wording:
        """The wording, imported if it is given as a place."""
        found: Wording = _loaded(self.wording)
        return found


def _loaded(place: Any) -> Any:
    if not isinstance(place, str):
        return place
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


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

    Give `part_text(part, words)` for the replacement of a part, so that no words can forge a mark.
    """
    return message_text(replace(message, original=None), show)
