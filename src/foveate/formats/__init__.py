"""Message formats: how a turn is read from a provider or a transcript, and written again.

A format is one module in `providers/`, `frameworks/` or `transcripts/`, or one that a third party names under the entry
point group `foveate.formats`. There are two kinds:

- a **message format** is what a provider's API accepts: `recognises`, `parse`, `render`;
- a **transcript format** is what a program writes to disk: `detect`, `read`, `parse`, `write`.

`parse` returns the meaning of one record. `parse_message` stores the record with it, so that `render_messages` to
the same format returns it exactly, including fields that this version does not know.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import BinaryIO, Literal, Protocol, TypeAlias, get_args, runtime_checkable

from foveate.errors import UnknownFormat, did_you_mean
from foveate.plugins import Registry, renamed
from foveate.turn import Json, Message, Original, check_json

HEAD_BYTES = 65_536
"""Bytes of a file that a transcript format gets to detect it."""
SQLITE = b"SQLite format 3\x00"
"""First bytes of a database file."""
CALL_IDS = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""Ids of tool calls that every provider accepts."""


ProviderFormat: TypeAlias = Literal["openai", "openai-responses", "anthropic", "gemini"]
"""A message format in which a request can be sent."""
PROVIDER_FORMATS: tuple[ProviderFormat, ...] = get_args(ProviderFormat)


@dataclass(frozen=True, slots=True)
class SessionHeader:
    """The start of a session in a transcript, or new information about it."""

    session: str
    title: str | None = None
    model: str | None = None
    platform: str | None = None
    channel: str | None = None
    is_named_by_file: bool = False
    """Whether the file's name is its only name, which another file may have too."""


@dataclass(frozen=True, slots=True)
class TranscriptMessage:
    """A message in a transcript. `key` identifies it permanently in its session: a second import adds nothing."""

    session: str
    key: str
    message: Message
    place: str
    """Its place, for people: `line 12`."""


@dataclass(frozen=True, slots=True)
class TranscriptProblem:
    """A part of a transcript that could not be read, and why."""

    place: str
    reason: str


TranscriptItem = SessionHeader | TranscriptMessage | TranscriptProblem


class Format(Protocol):
    """The common part of message and transcript formats."""

    def parse(self, data: Json, path: str) -> Message:
        """Parse one record. Raises `InvalidMessage` with `path` if it can't be read."""
        ...


@runtime_checkable
class MessageFormat(Format, Protocol):
    def recognises(self, data: Json) -> bool:
        """Check whether only this format can have the record (several share a plain `role` with text `content`)."""
        ...

    def render(self, messages: Sequence[Message]) -> list[Json]:
        """Render canonical messages in this format; tool calls and results stay paired."""
        ...


@runtime_checkable
class TranscriptFormat(Format, Protocol):
    def detect(self, head: bytes, name: str) -> bool:
        """Check whether a file with this name and beginning has this format."""
        ...

    def read(self, stream: BinaryIO, name: str) -> Iterator[TranscriptItem]:
        """Yield the content of the file in order, in constant memory; unreadable parts are yielded as a Problem.

        The stream is seekable.
        """
        ...

    def write(self, messages: Sequence[Message]) -> Iterator[str]:
        """Yield one session's messages as chunks of a file in this format."""
        ...


@runtime_checkable
class DatabaseFormat(TranscriptFormat, Protocol):
    """A transcript format that can also read a program's database, by its path: the newest rows are in a journal file
    next to it."""

    def read_file(self, path: Path) -> Iterator[TranscriptItem]:
        """Yield the content of the database at this path."""
        ...


@runtime_checkable
class ArchiveFormat(TranscriptFormat, Protocol):
    """A transcript format that also reads data exports in zip files."""

    @property
    def MEMBERS(self) -> re.Pattern[str]:  # noqa: N802 - a constant of a module
        """The names of the files that are read from an archive."""
        ...


_FOLDERS = ("providers", "frameworks", "transcripts")
REGISTRY: Registry[Format] = Registry("foveate.formats", tuple(f"{__name__}.{folder}" for folder in _FOLDERS))


def names() -> tuple[str, ...]:
    """Return all format names, built-in and registered."""
    return REGISTRY.names


def load(name: str) -> Format:
    """Load the format of this name."""
    format_ = REGISTRY.get(name)
    if format_ is None:
        raise UnknownFormat(f"no format {name!r}; {did_you_mean(name, names())}")
    return format_


@cache
def message_formats() -> dict[str, MessageFormat]:
    loaded = {name: load(name) for name in names()}
    return {name: format_ for name, format_ in loaded.items() if isinstance(format_, MessageFormat)}


@cache
def transcript_formats() -> dict[str, TranscriptFormat]:
    loaded = {name: load(name) for name in names()}
    return {name: format_ for name, format_ in loaded.items() if isinstance(format_, TranscriptFormat)}


def parse_message(name: str, data: Json, path: str = "message") -> Message:
    """Parse one record; the message includes the record itself."""
    check_json(data, path)
    return replace(load(name).parse(data, path), original=Original(name, data))


def parse_messages(records: Sequence[Json], name: str | None = None, path: str = "messages") -> list[Message]:
    """Parse records of one format, which is detected if it is not named."""
    name = name or detect_messages(records)
    return [parse_message(name, record, f"{path}[{index}]") for index, record in enumerate(records)]


def detect_messages(records: Sequence[Json]) -> str:
    """Return the message format that only fits one of the records; plain records are OpenAI's."""
    if all(_is_anybodys(record) for record in records):
        return "openai"
    candidates = message_formats()
    for record in records:
        for name, format_ in candidates.items():
            if format_.recognises(record):
                return name
    return "openai"


def _is_anybodys(record: Json) -> bool:
    """Check for a role and a text, which every provider has; no format has to be loaded to know it."""
    return isinstance(record, dict) and record.keys() == {"role", "content"} and isinstance(record["content"], str)


def render_messages(name: str, messages: Sequence[Message]) -> list[Json]:
    """Render messages for a provider: originals of that format exactly, others by their meaning."""
    format_ = load_messages(name)
    rendered: list[Json] = []
    for is_own, run in groupby(
        messages, key=lambda message: bool(message.original and message.original.format == name)
    ):
        if is_own:
            rendered.extend(message.original.data for message in run if message.original)
        else:
            rendered.extend(format_.render([message for message in run if message.kind != "display"]))
    return rendered


def detect_transcript(head: bytes, name: str) -> str:
    """Detect the transcript format of a file by its beginning."""
    for format_name, format_ in transcript_formats().items():
        if format_name != "jsonl" and format_.detect(head, name):
            return format_name
    if load_transcript("jsonl").detect(head, name):
        return "jsonl"
    known = ", ".join(transcript_formats())
    raise UnknownFormat(f"{name}: none of the formats {known} recognises it; name one with --format")


def load_messages(name: str) -> MessageFormat:
    format_ = load(name)
    # Checking a protocol takes longer than rendering a message.
    known_format = _message_formats.get(name)
    if known_format is not None and known_format is format_:
        return known_format
    if not isinstance(format_, MessageFormat):
        known = ", ".join(message_formats())
        raise UnknownFormat(f"{name!r} is a transcript format; message formats: {known}")
    _message_formats[name] = format_
    return format_


_message_formats: dict[str, MessageFormat] = {}


def load_transcript(name: str) -> TranscriptFormat:
    format_ = load(name)
    if not isinstance(format_, TranscriptFormat):
        known = ", ".join(transcript_formats())
        raise UnknownFormat(f"{name!r} is not a transcript format; available: {known}")
    return format_


def __getattr__(name: str) -> object:
    old = {
        "Found": "TranscriptMessage",
        "Header": "SessionHeader",
        "Item": "TranscriptItem",
        "Problem": "TranscriptProblem",
    }
    return renamed(__name__, name, {was: f"{__name__}:{now}" for was, now in old.items()})
