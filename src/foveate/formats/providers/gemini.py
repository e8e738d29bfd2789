"""Gemini contents: parts distinguished by the key they have, in camelCase or snake_case.

How `render` handles differences between meaning and API:

- Contents have no system role (there is `systemInstruction` for it), so system and developer text is sent as
  user text inside `<system>` tags. A caller that wants it on top removes it first.
- Consecutive assistant messages become one `model` content; the results of its calls open the next `user` content.
  Call ids are unchanged: without one, Gemini pairs by name and order.
- Thoughts and signatures are sent only if they can be Gemini's. A signature on a part that is not a call is
  a `Reasoning` without text after that part. A call of another provider gets the signature that Google
  documents for such calls, since newer models reject a call without one.
- Normal form: camelCase, results in role `user`, `args` always present. A result's `response` is read as text:
  `{"output": text}` and `{"error": text}` as that text, any other object as compact JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from foveate.errors import InvalidMessage
from foveate.formats.exchanges import (
    FamilyPart,
    PairedResult,
    Results,
    Utterance,
    exchanges,
    note_of,
    two_sided,
    wrap_system,
)
from foveate.formats.files import encode_json
from foveate.formats.parse import (
    Record,
    arguments_object,
    elements,
    image_type,
    media_of,
    optional_text,
    parse_arguments,
    record,
    record_in,
    role_of,
    text_in,
)
from foveate.turn import Attachment, Json, Message, Opaque, Part, Reasoning, Role, Text, ToolCall, ToolResult

NAME: Final = "gemini"
ROLES: Final[dict[str, Role]] = {"user": "user", "model": "assistant", "function": "tool", "system": "system"}
FOREIGN_CALL_SIGNATURE: Final = "skip_thought_signature_validator"
"""The signature that Google documents for calls that Gemini did not make."""

_CAMEL: Final = {
    "thought_signature": "thoughtSignature",
    "inline_data": "inlineData",
    "file_data": "fileData",
    "function_call": "functionCall",
    "function_response": "functionResponse",
    "mime_type": "mimeType",
    "file_uri": "fileUri",
    "display_name": "displayName",
}


def recognises(data: Json) -> bool:
    if not isinstance(data, Mapping) or "content" in data or "kind" in data:
        return False
    parts = data.get("parts")
    return not isinstance(parts, str) and isinstance(parts, Sequence)


def parse(data: Json, path: str) -> Message:
    content = record(data, path)
    # The API takes a content without a role as the user's.
    role = "user" if content.get("role") in (None, "") else role_of(content, path, ROLES)
    if "parts" not in content:
        raise InvalidMessage(f"{path}.parts", "is missing; it must be a list of parts")
    return Message(
        role,
        tuple(
            part for element, where in elements(content["parts"], f"{path}.parts") for part in _parse(element, where)
        ),
    )


def _camel(data: Record) -> Record:
    return {_CAMEL.get(key, key): value for key, value in data.items()}


def _parse(data: Record, path: str) -> list[Part]:
    keyed = _camel(data)
    signature = optional_text(keyed, "thoughtSignature", path)
    if "functionCall" in keyed:
        call = record_in(keyed, "functionCall", path)
        where = f"{path}.functionCall"
        arguments = parse_arguments(call.get("args"), f"{where}.args")
        call_id = optional_text(call, "id", where)
        return [ToolCall(text_in(call, "name", where), arguments, id=call_id, signature=signature)]
    if "text" in keyed and keyed.get("thought") is True:
        return [Reasoning(text_in(keyed, "text", path), signature=signature)]
    if "functionResponse" in keyed:
        part: Part = _parse_response(record_in(keyed, "functionResponse", path), f"{path}.functionResponse")
    else:
        part = parse_part(data, path)
    if signature is None or isinstance(part, Opaque):
        return [part]
    return [part, Reasoning("", signature=signature)]


def parse_part(data: Record, path: str) -> Text | Attachment | Opaque:
    keyed = _camel(data)
    if "text" in keyed:
        return Text(text_in(keyed, "text", path))
    if "inlineData" in keyed:
        blob = _camel(record_in(keyed, "inlineData", path))
        where = f"{path}.inlineData"
        media_type = optional_text(blob, "mimeType", where)
        return Attachment(
            media_of(media_type),
            data=text_in(blob, "data", where),
            media_type=media_type,
            name=optional_text(blob, "displayName", where),
        )
    if "fileData" in keyed:
        file = _camel(record_in(keyed, "fileData", path))
        where = f"{path}.fileData"
        media_type = optional_text(file, "mimeType", where)
        return Attachment(
            media_of(media_type),
            uri=text_in(file, "fileUri", where),
            media_type=media_type,
            name=optional_text(file, "displayName", where),
        )
    return Opaque(NAME, data)


def _parse_response(data: Record, path: str) -> ToolResult:
    response = record_in(data, "response", path)
    text, is_error = _response_text(response)
    content: list[Text | Attachment | Opaque] = [Text(text)] if text else []
    for element, where in elements(data.get("parts") or (), f"{path}.parts"):
        content.append(parse_part(element, where))
    call_id = optional_text(data, "id", path)
    return ToolResult(call_id, tuple(content), name=text_in(data, "name", path), is_error=is_error)


def _response_text(response: Record) -> tuple[str, bool]:
    if len(response) == 1:
        (key, value), *_ = response.items()
        if key in ("output", "error") and isinstance(value, str):
            return value, key == "error"
    return encode_json(response), False


def render(messages: Sequence[Message]) -> list[Json]:
    return [
        {"role": "model" if is_model else "user", "parts": parts}
        for is_model, parts in two_sided(exchanges(messages, None), _render_entry)
    ]


def _render_entry(entry: Utterance | Results) -> list[Record]:
    if isinstance(entry, Results):
        return [_render_answer(answer) for answer in entry.answers]
    return _render_utterance(entry)


def _render_utterance(utterance: Utterance) -> list[Record]:
    parts: list[Record] = []
    for piece in utterance.pieces:
        part = piece.part
        if isinstance(part, Reasoning):
            if piece.may_be_of(NAME):
                _add_reasoning(parts, part)
        elif isinstance(part, ToolCall):
            first = not any("functionCall" in rendered for rendered in parts)
            parts.append(_render_call(part, piece, is_first=first))
        elif isinstance(part, Text):
            wrapped = wrap_system(part.text) if utterance.role in ("system", "developer") else part.text
            parts.append({"text": wrapped})
        elif isinstance(part, Attachment | Opaque):
            parts.append(_render_content(part, own=piece.may_be_of(NAME)))
    return [part for part in parts if part != {"text": ""}]


def _add_reasoning(parts: list[Record], reasoning: Reasoning) -> None:
    if reasoning.text:
        thought: dict[str, Json] = {"text": reasoning.text, "thought": True}
        parts.append({**thought, "thoughtSignature": reasoning.signature} if reasoning.signature else thought)
    elif reasoning.signature:
        takes_it = parts and "functionCall" not in parts[-1] and "thoughtSignature" not in parts[-1]
        signed = parts.pop() if takes_it else {"text": ""}
        parts.append({**signed, "thoughtSignature": reasoning.signature})


def _render_call(call: ToolCall, piece: FamilyPart, *, is_first: bool) -> Record:
    named: dict[str, Json] = {"id": call.id} if call.id else {}
    part = {"functionCall": {**named, "name": call.name, "args": arguments_object(call.arguments)}}
    if call.signature and piece.may_be_of(NAME):
        return {**part, "thoughtSignature": call.signature}
    if is_first and not piece.may_be_of(NAME):
        return {**part, "thoughtSignature": FOREIGN_CALL_SIGNATURE}
    return part


def _render_content(part: Attachment | Opaque, *, own: bool) -> Record:
    if isinstance(part, Opaque):
        return part.data if part.format == NAME and isinstance(part.data, Mapping) else {"text": note_of(part)}
    named: dict[str, Json] = {"displayName": part.name} if part.name else {}
    if part.data is not None and part.media_type is not None:
        return {"inlineData": {"mimeType": part.media_type, "data": part.data, **named}}
    if part.uri is not None and (own or part.media_type is not None):
        media_type = part.media_type or (image_type(part.uri) if part.media == "image" else None)
        typed: dict[str, Json] = {"mimeType": media_type} if media_type else {}
        return {"fileData": {**typed, "fileUri": part.uri, **named}}
    return {"text": note_of(part)}


def _render_answer(answer: PairedResult) -> Record:
    result = answer.result
    texts: list[str] = []
    parts: list[Record] = []
    for part in result.content:
        if isinstance(part, Text):
            texts.append(part.text)
            continue
        rendered = _render_content(part, own=answer.family in (NAME, None))
        note = rendered.get("text")
        if isinstance(note, str):
            texts.append(note)
        else:
            parts.append(rendered)
    named: dict[str, Json] = {"id": result.call_id} if result.call_id else {}
    response: dict[str, Json] = {**named, "name": result.name or result.call_id or "unknown"}
    response["response"] = _response("\n".join(texts), is_error=result.is_error)
    return {"functionResponse": {**response, "parts": parts} if parts else response}


def _response(text: str, *, is_error: bool) -> Record:
    """Invert how a response is read: an object only if its text is exactly the one that would be read from it."""
    if is_error:
        return {"error": text}
    value = parse_arguments(text, "response")
    if isinstance(value, Mapping) and _response_text(value) == (text, False):
        return value
    return {"output": text}
