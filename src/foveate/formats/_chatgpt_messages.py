"""The nodes of a ChatGPT conversation: their meaning, and messages of other formats written as nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Literal

from foveate.errors import InvalidMessage
from foveate.formats._lines import encode_json
from foveate.formats._plain import result_text, said_in
from foveate.formats._reading import parse_arguments, record, role_of
from foveate.formats._records import number_at, text_at, value_at
from foveate.turn import (
    ROLES,
    Attachment,
    Json,
    Kind,
    Message,
    Opaque,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    parse_time,
)

NAME = "chatgpt"

_Media = Literal["image", "audio", "video", "file"]
_POINTERS: dict[str, _Media] = {
    "image_asset_pointer": "image",
    "audio_asset_pointer": "audio",
    "video_container_asset_pointer": "video",
}
_CONTEXT_FIELDS = ("user_profile", "user_instructions", "model_set_context")
_TEXT_FIELDS = ("text", "result", "content", "summary")


def read_node(node: Mapping[str, Json], *, id_: str, call: str | None, path: str) -> Message:
    """The message of a node. `call` is the node of the tool call it answers, which the node itself does not tell."""
    if node.get("message") is None:
        return Message("system", kind="display")
    message = record(node["message"], f"{path}.message")
    author = record(message.get("author"), f"{path}.message.author")
    role = role_of(author, f"{path}.message.author", {name: name for name in ROLES})
    content = record(message.get("content"), f"{path}.message.content")
    parts = (*_content_parts(content), *_attached(message, content))
    at, model = seconds_at(message, "create_time"), text_at(message, "metadata", "model_slug")
    kind: Kind = "message"
    tool = called_tool(message)
    if role == "assistant" and tool:
        parts = _as_call(parts, tool, id_)
    elif role == "tool" and call:
        parts = (_as_result(parts, message, call),)
    elif role == "tool":
        role, kind = "system", "injection"
    elif not parts or content.get("content_type") == "reasoning_recap" or number_at(message, "weight") == 0:
        kind = "display"
    elif _is_context(message, content):
        kind = "injection"
    if not parts:
        kind = "display"
    return Message(role, parts, kind=kind, at=at, name=text_at(author, "name"), model=model)


def called_tool(message: Json) -> str | None:
    """The tool that a message is addressed to; None if it is to everyone."""
    recipient = text_at(message, "recipient")
    return None if recipient in (None, "all", "assistant", "user") else recipient


def seconds_at(message: Json, *path: str) -> datetime | None:
    value = number_at(message, *path)
    try:
        return None if value is None else parse_time(value)
    except InvalidMessage:
        return None


def _is_context(message: Mapping[str, Json], content: Mapping[str, Json]) -> bool:
    """Whether ChatGPT put it in unseen: memories, custom instructions, notes to the model."""
    if str(content.get("content_type")).endswith("_editable_context"):
        return True
    role = value_at(message, "author", "role")
    return role != "assistant" and value_at(message, "metadata", "is_visually_hidden_from_conversation") is True


def _content_parts(content: Mapping[str, Json]) -> Iterator[Part]:
    match content:
        case {"content_type": "thoughts", "thoughts": list(thoughts)}:
            for thought in thoughts:
                lines = [text_at(thought, "summary"), text_at(thought, "content")]
                yield Reasoning("\n".join(line for line in lines if line))
        case {"parts": list(parts)}:
            yield from (_part(part) for part in parts if part not in ("", None))
        case _:
            fields = _CONTEXT_FIELDS if any(content.get(field) for field in _CONTEXT_FIELDS) else _TEXT_FIELDS
            texts = [text for text in (text_at(content, field) for field in fields) if text]
            if texts:
                yield Text("\n\n".join(texts) if fields is _CONTEXT_FIELDS else texts[0])
            elif any(value not in ("", None, []) for key, value in content.items() if key not in _UNSAID):
                yield Opaque(NAME, content)


_UNSAID = ("content_type", "language", "response_format_name", "repository", "repo_summary", "structured_context")
"""Fields of a content that say nothing by themselves."""


def _part(part: Json) -> Part:
    if isinstance(part, str):
        return Text(part)
    kind = text_at(part, "content_type") or ""
    pointer = text_at(part, "asset_pointer")
    if kind == "audio_transcription" and (text := text_at(part, "text")):
        return Text(text)
    media = _POINTERS.get(kind)
    if media and pointer:
        return Attachment(media, uri=pointer)
    return Opaque(NAME, part)


def _attached(message: Mapping[str, Json], content: Mapping[str, Json]) -> Iterator[Attachment]:
    """Files that are listed beside the content; a picture that is also in the content counts once."""
    listed = value_at(message, "metadata", "attachments")
    parts = content.get("parts")
    inline = [text_at(part, "asset_pointer") or "" for part in parts] if isinstance(parts, list) else []
    for file in listed if isinstance(listed, list) else []:
        id_ = text_at(file, "id")
        if id_ and not any(pointer.endswith(id_) for pointer in inline):
            media_type = text_at(file, "mime_type") or text_at(file, "mimeType")
            media: _Media = "image" if (media_type or "").startswith("image/") else "file"
            yield Attachment(media, file_id=id_, name=text_at(file, "name"), media_type=media_type)


def _as_call(parts: tuple[Part, ...], tool: str, id_: str) -> tuple[Part, ...]:
    """What the assistant wrote to a tool is the call's arguments."""
    written = "\n".join(part.text for part in parts if isinstance(part, Text))
    others = tuple(part for part in parts if not isinstance(part, Text))
    return (*others, ToolCall(tool, parse_arguments(written, "arguments") if written else {}, id=id_))


def _as_result(parts: tuple[Part, ...], message: Mapping[str, Json], call: str) -> ToolResult:
    status = text_at(message, "metadata", "aggregate_result", "status") or ""
    failed = status.startswith("failed") or value_at(message, "content", "content_type") == "system_error"
    content = tuple(part if isinstance(part, Text | Attachment | Opaque) else Opaque(NAME, None) for part in parts)
    return ToolResult(call, content, name=text_at(message, "author", "name"), is_error=failed)


def write_messages(message: Message) -> Iterator[dict[str, Json]]:
    """A message of another format as ChatGPT's messages without ids: one for its words, one a call, one a result."""
    if message.kind == "display":
        return
    thoughts = [part.text for part in message.parts if isinstance(part, Reasoning) and part.text]
    if thoughts:
        steps: Json = [{"summary": "", "content": text, "finished": True} for text in thoughts]
        yield _message(message, "assistant", {"content_type": "thoughts", "thoughts": steps})
    words = said_in(message.parts)
    if words:
        yield _message(message, message.role, {"content_type": "text", "parts": words})
    for part in message.parts:
        if isinstance(part, ToolCall):
            arguments = part.arguments if isinstance(part.arguments, str) else encode_json(part.arguments)
            code: dict[str, Json] = {"content_type": "code", "language": "unknown", "text": arguments}
            yield {**_message(message, "assistant", code), "recipient": part.name}
        elif isinstance(part, ToolResult):
            output: dict[str, Json] = {"content_type": "execution_output", "text": result_text(part)}
            author: dict[str, Json] = {"role": "tool", "name": part.name}
            yield {**_message(message, "tool", output), "author": author}


def _message(message: Message, role: str, content: dict[str, Json]) -> dict[str, Json]:
    metadata: dict[str, Json] = {"model_slug": message.model} if message.model else {}
    if message.kind == "injection":
        metadata["is_visually_hidden_from_conversation"] = True
    return {
        "author": {"role": role},
        "create_time": message.at.timestamp() if message.at else None,
        "content": content,
        "weight": 1.0,
        "metadata": metadata,
        "recipient": "all",
    }
