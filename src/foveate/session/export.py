"""Export of a session: everything as JSON, readable Markdown, or any transcript format."""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Protocol

from foveate import formats
from foveate.formats.files import encode_json
from foveate.recall.dates import parse_moment
from foveate.session.values import Pin, SessionInfo, TurnOutline
from foveate.store import Store
from foveate.store.cabinet import TurnContentRow
from foveate.text import compact_json
from foveate.turn import Attachment, Json, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult, Turn, turn_id

AUDIT_VERSION = 1
BATCH_TURNS = 200
"""Turns read per batch."""


@dataclass(frozen=True, slots=True)
class WholeResult:
    """The complete tool result or fetched page of which a turn contains an excerpt."""

    row: TurnContentRow
    content: bytes


@dataclass(frozen=True, slots=True)
class RemovedTurns:
    """Consecutive turns that were pruned."""

    first: int
    last: int

    def __str__(self) -> str:
        if self.first == self.last:
            return f"{turn_id(self.first)} was removed by a command"
        return f"{turn_id(self.first)} to {turn_id(self.last)} were removed by a command"


class ExportWriter(Protocol):
    """Writes a file in pieces, turn by turn."""

    def add(self, turn: Turn, contents: Sequence[WholeResult] = ()) -> Iterator[str]: ...

    def removed(self, turns: RemovedTurns) -> Iterator[str]: ...

    def finish(self) -> Iterator[str]: ...


@dataclass(frozen=True, slots=True)
class Span:
    """A time range that selects turns by their start."""

    since: datetime | None
    until: datetime | None

    @classmethod
    def between(cls, after: str | float | datetime | None, before: str | float | datetime | None) -> Span:
        now = datetime.now(UTC)
        return cls(
            None if after is None else parse_moment(after, now, path="after"),
            None if before is None else parse_moment(before, now, path="before"),
        )

    def includes(self, at: datetime | None) -> bool:
        """Return whether a turn's start is in the range. Only an unlimited range includes a turn without a time."""
        if at is None:
            return self.since is None and self.until is None
        return (self.since is None or at >= self.since) and (self.until is None or at < self.until)


@dataclass(frozen=True, slots=True)
class WholeResults:
    """Reads the complete tool results of a session's turns."""

    store: Store
    session_id: str

    async def rows(self, first: int, last: int) -> Sequence[TurnContentRow]:
        return await self.store.cabinet.of_turns(self.session_id, first, last)

    async def read(self, row: TurnContentRow) -> WholeResult:
        return WholeResult(row, await self.store.cabinet.read(row.tenant, row.digest) or b"")


async def pieces(
    writer: ExportWriter,
    load: Callable[[int, int], Awaitable[Sequence[Turn | TurnOutline]]],
    results: WholeResults,
    *,
    first: int,
    last: int,
    span: Span,
) -> AsyncIterator[str]:
    """Export the turns from `first` to `last` as chunks of text; of pruned turns, `load` returns the outlines."""
    gap: RemovedTurns | None = None
    for low in range(first, last + 1, BATCH_TURNS):
        high = min(low + BATCH_TURNS - 1, last)
        rows = await results.rows(low, high) if isinstance(writer, _Audit) else ()
        for turn in await load(low, high):
            if not span.includes(turn.at if isinstance(turn, Turn) else turn.started_at):
                continue
            if not isinstance(turn, Turn):
                gap = RemovedTurns(gap.first if gap else turn.number, turn.number)
                continue
            for piece in writer.removed(gap) if gap else ():
                yield piece
            gap = None
            own = [row for row in rows if turn_id(row.turn) == turn.id]
            for piece in writer.add(turn, [await results.read(row) for row in own]):
                yield piece
    for piece in writer.removed(gap) if gap else ():
        yield piece
    for piece in writer.finish():
        yield piece


def start(format_name: str, info: SessionInfo, pins: Sequence[Pin]) -> ExportWriter:
    """Make the writer of a format: `json`, `markdown`, or a message or transcript format."""
    if format_name == "json":
        return _Audit(info, pins)
    if format_name == "markdown":
        return _Markdown(info)
    if format_name in formats.names() and format_name in formats.transcript_formats():
        return _Transcript(format_name)
    formats.load_messages(format_name)
    return _Messages(format_name)


def render_turns(format_name: str, turns: Sequence[Turn]) -> Json:
    """Render the messages of turns in a provider's format, ready to send."""
    return formats.render_messages(format_name, [message for turn in turns for message in turn.messages])


class _Audit:
    """The complete record: the session, its pins, and each message in canonical and original form."""

    def __init__(self, info: SessionInfo, pins: Sequence[Pin]) -> None:
        head: dict[str, Json] = {
            "foveate": AUDIT_VERSION,
            "session": _plain(asdict(info)),
            "pins": [_plain(asdict(pin)) for pin in pins],
        }
        self._before = encode_json(head).removesuffix("}") + ',"turns":[\n'
        self._canonical = formats.load_messages("foveate")

    def add(self, turn: Turn, contents: Sequence[WholeResult] = ()) -> Iterator[str]:
        messages = [self._message(message) for message in turn.messages]
        row: dict[str, Json] = {"id": turn.id, "tokens": turn.tokens, "messages": messages}
        if contents:
            row["contents"] = [_content(result) for result in contents]
        yield self._before + encode_json(row)
        self._before = ",\n"

    def removed(self, turns: RemovedTurns) -> Iterator[str]:
        for number in range(turns.first, turns.last + 1):
            yield self._before + encode_json({"id": turn_id(number), "removed": True, "tokens": 0, "messages": []})
            self._before = ",\n"

    def finish(self) -> Iterator[str]:
        opened = "" if self._before == ",\n" else self._before
        yield f"{opened}\n]}}\n"

    def _message(self, message: Message) -> Json:
        (canonical,) = self._canonical.render([message.without_original()])
        if message.original is None:
            return canonical
        return {"canonical": canonical, "original": {"format": message.original.format, "data": message.original.data}}


def _content(result: WholeResult) -> dict[str, Json]:
    row = result.row
    known: dict[str, Json] = {
        "key": row.key,
        "name": row.name,
        "media_type": row.media_type,
        "source": row.source,
        "sha256": row.digest.hex(),
    }
    try:
        return {**known, "text": result.content.decode("utf-8")}
    except UnicodeDecodeError:
        return {**known, "base64": base64.b64encode(result.content).decode()}


def _plain(values: dict[str, object]) -> dict[str, Json]:
    return {
        key: value.isoformat() if isinstance(value, datetime) else value  # type: ignore[misc]
        for key, value in values.items()
    }


class _Messages:
    """A provider's list of messages; messages that came from that provider are exported unchanged."""

    def __init__(self, format_name: str) -> None:
        self._format_name = format_name
        self._messages: list[Message] = []

    def add(self, turn: Turn, contents: Sequence[WholeResult] = ()) -> Iterator[str]:  # noqa: ARG002
        self._messages.extend(turn.messages)
        yield from ()

    def removed(self, turns: RemovedTurns) -> Iterator[str]:  # noqa: ARG002
        """Write nothing: these formats have messages alone, and a program would take a note for one."""
        yield from ()

    def finish(self) -> Iterator[str]:
        lines = map(encode_json, formats.render_messages(self._format_name, self._messages))
        yield "[\n" + ",\n".join(lines) + "\n]\n"


class _Transcript(_Messages):
    """A transcript as the program of that format writes it."""

    def finish(self) -> Iterator[str]:
        yield from formats.load_transcript(self._format_name).write(self._messages)


class _Markdown:
    def __init__(self, info: SessionInfo) -> None:
        self._before = f"# {info.title or info.id}\n"

    def add(self, turn: Turn, contents: Sequence[WholeResult] = ()) -> Iterator[str]:  # noqa: ARG002
        when = f" · {turn.at:%Y-%m-%d %H:%M} UTC" if turn.at else ""
        yield f"{self._before}\n## {turn.id}{when}\n"
        self._before = ""
        for message in turn.messages:
            if message.kind == "message":
                yield "".join(f"\n{block}\n" for block in _markdown_blocks(message))

    def removed(self, turns: RemovedTurns) -> Iterator[str]:
        yield f"{self._before}\n*{turns}.*\n"
        self._before = ""

    def finish(self) -> Iterator[str]:
        yield self._before


def _markdown_blocks(message: Message) -> Iterator[str]:
    if message.role != "tool":
        yield f"**{message.name or message.role}**"
    for part in message.parts:
        yield _markdown_part(part)


def _markdown_part(part: Part) -> str:
    match part:
        case Text(text):
            return text
        case Reasoning(text):
            return "\n".join(f"> {line}" for line in text.splitlines())
        case ToolCall(name, arguments):
            return f"`{name}` called with\n\n{fenced(compact_json(arguments))}"
        case ToolResult(name=name, content=content, is_error=is_error):
            outcome = "failed" if is_error else "returned"
            return f"`{name or 'tool'}` {outcome}\n\n{fenced(chr(10).join(map(_markdown_part, content)))}"
        case Attachment(media=media, uri=uri, name=name):
            return f"*{media}: {name or uri or 'inline'}*"
        case Opaque(format_, data):
            return f"*{format_}*\n\n{fenced(compact_json(data))}"


def fenced(text: str) -> str:
    """Put a text in a code fence that is longer than any in the text."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"
