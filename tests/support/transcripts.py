"""Reading a transcript in tests, and what is asked of every format that reads one."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

from foveate.formats import (
    SessionHeader,
    TranscriptItem,
    TranscriptMessage,
    TranscriptProblem,
    load_transcript,
    parse_message,
)
from foveate.turn import Attachment, Json, Message, Opaque, Original, Reasoning, Text, ToolCall, ToolResult, Usage
from support.paths import ROOT

FIXTURES = ROOT / "tests" / "fixtures"


@dataclass(frozen=True)
class Imported:
    """Everything that a file held."""

    items: list[TranscriptItem]

    @cached_property
    def found(self) -> list[TranscriptMessage]:
        return [item for item in self.items if isinstance(item, TranscriptMessage)]

    @cached_property
    def problems(self) -> list[TranscriptProblem]:
        return [item for item in self.items if isinstance(item, TranscriptProblem)]

    @cached_property
    def headers(self) -> dict[str, SessionHeader]:
        """The last header of each session."""
        return {item.session: item for item in self.items if isinstance(item, SessionHeader)}

    @cached_property
    def sessions(self) -> dict[str, list[Message]]:
        sessions: dict[str, list[Message]] = {}
        for item in self.found:
            sessions.setdefault(item.session, []).append(item.message)
        return sessions

    @property
    def keys(self) -> list[tuple[str, str]]:
        return [(item.session, item.key) for item in self.found]

    def only(self) -> list[Message]:
        """The messages of the only session."""
        (messages,) = self.sessions.values()
        return messages


def import_bytes(format_: str, content: bytes, name: str) -> Imported:
    """The file as the format reads it, after checking what must hold for any file."""
    imported = Imported(list(load_transcript(format_).read(io.BytesIO(content), name)))
    keys = imported.keys
    assert len(set(keys)) == len(keys), "a key names one message of a session"
    known: set[str] = set()
    for item in imported.items:
        if isinstance(item, SessionHeader):
            known.add(item.session)
        elif isinstance(item, TranscriptMessage):
            assert item.session in known, "a header comes before its session's messages"
            original = item.message.original
            assert original is not None
            assert parse_message(original.format, original.data) == item.message, "the store can read it back"
    return imported


def import_fixture(format_: str, name: str) -> Imported:
    path = FIXTURES / format_.replace("-", "_") / name
    return import_bytes(format_, path.read_bytes(), path.name)


def written(format_: str, messages: list[Message]) -> str:
    return "".join(load_transcript(format_).write(messages))


def json_lines(text: str | bytes) -> list[Json]:
    return [json.loads(line) for line in text.splitlines()]


def lines_of(*records: Json) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def deep(levels: int) -> str:
    """JSON text that is nested so deeply."""
    return "[" * levels + "]" * levels


def foreign_messages() -> list[Message]:
    """A conversation with every kind of part, as another format might have brought it in."""
    at = datetime(2026, 3, 2, 9, tzinfo=UTC)
    return [
        Message("system", (Text("Be brief."),), at=at),
        Message("user", (Text("Tide?\nToday."), Attachment("image", uri="https://example.org/t.png")), at=at),
        Message("user", (Text("The harbour is closed."),), kind="injection", at=at),
        Message(
            "assistant",
            (Reasoning("Look it up."), Text("A moment."), ToolCall("tide", {"day": "today"}, id="call_1")),
            at=at,
            model="gpt-4o",
            usage=Usage(input_tokens=30, output_tokens=5, cache_read_tokens=20),
        ),
        Message("tool", (ToolResult("call_1", (Text("11:30"),), name="tide"),), at=at),
        Message("system", kind="display", original=Original("elsewhere", {"shown": True})),
        Message("assistant", (Text("At 11:30."), Opaque("elsewhere", {"type": "hologram"})), at=at),
    ]
