"""Plain messages of any provider: JSONL with one per line, a JSON list of them, or an object that has such a list.

A file of messages is one session, named after the file. A record with a list under `messages` (or Gemini's
`contents`) is a separate session, `<file>/<line>`, as in files for fine-tuning; its other fields come first as
one record, which is the system prompt if it has one, else display-only. A record that is not a message is
display-only too. Each message is stored in its provider's format. This is the fallback format: any file of JSON
can be read as this one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, islice
from pathlib import PurePath
from typing import BinaryIO

from foveate.errors import InvalidMessage
from foveate.formats import (
    HEAD_BYTES,
    SessionHeader,
    TranscriptItem,
    TranscriptMessage,
    TranscriptProblem,
    detect_messages,
    message_formats,
    parse_message,
    render_messages,
)
from foveate.formats.files import (
    MAX_LINE_BYTES,
    Placed,
    PlacedRecord,
    array_elements,
    content_key,
    decode_json,
    encode_json,
    first_json_line,
    json_lines,
)
from foveate.formats.parse import record as as_record
from foveate.formats.parse import text_at
from foveate.turn import Json, Message, Text

NAME = "jsonl"
SAMPLE_RECORDS = 50
"""Records at the beginning that decide the provider of ambiguous ones."""

_LISTS = ("messages", "contents")
_TELLING = (b'"role"', b'"messages"', b'"contents"', b'"parts"')
_ENDINGS = (".json", ".jsonl", ".ndjson")


def detect(head: bytes, name: str) -> bool:
    first = first_json_line(head)
    if isinstance(first, Mapping):
        return _list_in(first) is not None or _is_message(first)
    start = head.lstrip()
    if not name.lower().endswith(_ENDINGS):
        return False
    # A list or object over several lines, or a damaged first line: it must mention messages.
    return not start or (start.startswith((b"{", b"[")) and any(word in head for word in _TELLING))


def read(stream: BinaryIO, name: str) -> Iterator[TranscriptItem]:
    records = _records(stream, name)
    sample = list(islice(records, SAMPLE_RECORDS))
    session = PurePath(name).stem or "session"
    usual = detect_messages([item.value for item in sample if not isinstance(item, TranscriptProblem)])
    seen = False
    position = 0
    for batch in (sample, records):
        for item in batch:
            position += 1
            if isinstance(item, TranscriptProblem):
                yield item
                continue
            _, value, place = item
            listed = _list_in(value)
            if listed is not None and isinstance(value, Mapping):
                own = session if place == _WHOLE else f"{session}/{position}"
                yield from _read_list(value, listed, own, "" if place == _WHOLE else f"{place}, ")
                continue
            if not seen:
                seen = True
                yield SessionHeader(session, is_named_by_file=True)
            yield _read_one(value, session, position=position, place=place, usual=usual)


_WHOLE = "the file"


def _records(stream: BinaryIO, name: str) -> Iterator[Placed]:
    """Yield the records of the file and their places, in any of the three shapes."""
    first, has_more = _peek(stream)
    if first.startswith(b"["):
        yield from array_elements(stream, "record")
    elif first.startswith(b"{") and _is_one_object(first, name, has_more=has_more):
        yield _whole(stream)
    else:
        yield from json_lines(stream)


def _peek(stream: BinaryIO) -> tuple[bytes, bool]:
    """Return the first line that is not blank, and whether anything but white space follows it."""
    start = stream.tell()
    lines = iter(lambda: stream.readline(MAX_LINE_BYTES), b"")
    first = next((line.lstrip() for line in lines if line.strip()), b"")
    has_more = bool(stream.read(HEAD_BYTES).strip())
    stream.seek(start)
    return first, has_more


def _is_one_object(first: bytes, name: str, *, has_more: bool) -> bool:
    """Check whether an object is the whole file: it continues after its first line, or is alone in a `.json` file."""
    try:
        decode_json(first)
    except ValueError as error:
        cut = error.__cause__
        return isinstance(cut, json.JSONDecodeError) and cut.pos >= len(cut.doc.rstrip()) and first.endswith(b"\n")
    return name.lower().endswith(".json") and not has_more


def _whole(stream: BinaryIO) -> Placed:
    raw = stream.read(MAX_LINE_BYTES + 1)
    try:
        if len(raw) > MAX_LINE_BYTES:
            raise ValueError(f"longer than {MAX_LINE_BYTES:,} bytes")
        return PlacedRecord(1, decode_json(raw), _WHOLE)
    except ValueError as error:
        return TranscriptProblem(_WHOLE, str(error))


def _list_in(value: Json) -> list[Json] | None:
    """Return the messages of a record that lists them."""
    if isinstance(value, Mapping) and "role" not in value:
        for key in _LISTS:
            listed = value.get(key)
            if isinstance(listed, list):
                return listed
    return None


def _is_message(value: Json) -> bool:
    return isinstance(value, Mapping) and ("role" in value or _provider_of(value) is not None)


def _provider_of(value: Json) -> str | None:
    return next((name for name, format_ in message_formats().items() if format_.recognises(value)), None)


def _read_list(value: Mapping[str, Json], listed: list[Json], session: str, where: str) -> Iterator[TranscriptItem]:
    yield SessionHeader(session, is_named_by_file=True)
    usual = detect_messages(listed)
    if len(value) > 1:
        rest: dict[str, Json] = {key: [] if held is listed else held for key, held in value.items()}
        yield _read_one(rest, session, position=0, place=where.removesuffix(", ") or _WHOLE, usual=usual)
    for number, record in enumerate(listed, start=1):
        yield _read_one(record, session, position=number, place=f"{where}message {number}", usual=usual)


def _read_one(
    value: Json, session: str, *, position: int, place: str, usual: str
) -> TranscriptMessage | TranscriptProblem:
    try:
        record = as_record(value, "record")
        format_ = (_provider_of(record) or usual) if _is_message(record) else NAME
        message = parse_message(format_, record, "record")
    except InvalidMessage as error:
        return TranscriptProblem(place, str(error))
    return TranscriptMessage(session, content_key(position, record), message, place)


def parse(data: Json, path: str) -> Message:
    """Parse a record that is not a message, or the keys next to a list of messages; may include a system prompt."""
    record = as_record(data, path)
    prompt = tuple(Text(text) for text in _system_prompt(record) if text)
    return Message("system", prompt) if prompt else Message("system", kind="display")


def _system_prompt(record: Mapping[str, Json]) -> Iterator[str]:
    """Yield the system prompt of Anthropic's and Gemini's requests, which is next to the messages."""
    if _list_in(record) is None:
        return
    for key in ("system", "system_instruction", "systemInstruction"):
        held = record.get(key)
        held = held.get("parts") if isinstance(held, Mapping) else held
        for block in held if isinstance(held, list) else [held]:
            text = block if isinstance(block, str) else text_at(block, "text")
            yield text or ""


def write(messages: Sequence[Message]) -> Iterator[str]:
    """Yield a message per line, in its own format, else in OpenAI's; or all in one line if they were read from one."""
    wrapper: Mapping[str, Json] | None = None
    records: list[Json] = []
    for format_, run in groupby(messages, key=_format_to_write):
        if format_ != NAME:
            records.extend(render_messages(format_, list(run)))
            continue
        for data in (message.original.data for message in run if message.original):
            if isinstance(data, Mapping) and _list_in(data) == []:
                wrapper = data
            else:
                records.append(data)
    if wrapper is not None:
        key = next(key for key in _LISTS if wrapper.get(key) == [])
        records = [{**wrapper, key: records}]
    yield from (encode_json(record) + "\n" for record in records)


def _format_to_write(message: Message) -> str:
    own = message.original.format if message.original else "openai"
    return own if own == NAME or own in message_formats() else "openai"
