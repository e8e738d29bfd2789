"""Aider's chat history: `.aider.chat.history.md` in the project's folder, to which Aider only appends.

A file is one session. Lines after `#### ` are prompts, lines after `> ` are Aider's own output, a line
`# aider chat started at …` begins a run of the program, and the rest are the model's replies. Aider's output
and the starts are display-only, as they are to Aider when it restores a chat. Each stretch is stored with its exact
text, and with the time and the model of its run, so that the stretches joined are the file, byte for byte.

Aider ends each prompt line and each output with two spaces. They distinguish a heading or a quotation in a
reply from a prompt or an output, and further lines of an output, which have no `> `, from a reply. In a file without
them (an editor removed them) only the line prefixes count.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import BinaryIO, Literal

from foveate.errors import InvalidMessage
from foveate.formats import (
    HEAD_BYTES,
    SessionHeader,
    TranscriptItem,
    TranscriptMessage,
    TranscriptProblem,
    parse_message,
)
from foveate.formats.exchanges import result_text, said_in
from foveate.formats.files import content_key
from foveate.formats.parse import record as as_record
from foveate.formats.parse import text_at, time_at
from foveate.turn import Json, Message, Text, ToolCall, ToolResult

NAME = "aider"
MAX_LINE_BYTES = 16 * 1024 * 1024
"""A longer line is reported, not read."""
MAX_STRETCH_CHARACTERS = 16 * 1024 * 1024
"""A longer stretch is stored in several pieces."""
ID_LINES = 6
ID_BYTES = 4096
"""The name of a session is the hash of its first lines, up to this many bytes, which never change."""

Stretch = Literal["start", "prompt", "output", "reply", "note"]
"""`note` is text before the first line of Aider's, such as an editor's mode line."""

_START = "# aider chat started at "
_STARTED = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)")
_MODEL = re.compile(r"^> (?:Main model|Models?): ([^\s⚡]+)", re.MULTILINE)
_SIGN_IN_HEAD = re.compile(rb"^(?:# aider chat started at \d|> Aider v\d|####.*  \r?$)", re.MULTILINE)
_MARKED_END = re.compile(rb"^(?:#### |> ).*  \r?$", re.MULTILINE)
_OWNS_BLANK: tuple[Stretch, ...] = ("start", "reply")


def detect(head: bytes, name: str) -> bool:
    if name.endswith(".aider.chat.history.md"):
        return True
    return b"# aider chat started at " in head and _SIGN_IN_HEAD.search(head) is not None


@dataclass(slots=True)
class _Open:
    """The stretch being read, and the run it belongs to."""

    type: Stretch = "note"
    lines: list[str] = field(default_factory=list)
    blank: list[str] = field(default_factory=list)
    """Blank lines that belong to the stretch only if it continues."""
    first_line: int = 1
    size: int = 0
    unfinished: bool = False
    """Whether the output's last line has not been read yet."""
    at: str | None = None
    model: str | None = None

    def close(self) -> dict[str, Json]:
        """Return the stretch as a record; remaining blank lines begin the next one."""
        if self.type in _OWNS_BLANK and self.blank:
            self.lines.append(self.blank.pop(0))
        text = "".join(self.lines)
        if self.type == "start" and (started := _STARTED.search(text)):
            self.at = started[1].replace(" ", "T") + "Z"
        if self.type == "output" and (named := _MODEL.search(text)):
            self.model = named[1]
        record: dict[str, Json] = {"type": self.type, "text": text}
        if self.at:
            record["at"] = self.at
        if self.model and self.type == "reply":
            record["model"] = self.model
        return record

    def begin(self, type_: Stretch, number: int) -> None:
        self.first_line = number - len(self.blank)
        self.lines, self.blank = self.blank, []
        self.type, self.size, self.unfinished = type_, sum(map(len, self.lines)), False


def read(stream: BinaryIO, name: str) -> Iterator[TranscriptItem]:  # noqa: ARG001
    head: list[bytes] = []
    while sum(map(len, head)) < HEAD_BYTES and (raw := stream.readline(MAX_LINE_BYTES + 1)):
        head.append(raw)
    if not head:
        return
    session = f"aider-{hashlib.sha256(b''.join(head[:ID_LINES])[:ID_BYTES]).hexdigest()[:16]}"
    marked = _MARKED_END.search(b"".join(head)) is not None
    header = SessionHeader(session, platform=NAME)
    yield header
    position = 0
    for item in _stretches(_lines(stream, head), marked=marked):
        if isinstance(item, TranscriptProblem):
            yield item
            continue
        number, record, model = item
        if model and model != header.model:
            header = SessionHeader(session, platform=NAME, model=model)
            yield header
        yield TranscriptMessage(session, content_key(position, record), parse_message(NAME, record), f"line {number}")
        position += 1


def _lines(stream: BinaryIO, head: list[bytes]) -> Iterator[tuple[int, str] | TranscriptProblem]:
    number, begun = 0, True
    rest = iter(lambda: stream.readline(MAX_LINE_BYTES + 1), b"")
    for raw in chain(head, rest):
        number += begun
        was_begun, begun = begun, raw.endswith(b"\n")
        if len(raw) > MAX_LINE_BYTES or not was_begun:
            if was_begun:
                yield TranscriptProblem(f"line {number}", f"longer than {MAX_LINE_BYTES:,} bytes")
            continue
        try:
            yield number, raw.decode("utf-8", "strict")
        except UnicodeDecodeError as error:
            yield TranscriptProblem(
                f"line {number}", f"invalid UTF-8 at byte {error.start} of the line; the line was left out"
            )


_Read = tuple[int, dict[str, Json], str | None]


def _stretches(
    lines: Iterator[tuple[int, str] | TranscriptProblem], *, marked: bool
) -> Iterator[_Read | TranscriptProblem]:
    """Yield each stretch with its first line's number and the model known at that point."""
    stretch = _Open()
    for item in lines:
        if isinstance(item, TranscriptProblem):
            yield item
            continue
        number, line = item
        type_ = _type_of(line, stretch, marked=marked)
        if type_ is None:
            stretch.blank.append(line)
        else:
            goes_on = stretch.type == type_ != "start" and (type_ in ("reply", "note") or not stretch.blank)
            if not goes_on:
                if stretch.lines:
                    first = stretch.first_line
                    yield first, stretch.close(), stretch.model
                stretch.begin(type_, number)
            stretch.lines += [*stretch.blank, line]
            stretch.blank = []
            stretch.unfinished = type_ == "output" and marked and not _is_marked(line)
        stretch.size += len(line)
        if stretch.size > MAX_STRETCH_CHARACTERS:
            unfinished = stretch.unfinished
            stretch.lines += stretch.blank
            stretch.blank = []
            yield stretch.first_line, stretch.close(), stretch.model
            stretch.begin(stretch.type, number + 1)
            stretch.unfinished = unfinished
    stretch.lines += stretch.blank
    stretch.blank = []
    if stretch.lines:
        yield stretch.first_line, stretch.close(), stretch.model


def _is_marked(line: str) -> bool:
    return line.rstrip("\r\n").endswith("  ")


def _type_of(line: str, stretch: _Open, *, marked: bool) -> Stretch | None:
    """Return the stretch type of a line; None for a blank line, which belongs to the text around it."""
    if line.startswith(_START):
        return "start"
    if line.startswith("#### ") and (_is_marked(line) or not marked):
        return "prompt"
    if stretch.unfinished:
        return "output"
    if line.startswith("> ") and (_is_marked(line) or not marked or stretch.type != "reply"):
        return "output"
    if not line.strip("\r\n"):
        return None
    return "note" if stretch.type == "note" else "reply"


def parse(data: Json, path: str) -> Message:
    record = as_record(data, path)
    text = record.get("text")
    if not isinstance(text, str):
        raise InvalidMessage(f"{path}.text", "is not text")
    at = time_at(record, "at")
    match record.get("type"):
        case "prompt":
            return Message("user", _said(text, "####"), at=at)
        case "reply":
            words = text.strip("\r\n")
            return Message("assistant", (Text(words),) if words else (), at=at, model=text_at(record, "model"))
        case "output":
            return Message("system", _said(text, ">"), kind="display", at=at)
        case "start" | "note":
            return Message("system", _said(text, ""), kind="display", at=at)
    raise InvalidMessage(f"{path}.type", f"{record.get('type')!r} is no part of a chat history")


def _said(text: str, prefix: str) -> tuple[Text, ...]:
    """Return the text of a stretch without its line prefixes and the spaces that Aider appends to lines."""
    bare = (line.removesuffix("\r").removesuffix("  ").removeprefix(prefix) for line in text.split("\n"))
    words = "\n".join(line.removeprefix(" ") if prefix else line for line in bare).strip("\n")
    return (Text(words),) if words.strip() else ()


def write(messages: Sequence[Message]) -> Iterator[str]:
    """Yield segments unchanged; messages of other formats as Aider would write them."""
    for position, message in enumerate(messages):
        original = message.original
        if original is not None and original.format == NAME:
            yield text_at(original.data, "text") or ""
            continue
        if position == 0 and message.at:
            yield f"\n{_START}{message.at:%Y-%m-%d %H:%M:%S}\n\n"
        if message.kind != "display":
            # Text in UTF-8 has no lone surrogates; they are escaped.
            yield from (text.encode("utf-8", "backslashreplace").decode() for text in _written(message))


def _written(message: Message) -> Iterator[str]:
    words = "\n".join(said_in(message.parts))
    if message.opens_turn:
        yield "\n" + "".join(f"#### {line}  \n" for line in (words or "<blank>").splitlines())
    elif message.role == "assistant" and words:
        yield f"\n{words.strip()}\n\n"
    elif words:
        yield _output(words)
    for part in message.parts:
        if isinstance(part, ToolCall):
            yield _output(f"{part.name} {part.arguments if isinstance(part.arguments, str) else ''}".rstrip())
        elif isinstance(part, ToolResult):
            yield _output(result_text(part))


def _output(words: str) -> str:
    return "".join(f"> {line}  \n" for line in words.splitlines())
