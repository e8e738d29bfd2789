"""Sessions of the coding agent pi: `~/.pi/agent/sessions/<folder>/<session>.jsonl`.

All entries of a file are one session in the order they were written, including abandoned branches: the order is
chronological and stable while the file grows, and the file can be written again line by line. Summaries, messages of
extensions and commands the user ran are injections; settings, labels and extensions' own data are display-only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import BinaryIO, Literal, overload

from foveate.errors import InvalidMessage
from foveate.formats import SessionHeader, TranscriptItem, TranscriptMessage, TranscriptProblem, parse_message
from foveate.formats.exchanges import note_of, result_text
from foveate.formats.files import (
    Sessions,
    TitleRank,
    content_key,
    encode_json,
    first_json_line,
    json_lines,
    made_session,
    session_in_name,
)
from foveate.formats.parse import UsageKeys, moment_at, number_at, text_at, time_at, time_text, value_at
from foveate.formats.parse import record as as_record
from foveate.turn import Attachment, Json, Kind, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult

NAME = "pi"

_INJECTED_ENTRIES = {"compaction": "summary", "branch_summary": "summary", "custom_message": "content"}
_INJECTED_ROLES = {
    "custom": "content",
    "hookMessage": "content",
    "branchSummary": "summary",
    "compactionSummary": "summary",
}
_USAGE = UsageKeys("input", "output", "cacheRead", "cacheWrite", is_cache_apart=True)


def detect(head: bytes, name: str) -> bool:  # noqa: ARG001
    first = first_json_line(head)
    return (
        isinstance(first, Mapping)
        and first.get("type") == "session"
        and isinstance(first.get("cwd"), str)
        and isinstance(first.get("timestamp"), str)
    )


def read(stream: BinaryIO, name: str) -> Iterator[TranscriptItem]:
    sessions = Sessions(NAME)
    session: str | None = None
    keys: set[str] = set()
    for position, item in enumerate(json_lines(stream)):
        if isinstance(item, TranscriptProblem):
            yield item
            continue
        _, record, place = item
        if session is None:
            session = (value_at(record, "type") == "session" and text_at(record, "id")) or session_in_name(name)
        try:
            message = parse_message(NAME, record, "entry")
        except InvalidMessage as error:
            yield TranscriptProblem(place, str(error))
            continue
        yield from _news(sessions, session, record, message)
        key = text_at(record, "id")
        if key is None or key in keys:
            key = content_key(position, record)
        keys.add(key)
        yield TranscriptMessage(session, key, message, place)


def _news(sessions: Sessions, session: str, record: Json, message: Message) -> Iterator[SessionHeader]:
    """Yield what an entry adds to the session's metadata: its model and title, by default the first prompt."""
    if value_at(record, "type") == "session_info":
        return sessions.learn(session, title=text_at(record, "name"), rank=TitleRank.CHOSEN)
    title = message.text if message.opens_turn else None
    return sessions.learn(session, title=title, rank=TitleRank.PROMPT, model=text_at(record, "modelId"))


def parse(data: Json, path: str) -> Message:
    entry = as_record(data, path)
    kind = text_at(entry, "type")
    if kind is None:
        raise InvalidMessage(path, "has no type")
    at = time_at(entry, "timestamp")
    if kind == "message":
        return _parse_message(as_record(entry.get("message"), f"{path}.message"), at, f"{path}.message")
    field = _INJECTED_ENTRIES.get(kind)
    if field is not None:
        return Message("user", read_content(entry.get(field), f"{path}.{field}"), kind="injection", at=at)
    return Message("system", kind="display", at=at, model=text_at(entry, "modelId"))


def _parse_message(inner: Mapping[str, Json], at: datetime | None, path: str) -> Message:
    at = at or moment_at(inner, "timestamp")
    role = text_at(inner, "role")
    match role:
        case "user":
            return Message("user", read_content(inner.get("content"), f"{path}.content"), at=at)
        case "assistant":
            return Message(
                "assistant",
                read_content(inner.get("content"), f"{path}.content"),
                at=at,
                model=text_at(inner, "model"),
                usage=_USAGE.read(inner.get("usage")),
            )
        case "toolResult":
            return Message("tool", (_tool_result(inner, path),), at=at)
        case "bashExecution":
            kind: Kind = "display" if inner.get("excludeFromContext") is True else "injection"
            return Message("user", _command(inner), kind=kind, at=at)
        case str() if role in _INJECTED_ROLES:
            field = _INJECTED_ROLES[role]
            return Message("user", read_content(inner.get(field), f"{path}.{field}"), kind="injection", at=at)
    raise InvalidMessage(f"{path}.role", f"{inner.get('role')!r} is no role of pi")


def _tool_result(inner: Mapping[str, Json], path: str) -> ToolResult:
    content = read_content(inner.get("content"), f"{path}.content", in_result=True)
    return ToolResult(
        call_id=text_at(inner, "toolCallId"),
        content=content,
        name=text_at(inner, "toolName"),
        is_error=inner.get("isError") is True,
    )


def _command(inner: Mapping[str, Json]) -> tuple[Part, ...]:
    """Return a command that the user ran, and its output."""
    lines = [f"$ {text_at(inner, 'command') or ''}", text_at(inner, "output") or ""]
    code = number_at(inner, "exitCode")
    if code:
        lines.append(f"(exit code {code:g})")
    return (Text("\n".join(line for line in lines if line)),)


def write(messages: Sequence[Message]) -> Iterator[str]:
    """Yield pi's entries unchanged; others as entries that each follow the previous one."""
    parent: str | None = None
    for position, message in enumerate(messages):
        original = message.original
        if original is not None and original.format == NAME:
            entries: list[Json] = [original.data]
        else:
            entries = []
            for entry in write_entries(message):
                id_ = hashlib.sha256(f"{position}/{len(entries)}/{encode_json(entry)}".encode()).hexdigest()[:8]
                entries.append({**entry, "id": id_, "parentId": parent})
                parent = id_
        if position == 0 and not (entries and value_at(entries[0], "type") == "session"):
            yield encode_json(_header(messages)) + "\n"
        for written in entries:
            if value_at(written, "type") != "session":
                parent = text_at(written, "id") or parent
            yield encode_json(written) + "\n"


def _header(messages: Sequence[Message]) -> dict[str, Json]:
    began = next((message.at for message in messages if message.at), datetime.fromtimestamp(0, UTC))
    return {"type": "session", "version": 3, "id": made_session(messages), "timestamp": time_text(began), "cwd": ""}


@overload
def read_content(content: Json, path: str) -> tuple[Part, ...]: ...
@overload
def read_content(content: Json, path: str, *, in_result: Literal[True]) -> tuple[Text | Attachment | Opaque, ...]: ...


def read_content(content: Json, path: str, *, in_result: bool = False) -> tuple[Part, ...]:
    """Parse `content`, which is text or a list of blocks; empty content has no parts."""
    if content is None or content == "":
        return ()
    if isinstance(content, str):
        return (Text(content),)
    if not isinstance(content, Sequence):
        raise InvalidMessage(path, "is neither text nor a list of blocks")
    parts = (_part(block, f"{path}[{index}]") for index, block in enumerate(content))
    if not in_result:
        return tuple(parts)
    return tuple(
        part if isinstance(part, Text | Attachment) else Opaque("pi", block)
        for part, block in zip(parts, content, strict=True)
    )


def _part(block: Json, path: str) -> Part:
    if not isinstance(block, Mapping):
        raise InvalidMessage(path, "is not a JSON object")
    match block:
        case {"type": "text", "text": str(text)}:
            return Text(text)
        case {"type": "thinking", "thinking": str(thinking)}:
            return Reasoning(thinking, signature=text_at(block, "thinkingSignature"))
        case {"type": "toolCall", "name": str(name)}:
            signature = text_at(block, "thoughtSignature")
            return ToolCall(name, block.get("arguments"), id=text_at(block, "id"), signature=signature)
        case {"type": "image", "data": str(data)}:
            return Attachment("image", data=data, media_type=text_at(block, "mimeType"))
    return Opaque("pi", block)


def write_entries(message: Message) -> list[Mapping[str, Json]]:
    """Return a message of another format as entries without ids; a display-only message has no entry."""
    if message.kind == "display":
        return []
    entries: list[Mapping[str, Json]] = [
        _entry(message, _tool_message(part)) for part in message.parts if isinstance(part, ToolResult)
    ]
    blocks = [_block(part) for part in message.parts if not isinstance(part, ToolResult)]
    if not blocks and entries:
        return entries
    if message.role == "assistant":
        inner: dict[str, Json] = {"role": "assistant", "content": blocks, "stopReason": "stop"}
        if message.model:
            inner["model"] = message.model
        if message.usage:
            usage = message.usage
            inner["usage"] = {
                "input": usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens,
                "output": usage.output_tokens,
                "cacheRead": usage.cache_read_tokens,
                "cacheWrite": usage.cache_write_tokens,
            }
        entries.append(_entry(message, inner))
    elif message.role == "user" and message.kind == "message":
        entries.append(_entry(message, {"role": "user", "content": blocks}))
    else:
        injected: dict[str, Json] = {"type": "custom_message", "customType": message.role, "content": blocks}
        entries.append(_dated(message, {**injected, "display": False}))
    return entries


def _entry(message: Message, inner: Mapping[str, Json]) -> Mapping[str, Json]:
    return _dated(message, {"type": "message", "message": inner})


def _dated(message: Message, entry: Mapping[str, Json]) -> Mapping[str, Json]:
    return {**entry, "timestamp": time_text(message.at)} if message.at else entry


def _tool_message(result: ToolResult) -> dict[str, Json]:
    return {
        "role": "toolResult",
        "toolCallId": result.call_id,
        "toolName": result.name,
        "content": [_block(part) for part in result.content],
        "isError": result.is_error,
    }


def _block(part: Part) -> Json:
    match part:
        case Reasoning(text):
            signed: dict[str, Json] = {"thinkingSignature": part.signature} if part.signature else {}
            return {"type": "thinking", "thinking": text, **signed}
        case ToolCall(name, arguments):
            return {"type": "toolCall", "id": part.id, "name": name, "arguments": arguments}
        case Attachment(media="image", data=str(data)):
            return {"type": "image", "data": data, "mimeType": part.media_type}
        case Opaque(format="pi", data=data):
            return data
    return {"type": "text", "text": _words(part)}


def _words(part: Part) -> str:
    """Describe a part that pi has no block for."""
    match part:
        case Text(text) | Reasoning(text):
            return text
        case Attachment() | Opaque():
            return note_of(part)
        case ToolResult():
            return result_text(part)
        case ToolCall(name):
            return f"[call of {name}]"
