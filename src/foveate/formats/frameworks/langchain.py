"""LangChain's messages as its `message_to_dict` writes them: a type, and the fields of the message.

How `render` handles differences between meaning and framework: content is LangChain's standard content, which its
integrations convert for their provider; reasoning is omitted, since a provider accepts only its own, which is in the
original.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, get_args

from foveate.errors import InvalidMessage
from foveate.formats import CALL_IDS
from foveate.formats.exchanges import PairedResult, Results, Utterance, exchanges, note_of, plain_or_list
from foveate.formats.parse import (
    Media,
    Record,
    UsageKeys,
    arguments_object,
    elements,
    from_uri,
    image_type,
    media_of,
    optional_text,
    record,
    record_in,
    text_at,
    text_in,
)
from foveate.turn import Attachment, Json, Message, Opaque, Part, Reasoning, Role, Text, ToolCall, ToolResult

NAME: Final = "langchain"
ROLES: Final[dict[str, Role]] = {
    "human": "user",
    "HumanMessageChunk": "user",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "tool": "tool",
    "ToolMessageChunk": "tool",
    "function": "tool",
    "system": "system",
    "SystemMessageChunk": "system",
}
_CALLS: Final = ("tool_use", "tool_call", "tool_call_chunk", "function_call", "input_json_delta", "invalid_tool_call")
"""Blocks that repeat what is in `tool_calls`."""
_MEDIA: Final = get_args(Media)
_USAGE: Final = UsageKeys(
    "input_tokens",
    "output_tokens",
    "input_token_details.cache_read",
    "input_token_details.cache_creation",
    "output_token_details.reasoning",
)


def recognises(data: Json) -> bool:
    if not isinstance(data, Mapping) or data.get("type") not in tuple(ROLES):
        return False
    inner = data.get("data")
    return isinstance(inner, Mapping) and "content" in inner


def parse(data: Json, path: str) -> Message:
    message = record(data, path)
    kind, fields, where = text_in(message, "type", path), record_in(message, "data", path), f"{path}.data"
    role = ROLES.get(kind)
    if role is None:
        raise InvalidMessage(f"{path}.type", f"{kind!r} is no message; available: {', '.join(ROLES)}")
    said = tuple(_parse_content(fields.get("content"), f"{where}.content"))
    name = optional_text(fields, "name", where)
    if role == "tool":
        content = tuple(part for part in said if isinstance(part, Text | Attachment | Opaque))
        call_id, is_error = optional_text(fields, "tool_call_id", where), fields.get("status") == "error"
        return Message(role, (ToolResult(call_id, content, name=name, is_error=is_error),))
    if role != "assistant":
        return Message(role, said, name=name)
    thought = text_at(fields, "additional_kwargs", "reasoning_content")
    reasoning = (Reasoning(thought),) if thought else ()
    calls = tuple(_parse_calls(fields, where))
    details = ("response_metadata", "model_name"), ("response_metadata", "model")
    model = next((found for keys in details if (found := text_at(fields, *keys))), None)
    return Message(
        role, (*reasoning, *said, *calls), name=name, model=model, usage=_USAGE.read(fields.get("usage_metadata"))
    )


def _parse_content(content: Json, path: str) -> Iterator[Part]:
    if isinstance(content, str):
        if content:
            yield Text(content)
        return
    for index, block in enumerate(content if isinstance(content, Sequence) else ()):
        if isinstance(block, str):
            yield Text(block)
        elif isinstance(block, Mapping):
            yield from _parse_block(block, f"{path}[{index}]")


def _parse_block(block: Record, path: str) -> Iterator[Part]:
    match block.get("type"):
        case "text":
            yield Text(text_in(block, "text", path))
        case "thinking":
            yield Reasoning(text_in(block, "thinking", path), signature=optional_text(block, "signature", path))
        case "redacted_thinking":
            yield Reasoning("", encrypted=text_in(block, "data", path))
        case "reasoning" if isinstance(block.get("reasoning"), str):
            proof = text_at(block, "extras", "signature") or text_at(block, "signature")
            yield Reasoning(text_in(block, "reasoning", path), signature=proof)
        case "image_url":
            url = text_at(block, "image_url", "url") or text_in(block, "image_url", path)
            yield from_uri("image", url)
        case str(kind) if kind in _MEDIA:
            yield _parse_media(block) or Opaque(NAME, block)
        case kind if kind not in _CALLS:
            yield Opaque(NAME, block)


def _parse_media(block: Record) -> Attachment | None:
    """Parse an image, a sound, a video or a file: standard content of both versions, or Anthropic's source."""
    source = block.get("source")
    given = source if isinstance(source, Mapping) else block
    media_type = text_at(given, "mime_type") or text_at(given, "media_type")
    media = media_of(media_type) if media_type else next(kind for kind in _MEDIA if kind == block.get("type"))
    if data := text_at(given, "base64") or text_at(given, "data"):
        return Attachment(media, data=data, media_type=media_type)
    if url := text_at(given, "url"):
        return Attachment(media, uri=url, media_type=media_type or (image_type(url) if media == "image" else None))
    file_id = text_at(given, "file_id") or text_at(given, "id")
    return Attachment(media, file_id=file_id, media_type=media_type) if file_id else None


def _parse_calls(fields: Record, path: str) -> Iterator[ToolCall]:
    for key in ("tool_calls", "invalid_tool_calls"):
        for call, where in elements(fields.get(key) or [], f"{path}.{key}"):
            arguments = call.get("args")
            name = optional_text(call, "name", where) or "tool"
            yield ToolCall(name, {} if arguments is None else arguments, id=optional_text(call, "id", where))


def render(messages: Sequence[Message]) -> list[Json]:
    rendered: list[Json] = []
    for entry in exchanges(messages, CALL_IDS):
        if isinstance(entry, Results):
            rendered.extend(_render_result(answer) for answer in entry.answers)
        elif entry.role == "assistant":
            rendered.extend(_render_assistant(entry))
        else:
            kind = "system" if entry.role in ("system", "developer") else "human"
            content = [_render_part(piece.part) for piece in entry.pieces]
            named: Record = {"name": entry.name} if entry.name else {}
            rendered.append(_message(kind, {"content": plain_or_list(content), **named}))
    return rendered


def _message(kind: str, fields: Record) -> Json:
    return {"type": kind, "data": {"type": kind, **fields}}


def _render_assistant(said: Utterance) -> list[Json]:
    content: list[Record] = []
    calls: list[Record] = []
    for piece in said.pieces:
        part = piece.part
        if isinstance(part, ToolCall):
            arguments = dict(arguments_object(part.arguments))
            calls.append({"name": part.name, "args": arguments, "id": part.id, "type": "tool_call"})
        elif not isinstance(part, Reasoning):
            content.append(_render_part(part))
    if not content and not calls:
        return []
    return [_message("ai", {"content": plain_or_list(content) if content else "", "tool_calls": calls})]


def _render_result(answer: PairedResult) -> Json:
    result = answer.result
    fields: dict[str, Json] = {
        "content": plain_or_list([_render_part(part) for part in result.content]) if result.content else "",
        "tool_call_id": result.call_id or "",
        "status": "error" if result.is_error else "success",
    }
    return _message("tool", {**fields, "name": result.name} if result.name else fields)


def _render_part(part: Part) -> Record:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Attachment(media=media, data=str(data)):
            media_type = part.media_type or ("image/png" if media == "image" else "application/octet-stream")
            return {"type": media, "base64": data, "mime_type": media_type}
        case Attachment(media=media, uri=str(uri)):
            typed: Record = {"mime_type": part.media_type} if part.media_type else {}
            return {"type": media, "url": uri, **typed}
        case Opaque(format=own, data=data) if own == NAME and isinstance(data, Mapping):
            return data
        case Attachment() | Opaque():
            return {"type": "text", "text": note_of(part)}
    raise AssertionError(f"exchanges leave no {type(part).__name__} in what was said")
