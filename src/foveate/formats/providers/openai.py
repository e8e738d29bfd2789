"""OpenAI Chat Completions: calls in the assistant's message, followed by one `tool` message per result.

How `render` handles differences between meaning and API:

- Consecutive assistant messages become one, with its text before its calls.
- Reasoning is omitted: the API has no field for it, and it is not part of the conversation. Reasoning of compatible
  servers (`reasoning_content`, `reasoning`) is only in the original.
- A tool message holds text only, so a result's attachments follow in a user message that names the result.
- Normal form: a single text is plain text, a refusal is text, `function_call` and role `function` become
  `tool_calls` and `tool`, an object of arguments is compact JSON, other arguments are a custom call's input.
  `detail` of an image, annotations and a tool message's name are only in the original.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from foveate.errors import InvalidMessage
from foveate.formats.exchanges import FamilyPart, PairedResult, Results, Utterance, exchanges, note_of, plain_or_list
from foveate.formats.parse import (
    ContentBlock,
    Record,
    arguments_text,
    data_uri,
    elements,
    from_uri,
    optional_text,
    parse_arguments,
    parse_content,
    parse_input_audio,
    record,
    record_in,
    render_input_audio,
    role_of,
    text_in,
)
from foveate.turn import Attachment, Json, Message, Opaque, Part, Reasoning, Role, Text, ToolCall, ToolResult

NAME: Final = "openai"
ROLES: Final[dict[str, Role]] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
CALL_IDS: Final = re.compile(r"[!-~]{1,40}")
"""The API rejects longer ids."""


def recognises(data: Json) -> bool:
    if not isinstance(data, Mapping) or "role" not in data:
        return False
    if data["role"] == "function" and "parts" not in data:
        return True
    if any(key in data for key in ("tool_calls", "tool_call_id", "function_call", "refusal", "reasoning_content")):
        return True
    content = data.get("content")
    if isinstance(content, str) or not isinstance(content, Sequence):
        return False
    return any(isinstance(block, Mapping) and _is_own_block(block) for block in content)


def _is_own_block(block: Record) -> bool:
    return block.get("type") == "image_url" or (block.get("type") == "file" and "file" in block)


def parse(data: Json, path: str) -> Message:
    message = record(data, path)
    role = role_of(message, path, ROLES)
    if role == "tool":
        return _parse_result(message, path)
    name = optional_text(message, "name", path)
    if role == "assistant":
        return Message(role, tuple(_parse_assistant(message, path)), name=name)
    if message.get("content") is None:
        raise InvalidMessage(f"{path}.content", f"is missing; a {role} message needs text or a list of blocks")
    return Message(role, parse_content(message["content"], f"{path}.content", parse_block), name=name)


def _parse_assistant(message: Record, path: str) -> Iterator[Part]:
    reasoning = next((key for key in ("reasoning_content", "reasoning") if isinstance(message.get(key), str)), None)
    if reasoning:
        yield Reasoning(text_in(message, reasoning, path))
    if message.get("content") is not None:
        yield from parse_content(message["content"], f"{path}.content", parse_block)
    if refusal := optional_text(message, "refusal", path):
        yield Text(refusal)
    if message.get("audio") is not None:
        audio, where = record_in(message, "audio", path), f"{path}.audio"
        if transcript := optional_text(audio, "transcript", where):
            yield Text(transcript)
        yield Attachment("audio", file_id=text_in(audio, "id", where), data=optional_text(audio, "data", where))
    if message.get("tool_calls") is not None:
        for call, where in elements(message["tool_calls"], f"{path}.tool_calls"):
            yield _parse_call(call, where)
    if message.get("function_call") is not None:
        yield _parse_function(record_in(message, "function_call", path), f"{path}.function_call", None)


def _parse_call(call: Record, path: str) -> ToolCall:
    call_id = optional_text(call, "id", path)
    if "function" in call:
        return _parse_function(record_in(call, "function", path), f"{path}.function", call_id)
    if "custom" in call:
        custom, where = record_in(call, "custom", path), f"{path}.custom"
        return ToolCall(text_in(custom, "name", where), text_in(custom, "input", where), id=call_id)
    # An unknown kind of call: its type is its name, and the value under that key its arguments.
    kind = text_in(call, "type", path)
    return ToolCall(kind, call.get(kind, {}), id=call_id)


def _parse_function(function: Record, path: str, call_id: str | None) -> ToolCall:
    arguments = parse_arguments(function.get("arguments"), f"{path}.arguments")
    return ToolCall(text_in(function, "name", path), arguments, id=call_id)


def _parse_result(message: Record, path: str) -> Message:
    name = optional_text(message, "name", path)
    legacy = message["role"] == "function"
    call_id = optional_text(message, "tool_call_id", path)
    if call_id is None and not legacy:
        raise InvalidMessage(f"{path}.tool_call_id", "is missing; a tool message names the call it answers")
    if name is None and legacy:
        raise InvalidMessage(f"{path}.name", "is missing; a function message names the function it answers for")
    content = message.get("content")
    parts = () if content is None else parse_content(content, f"{path}.content", parse_block)
    return Message("tool", (ToolResult(call_id, parts, name=name),))


def parse_block(block: ContentBlock) -> Text | Attachment | Opaque:
    data, path = block.data, block.path
    match block.type:
        case "text":
            return Text(text_in(data, "text", path))
        case "refusal":
            return Text(text_in(data, "refusal", path))
        case "image_url":
            return from_uri("image", text_in(record_in(data, "image_url", path), "url", f"{path}.image_url"))
        case "input_audio":
            return parse_input_audio(data, path)
        case "file":
            return _parse_file(record_in(data, "file", path), f"{path}.file")
    return Opaque(NAME, data)


def _parse_file(file: Record, path: str) -> Attachment:
    name = optional_text(file, "filename", path)
    if file.get("file_id") is not None:
        return Attachment("file", file_id=text_in(file, "file_id", path), name=name)
    return from_uri("file", text_in(file, "file_data", path), name)


def render(messages: Sequence[Message]) -> list[Json]:
    rendered: list[Json] = []
    for entry in exchanges(messages, CALL_IDS):
        if isinstance(entry, Results):
            rendered.extend(_render_results(entry))
        elif entry.role == "assistant":
            rendered.extend(_render_assistant(entry))
        else:
            content = [_render_part(piece, role=entry.role) for piece in entry.pieces]
            named: Record = {"name": entry.name} if entry.name else {}
            rendered.append({"role": entry.role, **named, "content": plain_or_list(content)})
    return rendered


def _render_assistant(utterance: Utterance) -> list[Json]:
    content: list[Record] = []
    calls: list[Record] = []
    audio: Record = {}
    for piece in utterance.pieces:
        part = piece.part
        if isinstance(part, ToolCall):
            calls.append(_render_call(part))
        elif isinstance(part, Attachment) and part.media == "audio" and part.file_id and piece.may_be_of(NAME):
            audio = {"audio": {"id": part.file_id}}
        elif not isinstance(part, Reasoning):
            content.append(_render_part(piece, role="assistant"))
    if utterance.pieces and not (content or calls or audio):
        return []
    named: Record = {"name": utterance.name} if utterance.name else {}
    called: Record = {"tool_calls": calls} if calls else {}
    spoken = None if not content and (calls or audio) else plain_or_list(content)
    return [{"role": "assistant", **named, "content": spoken, **audio, **called}]


def _render_call(call: ToolCall) -> Record:
    if isinstance(call.arguments, str):
        return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": call.arguments}}
    function: Record = {"name": call.name, "arguments": arguments_text(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def _render_results(results: Results) -> list[Json]:
    rendered: list[Json] = []
    attached: list[Record] = []
    for answer in results.answers:
        content, follows = _render_answer(answer)
        rendered.append({"role": "tool", "tool_call_id": answer.result.call_id, "content": plain_or_list(content)})
        if follows:
            attached += [_text(f"[Attached to the result of call {answer.result.call_id}:]"), *follows]
    return [*rendered, {"role": "user", "content": attached}] if attached else rendered


def _render_answer(answer: PairedResult) -> tuple[list[Record], list[Record]]:
    """Return what a tool message can hold, and the content that has to follow it."""
    content: list[Record] = []
    attached: list[Record] = []
    for part in answer.result.content:
        piece = FamilyPart(part, answer.family)
        block = _render_attachment(part, own=piece.may_be_of(NAME)) if isinstance(part, Attachment) else None
        content.append(_render_part(piece, role="tool"))
        if block:
            attached.append(block)
    return content, attached


def _text(text: str) -> Record:
    return {"type": "text", "text": text}


def _render_part(piece: FamilyPart, *, role: Role) -> Record:
    part = piece.part
    if isinstance(part, Text):
        return _text(part.text)
    if isinstance(part, Opaque) and part.format == NAME and isinstance(part.data, Mapping):
        return part.data
    if isinstance(part, Attachment) and role == "user":
        return _render_attachment(part, own=piece.may_be_of(NAME)) or _text(note_of(part))
    if isinstance(part, Attachment | Opaque):
        return _text(note_of(part))
    raise AssertionError(f"exchanges leave no {type(part).__name__} in what a {role} said")


def _render_attachment(attachment: Attachment, *, own: bool) -> Record | None:
    inline = data_uri(attachment)
    match attachment.media:
        case "image":
            url = attachment.uri or inline
            return {"type": "image_url", "image_url": {"url": url}} if url else None
        case "audio":
            return render_input_audio(attachment)
        case "file":
            named: Record = {"filename": attachment.name} if attachment.name else {}
            if attachment.file_id is not None and own:
                return {"type": "file", "file": {"file_id": attachment.file_id, **named}}
            return {"type": "file", "file": {"file_data": inline, **named}} if inline else None
    return None
