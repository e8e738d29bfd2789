"""Artefacts: texts made from turns for a strategy, such as checkpoints, topic summaries and short messages.

A strategy requests an artefact (`foveate.plan.ArtefactSpec`) and declares its kind (`ArtefactKind`): a maker makes it
at once, a pure function of its material without I/O or model, and a model may word it afterwards.

The driver counts the result: it sets `Artefact.tokens` and `Artefact.sizes`, whatever the maker returned.
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
    """A turn that an artefact is made from."""

    number: int
    messages: tuple[Message, ...]
    """All messages, display-only ones included, so that a message's index is its position; empty for a pruned turn."""
    units: tuple[Unit, ...]
    """The turn's clauses, best first; `compress.eras` summarises them."""
    tiny: str
    """The tiny rendition of the turn."""


@dataclass(frozen=True, slots=True)
class Material:
    """Input of a maker."""

    wanted: ArtefactSpec
    turns: Sequence[SourceTurn]
    """The turns from `wanted.first` to `wanted.last`, oldest first."""
    count: Count
    """Counts the tokens of a text as the content of an A block."""
    cut: Callable[[str, int], str]
    """Cuts a text to a number of tokens, with a note if it was cut."""
    made: Mapping[str, Artefact] = field(default_factory=dict)
    """Existing artefacts, by name."""
    goals: Sequence[Mapping[str, Json]] = ()
    """The session's goals, in order."""
    model: str | None = None
    file_summaries: Mapping[str, str] = field(default_factory=dict)
    """Stored summaries of files, by path."""


Maker = Callable[[Material], Artefact]


@dataclass(frozen=True, slots=True)
class ArtefactAssignment:
    """The request to a model to word an artefact."""

    ask: Ask
    nonce: str


@dataclass(frozen=True, slots=True)
class WordingReport:
    """An artefact worded by a model; or the reason why it is unchanged."""

    made: Artefact | None = None
    reason: str = ""


class Wording(Protocol):
    """The wording of one kind of artefact by a model. Both methods are pure and run in the worker's process."""

    def request(self, material: Material, *, nonce: str, settings: ModelsSettings) -> ArtefactAssignment | None:
        """Write the request; None if the maker's text can't be improved."""
        ...

    def judge(
        self, assignment: ArtefactAssignment, answer: Answer, material: Material, before: Artefact
    ) -> WordingReport:
        """Return the artefact with the accepted parts of an answer."""
        ...


@dataclass(frozen=True, slots=True)
class ArtefactKind:
    """How artefacts of one kind are made and worded."""

    maker: Maker | str | None = None
    """A function of the material, or its location as `package.module:name`, which is imported on first use. None: the
    strategy overrides `make`."""
    reads_messages: bool = True
    """The maker reads messages; otherwise its turns have none."""
    reads_units: bool = True
    """The maker reads units and tiny renditions; otherwise it does not wait for them."""
    wording: Wording | str | None = None
    """The wording by a model, or its location; None: no model is used."""

    def load_maker(self) -> Maker:
        """Return the maker, imported if it is set as a location."""
        found: Maker = _loaded(self.maker)
        return found

    def load_wording(self) -> Wording:
        """Return the wording, imported if it is set as a location."""
        found: Wording = _loaded(self.wording)
        return found


def _loaded(place: Any) -> Any:
    if not isinstance(place, str):
        return place
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def made_of(wanted: ArtefactSpec, text: str = "", data: Mapping[str, Json] | None = None) -> Artefact:
    """Return an artefact with the name and the turns of its spec."""
    return Artefact(wanted.name, wanted.kind, wanted.first, wanted.last, text=text, data=data or {})


def made_short(wanted: ArtefactSpec, texts: Mapping[int, str], data: Mapping[str, Json] | None = None) -> Artefact:
    """Return an artefact of one turn's short messages, by position; each text as `short_message` writes it."""
    assert wanted.first == wanted.last, "positions are of one turn"
    assert all(text.endswith("\n") or not text for text in texts.values()), "a message's text ends in a newline"
    kept: dict[str, Json] = {str(position): text for position, text in sorted(texts.items())}
    return made_of(wanted, data={**(data or {}), SHORT: kept})


def short_texts(made: Artefact) -> dict[int, str]:
    """Return the short messages of an artefact, by position."""
    kept = made.data.get(SHORT)
    return {int(position): str(text) for position, text in kept.items()} if isinstance(kept, Mapping) else {}


def short_message(message: Message, show: Callable[[Part], str]) -> str:
    """Write a message with shorter parts after the same marks; `show` is like `foveate.text.part_text`.

    Use `part_text(part, words)` to replace a part, so that no words can forge a mark.
    """
    return message_text(replace(message, original=None), show)
