"""Sessions of the OpenAI Agents SDK: the database of `SQLiteSession`, or its rows as JSONL.

An item is one of the Responses API. A row is `{"id": …, "session_id": …, "message_data": {…}, "created_at": …}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from foveate.errors import InvalidMessage
from foveate.formats import (
    SQLITE,
    TranscriptItem,
    TranscriptMessage,
    TranscriptProblem,
    load,
    parse_message,
    render_messages,
)
from foveate.formats.conversations import read_rows
from foveate.formats.files import (
    Placed,
    PlacedRecord,
    Sessions,
    TitleRank,
    decode_json,
    encode_json,
    first_json_line,
    json_lines,
    made_session,
    read_each,
)
from foveate.formats.parse import record, text_at
from foveate.turn import Json, Message, parse_time

NAME = "openai-agents"
_ROWS = "SELECT id, session_id, message_data, created_at FROM agent_messages ORDER BY id"


def detect(head: bytes, name: str) -> bool:  # noqa: ARG001
    if head.startswith(SQLITE):
        return b"agent_messages" in head
    first = first_json_line(head)
    return isinstance(first, Mapping) and "message_data" in first and "session_id" in first


def read_file(path: Path) -> Iterator[TranscriptItem]:
    """Read the database of `SQLiteSession`."""
    return _read_rows(_rows(path))


def _rows(path: Path) -> Iterator[Placed]:
    for number, (id_, session, data, created) in enumerate(read_rows(path, _ROWS), 1):
        try:
            item = decode_json(str(data).encode())
        except ValueError as error:
            yield TranscriptProblem(f"row {id_}", str(error))
            continue
        row: dict[str, Json] = {"id": id_, "session_id": session, "message_data": item, "created_at": created}
        yield PlacedRecord(number, row, f"row {id_}")


def read(stream: BinaryIO, name: str) -> Iterator[TranscriptItem]:
    lines = (
        line._replace(place=f"{name}, {line.place}") if isinstance(line, PlacedRecord) else line
        for line in json_lines(stream)
    )
    return _read_rows(lines)


def _read_rows(rows: Iterable[Placed]) -> Iterator[TranscriptItem]:
    sessions = Sessions(NAME)

    def read_row(row: PlacedRecord) -> Iterator[TranscriptItem]:
        if isinstance(row.value, Mapping):
            session = text_at(row.value, "session_id") or "session"
            message = parse_message(NAME, row.value)
            title = message.text if message.opens_turn else None
            yield from sessions.learn(session, title=title, rank=TitleRank.PROMPT)
            yield TranscriptMessage(session, str(row.value.get("id") or row.place), message, row.place)

    return read_each(rows, read_row)


def parse(data: Json, path: str) -> Message:
    row = record(data, path)
    message = load("openai-responses").parse(row.get("message_data"), f"{path}.message_data")
    created = text_at(row, "created_at")
    try:
        at = parse_time(created.replace(" ", "T") + ("" if "+" in created else "+00:00")) if created else None
    except InvalidMessage:
        at = None
    return replace(message, at=at)


def write(messages: Sequence[Message]) -> Iterator[str]:
    natives = [message.original.data for message in messages if message.original and message.original.format == NAME]
    session = next((found for row in natives if (found := text_at(row, "session_id"))), None) or made_session(messages)
    number = 0
    for message in messages:
        if message.original and message.original.format == NAME:
            yield encode_json(message.original.data) + "\n"
            continue
        for item in render_messages("openai-responses", [message.without_original()]):
            number += 1
            row: dict[str, Json] = {"id": f"made-{number}", "session_id": session, "message_data": item}
            if message.at:
                row["created_at"] = message.at.isoformat()
            yield encode_json(row) + "\n"
