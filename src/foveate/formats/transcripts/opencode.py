"""OpenCode's conversations: its database `~/.local/share/opencode/opencode.db`, or the file of `opencode export`.

A message has parts. A part of a tool holds the call and its result, so an answer with tools becomes two messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from foveate.formats import SQLITE, TranscriptItem
from foveate.formats.conversations import ConversationFormat, Labels, decoded_object, read_rows
from foveate.formats.exchanges import result_text
from foveate.formats.files import decode_json
from foveate.formats.parse import (
    Record,
    UsageKeys,
    from_uri,
    listed_at,
    media_of,
    moment_at,
    number_at,
    record_in,
    records_at,
    text_at,
    value_at,
)
from foveate.turn import Attachment, Json, Kind, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult

NAME = "opencode"
_SILENT = ("step-start", "step-finish", "snapshot", "patch", "agent", "retry", "compaction")
_ENDED = ("completed", "error")
_SESSIONS = (
    "SELECT id, title, directory, parent_id, model, time_created, version FROM session ORDER BY time_created, id"
)
_MESSAGES = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
_PARTS = "SELECT message_id, id, data FROM part WHERE session_id = ? ORDER BY id"
_USAGE = UsageKeys(
    "input", "output", "cache.read", "cache.write", "reasoning", is_cache_apart=True, is_reasoning_apart=True
)


def detect(head: bytes, name: str) -> bool:
    if head.startswith(SQLITE):
        return name.startswith("opencode") or (b"time_compacting" in head and b"CREATE TABLE `session`" in head)
    start = head.lstrip()
    return start.startswith(b"{") and b'"info"' in head and b'"messages"' in head and b'"ses_' in head


def read_file(path: Path) -> Iterator[TranscriptItem]:
    """Read the database, which OpenCode may have open."""
    for id_, title, folder, parent, model, created, version in read_rows(path, _SESSIONS):
        info: dict[str, Json] = {"id": id_, "title": title, "directory": folder, "version": version}
        info |= {"parentID": parent} if parent else {}
        info |= {"time": {"created": created}, **({"model": _decoded(model)} if model else {})}
        parts: dict[str, list[Json]] = {}
        for message, part, data in read_rows(path, _PARTS, (str(id_),)):
            parts.setdefault(str(message), []).append({"id": part, **decoded_object(data)})
        messages: list[Json] = [
            {"info": {"id": message, **decoded_object(data)}, "parts": parts.get(str(message), [])}
            for message, data in read_rows(path, _MESSAGES, (str(id_),))
        ]
        yield from _FORMAT.read_one({"info": info, "messages": messages}, f"session {id_}")


def _decoded(data: Json) -> Json:
    try:
        return decode_json(str(data).encode())
    except ValueError:
        return data


class _OpenCode(ConversationFormat):
    name = NAME
    items_key = "messages"

    def problem(self, conversation: Record) -> str | None:
        is_session = isinstance(conversation.get("info"), Mapping)
        return None if is_session else "is not a session of OpenCode: it has no object 'info'"

    def labels(self, conversation: Record) -> Labels:
        info = conversation.get("info")
        id_, parent = text_at(info, "id"), text_at(info, "parentID")
        session = f"{parent}/{id_}" if parent else id_
        model = text_at(info, "model", "id") or text_at(info, "model", "modelID")
        return Labels(session, text_at(info, "title"), model, text_at(info, "directory"))

    def item_id(self, item: Record) -> str | None:
        return text_at(item, "info", "id")

    def is_finished(self, item: Record) -> bool:
        info = item.get("info")
        is_open = value_at(info, "role") == "assistant" and number_at(info, "time", "completed") is None
        return not is_open or value_at(info, "error") is not None

    def split(self, item: Record) -> Iterable[Record]:
        parts = records_at(item, "parts")
        if not any(_is_answered(part) for part in parts):
            return [item]
        slim: list[Json] = [_slim(part) if _is_answered(part) else part for part in parts]
        answered = [part for part in parts if _is_answered(part)]
        return [{**item, "parts": slim}, {"info": item.get("info"), "results": answered}]

    def join(self, pieces: Sequence[Record]) -> Record:
        if len(pieces) == 1:
            return pieces[0]
        answered = {text_at(part, "callID"): part for part in listed_at(pieces[1], "results")}
        parts = [answered.get(text_at(part, "callID") or "-", part) for part in records_at(pieces[0], "parts")]
        return {**pieces[0], "parts": parts}

    def message(self, piece: Record, path: str) -> Message:
        info = record_in(piece, "info", path)
        results = piece.get("results")
        if isinstance(results, list):
            return Message("tool", tuple(_result(part) for part in results), at=moment_at(info, "time", "completed"))
        parts = tuple(part for one in records_at(piece, "parts") for part in _read_part(one))
        at = moment_at(info, "time", "created")
        if info.get("role") == "assistant":
            kind: Kind = "message" if parts else "display"
            return Message(
                "assistant",
                parts,
                kind=kind,
                at=at,
                model=text_at(info, "modelID"),
                usage=_USAGE.read(info.get("tokens")),
            )
        synthetic = [one.get("synthetic") is True for one in records_at(piece, "parts") if one.get("type") == "text"]
        by_program = bool(synthetic) and all(synthetic)
        return Message("user", parts, kind="injection" if by_program or not parts else "message", at=at)

    def make(self, message: Message, id_: str) -> Iterable[Record]:
        role = "assistant" if message.role == "assistant" else "user"
        time = {"created": int(message.at.timestamp() * 1000), "completed": 0} if message.at else {"completed": 0}
        parts: list[Json] = []
        for number, part in enumerate(message.parts):
            if made := _made_part(part):
                parts.append({"id": f"{id_}-{number}", **made})
        info: dict[str, Json] = {"id": id_, "role": role, "time": time}
        yield {"info": {**info, **({"modelID": message.model} if message.model else {})}, "parts": parts}

    def make_conversation(self, id_: str) -> dict[str, Json]:
        return {"info": {"id": f"ses_{id_}", "title": "", "directory": ""}}


def _is_answered(part: Record) -> bool:
    return part.get("type") == "tool" and value_at(part, "state", "status") in _ENDED


def _slim(part: Record) -> Record:
    """Return a call without its result."""
    kept = {key: part[key] for key in ("id", "type", "tool", "callID") if key in part}
    return {**kept, "state": {"status": "pending", "input": value_at(part, "state", "input")}}


def _read_part(part: Record) -> Iterator[Part]:
    match part.get("type"):
        case "text":
            if text := text_at(part, "text"):
                yield Text(text)
        case "reasoning":
            yield Reasoning(text_at(part, "text") or "")
        case "tool":
            arguments = value_at(part, "state", "input")
            yield ToolCall(text_at(part, "tool") or "", arguments or {}, id=text_at(part, "callID"))
        case "file":
            media = media_of(text_at(part, "mime"))
            yield from_uri(media, text_at(part, "url") or "", text_at(part, "filename"))
        case kind if kind not in _SILENT:
            yield Opaque(NAME, part)


def _result(part: Json) -> ToolResult:
    state = value_at(part, "state")
    failed = value_at(state, "status") == "error"
    text = text_at(state, "error" if failed else "output") or ""
    code, start, end = (
        number_at(state, "metadata", "exit"),
        number_at(state, "time", "start"),
        number_at(state, "time", "end"),
    )
    return ToolResult(
        text_at(part, "callID"),
        (Text(text),),
        name=text_at(part, "tool"),
        is_error=failed,
        exit_code=None if code is None else int(code),
        duration_seconds=None if start is None or end is None else (end - start) / 1000,
    )


def _made_part(part: Part) -> dict[str, Json] | None:
    match part:
        case Text():
            return {"type": "text", "text": part.text}
        case Reasoning():
            return {"type": "reasoning", "text": part.text}
        case ToolCall():
            state: Json = {"status": "pending", "input": part.arguments}
            return {"type": "tool", "tool": part.name, "callID": part.id, "state": state}
        case ToolResult():
            return {"type": "text", "text": result_text(part), "synthetic": True}
        case Attachment():
            return {"type": "file", "mime": part.media_type, "filename": part.name, "url": part.uri or ""}
    return None


_FORMAT = _OpenCode()
read = _FORMAT.read
parse = _FORMAT.parse
write = _FORMAT.write
