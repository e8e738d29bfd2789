"""Anthropic Messages: content as text or blocks, thinking with its signature next to the calls it led to.

How `render` handles differences between meaning and API:

- Not every model has a system role in messages (the system prompt is a field of the request), so system and
  developer text is sent as user text inside `<system>` tags. A caller that wants it on top removes it first.
- Consecutive assistant messages become one; all results of its calls open the next user message.
- Thinking is sent only with Anthropic's own signature. Another provider's reasoning is not part of the conversation and
  is omitted. Text without a visible character is omitted too: the API rejects it.
- Normal form: a single text is written as plain text. `cache_control`, citations and other hints are only in the
  original.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Final

from foveate.formats.exchanges import (
    FamilyPart,
    PairedResult,
    Results,
    Utterance,
    exchanges,
    note_of,
    plain_or_list,
    two_sided,
    wrap_system,
)
from foveate.formats.parse import (
    ANTHROPIC_USAGE,
    ContentBlock,
    Media,
    Record,
    arguments_object,
    optional_text,
    parse_content,
    record,
    record_in,
    role_of,
    text_in,
)
from foveate.turn import Attachment, Json, Message, Opaque, Part, Reasoning, Role, Text, ToolCall, ToolResult

NAME: Final = "anthropic"
ROLES: Final[dict[str, Role]] = {"user": "user", "assistant": "assistant", "system": "system"}
CALL_IDS: Final = re.compile(r"[a-zA-Z0-9_-]+")
"""The API rejects other ids; calls of other providers get a valid one."""

IMAGE_TYPES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")
OWN_BLOCKS: Final = ("tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use")


def recognises(data: Json) -> bool:
    if not isinstance(data, Mapping) or "role" not in data:
        return False
    content = data.get("content")
    if isinstance(content, str) or not isinstance(content, Sequence):
        return False
    return "stop_reason" in data or any(isinstance(block, Mapping) and _is_own_block(block) for block in content)


def _is_own_block(block: Record) -> bool:
    kind = block.get("type")
    if kind in OWN_BLOCKS or "cache_control" in block:
        return True
    return kind in ("image", "document") and "source" in block


def parse(data: Json, path: str) -> Message:
    message = record(data, path)
    role = role_of(message, path, ROLES)
    return Message(
        role,
        parse_content(message.get("content"), f"{path}.content", _parse_block),
        model=optional_text(message, "model", path),
        usage=ANTHROPIC_USAGE.read(message.get("usage")),
    )


def _parse_block(block: ContentBlock) -> Part:
    data, path = block.data, block.path
    match block.type:
        case "thinking":
            return Reasoning(text_in(data, "thinking", path), signature=optional_text(data, "signature", path))
        case "redacted_thinking":
            return Reasoning("", encrypted=text_in(data, "data", path))
        case "tool_use":
            arguments = record_in(data, "input", path)
            return ToolCall(text_in(data, "name", path), arguments, id=text_in(data, "id", path))
        case "tool_result":
            return _parse_result(data, path)
    return parse_shown(block)


def _parse_result(data: Record, path: str) -> ToolResult:
    content = data.get("content")
    parts = () if content is None else parse_content(content, f"{path}.content", parse_shown)
    return ToolResult(text_in(data, "tool_use_id", path), parts, is_error=data.get("is_error") is True)


def parse_shown(block: ContentBlock) -> Text | Attachment | Opaque:
    """Parse a block that both a message and a result may hold."""
    if block.type == "text":
        return Text(text_in(block.data, "text", block.path))
    if block.type in ("image", "document"):
        return _parse_attachment(block) or Opaque(NAME, block.data)
    return Opaque(NAME, block.data)


def _parse_attachment(block: ContentBlock) -> Attachment | None:
    source = record_in(block.data, "source", block.path)
    path = f"{block.path}.source"
    media: Media = "image" if block.type == "image" else "file"
    name = optional_text(block.data, "title", block.path)
    match source.get("type"):
        case "base64":
            data, media_type = text_in(source, "data", path), text_in(source, "media_type", path)
            return Attachment(media, data=data, media_type=media_type, name=name)
        case "url":
            return Attachment(media, uri=text_in(source, "url", path), name=name)
        case "file":
            return Attachment(media, file_id=text_in(source, "file_id", path), name=name)
        case "text":
            encoded = base64.b64encode(text_in(source, "data", path).encode(errors="surrogatepass")).decode()
            return Attachment(media, data=encoded, media_type="text/plain", name=name)
    return None


def render(messages: Sequence[Message]) -> list[Json]:
    return [
        {"role": "assistant" if is_model else "user", "content": plain_or_list(content)}
        for is_model, content in two_sided(exchanges(messages, CALL_IDS), _render_entry)
    ]


def _render_entry(entry: Utterance | Results) -> list[Record]:
    if isinstance(entry, Results):
        return [_render_answer(answer) for answer in entry.answers]
    return [block for piece in entry.pieces for block in _render_part(piece, role=entry.role)]


def _render_answer(answer: PairedResult) -> Record:
    result = answer.result
    content = [block for part in result.content for block in _render_part(FamilyPart(part, answer.family), role="tool")]
    rendered: dict[str, Json] = {"type": "tool_result", "tool_use_id": result.call_id}
    rendered["content"] = plain_or_list(content)
    return {**rendered, "is_error": True} if result.is_error else rendered


def _render_part(piece: FamilyPart, *, role: Role) -> list[Record]:
    part = piece.part
    block: Record | None = None
    match part:
        case Text():
            return _text(part.text, role)
        case Reasoning():
            return _render_reasoning(piece, part)
        case ToolCall():
            block = {"type": "tool_use", "id": part.id, "name": part.name, "input": arguments_object(part.arguments)}
        case Opaque(data=Mapping() as data) if part.format == NAME:
            block = data
        case Attachment() if role in ("user", "tool"):
            block = _render_attachment(part, own=piece.may_be_of(NAME))
    if block is None and isinstance(part, Attachment | Opaque):
        return _text(note_of(part), role)
    return [block] if block else []


def _text(text: str, role: Role) -> list[Record]:
    if not text.strip():
        return []
    return [{"type": "text", "text": wrap_system(text) if role in ("system", "developer") else text}]


def _render_reasoning(piece: FamilyPart, reasoning: Reasoning) -> list[Record]:
    if not piece.may_be_of(NAME):
        return []
    if reasoning.signature is not None:
        return [{"type": "thinking", "thinking": reasoning.text, "signature": reasoning.signature}]
    # An id is OpenAI's: Anthropic's encrypted thinking has none.
    if reasoning.encrypted is not None and reasoning.id is None:
        return [{"type": "redacted_thinking", "data": reasoning.encrypted}]
    return []


def _render_attachment(attachment: Attachment, *, own: bool) -> Record | None:
    source = _render_source(attachment, own=own)
    if source is None or attachment.media not in ("image", "file"):
        return None
    if attachment.media == "image":
        return {"type": "image", "source": source}
    titled: Record = {"title": attachment.name} if attachment.name else {}
    return {"type": "document", "source": source, **titled}


def _render_source(attachment: Attachment, *, own: bool) -> Record | None:
    data, media_type = attachment.data, attachment.media_type
    if attachment.file_id is not None and own:
        return {"type": "file", "file_id": attachment.file_id}
    if attachment.uri is not None and attachment.uri.startswith(("https:", "http:")):
        return {"type": "url", "url": attachment.uri}
    if data is None or media_type is None:
        return None
    if media_type in (IMAGE_TYPES if attachment.media == "image" else ("application/pdf",)):
        return {"type": "base64", "media_type": media_type, "data": data}
    text = _plain_text(data) if attachment.media == "file" and media_type.startswith("text/") else None
    return None if text is None else {"type": "text", "media_type": "text/plain", "data": text}


def _plain_text(data: str) -> str | None:
    try:
        return base64.b64decode(data, validate=True).decode(errors="surrogatepass")
    except ValueError:
        return None
