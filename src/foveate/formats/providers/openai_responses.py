"""OpenAI Responses input items: a message, reasoning, a call and its output are separate items.

How `render` handles differences between meaning and API:

- Reasoning is sent only with OpenAI's own proof, its id or encrypted content. Another provider's reasoning is not
  part of the conversation and is omitted.
- Calls that the caller runs (shell, patches, computer) are read as calls of that name and written as function
  calls. Calls of tools that OpenAI runs itself are kept unchanged.
- Normal form: messages as `{role, content}`, content that is a single text as plain text; a function's object
  of arguments as compact JSON; arguments that are text as a custom call's input; an output whose call is
  elsewhere as a function's; summaries of one reasoning item joined, its `content` (if a server sends it)
  as the summary. Item ids of messages and calls, `status` and annotations are only in the original.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import count
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
    render_input_audio,
    role_of,
    text_in,
)
from foveate.turn import Attachment, Json, Message, Opaque, Reasoning, Role, Text, ToolCall, ToolResult

NAME: Final = "openai-responses"
FAMILY: Final = "openai"
ROLES: Final[dict[str, Role]] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "developer",
}
CALL_IDS: Final = re.compile(r"[!-~]{1,64}")
"""The API rejects longer ids."""

CALLER_RUN: Final = {
    "local_shell_call": "action",
    "shell_call": "action",
    "computer_call": "action",
    "apply_patch_call": "operation",
}
"""Built-in calls that the caller answers, and the key of their arguments."""

_CONTENT_TYPES: Final = ("input_", "output_")
_ITEM_ENDINGS: Final = ("_call", "_output")
_OTHER_ITEMS: Final = ("reasoning", "item_reference", "compaction", "mcp_list_tools", "mcp_approval_request")
_OPTIONAL_IDS: Final = ("message", "reasoning", "function_call", "custom_tool_call")
"""Items that a request may send without their ids."""


def recognises(data: Json) -> bool:
    if not isinstance(data, Mapping):
        return False
    kind = data.get("type")
    if isinstance(kind, str) and "role" not in data:
        return kind.endswith(_ITEM_ENDINGS) or kind in _OTHER_ITEMS
    content = data.get("content")
    if isinstance(content, str) or not isinstance(content, Sequence):
        return False
    # `input_audio` is in both of OpenAI's formats.
    kinds = [block.get("type") for block in content if isinstance(block, Mapping)]
    return any(isinstance(kind, str) and kind.startswith(_CONTENT_TYPES) and kind != "input_audio" for kind in kinds)


def parse(data: Json, path: str) -> Message:
    item = record(data, path)
    if item.get("type") in (None, "message"):
        role = role_of(item, path, ROLES)
        if item.get("content") is None:
            raise InvalidMessage(f"{path}.content", f"is missing; a {role} message needs text or a list of blocks")
        return Message(role, parse_content(item["content"], f"{path}.content", parse_block))
    kind = text_in(item, "type", path)
    if kind == "reasoning":
        return Message("assistant", (_parse_reasoning(item, path),))
    if kind in ("function_call", "custom_tool_call") or kind in CALLER_RUN:
        return Message("assistant", (_parse_call(kind, item, path),))
    if kind in ("function_call_output", "custom_tool_call_output") or kind.removesuffix("_output") in CALLER_RUN:
        return Message("tool", (_parse_result(item, path),))
    from_caller = kind.endswith(("_output", "_response"))
    return Message("tool" if from_caller else "assistant", (Opaque(NAME, item),))


def parse_block(block: ContentBlock) -> Text | Attachment | Opaque:
    data, path = block.data, block.path
    match block.type:
        case "input_text" | "output_text" | "text":
            return Text(text_in(data, "text", path))
        case "refusal":
            return Text(text_in(data, "refusal", path))
        case "input_image" | "computer_screenshot":
            return _parse_image(data, path)
        case "input_file":
            return _parse_file(data, path)
        case "input_audio":
            return parse_input_audio(data, path)
    return Opaque(NAME, data)


def _parse_image(data: Record, path: str) -> Attachment:
    if data.get("file_id") is not None:
        return Attachment("image", file_id=text_in(data, "file_id", path))
    return from_uri("image", text_in(data, "image_url", path))


def _parse_file(data: Record, path: str) -> Attachment:
    name = optional_text(data, "filename", path)
    if data.get("file_id") is not None:
        return Attachment("file", file_id=text_in(data, "file_id", path), name=name)
    if data.get("file_url") is not None:
        return Attachment("file", uri=text_in(data, "file_url", path), name=name)
    return from_uri("file", text_in(data, "file_data", path), name)


def _parse_reasoning(item: Record, path: str) -> Reasoning:
    # Servers of open models return the thinking itself; OpenAI returns a summary.
    key = "content" if item.get("content") else "summary"
    texts = [text_in(element, "text", where) for element, where in elements(item.get(key) or (), f"{path}.{key}")]
    encrypted = optional_text(item, "encrypted_content", path)
    return Reasoning("\n\n".join(texts), encrypted=encrypted, id=optional_text(item, "id", path))


def _parse_call(kind: str, item: Record, path: str) -> ToolCall:
    if kind in CALLER_RUN:
        arguments = item.get(CALLER_RUN[kind], {})
        call_id = optional_text(item, "call_id", path) or optional_text(item, "id", path)
        return ToolCall(kind.removesuffix("_call"), arguments, id=call_id)
    name, call_id = text_in(item, "name", path), text_in(item, "call_id", path)
    if kind == "custom_tool_call":
        return ToolCall(name, text_in(item, "input", path), id=call_id)
    return ToolCall(name, parse_arguments(item.get("arguments"), f"{path}.arguments"), id=call_id)


def _parse_result(item: Record, path: str) -> ToolResult:
    # A local shell's output names its call by `id`.
    call_id = optional_text(item, "call_id", path) or text_in(item, "id", path)
    output = item.get("output")
    where = f"{path}.output"
    content: tuple[Text | Attachment | Opaque, ...]
    if item["type"] == "shell_call_output" and not isinstance(output, str):
        content = tuple(part for chunk, at in elements(output, where) for part in _shell_output(chunk, at))
    elif isinstance(output, Mapping):
        content = (parse_block(ContentBlock(text_in(output, "type", where), output, where)),)
    else:
        content = () if output is None else parse_content(output, where, parse_block)
    return ToolResult(call_id, content)


def _shell_output(chunk: Record, path: str) -> list[Text]:
    streams = (optional_text(chunk, stream, path) for stream in ("stdout", "stderr"))
    return [Text(stream) for stream in streams if stream]


def render(messages: Sequence[Message]) -> list[Json]:
    items: list[Json] = []
    for entry in exchanges(messages, CALL_IDS):
        if isinstance(entry, Results):
            items.extend(_render_answer(answer) for answer in entry.answers)
        elif entry.role == "assistant":
            items.extend(_render_assistant(entry))
        else:
            items.extend(_render_input(entry))
    return items


def unique_ids(items: Sequence[Record]) -> list[Record]:
    """Return the items of a request with each id once: a repeated one is removed or, where it is required, changed.

    The API rejects an id that occurs twice, but some servers give every answer the same ids, and a program may record
    an answer twice.
    """
    used: set[str] = set()
    kept: list[Record] = []
    for item in items:
        name = item.get("id")
        if isinstance(name, str) and name and item.get("type") != "item_reference":
            if name in used:
                item = _with_other_id(item, name, used)  # noqa: PLW2901 - sent instead
            used.add(str(item.get("id")))
        if item:
            kept.append(item)
    return kept


def _with_other_id(item: Record, name: str, used: Collection[str]) -> Record:
    """Return an item whose id is taken; nothing if it is only a reference to reasoning that the provider stores."""
    kind = str(item.get("type", "message"))
    if kind == "reasoning" and not item.get("encrypted_content"):
        return {}
    if kind in _OPTIONAL_IDS or kind.endswith("_output"):
        return {key: value for key, value in item.items() if key != "id"}
    return {**item, "id": next(new for number in count(2) if (new := f"{name}_{number}") not in used)}


def _render_assistant(utterance: Utterance) -> list[Json]:
    if not utterance.pieces:
        return [{"role": "assistant", "content": ""}]
    items: list[Json] = []
    spoken: list[Record] = []
    for piece in utterance.pieces:
        item = _render_item(piece)
        if item is None and not isinstance(piece.part, Reasoning):
            spoken.append(_render_part(piece, role="assistant"))
        elif item is not None:
            items += [*_spoken("assistant", spoken), item]
            spoken = []
    return [*items, *_spoken("assistant", spoken)]


def _render_input(utterance: Utterance) -> list[Json]:
    own_items = [piece for piece in utterance.pieces if _render_item(piece) is not None]
    content = [_render_part(piece, role=utterance.role) for piece in utterance.pieces if piece not in own_items]
    items: list[Json] = [_render_item(piece) for piece in own_items]
    return [*items, *_spoken(utterance.role, content)] if content or not items else items


def _spoken(role: Role, content: list[Record]) -> list[Json]:
    if role == "assistant" and not content:
        return []
    plain = plain_or_list(content)
    if role == "assistant" and not isinstance(plain, str):
        return [{"type": "message", "role": role, "content": plain}]
    return [{"role": role, "content": plain}]


def _render_item(piece: FamilyPart) -> Record | None:
    """Render the part as a separate item; None if it belongs to a message, or can't be rendered here."""
    part = piece.part
    if isinstance(part, Reasoning):
        return _render_reasoning(part) if piece.may_be_of(FAMILY) else None
    if isinstance(part, ToolCall):
        called: Record = {"call_id": part.id, "name": part.name}
        if isinstance(part.arguments, str):
            return {"type": "custom_tool_call", **called, "input": part.arguments}
        return {"type": "function_call", **called, "arguments": arguments_text(part.arguments)}
    if isinstance(part, Opaque) and part.format == NAME and isinstance(part.data, Mapping):
        return None if _is_content(part.data) else part.data
    return None


def _is_content(data: Record) -> bool:
    kind = data.get("type")
    return isinstance(kind, str) and kind.startswith(_CONTENT_TYPES)


def _render_reasoning(reasoning: Reasoning) -> Record | None:
    if reasoning.id is None and reasoning.encrypted is None:
        return None
    named: Record = {"id": reasoning.id} if reasoning.id is not None else {}
    summary = [{"type": "summary_text", "text": reasoning.text}] if reasoning.text else []
    sealed: Record = {"encrypted_content": reasoning.encrypted} if reasoning.encrypted is not None else {}
    return {"type": "reasoning", **named, "summary": summary, **sealed}


def _render_answer(answer: PairedResult) -> Record:
    custom = answer.call is not None and isinstance(answer.call.arguments, str)
    content = [_render_part(FamilyPart(part, answer.family), role="tool") for part in answer.result.content]
    return {
        "type": "custom_tool_call_output" if custom else "function_call_output",
        "call_id": answer.result.call_id,
        "output": plain_or_list(content),
    }


def _render_part(piece: FamilyPart, *, role: Role) -> Record:
    part = piece.part
    kind = "output_text" if role == "assistant" else "input_text"
    if isinstance(part, Text):
        return {"type": kind, "text": part.text}
    if isinstance(part, Opaque) and part.format == NAME and isinstance(part.data, Mapping) and _is_content(part.data):
        return part.data
    if isinstance(part, Attachment) and role != "assistant":
        return _render_attachment(part, own=piece.may_be_of(FAMILY)) or {"type": kind, "text": note_of(part)}
    if isinstance(part, Attachment | Opaque):
        return {"type": kind, "text": note_of(part)}
    raise AssertionError(f"exchanges leave no {type(part).__name__} in what a {role} said")


def _render_attachment(attachment: Attachment, *, own: bool) -> Record | None:
    inline = data_uri(attachment)
    if attachment.media == "audio":
        return render_input_audio(attachment)
    if attachment.media == "video":
        return None
    key = "image_url" if attachment.media == "image" else "file_url"
    named: Record = {"filename": attachment.name} if attachment.name and attachment.media == "file" else {}
    kind: Record = {"type": f"input_{attachment.media}"}
    if attachment.file_id is not None and own:
        return {**kind, "file_id": attachment.file_id, **named}
    if attachment.uri is not None:
        return {**kind, key: attachment.uri, **named}
    if inline is None:
        return None
    return {**kind, "image_url" if attachment.media == "image" else "file_data": inline, **named}
