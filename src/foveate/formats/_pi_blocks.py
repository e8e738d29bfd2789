"""The blocks of pi's messages: their meaning, and messages of other formats written as pi would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, overload

from foveate.errors import InvalidMessage
from foveate.formats._plain import result_text
from foveate.formats._records import text_at, time_text
from foveate.formats._wording import note_of
from foveate.turn import Attachment, Json, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult


@overload
def read_content(content: Json, path: str) -> tuple[Part, ...]: ...
@overload
def read_content(content: Json, path: str, *, in_result: Literal[True]) -> tuple[Text | Attachment | Opaque, ...]: ...


def read_content(content: Json, path: str, *, in_result: bool = False) -> tuple[Part, ...]:
    """The parts of `content`, which is text or a list of blocks; nothing in it is nothing said."""
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
    """A message of another format as entries without ids; a display-only one is no entry of pi's."""
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
    """A part that pi has no block for, in words."""
    match part:
        case Text(text) | Reasoning(text):
            return text
        case Attachment() | Opaque():
            return note_of(part)
        case ToolResult():
            return result_text(part)
        case ToolCall(name):
            return f"[call of {name}]"
