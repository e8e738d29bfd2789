"""Behaviours of a scripted model; see `foveate.testing.scripted`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from foveate.models import Finish
from foveate.turn import Json, Usage


@dataclass(frozen=True, slots=True)
class Says:
    """Answers with text, cut at the request's output limit."""

    text: str
    pieces: tuple[str, ...] = ()
    """The pieces of a stream; by default word by word."""
    usage: Usage | None = None
    """The reported usage; None: the true counts."""
    finish: Finish = "stop"


@dataclass(frozen=True, slots=True)
class SaysJson:
    """Answers with a JSON value."""

    value: Json
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class CallsTool:
    """Calls a tool, after some text if there is any; the tools in `more` are called along with it."""

    name: str
    arguments: Json = None
    """The arguments; None: {}."""
    id: str | None = None
    text: str = ""
    more: tuple[CallsTool, ...] = ()


@dataclass(frozen=True, slots=True)
class Fails:
    """Raises `ModelFailed` with this reason, or `ModelUnavailable` if it is permanent."""

    reason: str = "server"
    retry_after_seconds: float | None = None
    problem: str = "it fails, as its script says"
    is_permanent: bool = False


@dataclass(frozen=True, slots=True)
class Delays:
    """Waits, then continues with the next behaviour."""

    seconds: float
    then: Behaviour


@dataclass(frozen=True, slots=True)
class Stalls:
    """Streams this many pieces, and then nothing until it is cancelled. A request without streaming is never
    answered."""

    after_pieces: int = 0
    text: str = "This was going to be an answer."


@dataclass(frozen=True, slots=True)
class BreaksOff:
    """Streams this many pieces and ends without an answer."""

    after_pieces: int = 1
    text: str = "This was going to be an answer."


@dataclass(frozen=True, slots=True)
class Truncates:
    """Stops in the middle, reporting its output limit."""

    text: str = '{"answer": "This was going to be'


@dataclass(frozen=True, slots=True)
class Refuses:
    """Is stopped by the provider's filter."""

    text: str = ""


@dataclass(frozen=True, slots=True)
class Empty:
    """Returns an empty answer."""


Behaviour: TypeAlias = Says | SaysJson | CallsTool | Fails | Delays | Stalls | BreaksOff | Truncates | Refuses | Empty
