"""The common part of parsing message formats: typed access to a record, with errors that locate the problem."""

from __future__ import annotations

import json
import math
import mimetypes
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from foveate.errors import InvalidMessage
from foveate.formats.files import encode_json
from foveate.turn import Attachment, Json, Message, Role, Text, Usage, check_json, parse_time

if TYPE_CHECKING:
    from datetime import datetime

Record = Mapping[str, Json]
T = TypeVar("T")


class ContentBlock(NamedTuple):
    """One typed element of a content list, and its path."""

    type: str
    data: Record
    path: str


def record(data: Json, path: str) -> Record:
    if not isinstance(data, Mapping):
        raise InvalidMessage(path, f"must be an object, not {_kind(data)}")
    return data


def role_of(data: Record, path: str, allowed: Mapping[str, Role]) -> Role:
    choices = ", ".join(allowed)
    role = data.get("role")
    if role is None:
        raise InvalidMessage(f"{path}.role", f"is missing; allowed are {choices}")
    if not isinstance(role, str) or role not in allowed:
        raise InvalidMessage(f"{path}.role", f"is {role!r}; allowed are {choices}")
    return allowed[role]


def text_in(data: Record, key: str, path: str) -> str:
    """Return the required text under this key."""
    value = data.get(key)
    if not isinstance(value, str):
        problem = f"must be text, not {_kind(value)}" if key in data else "is missing; it must be text"
        raise InvalidMessage(f"{path}.{key}", problem)
    return value


def optional_text(data: Record, key: str, path: str) -> str | None:
    return None if data.get(key) is None else text_in(data, key, path)


def record_in(data: Record, key: str, path: str) -> Record:
    """Return the required object under this key."""
    if key not in data:
        raise InvalidMessage(f"{path}.{key}", "is missing; it must be an object")
    return record(data[key], f"{path}.{key}")


def elements(value: Json, path: str, allowed: str = "must be a list") -> Iterator[tuple[Record, str]]:
    """Yield the objects of a list, each with its path."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InvalidMessage(path, f"{allowed}, not {_kind(value)}")
    for index, element in enumerate(value):
        where = f"{path}[{index}]"
        yield record(element, where), where


def blocks(value: Json, path: str) -> Iterator[ContentBlock]:
    """Yield the typed elements of a content list."""
    for element, where in elements(value, path, "must be text or a list of blocks"):
        yield ContentBlock(text_in(element, "type", where), element, where)


def parse_content(value: Json, path: str, parse_block: Callable[[ContentBlock], T]) -> tuple[Text | T, ...]:
    """Parse content that is plain text or a list of blocks."""
    if isinstance(value, str):
        return (Text(value),) if value else ()
    return tuple(parse_block(block) for block in blocks(value, path))


MAX_ARGUMENTS_CHARS = 5_000_000
"""Longer arguments stay text: parsing them as JSON would block all other threads for too long."""


def parse_arguments(value: Json, path: str) -> Json:
    """Return a call's arguments: the object in the text, or the text if it is too long or would lose something."""
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return value
    if not isinstance(value, str):
        raise InvalidMessage(path, f"must be text or an object, not {_kind(value)}")
    if len(value) > MAX_ARGUMENTS_CHARS:
        return value
    try:
        parsed = json.loads(value, parse_constant=_refuse, parse_float=_finite, object_pairs_hook=_unique)
        return check_json(parsed, path) if isinstance(parsed, dict) else value
    except (ValueError, RecursionError, InvalidMessage):
        return value


def arguments_text(arguments: Json) -> str:
    """Return arguments as text."""
    return arguments if isinstance(arguments, str) else encode_json({} if arguments is None else arguments)


def arguments_object(arguments: Json) -> Record:
    """Return arguments as an object: anything else is stored under `input`."""
    if isinstance(arguments, Mapping):
        return arguments
    return {} if arguments is None or arguments == "" else {"input": arguments}


def _refuse(constant: str) -> float:
    raise ValueError(constant)


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _refuse(digits)


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    keyed = dict(pairs)
    if len(keyed) < len(pairs):
        raise ValueError("a key occurs twice")
    return keyed


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        return "an object"
    names = {bool: "true or false", str: "text", int: "a number", float: "a number"}
    return names.get(type(value), "a list")


MAX_NUMBER = 2**53
"""JSON's whole numbers are exact up to this; a larger one is not a count, code or duration."""


def value_at(record: Json, *path: str) -> Json:
    for name in path:
        if not isinstance(record, Mapping):
            return None
        record = record.get(name)
    return record


def text_at(record: Json, *path: str) -> str | None:
    """Return a text that is not empty."""
    value = value_at(record, *path)
    return value if isinstance(value, str) and value else None


def listed_at(record: Json, *path: str) -> list[Json]:
    """Return the list; empty if there is none."""
    value = value_at(record, *path)
    return value if isinstance(value, list) else []


def records_at(record: Json, *path: str) -> list[Record]:
    """Return the objects of a list."""
    return [element for element in listed_at(record, *path) if isinstance(element, Mapping)]


def number_at(record: Json, *path: str) -> float | None:
    """Return a usable number: finite, and not beyond MAX_NUMBER."""
    value = value_at(record, *path)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if -MAX_NUMBER <= value <= MAX_NUMBER else None


def count_at(record: Json, *path: str) -> int:
    """Return a whole number, also one that is written with a fraction of 0; 0 if there is none."""
    value = value_at(record, *path)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_NUMBER else 0


def time_at(record: Json, *path: str) -> datetime | None:
    """Return a time; None for an unreadable one, so that the message is not lost."""
    value = text_at(record, *path)
    try:
        return parse_time(value) if value else None
    except InvalidMessage:
        return None


def moment_at(record: Json, *path: str, per_second: int = 1000) -> datetime | None:
    """Return a time that is a number since 1970: in milliseconds, or in other fractions of a second."""
    value = number_at(record, *path)
    try:
        return None if value is None else parse_time(value / per_second)
    except InvalidMessage:
        return None


def time_text(moment: datetime) -> str:
    """Format a time as both programs write it: UTC, milliseconds (finer only if needed), `Z`."""
    finer = moment.microsecond % 1000
    return parse_time(moment).isoformat(timespec="microseconds" if finer else "milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class UsageKeys:
    """Keys of the counts of a response, in the order of `Usage`; `cache.read` is a key inside `cache`."""

    input: str
    output: str
    cache_read: str = ""
    cache_write: str = ""
    reasoning: str = ""
    is_cache_apart: bool = False
    """Whether the input count excludes tokens read from or written to the cache; `Usage` includes them."""
    is_reasoning_apart: bool = False
    """Whether the output count excludes the reasoning; `Usage` includes it."""

    def read(self, counts: Json) -> Usage | None:
        """Read the usage in such an object; None if there is none."""
        if not isinstance(counts, Mapping):
            return None
        keys = (self.input, self.output, self.cache_read, self.cache_write, self.reasoning)
        sent, answered, read, written, reasoning = (count_at(counts, *key.split(".")) for key in keys)
        return Usage(
            input_tokens=sent + (read + written if self.is_cache_apart else 0),
            output_tokens=answered + (reasoning if self.is_reasoning_apart else 0),
            cache_read_tokens=read,
            cache_write_tokens=written,
            reasoning_tokens=reasoning,
        )


ANTHROPIC_USAGE = UsageKeys(
    "input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", is_cache_apart=True
)


def every_text(message: Message) -> tuple[str, ...]:
    """Return a message's texts without surrounding white space; none if it also has a picture or file."""
    if any(isinstance(part, Attachment) for part in message.parts):
        return ()
    return tuple(part.text.strip() for part in message.parts if isinstance(part, Text))


Media = Literal["image", "audio", "video", "file"]

_DATA_URI = re.compile(r"data:([^;,]+);base64,(.*)", re.DOTALL)
_AUDIO_FORMATS = {"audio/wav": "wav", "audio/mpeg": "mp3"}


def image_type(uri: str) -> str:
    """Return the media type of a linked image, by the extension of its address."""
    guessed, _ = mimetypes.guess_type(uri.partition("?")[0])
    return guessed if guessed and guessed.startswith("image/") else "image/png"


def media_of(media_type: str | None) -> Media:
    match (media_type or "").partition("/")[0]:
        case "image":
            return "image"
        case "audio":
            return "audio"
        case "video":
            return "video"
    return "file"


def from_uri(media: Media, uri: str, name: str | None = None) -> Attachment:
    """Make an attachment from a URI, which may hold its bytes."""
    if match := _DATA_URI.fullmatch(uri):
        return Attachment(media, data=match[2], media_type=match[1], name=name)
    return Attachment(media, uri=uri, name=name)


def data_uri(attachment: Attachment) -> str | None:
    """Return the inline bytes as a URI; None if there are none, or their media type is unknown."""
    if attachment.data is None or attachment.media_type is None:
        return None
    return f"data:{attachment.media_type};base64,{attachment.data}"


def parse_input_audio(data: Record, path: str) -> Attachment:
    """Parse OpenAI's `input_audio` block, which both its APIs have."""
    audio = record_in(data, "input_audio", path)
    audio_format = text_in(audio, "format", f"{path}.input_audio")
    media_type = next((known for known, name in _AUDIO_FORMATS.items() if name == audio_format), None)
    return Attachment(
        "audio",
        data=text_in(audio, "data", f"{path}.input_audio"),
        media_type=media_type or f"audio/{audio_format}",
    )


def render_input_audio(attachment: Attachment) -> Record | None:
    """Render OpenAI's `input_audio` block; None if it has no name for the audio's format."""
    audio_format = _AUDIO_FORMATS.get(attachment.media_type or "")
    if attachment.data is None or audio_format is None:
        return None
    return {"type": "input_audio", "input_audio": {"data": attachment.data, "format": audio_format}}
