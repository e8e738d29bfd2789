"""Codex's rollout files: `~/.codex/sessions/<year>/<month>/<day>/rollout-<time>-<session>.jsonl`.

A line is `{timestamp, type, payload}`. The `response_item` lines are the conversation, in the form of OpenAI's
Responses API; events, settings and counts are display-only. The first versions wrote the items without this wrapper.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import BinaryIO, Final

from foveate.additions import is_codex_message
from foveate.errors import InvalidMessage
from foveate.formats import SessionHeader, TranscriptItem, load, render_messages
from foveate.formats.exchanges import with_call_ids
from foveate.formats.files import (
    PlacedRecord,
    Sessions,
    TitleRank,
    decode_json,
    encode_json,
    first_json_line,
    json_lines,
    made_session,
    read_each,
    session_in_name,
)
from foveate.formats.parse import UsageKeys, every_text, listed_at, number_at, text_at, time_at, time_text, value_at
from foveate.formats.parse import record as as_record
from foveate.turn import Json, Kind, Message, Opaque, Original, Part, Role, Text, ToolResult

NAME: Final = "codex"

_ITEM_FORMAT: Final = "openai-responses"

_LINE_TYPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_SPOKEN_ITEMS = (
    "message", "reasoning", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output",
    "local_shell_call", "tool_search_call", "tool_search_output", "web_search_call", "image_generation_call",
)  # fmt: skip
_SHOWN_EVENTS: dict[str, tuple[Role, str]] = {
    "agent_message": ("assistant", "message"),
    "agent_reasoning": ("assistant", "text"),
    "agent_reasoning_raw_content": ("assistant", "text"),
    "background_event": ("system", "message"),
    "error": ("system", "message"),
    "stream_error": ("system", "message"),
    "thread_name_updated": ("system", "thread_name"),
    "user_message": ("user", "message"),
    "warning": ("system", "message"),
}
_USAGE = UsageKeys("input_tokens", "output_tokens", "cached_input_tokens", reasoning="reasoning_output_tokens")
_HEADER_STARTS = ("Chunk ID:", "Command:", "Exit code:", "Script ", "Wall time")
_EXIT_CODE = re.compile(r"^(?:Exit code:|Process exited with code) (-?\d{1,9})$", re.MULTILINE)
_WALL_TIME = re.compile(r"^Wall time:? (\d{1,9}(?:\.\d{1,9})?) seconds?$", re.MULTILINE)


def detect(head: bytes, name: str) -> bool:
    """Check whether the first line is of a rollout. A line that is too long is judged by its beginning."""
    record = first_json_line(head)
    if isinstance(record, Mapping):
        enveloped = record.get("type") in _LINE_TYPES and isinstance(record.get("payload"), Mapping)
        return enveloped or _is_bare_meta(record)
    cut_off = head.startswith(b"{") and b"\n" not in head
    return cut_off and (b'"session_meta"' in head[:512] or PurePath(name).name.startswith("rollout-"))


def _is_bare_meta(record: Mapping[str, Json]) -> bool:
    """Check for the first line of the first versions: the session's metadata, without a type."""
    return "type" not in record and "instructions" in record and bool(text_at(record, "id")) and "timestamp" in record


def read(stream: BinaryIO, name: str) -> Iterator[TranscriptItem]:
    sessions = Sessions(NAME)
    session: str | None = None

    def read_line(line: PlacedRecord) -> Iterator[TranscriptItem]:
        nonlocal session
        record = as_record(line.value, "record")
        message = replace(parse(record, "record"), original=Original(NAME, record))
        # Only the first line names the session: a fork copies its ancestor's, first line and all, below its own.
        session = session or _session_of(record) or session_in_name(name)
        yield from _news(sessions, session, record, message)
        yield sessions.found(session, record, message, place=line.place, id_=None)

    return read_each(json_lines(stream), read_line)


def _session_of(record: Mapping[str, Json]) -> str | None:
    if record.get("type") == "session_meta":
        return text_at(record, "payload", "id") or text_at(record, "payload", "session_id")
    return text_at(record, "id") if _is_bare_meta(record) else None


def _news(sessions: Sessions, session: str, record: Mapping[str, Json], message: Message) -> Iterator[SessionHeader]:
    """Yield what a line adds to its session's metadata."""
    title, rank = None, TitleRank.NONE
    if value_at(record, "payload", "type") == "thread_name_updated":
        title, rank = text_at(record, "payload", "thread_name"), TitleRank.CHOSEN
    elif message.opens_turn:
        title, rank = message.text, TitleRank.PROMPT
    is_context = record.get("type") == "turn_context"
    yield from sessions.learn(
        session,
        title=title,
        rank=rank,
        model=text_at(record, "payload", "model") if is_context else None,
        channel=sessions.channel(session) or text_at(record, "payload", "cwd"),
    )


def parse(data: Json, path: str) -> Message:
    record = as_record(data, path)
    if isinstance(record.get("payload"), Mapping):
        message = _parse_payload(record, f"{path}.payload")
    elif record.get("type") == "response_item":
        raise InvalidMessage(f"{path}.payload", "is not a JSON object")
    else:
        message = _parse_item(record, path)
    parts = tuple(_measured(part, record.get("metadata")) for part in message.parts)
    return replace(message, parts=parts, at=time_at(record, "timestamp"))


def _display(record: Mapping[str, Json], role: Role = "system", text: str | None = None) -> Message:
    return Message(role, (Text(text) if text else Opaque(NAME, record),), kind="display")


def _parse_payload(record: Mapping[str, Json], path: str) -> Message:
    kind, payload = record.get("type"), as_record(record.get("payload"), path)
    if kind == "response_item":
        return _parse_item(payload, path)
    if kind == "event_msg":
        return _parse_event(record, payload)
    if kind == "inter_agent_communication" and (text := text_at(payload, "content")):
        asks: Kind = "message" if payload.get("trigger_turn") is True else "injection"
        return Message("user", (Text(text),), kind=asks, name=text_at(payload, "author"))
    if kind == "token_usage_record":
        return replace(_display(record), usage=_USAGE.read(payload.get("usage")))
    return _display(record, text=text_at(payload, "message") if kind == "compacted" else None)


def _parse_event(record: Mapping[str, Json], payload: Mapping[str, Json]) -> Message:
    """Parse an event. Events repeat the items for people, and count tokens."""
    role, field = _SHOWN_EVENTS.get(str(payload.get("type")), ("system", ""))
    message = _display(record, role, text_at(payload, field))
    if payload.get("type") == "token_count":
        return replace(message, usage=_USAGE.read(value_at(payload, "info", "last_token_usage")))
    return message


def _parse_item(item: Mapping[str, Json], path: str) -> Message:
    """Parse an item of the conversation; an unknown one, or one that no model sees, is display-only."""
    if item.get("type") == "agent_message":
        return _parse_agent_message(item) or _display(item)
    if item.get("type") not in _SPOKEN_ITEMS:
        return _display(item)
    message = load(_ITEM_FORMAT).parse(_with_plain_output(item), path)
    if value_at(item, "output", "success") is False:
        parts = (replace(part, is_error=True) if isinstance(part, ToolResult) else part for part in message.parts)
        message = replace(message, parts=tuple(parts))
    if message.role == "user" and not message.tool_results and _is_injected(item, message):
        return replace(message, kind="injection")
    return message


def _parse_agent_message(item: Mapping[str, Json]) -> Message | None:
    """Parse a message of another agent; encrypted text is display-only."""
    parts = tuple(Text(text) for block in listed_at(item, "content") if (text := text_at(block, "text")))
    return Message("user", parts, kind="injection", name=text_at(item, "author")) if parts else None


def _with_plain_output(item: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return the item with plain output: some versions wrote a tool's output as `{content, success}`."""
    output = item.get("output")
    return {**item, "output": output.get("content", "")} if isinstance(output, Mapping) else item


def _is_injected(item: Mapping[str, Json], message: Message) -> bool:
    """Check whether a program added the message: later versions label every block, earlier ones only tag it."""
    kinds = value_at(item, "internal_chat_message_metadata_passthrough", "content_item_kinds")
    if isinstance(kinds, list) and kinds:
        return not any(isinstance(kind, str) and kind.split(".")[0] in ("user", "unknown", "") for kind in kinds)
    texts = every_text(message)
    return bool(texts) and all(map(is_codex_message, texts))


def _measured(part: Part, noted: Json) -> Part:
    """Return a tool result with its exit code and duration, which Codex writes next to the output or into it."""
    if not isinstance(part, ToolResult):
        return part
    code, seconds = number_at(noted, "exit_code"), number_at(noted, "duration_seconds")
    first = part.content[0] if part.content else None
    if code is None and seconds is None and isinstance(first, Text):
        code, seconds = _measures_in(first.text)
    return replace(part, exit_code=None if code is None else int(code), duration_seconds=seconds)


def _measures_in(text: str) -> tuple[float | None, float | None]:
    """Read exit code and duration from an output: JSON with both, or a header that ends with the line `Output:`."""
    if text.startswith("{"):
        try:
            output = decode_json(text.encode("utf-8", "surrogatepass"))
        except ValueError:
            return None, None
        return number_at(output, "metadata", "exit_code"), number_at(output, "metadata", "duration_seconds")
    header, marker, _ = text.partition("\nOutput:\n")
    if not marker or not text.startswith(_HEADER_STARTS):
        return None, None
    code, seconds = _EXIT_CODE.search(header), _WALL_TIME.search(header)
    return float(code[1]) if code else None, float(seconds[1]) if seconds else None


def write(messages: Sequence[Message]) -> Iterator[str]:
    if messages and not any(message.original and message.original.format == NAME for message in messages):
        yield encode_json(_made_meta(messages)) + "\n"
    for message in with_call_ids(messages):
        if message.original and message.original.format == NAME:
            yield encode_json(message.original.data) + "\n"
        else:
            moment = {"timestamp": time_text(message.at)} if message.at else {}
            yield from (encode_json({**moment, **content}) + "\n" for content in _made_contents(message))


def _made_meta(messages: Sequence[Message]) -> dict[str, Json]:
    first = next((time_text(message.at) for message in messages if message.at), "1970-01-01T00:00:00.000Z")
    payload = {"id": made_session(messages), "timestamp": first, "cwd": "", "originator": "foveate", "cli_version": ""}
    return {"timestamp": first, "type": "session_meta", "payload": payload}


def _made_contents(message: Message) -> Iterator[dict[str, Json]]:
    """Yield lines of a message of another format, as Codex would write them."""
    if message.kind == "display":
        yield {"type": "event_msg", "payload": {"type": "background_event", "message": message.text}}
        return
    if message.kind == "injection" and message.role == "user" and not message.tool_results:
        # In Codex a program speaks as the developer; as the user it would open a turn when read again.
        message = replace(message, role="developer", original=None)
    for item in render_messages(_ITEM_FORMAT, [message]):
        yield {"type": "response_item", "payload": _made_item(item), **_made_metadata(item, message)}


def _made_item(item: Json) -> Json:
    """Return an item as Codex reads it: by its type, with content as blocks."""
    if not isinstance(item, Mapping) or "role" not in item:
        return item
    role, content = item.get("role"), item.get("content")
    block = "output_text" if role == "assistant" else "input_text"
    return {
        **item,
        "type": "message",
        "content": [{"type": block, "text": content}] if isinstance(content, str) else content,
    }


def _made_metadata(item: Json, message: Message) -> dict[str, Json]:
    """Return the measured exit code and duration of a tool's run; the output itself is unchanged."""
    result = next((result for result in message.tool_results if result.call_id == value_at(item, "call_id")), None)
    if result is None or value_at(item, "output") is None:
        return {}
    measures = {"exit_code": result.exit_code, "duration_seconds": result.duration_seconds}
    return {"metadata": measures} if any(value is not None for value in measures.values()) else {}
