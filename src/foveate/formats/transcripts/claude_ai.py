"""The data export of claude.ai (Settings, Privacy): its zip file, or `conversations.json`.

A message of the assistant may hold several steps: text, a tool call, its result, more text. It is split so that each
result is a separate message. Messages of an abandoned branch stay in chronological order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO

from foveate.formats import TranscriptItem, TranscriptProblem, load
from foveate.formats.conversations import ConversationFormat, Labels
from foveate.formats.exchanges import result_text
from foveate.formats.files import (
    ZIP,
    PlacedRecord,
    Readable,
    array_elements,
    encode_json,
    read_each,
    read_export,
    zip_start,
)
from foveate.formats.parse import Record, listed_at, records_at, text_at, time_at, time_text, value_at
from foveate.turn import Attachment, Json, Kind, Message, Part, Reasoning, Text, ToolCall

NAME = "claude-ai"
_FILE = "conversations.json"
MEMBERS = re.compile(re.escape(_FILE))
_SILENT = ("token_budget", "flag")


def detect(head: bytes, name: str) -> bool:  # noqa: ARG001
    if head.startswith(ZIP):
        return b'"chat_messages"' in zip_start(head, _FILE)
    return head.lstrip().startswith(b"[") and b'"chat_messages"' in head and b'"uuid"' in head


def read(stream: BinaryIO, name: str) -> Iterator[TranscriptItem]:
    return read_export(stream, name, MEMBERS, _read_list)


def _read_list(stream: Readable, _member: str) -> Iterator[TranscriptItem]:
    return read_each(array_elements(stream, "conversation"), _read_conversation)


def _read_conversation(record: PlacedRecord) -> Iterator[TranscriptItem]:
    conversation = record.value
    if isinstance(conversation, Mapping) and isinstance(conversation.get("chat_messages"), list):
        yield from _FORMAT.read_one(conversation, record.place)
    else:
        yield TranscriptProblem(record.place, "it has no list 'chat_messages'")


class _ClaudeAi(ConversationFormat):
    name = NAME
    items_key = "chat_messages"

    def labels(self, conversation: Record) -> Labels:
        project = text_at(conversation, "project", "name")
        return Labels(
            text_at(conversation, "uuid"), text_at(conversation, "name"), text_at(conversation, "model"), project
        )

    def item_id(self, item: Record) -> str | None:
        return text_at(item, "uuid")

    def split(self, item: Record) -> Iterable[Record]:
        blocks = records_at(item, "content")
        if not any(block.get("type") == "tool_result" for block in blocks):
            yield item
            return
        steps: list[list[Json]] = [[]]
        for block in blocks:
            is_result = block.get("type") == "tool_result"
            if steps[-1] and is_result != (value_at(steps[-1][-1], "type") == "tool_result"):
                steps.append([])
            steps[-1].append(block)
        yield {**item, "content": steps[0]}
        for step in steps[1:]:
            yield {"sender": "assistant", "created_at": item.get("created_at"), "content": step}

    def join(self, pieces: Sequence[Record]) -> Record:
        if len(pieces) == 1:
            return pieces[0]
        return {**pieces[0], "content": [block for piece in pieces for block in records_at(piece, "content")]}

    def message(self, piece: Record, path: str) -> Message:
        at = time_at(piece, "created_at")
        blocks = [block for block in records_at(piece, "content") if block.get("type") not in _SILENT]
        if blocks and all(block.get("type") == "tool_result" for block in blocks):
            spoken: Json = {"role": "user", "content": [_known(block) for block in blocks]}
            return Message("tool", load("anthropic").parse(spoken, path).parts, at=at)
        role = "assistant" if piece.get("sender") == "assistant" else "user"
        parts = load("anthropic").parse({"role": role, "content": [_known(block) for block in blocks]}, path).parts
        if not parts and (text := text_at(piece, "text")):
            parts = (Text(text),)
        parts = (*parts, *_attached(piece))
        kind: Kind = "message" if parts else "display"
        return Message("assistant" if role == "assistant" else "user", parts, kind=kind, at=at)

    def make(self, message: Message, id_: str) -> Iterable[Record]:
        made: dict[str, Json] = {"uuid": id_, "sender": "assistant" if message.role == "assistant" else "human"}
        content: list[Json] = []
        for part in message.parts:
            match part:
                case Text():
                    content.append({"type": "text", "text": part.text})
                case Reasoning():
                    content.append({"type": "thinking", "thinking": part.text})
                case ToolCall():
                    content.append({"type": "tool_use", "id": part.id, "name": part.name, "input": part.arguments})
        if message.tool_results:
            made["sender"] = "assistant"
            content = [
                {"type": "tool_result", "tool_use_id": part.call_id, "name": part.name, "content": result_text(part)}
                for part in message.tool_results
            ]
        moment = {"created_at": time_text(message.at)} if message.at else {}
        yield {**made, "text": message.text, "content": content, **moment, "attachments": [], "files": []}

    def make_conversation(self, id_: str) -> dict[str, Json]:
        return {"uuid": id_, "name": ""}

    def write(self, messages: Sequence[Message]) -> Iterator[str]:
        yield encode_json([self.conversation(messages)]) + "\n"


def _known(block: Record) -> Json:
    """Return a block as the API has it, without the fields that the export adds."""
    match block.get("type"):
        case "tool_use":
            given = block.get("input")
            arguments = given if isinstance(given, Mapping) else {"input": given}
            return {
                "type": "tool_use",
                "id": _call_id(block, "id"),
                "name": text_at(block, "name") or "",
                "input": arguments,
            }
        case "tool_result":
            content = block.get("content")
            texts = content if isinstance(content, str) else "\n".join(_texts(content))
            is_error = block.get("is_error") is True
            return {
                "type": "tool_result",
                "tool_use_id": _call_id(block, "tool_use_id"),
                "content": texts,
                "is_error": is_error,
            }
        case "thinking":
            return {"type": "thinking", "thinking": text_at(block, "thinking") or ""}
        case "text":
            return {"type": "text", "text": text_at(block, "text") or ""}
    return block


def _call_id(block: Record, key: str) -> str:
    """Return the call's id; older exports have none, so a call and its result share the tool's name."""
    return text_at(block, key) or text_at(block, "name") or "tool"


def _texts(content: Json) -> Iterator[str]:
    for one in listed_at(content):
        if text := text_at(one, "text") or text_at(one, "title") or text_at(one, "url"):
            yield text


def _attached(piece: Record) -> Iterator[Part]:
    """Yield attached files: pasted ones with their text, others by name only."""
    for file in listed_at(piece, "attachments"):
        if text := text_at(file, "extracted_content"):
            yield Text(f"{text_at(file, 'file_name') or 'attachment'}:\n{text}")
    for file in listed_at(piece, "files"):
        id_ = text_at(file, "file_uuid") or text_at(file, "file_name")
        if id_:
            yield Attachment("file", file_id=id_, name=text_at(file, "file_name"))


_FORMAT = _ClaudeAi()
parse = _FORMAT.parse
write = _FORMAT.write
