"""What happens while a model answers, as it happens: pieces of the answer, calls of tools, and what it took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from foveate.models import Finish
from foveate.store.calls import NANO
from foveate.turn import Json


@dataclass(frozen=True, slots=True)
class Asked:
    """A model begins to read a prompt of so many tokens."""

    tokens: int


@dataclass(frozen=True, slots=True)
class Piece:
    """Some more of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolAsked:
    """The model calls a tool."""

    name: str
    arguments: Json


@dataclass(frozen=True, slots=True)
class ToolAnswered:
    """What it called has answered, in so many tokens."""

    name: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Noticed:
    """Something the user should know about this answer."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The answer is complete and recorded; what it took, all calls for it together."""

    turn_id: str
    text: str
    """Of the last message."""
    model: str
    finish: Finish
    calls: int
    tokens: int
    """Of the last prompt, as counted here."""
    budget_tokens: int
    prompt_tokens: int
    """Of all prompts, as counted here."""
    predicted_cached_tokens: int
    """What those began with that the calls before them ended with."""
    input_tokens: int
    """What the provider says it read; 0 if it says nothing."""
    cached_tokens: int
    output_tokens: int
    nano_usd: int
    seconds: float

    @property
    def predicted_cached_share(self) -> float:
        return self.predicted_cached_tokens / max(1, self.prompt_tokens)

    @property
    def cached_share(self) -> float | None:
        """What the provider reports; None if it reports no usage."""
        return self.cached_tokens / self.input_tokens if self.input_tokens else None

    @property
    def usd(self) -> float:
        return self.nano_usd / NANO


ChatEvent: TypeAlias = Asked | Piece | ToolAsked | ToolAnswered | Noticed | Finished
