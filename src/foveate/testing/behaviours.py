"""What a scripted model can be told to do; see `foveate.testing.scripted`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from foveate.models import Finish
from foveate.turn import Json, Usage


@dataclass(frozen=True, slots=True)
class Says:
    """Answers in words; never in more than the request's output limit allows, where the answer then ends."""

    text: str
    pieces: tuple[str, ...] = ()
    """How a stream gives it out; word by word if nothing is said."""
    usage: Usage | None = None
    """What it claims to have used; the true counts if None."""
    finish: Finish = "stop"


@dataclass(frozen=True, slots=True)
class SaysJson:
    """Answers with a JSON value."""

    value: Json
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class CallsTool:
    """Calls a tool, after some words if there are any; `more` are called along with it."""

    name: str
    arguments: Json = None
    """None: no arguments ({})."""
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
    """Waits, then does the next thing."""

    seconds: float
    then: Behaviour


@dataclass(frozen=True, slots=True)
class Stalls:
    """Streams this many pieces, and then nothing until it is cancelled. Asked for a whole answer, it never answers."""

    after_pieces: int = 0
    text: str = "This was going to be an answer."


@dataclass(frozen=True, slots=True)
class BreaksOff:
    """Streams this many pieces and ends without an answer."""

    after_pieces: int = 1
    text: str = "This was going to be an answer."


@dataclass(frozen=True, slots=True)
class Truncates:
    """Stops in the middle, at its output limit as it says."""

    text: str = '{"answer": "This was going to be'


@dataclass(frozen=True, slots=True)
class Refuses:
    """The provider's filter stops it."""

    text: str = ""


@dataclass(frozen=True, slots=True)
class Empty:
    """Answers with nothing at all."""


Behaviour: TypeAlias = Says | SaysJson | CallsTool | Fails | Delays | Stalls | BreaksOff | Truncates | Refuses | Empty
