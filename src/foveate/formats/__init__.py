"""Message formats: how a turn comes in from a provider or a transcript, and goes out again.

A format is one module in `providers/`, `frameworks/` or `transcripts/`, or one that a third party names under the entry
point group `foveate.formats`. There are two kinds:

- a **message format** is what a provider's API takes: `recognises`, `parse`, `render`;
- a **transcript format** is what a program leaves on disk: `detect`, `read`, `parse`, `write`.

`parse` gives the meaning of one record. The record itself is kept beside it by `parse_message`, so that
`render_messages` to the same format returns it exactly, fields this version does not know included.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import BinaryIO, Protocol, runtime_checkable

from foveate.errors import UnknownFormat
from foveate.plugins import Registry, renamed
from foveate.turn import Json, Message, Original, check_json

HEAD_BYTES = 65_536
"""How much of a file a transcript format sees to decide whether the file is its own."""
SQLITE = b"SQLite format 3\x00"
"""How the file of a database begins."""
CALL_IDS = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""What every provider takes as the id of a tool call."""


@dataclass(frozen=True, slots=True)
class SessionHeader:
    """A session begins in a transcript, or more has become known of it."""

    session: str
    title: str | None = None
    model: str | None = None
    platform: str | None = None
    channel: str | None = None
    is_named_by_file: bool = False
    """Whether it has no name but that of its file, which another file may have too."""


@dataclass(frozen=True, slots=True)
class TranscriptMessage:
    """A message in a transcript. `key` names it within its session for good, so that a second import adds nothing."""

    session: str
    key: str
    message: Message
    place: str
    """Its place for people: `line 12`."""


@dataclass(frozen=True, slots=True)
class TranscriptProblem:
    """Something in a transcript that could not be read, and why."""

    place: str
    reason: str


TranscriptItem = SessionHeader | TranscriptMessage | TranscriptProblem


class Format(Protocol):
    """Common to message and transcript formats."""

    def parse(self, data: Json, path: str) -> Message:
        """The message of one record. Raises `InvalidMessage` with `path` if it can't be read."""
        ...


@runtime_checkable
class MessageFormat(Format, Protocol):
    def recognises(self, data: Json) -> bool:
        """Whether this record can only be of this format (a plain `role` with text `content` is common to several)."""
        ...

    def render(self, messages: Sequence[Message]) -> list[Json]:
        """Canonical messages in this format; tool calls and results stay paired."""
        ...


@runtime_checkable
class TranscriptFormat(Format, Protocol):
    def detect(self, head: bytes, name: str) -> bool:
        """Whether a file with this name and beginning has this format."""
        ...

    def read(self, stream: BinaryIO, name: str) -> Iterator[TranscriptItem]:
        """The content of the file in order, in constant memory; unreadable parts come as a Problem.

        The stream can be searched."""
        ...

    def write(self, messages: Sequence[Message]) -> Iterator[str]:
        """One session's messages as chunks of a file in this format."""
        ...


@runtime_checkable
class DatabaseFormat(TranscriptFormat, Protocol):
    """A transcript format that can also read a program's database. That takes its path: the newest rows are in a
    journal beside it."""

    def read_file(self, path: Path) -> Iterator[TranscriptItem]:
        """The content of the database at this path."""
        ...


_FOLDERS = ("providers", "frameworks", "transcripts")
REGISTRY: Registry[Format] = Registry("foveate.formats", tuple(f"{__name__}.{folder}" for folder in _FOLDERS))


def names() -> tuple[str, ...]:
    """All format names, built-in and registered."""
    return REGISTRY.names


def load(name: str) -> Format:
    """The format of this name."""
    format_ = REGISTRY.get(name)
    if format_ is None:
        raise UnknownFormat(f"no format {name!r}; available: {', '.join(names())}")
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
    """One record with its meaning, the record itself kept beside it."""
    check_json(data, path)
    return replace(load(name).parse(data, path), original=Original(name, data))


def parse_messages(records: Sequence[Json], name: str | None = None, path: str = "messages") -> list[Message]:
    """Records of one format; which one is seen from the records where it is not named."""
    name = name or detect_messages(records)
    return [parse_message(name, record, f"{path}[{index}]") for index, record in enumerate(records)]


def detect_messages(records: Sequence[Json]) -> str:
    """The message format that any of the records can only be of; plain ones are OpenAI's."""
    if all(_is_anybodys(record) for record in records):
        return "openai"
    candidates = message_formats()
    for record in records:
        for name, format_ in candidates.items():
            if format_.recognises(record):
                return name
    return "openai"


def _is_anybodys(record: Json) -> bool:
    """A role and a text: every provider has that, and no format has to be loaded to know it."""
    return isinstance(record, dict) and record.keys() == {"role", "content"} and isinstance(record["content"], str)


def render_messages(name: str, messages: Sequence[Message]) -> list[Json]:
    """Messages as a provider takes them: originals of that format exactly, others by their meaning."""
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
    """The transcript format of a file, by how it begins."""
    for format_name, format_ in transcript_formats().items():
        if format_name != "jsonl" and format_.detect(head, name):
            return format_name
    if load_transcript("jsonl").detect(head, name):
        return "jsonl"
    known = ", ".join(transcript_formats())
    raise UnknownFormat(f"{name}: none of the formats {known} recognises it; name one with --format")


def load_messages(name: str) -> MessageFormat:
    format_ = load(name)
    # To check a protocol takes longer than to render a message.
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
