"""The turn model: frozen, typed values for a prompt and everything up to the next one; no I/O.

A conversation is a list of turns, a turn a list of messages, a message a list of parts. The provider's record is kept
in `Message.original`, so that it can be returned exactly.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal, Protocol, TypeAlias

from foveate.errors import InvalidMessage

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
Role = Literal["system", "developer", "user", "assistant", "tool"]
Kind = Literal["message", "injection", "display"]

ROLES: tuple[Role, ...] = ("system", "developer", "user", "assistant", "tool")
MAX_NESTING = 200
"""Maximum nesting of JSON: no provider sends more, and every reader of it would have to recurse."""
MAX_INTEGER_BITS = 14_000
"""Maximum size of an integer, about 4,200 digits: Python reads and writes no longer ones as text."""

_TURN_ID = re.compile(r"(?:T-)?([1-9][0-9]{0,17})", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class Text:
    """Text, unchanged."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A model's reasoning, with the provider's signature, which some providers require back."""

    text: str
    signature: str | None = None
    """Anthropic's `signature` or Gemini's `thoughtSignature`."""
    encrypted: str | None = None
    """Encrypted reasoning: Anthropic's redacted data, OpenAI's `encrypted_content`."""
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Attachment:
    """An image or file: a URI, a provider's file id, or inline bytes in base64."""

    media: Literal["image", "audio", "video", "file"]
    uri: str | None = None
    file_id: str | None = None
    data: str | None = None
    media_type: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call with its full arguments: parsed JSON, or the model's text if it is not JSON."""

    name: str
    arguments: Json
    id: str | None = None
    signature: str | None = None
    """Gemini's `thoughtSignature`, which must stay next to its call."""


@dataclass(frozen=True, slots=True)
class Opaque:
    """A block of unknown type, kept unchanged."""

    format: str
    data: Json


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The full result of a tool call."""

    call_id: str | None
    content: tuple[Text | Attachment | Opaque, ...]
    name: str | None = None
    is_error: bool = False
    exit_code: int | None = None
    duration_seconds: float | None = None


Part: TypeAlias = Text | Reasoning | Attachment | ToolCall | ToolResult | Opaque


@dataclass(frozen=True, slots=True)
class Usage:
    """Token usage that the provider reported for a message. `input_tokens` includes cached tokens."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Original:
    """The message in its original format; rendering to the same format returns exactly this."""

    format: str
    data: Json


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a turn."""

    role: Role
    parts: tuple[Part, ...] = ()
    kind: Kind = "message"
    """`injection`: context added by a program, not by the user. `display`: shown to people, never to a model."""
    at: datetime | None = None
    name: str | None = None
    model: str | None = None
    usage: Usage | None = None
    original: Original | None = None
    prefix: str | None = None
    """A hash of the request that produced an answer with signed thinking."""

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls among its parts."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        """The results among its parts."""
        return tuple(part for part in self.parts if isinstance(part, ToolResult))

    @property
    def text(self) -> str:
        """The text without reasoning, calls and results."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def opens_turn(self) -> bool:
        """True for a prompt. A user message with tool results does not open a turn, so that they stay with their
        calls."""
        return self.role == "user" and self.kind == "message" and not self.tool_results

    @property
    def is_preamble(self) -> bool:
        """True for messages that may precede a turn's prompt: system messages, injections, display-only items."""
        return self.kind != "message" or self.role in ("system", "developer")

    def without_original(self) -> Message:
        """Return the message without its original, to compare it or to write it in another format."""
        return replace(self, original=None)


@dataclass(frozen=True, slots=True)
class Turn:
    """One prompt and everything up to the next one. `number` is 0 until it is recorded."""

    messages: tuple[Message, ...]
    number: int = 0
    tokens: int = 0

    @property
    def id(self) -> str:
        """`T-1`, `T-2`, …"""
        return turn_id(self.number)

    @property
    def at(self) -> datetime | None:
        """When it began."""
        return next((message.at for message in self.messages if message.at), None)


def turn_id(number: int) -> str:
    return f"T-{number}"


def turn_number(turn: str | int) -> int | None:
    """Return the number in `T-87`, `t-87`, `87` or 87; None if it is no turn id."""
    if isinstance(turn, int):
        return turn if turn > 0 else None
    match = _TURN_ID.fullmatch(turn.strip())
    return int(match[1]) if match else None


class Placeable(Protocol):
    """What decides where a message goes: a `Message`, or any other object with these two properties."""

    @property
    def opens_turn(self) -> bool: ...

    @property
    def is_preamble(self) -> bool: ...


def starts_turn(messages: Iterable[Placeable], *, prompted: bool) -> Iterator[bool]:
    """Yield whether each message starts a turn of its own; `prompted`: the open turn already has its prompt.

    Each prompt starts one, except that it joins a turn that so far has only a preamble.
    """
    for message in messages:
        yield message.opens_turn and prompted
        prompted = prompted or not message.is_preamble


def parse_time(value: str | float | datetime, *, path: str = "at") -> datetime:
    """Parse ISO 8601 text, seconds since 1970, or a datetime (UTC if naive) to a moment in UTC."""
    try:
        if isinstance(value, datetime):
            moment = value
        elif isinstance(value, str):
            moment = datetime.fromisoformat(value)
        else:
            moment = datetime.fromtimestamp(value, UTC)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError, OSError, TypeError) as error:
        raise InvalidMessage(path, f"{value!r} is not a time; use ISO 8601, e.g. '2026-11-15T10:00:00Z'") from error


def check_json(value: object, path: str) -> Json:
    """Return the value if it is JSON no deeper than MAX_NESTING; else raise an error with the path of the problem."""
    pending: list[tuple[object, str, int]] = [(value, path, 0)]
    while pending:
        node, where, depth = pending.pop()
        if isinstance(node, int) and node.bit_length() > MAX_INTEGER_BITS:
            raise InvalidMessage(where, f"is an integer of more than {MAX_INTEGER_BITS:,} bits; send it as text")
        if node is None or isinstance(node, str | int | float):
            continue
        if depth >= MAX_NESTING:
            raise InvalidMessage(path, f"is nested more than {MAX_NESTING} levels deep")
        if isinstance(node, Mapping):
            for key, child in node.items():
                if not isinstance(key, str):
                    raise InvalidMessage(where, f"has the key {key!r}; JSON keys are text")
                pending.append((child, f"{where}.{key}", depth + 1))
        elif isinstance(node, list | tuple):
            pending.extend((child, f"{where}[{index}]", depth + 1) for index, child in enumerate(node))
        else:
            raise InvalidMessage(where, f"is a {type(node).__name__}, which JSON has no form for")
    return value  # type: ignore[return-value]


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def from_us(moment_us: int) -> datetime:
    return EPOCH + timedelta(microseconds=moment_us)


def to_us(moment: datetime) -> int:
    since = moment - EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def day_text(at_us: int) -> str:
    """Write the day of a moment, in UTC: 4 May 2023."""
    day = from_us(at_us)
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"
