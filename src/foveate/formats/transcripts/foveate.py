"""The canonical format: a message of `foveate.turn` as plain JSON, field for field, without defaults.

Every part has its `type`. A message always has its `kind`, which distinguishes it from other formats. The original is
not included: it is a separate record. A time without a zone is read as UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Final, get_args

from foveate.errors import InvalidMessage
from foveate.formats.parse import Media, Record, blocks, optional_text, record, role_of, text_in
from foveate.turn import (
    ROLES,
    Attachment,
    Json,
    Kind,
    Message,
    Opaque,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    parse_time,
)

KINDS: Final[dict[str, Kind]] = {kind: kind for kind in get_args(Kind)}
_ROLES: Final[dict[str, Role]] = {role: role for role in ROLES}
_MEDIA: Final[dict[str, Media]] = {media: media for media in get_args(Media)}
_TYPES: Final[dict[type[Part], str]] = {
    Text: "text",
    Reasoning: "reasoning",
    Attachment: "attachment",
    ToolCall: "tool_call",
    ToolResult: "tool_result",
    Opaque: "opaque",
}


def recognises(data: Json) -> bool:
    return isinstance(data, Mapping) and data.get("kind") in tuple(KINDS) and "role" in data and "parts" in data


def render(messages: Sequence[Message]) -> list[Json]:
    return [_render_message(message) for message in messages]


def _render_message(message: Message) -> Record:
    rendered: dict[str, Json] = {"role": message.role, "kind": message.kind}
    if message.at is not None:
        rendered["at"] = message.at.isoformat()
    if message.name is not None:
        rendered["name"] = message.name
    if message.model is not None:
        rendered["model"] = message.model
    if message.usage is not None:
        rendered["usage"] = _render_fields(message.usage)
    rendered["parts"] = [_render_part(part) for part in message.parts]
    return rendered


def _render_part(part: Part) -> Record:
    rendered = {"type": _TYPES[type(part)], **_render_fields(part)}
    if isinstance(part, ToolResult):
        rendered["content"] = [_render_part(inner) for inner in part.content]
    return rendered


def _render_fields(value: Part | Usage) -> dict[str, Json]:
    """Return every field without a default, and every other that differs from its default."""
    present = ((spec.name, spec.default, getattr(value, spec.name)) for spec in fields(value))
    return {name: held for name, default, held in present if default is MISSING or held != default}


def parse(data: Json, path: str) -> Message:
    message = record(data, path)
    role = role_of(message, path, _ROLES)
    kind = message.get("kind", "message")
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidMessage(f"{path}.kind", f"is {kind!r}; allowed are {', '.join(KINDS)}")
    if "parts" not in message:
        raise InvalidMessage(f"{path}.parts", "is missing; it must be a list of parts")
    at = optional_text(message, "at", path)
    return Message(
        role,
        _parse_parts(message["parts"], f"{path}.parts"),
        kind=KINDS[kind],
        at=None if at is None else parse_time(at, path=f"{path}.at"),
        name=optional_text(message, "name", path),
        model=optional_text(message, "model", path),
        usage=_parse_usage(message.get("usage"), f"{path}.usage"),
    )


def _parse_parts(value: Json, path: str) -> tuple[Part, ...]:
    parts: list[Part] = []
    for block in blocks(value, path):
        if block.type not in _PARSERS:
            raise InvalidMessage(f"{block.path}.type", f"is {block.type!r}; allowed are {', '.join(_PARSERS)}")
        parts.append(_PARSERS[block.type](block.data, block.path))
    return tuple(parts)


def _parse_usage(value: Json, path: str) -> Usage | None:
    if value is None:
        return None
    usage = record(value, path)
    counts = {spec.name: usage.get(spec.name, 0) for spec in fields(Usage)}
    return Usage(**{name: _whole(count, f"{path}.{name}") for name, count in counts.items()})


def _whole(value: Json, path: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidMessage(path, f"is {value!r}; it must be a whole number")
    return value


def _parse_text(data: Record, path: str) -> Text:
    return Text(text_in(data, "text", path))


def _parse_reasoning(data: Record, path: str) -> Reasoning:
    return Reasoning(
        text_in(data, "text", path),
        signature=optional_text(data, "signature", path),
        encrypted=optional_text(data, "encrypted", path),
        id=optional_text(data, "id", path),
    )


def _parse_attachment(data: Record, path: str) -> Attachment:
    media = text_in(data, "media", path)
    if media not in _MEDIA:
        raise InvalidMessage(f"{path}.media", f"is {media!r}; allowed are {', '.join(_MEDIA)}")
    texts = {name: optional_text(data, name, path) for name in ("uri", "file_id", "data", "media_type", "name")}
    return Attachment(_MEDIA[media], **texts)


def _parse_call(data: Record, path: str) -> ToolCall:
    return ToolCall(
        text_in(data, "name", path),
        _required(data, "arguments", path),
        id=optional_text(data, "id", path),
        signature=optional_text(data, "signature", path),
    )


def _parse_result(data: Record, path: str) -> ToolResult:
    content: list[Text | Attachment | Opaque] = []
    for index, part in enumerate(_parse_parts(_required(data, "content", path), f"{path}.content")):
        if not isinstance(part, Text | Attachment | Opaque):
            allowed = ", ".join(_TYPES[kind] for kind in (Text, Attachment, Opaque))
            raise InvalidMessage(f"{path}.content[{index}].type", f"is not allowed in a result; allowed are {allowed}")
        content.append(part)
    exit_code, seconds = data.get("exit_code"), data.get("duration_seconds")
    if seconds is not None and (not isinstance(seconds, int | float) or isinstance(seconds, bool)):
        raise InvalidMessage(f"{path}.duration_seconds", f"is {seconds!r}; it must be a number")
    return ToolResult(
        optional_text(data, "call_id", path),
        tuple(content),
        name=optional_text(data, "name", path),
        is_error=data.get("is_error") is True,
        exit_code=None if exit_code is None else _whole(exit_code, f"{path}.exit_code"),
        duration_seconds=seconds,
    )


def _parse_opaque(data: Record, path: str) -> Opaque:
    return Opaque(text_in(data, "format", path), _required(data, "data", path))


def _required(data: Record, key: str, path: str) -> Json:
    if key not in data:
        raise InvalidMessage(f"{path}.{key}", "is missing")
    return data[key]


_PARSERS: Final[dict[str, Callable[[Record, str], Part]]] = {
    "text": _parse_text,
    "reasoning": _parse_reasoning,
    "attachment": _parse_attachment,
    "tool_call": _parse_call,
    "tool_result": _parse_result,
    "opaque": _parse_opaque,
}
