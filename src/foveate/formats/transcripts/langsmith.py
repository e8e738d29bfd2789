"""Runs of LangSmith, and messages of LangChain, as JSON or JSONL.

A file of messages (`messages_to_dict`, `dumps`, or `model_dump` of each) is one session. Runs are grouped into sessions
by their thread (`thread_id`, `session_id` or `conversation_id` in the metadata), else by their trace. Each call of a
model repeats the history, so only its new messages are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import PurePath
from typing import BinaryIO

from foveate.errors import InvalidMessage
from foveate.formats import (
    SessionHeader,
    TranscriptItem,
    TranscriptMessage,
    TranscriptProblem,
    load,
    parse_message,
    render_messages,
)
from foveate.formats.files import (
    Placed,
    PlacedRecord,
    array_elements,
    content_key,
    decode_json,
    encode_json,
    json_lines,
    read_whole,
    short_title,
)
from foveate.formats.parse import Record, listed_at, record, text_at, time_at, value_at
from foveate.turn import Json, Message

NAME = "langsmith"
_CLASSES = {"HumanMessage": "human", "AIMessage": "ai", "SystemMessage": "system", "ToolMessage": "tool"}
"""LangChain's types of messages by their classes; those of chunks are types themselves."""
_THREADS = ("thread_id", "session_id", "conversation_id")
_TELLING = (b'"run_type"', b'"HumanMessage"', b'"AIMessage"')


def detect(head: bytes, name: str) -> bool:  # noqa: ARG001
    if not head.lstrip().startswith((b"{", b"[")):
        return False
    is_dumped = b'"type": "human"' in head or b'"type":"human"' in head
    return any(word in head for word in _TELLING) or (is_dumped and b'"content"' in head)


def read(stream: BinaryIO, name: str) -> Iterator[TranscriptItem]:
    reader = _Reader(PurePath(name).stem or "session")
    runs: list[tuple[str, Record]] = []
    for item in _records(stream):
        if isinstance(item, TranscriptProblem):
            yield item
            continue
        _, value, place = item
        if isinstance(value, Mapping) and "run_type" in value:
            runs.append((place, value))
        elif isinstance(value, Mapping) and isinstance(listed := value.get("messages"), list):
            yield from reader.messages([*listed], f"{reader.name}/{place}", place)
        else:
            yield from reader.messages([value], reader.name, place)
    for place, run in sorted(runs, key=lambda one: str(one[1].get("start_time"))):
        yield from reader.run(run, place)


def _records(stream: BinaryIO) -> Iterator[Placed]:
    try:
        raw = read_whole(stream)
    except ValueError as error:
        yield TranscriptProblem("the file", str(error))
        return
    if raw.lstrip().startswith(b"["):
        yield from array_elements(BytesIO(raw), "record")
        return
    try:
        yield PlacedRecord(1, decode_json(raw), "the file")
    except ValueError:
        yield from json_lines(BytesIO(raw))


class _Reader:
    """The sessions of a file, collected while it is read."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._known: dict[str, list[str]] = {}
        """The messages of each session, as content keys."""
        self._titles: set[str] = set()

    def messages(self, records: Sequence[Json], session: str, place: str) -> Iterator[TranscriptItem]:
        yield from self._begin(session, is_named_by_file=True)
        for value in records:
            yield from self._add(session, value, place)

    def run(self, run: Record, place: str) -> Iterator[TranscriptItem]:
        """Yield what one call of a model adds to its session; other kinds of runs only contain such calls."""
        if run.get("run_type") != "llm":
            return
        metadata = value_at(run, "extra", "metadata")
        session = next((found for key in _THREADS if (found := text_at(metadata, key))), None)
        session = session or text_at(run, "trace_id") or text_at(run, "id") or self.name
        model = text_at(metadata, "ls_model_name") or text_at(run, "extra", "invocation_params", "model")
        yield from self._begin(session, model=model, channel=text_at(run, "session_name"))
        values = [*_inputs(run), *_outputs(run)]
        keys = [content_key(0, _essence(value)) for value in values]
        known = self._known[session]
        start = _overlap(known, keys)
        times = [time_at(run, "start_time")] * len(_inputs(run)) + [time_at(run, "end_time")] * len(_outputs(run))
        for value, at in list(zip(values, times, strict=True))[start:]:
            stamped = {**value, "at": at.isoformat()} if isinstance(value, Mapping) and at else value
            yield from self._add(session, stamped, place, value)

    def _begin(
        self, session: str, *, model: str | None = None, channel: str | None = None, is_named_by_file: bool = False
    ) -> Iterator[SessionHeader]:
        if session not in self._known:
            self._known[session] = []
            yield SessionHeader(session, model=model, platform=NAME, channel=channel, is_named_by_file=is_named_by_file)

    def _add(self, session: str, value: Json, place: str, plain: Json = None) -> Iterator[TranscriptItem]:
        known = self._known[session]
        where = f"{place}, message {len(known) + 1}"
        try:
            message = parse_message(NAME, value)
        except InvalidMessage as error:
            yield TranscriptProblem(where, str(error))
            return
        key = content_key(0, _essence(plain if plain is not None else value))
        if message.opens_turn and session not in self._titles:
            self._titles.add(session)
            yield SessionHeader(session, title=short_title(message.text), platform=NAME)
        yield TranscriptMessage(session, f"{len(known)}-{key.partition('-')[2]}", message, where)
        known.append(key)


def _overlap(known: Sequence[str], keys: Sequence[str]) -> int:
    """Count the known messages of a call: the longest end of the session with which the call begins. A system prompt
    may come before it."""
    for size in range(min(len(known), len(keys)), 0, -1):
        if list(known[-size:]) == list(keys[:size]):
            return size
    shared = 0
    while shared < min(len(known), len(keys)) and known[shared] == keys[shared]:
        shared += 1
    return shared


def _inputs(run: Record) -> list[Json]:
    messages = listed_at(run, "inputs", "messages")
    return messages[0] if messages and isinstance(messages[0], list) else messages


def _outputs(run: Record) -> list[Json]:
    generations = value_at(run, "outputs", "generations")
    while isinstance(generations, list) and generations and isinstance(generations[0], list):
        generations = generations[0]
    if isinstance(generations, list) and generations:
        message = value_at(generations[0], "message")
        return [message] if message is not None else []
    listed = value_at(run, "outputs", "messages")
    if isinstance(listed, list):
        return list(listed)
    single = value_at(run, "outputs", "message") or value_at(run, "outputs", "output")
    return [single] if isinstance(single, Mapping) else []


def _fields(data: Record) -> tuple[str, Record]:
    """Return the type of a message and its fields, in any of its notations."""
    if isinstance(data.get("kwargs"), Mapping) and isinstance(names := data.get("id"), list) and names:
        return _CLASSES.get(str(names[-1]), str(names[-1])), record(data["kwargs"], "kwargs")
    if isinstance(data.get("data"), Mapping):
        return str(data.get("type")), record(data["data"], "data")
    return str(data.get("type") or data.get("role")), data


def _essence(value: Json) -> Json:
    """Return what identifies a message; ids and usage are assigned only by its answer."""
    if not isinstance(value, Mapping):
        return value
    kind, fields = _fields(value)
    return [kind, fields.get("content"), fields.get("tool_call_id"), fields.get("tool_calls")]


def parse(data: Json, path: str) -> Message:
    whole = record(data, path)
    kind, fields = _fields(whole)
    if "role" in whole and "type" not in whole:
        return load("openai").parse(data, path)
    message = load("langchain").parse({"type": kind, "data": fields}, path)
    return replace(message, at=time_at(whole, "at"))


def write(messages: Sequence[Message]) -> Iterator[str]:
    """Yield one message per line, as LangChain's `message_to_dict` writes it."""
    for message in messages:
        if message.original and message.original.format == NAME:
            yield encode_json(message.original.data) + "\n"
        elif message.kind != "display":
            moment: dict[str, Json] = {"at": message.at.isoformat()} if message.at else {}
            for made in render_messages("langchain", [message.without_original()]):
                yield encode_json({**record(made, "message"), **moment}) + "\n"
