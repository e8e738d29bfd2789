"""Strict validators: what each provider's API documents and rejects, checked on a whole request without a network.

    for fault in faults("anthropic", context.request("anthropic")):
        print(fault)                      # messages[3].content[0].text: has no visible character

They are written against the providers' documentation and error messages, apart from the renderer, and are stricter
than the APIs where servers of the same protocol differ: what passes here passes everywhere.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

Record: TypeAlias = Mapping[str, Any]
Faults: TypeAlias = Iterator[str]

MAX_BREAKPOINTS: Final = 4
MAX_OPENAI_ID_CHARS: Final = 40
MAX_RESPONSES_ID_CHARS: Final = 64
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_GEMINI_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
_ANTHROPIC_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")
_AUTHOR: Final = re.compile(r"[^\s<|\\/>]{1,64}")
_ITEM_IDS: Final = {"function_call": "fc", "custom_tool_call": "ctc", "reasoning": "rs", "message": "msg"}
_CALLS: Final = ("function_call", "custom_tool_call")
_GEMINI_KINDS: Final = (
    *("text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode", "codeExecutionResult"),
    *("inline_data", "file_data", "function_call", "function_response", "executable_code", "code_execution_result"),
)


def faults(format: str, request: Record) -> list[str]:  # noqa: A002
    """Everything a provider would reject in a request, as `Context.request` makes one."""
    check: Callable[[Record], Faults] = {
        "openai": _openai,
        "openai-responses": _responses,
        "anthropic": _anthropic,
        "gemini": _gemini,
    }[format]
    return [*_encodable(request), *check(request)]


def _encodable(request: Record) -> Faults:
    try:
        json.dumps(request, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, TypeError) as error:
        yield f"the request can't be written as JSON: {error}"


def _records(value: object) -> list[Record]:
    listed = value if isinstance(value, Sequence) and not isinstance(value, str) else ()
    return [record for record in listed if isinstance(record, Mapping)]


def _visible(text: object) -> bool:
    return isinstance(text, str) and bool(text.strip())


# OpenAI Chat Completions


def _openai(request: Record) -> Faults:
    messages = _records(request.get("messages"))
    if not messages:
        yield "messages: empty array"
    waiting: list[str] = []
    for index, message in enumerate(messages):
        path = f"messages[{index}]"
        role = message.get("role")
        if role not in ("system", "developer", "user", "assistant", "tool"):
            yield f"{path}.role: {role!r}"
        if role == "tool":
            answered = message.get("tool_call_id")
            if answered not in waiting:
                yield f"{path}: answers {answered!r}, which no call right before it has"
            else:
                waiting.remove(answered)
        elif waiting:
            yield f"{path}: calls {waiting} are not followed by tool messages"
            waiting = []
        yield from _openai_message(message, path)
        waiting += [str(call.get("id")) for call in _records(message.get("tool_calls"))]
    if waiting:
        yield f"messages: the last calls {waiting} have no result"
    if messages and messages[-1].get("role") not in ("user", "tool"):
        yield f"messages: ends with a message of role {messages[-1].get('role')!r}"


def _openai_message(message: Record, path: str) -> Faults:
    role, content = message.get("role"), message.get("content")
    for key, value in message.items():
        if value is None and key not in ("content", "refusal", "audio"):
            yield f"{path}.{key}: null"
    if (name := message.get("name")) is not None and not (isinstance(name, str) and _AUTHOR.fullmatch(name)):
        yield f"{path}.name: {name!r}"
    calls = message.get("tool_calls")
    if role == "assistant" and "tool_calls" in message:
        if not _records(calls):
            yield f"{path}.tool_calls: empty array"
        yield from _openai_calls(_records(calls), f"{path}.tool_calls")
    has_other = bool(calls) or message.get("function_call") is not None or message.get("audio") is not None
    if content is None:
        if role != "assistant" or not has_other:
            yield f"{path}.content: null"
    elif isinstance(content, str):
        if not content and role != "tool" and not has_other:
            yield f"{path}.content: empty text"
    else:
        allowed = {"user": ("text", "image_url", "input_audio", "file"), "assistant": ("text", "refusal")}
        yield from _openai_blocks(content, allowed.get(str(role), ("text",)), f"{path}.content")


def _openai_blocks(content: object, allowed: Sequence[str], path: str) -> Faults:
    if not _records(content):
        yield f"{path}: empty array"
    for place, block in enumerate(_records(content)):
        if block.get("type") not in allowed:
            yield f"{path}[{place}].type: {block.get('type')!r}"
        if block.get("type") == "text" and not block.get("text"):
            yield f"{path}[{place}].text: empty"


def _openai_calls(calls: Sequence[Record], path: str) -> Faults:
    seen: set[object] = set()
    for place, call in enumerate(calls):
        where, call_id = f"{path}[{place}]", call.get("id")
        if not isinstance(call_id, str) or not 0 < len(call_id) <= MAX_OPENAI_ID_CHARS:
            yield f"{where}.id: {call_id!r}"
        if call_id in seen:
            yield f"{where}.id: {call_id!r} repeats"
        seen.add(call_id)
        kind = call.get("type")
        inner = call.get(str(kind))
        if kind not in ("function", "custom") or not isinstance(inner, Mapping):
            yield f"{where}.type: {kind!r}"
            continue
        if not isinstance(inner.get("name"), str) or not _NAME.fullmatch(inner["name"]):
            yield f"{where}.{kind}.name: {inner.get('name')!r}"
        if not isinstance(inner.get("arguments" if kind == "function" else "input"), str):
            yield f"{where}.{kind}: has no text of arguments"


# OpenAI Responses


def _responses(request: Record) -> Faults:
    items = _records(request.get("input"))
    if not items:
        yield "input: empty array"
    yield from _responses_pairs(items)
    ids = Counter(str(item["id"]) for item in items if item.get("id") and item.get("type") != "item_reference")
    yield from (f"input: duplicate item found with id {name}" for name, times in ids.items() if times > 1)
    for index, item in enumerate(items):
        path, kind = f"input[{index}]", str(item.get("type", "message"))
        if kind in _CALLS:
            yield from _responses_call(item, path)
        elif kind.endswith("_output"):
            output = item.get("output")
            if not isinstance(output, str) and not _records(output):
                yield f"{path}.output: {output!r}"
        elif kind == "message":
            yield from _responses_message(item, path)
        elif kind == "reasoning":
            yield from _responses_reasoning(item, items[index + 1] if index + 1 < len(items) else {}, path)
        yield from _responses_id(item, kind, path)
    if items and items[-1].get("role") != "user" and not str(items[-1].get("type", "")).endswith("_output"):
        yield "input: does not end with a user's message or an output"


def _responses_pairs(items: Sequence[Record]) -> Faults:
    waiting: dict[object, str] = {}
    called: set[object] = set()
    for index, item in enumerate(items):
        kind, call_id = str(item.get("type", "message")), item.get("call_id")
        if kind in _CALLS:
            if call_id in called:
                yield f"input[{index}].call_id: {call_id!r} repeats"
            called.add(call_id)
            waiting[call_id] = f"{kind}_output"
        elif kind.removesuffix("_output") in _CALLS:
            if waiting.pop(call_id, None) != kind:
                yield f"input[{index}]: no call found for the output of {call_id!r}"
        elif waiting and item.get("role") == "user":
            yield f"input[{index}]: no output found for calls {list(waiting)}"
            waiting = {}
    if waiting:
        yield f"input: no output found for calls {list(waiting)}"


def _responses_reasoning(item: Record, following: Record, path: str) -> Faults:
    if not isinstance(item.get("summary"), Sequence):
        yield f"{path}.summary: {item.get('summary')!r}"
    if not following or following.get("role") == "user" or str(following.get("type")).endswith("_output"):
        yield f"{path}: reasoning without the item that follows it"


def _responses_id(item: Record, kind: str, path: str) -> Faults:
    item_id, prefix = item.get("id"), _ITEM_IDS.get(kind)
    if item_id is not None and prefix and not str(item_id).startswith(f"{prefix}_"):
        yield f"{path}.id: {item_id!r} does not begin with {prefix}_"


def _responses_call(item: Record, path: str) -> Faults:
    call_id, name = item.get("call_id"), item.get("name")
    if not isinstance(call_id, str) or not 0 < len(call_id) <= MAX_RESPONSES_ID_CHARS:
        yield f"{path}.call_id: {call_id!r}"
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        yield f"{path}.name: {name!r}"
    if not isinstance(item.get("arguments" if item["type"] == "function_call" else "input"), str):
        yield f"{path}: has no text of arguments"


def _responses_message(item: Record, path: str) -> Faults:
    role, content = item.get("role"), item.get("content")
    if role not in ("system", "developer", "user", "assistant"):
        yield f"{path}.role: {role!r}"
    if isinstance(content, str):
        if not content:
            yield f"{path}.content: empty text"
        return
    if not _records(content):
        yield f"{path}.content: {content!r}"
    allowed = (
        ("output_text", "refusal")
        if role == "assistant"
        else ("input_text", "input_image", "input_file", "input_audio")
    )
    for place, block in enumerate(_records(content)):
        if block.get("type") not in allowed:
            yield f"{path}.content[{place}].type: {block.get('type')!r} in a message of role {role!r}"
        if str(block.get("type")).endswith("_text") and not block.get("text"):
            yield f"{path}.content[{place}].text: empty"


# Anthropic Messages


def _anthropic(request: Record) -> Faults:
    messages = _records(request.get("messages"))
    if not messages:
        yield "messages: at least one message is required"
    system = request.get("system", "-")
    if not all(
        map(_visible, [system] if isinstance(system, str) else [block.get("text") for block in _records(system)])
    ):
        yield "system: no visible character"
    listed = [_anthropic_blocks(message) for message in messages]
    for index, (message, blocks) in enumerate(zip(messages, listed, strict=True)):
        path, role = f"messages[{index}]", message.get("role")
        expected = "assistant" if index % 2 else "user"
        if role != expected:
            yield f"{path}.role: {role!r} where {expected!r} is due"
        if unknown := set(message) - {"role", "content"}:
            yield f"{path}: extra inputs are not permitted: {sorted(unknown)}"
        if not blocks:
            yield f"{path}.content: empty"
        for place, block in enumerate(blocks):
            yield from _anthropic_block(block, str(role), f"{path}.content[{place}]")
    yield from _anthropic_pairs(listed)
    yield from _anthropic_thinking(request, messages, listed)
    marks = sum("cache_control" in block for blocks in listed for block in blocks)
    if marks > MAX_BREAKPOINTS:
        yield f"messages: {marks} blocks with cache_control"
    if messages and messages[-1].get("role") != "user":
        yield "messages: ends with the assistant"


def _anthropic_blocks(message: Record) -> list[Record]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else _records(content)


def _anthropic_pairs(listed: Sequence[Sequence[Record]]) -> Faults:
    waiting: list[str] = []
    used: set[str] = set()
    for index, blocks in enumerate(listed):
        answered = [str(block.get("tool_use_id")) for block in blocks if block.get("type") == "tool_result"]
        if sorted(answered) != sorted(waiting):
            yield f"messages[{index}]: tool_use {waiting} is followed by tool_result {answered}"
        if any(block.get("type") != "tool_result" for block in blocks[: len(answered)]):
            yield f"messages[{index}]: tool_result blocks do not come first"
        waiting = [str(block.get("id")) for block in blocks if block.get("type") == "tool_use"]
        if repeated := [call_id for place, call_id in enumerate(waiting) if call_id in used | set(waiting[:place])]:
            yield f"messages[{index}]: tool_use ids must be unique: {repeated}"
        used |= set(waiting)
    if waiting:
        yield f"messages: tool_use {waiting} has no result"


def _anthropic_thinking(request: Record, messages: Sequence[Record], listed: Sequence[Sequence[Record]]) -> Faults:
    """With thinking enabled, the turn whose calls the last message answers must begin with thinking."""
    thinking = request.get("thinking")
    if not isinstance(thinking, Mapping) or thinking.get("type") != "enabled" or not _has_results(listed[-1:]):
        return
    start = len(messages)
    while start and (messages[start - 1].get("role") == "assistant" or _has_results(listed[start - 1 : start])):
        start -= 1
    first = next((place for place in range(start, len(messages)) if messages[place].get("role") == "assistant"), None)
    if first is not None and listed[first] and listed[first][0].get("type") not in ("thinking", "redacted_thinking"):
        found = listed[first][0].get("type")
        yield f"messages[{first}].content[0].type: expected thinking or redacted_thinking, but found {found}"


def _has_results(listed: Sequence[Sequence[Record]]) -> bool:
    return any(block.get("type") == "tool_result" for blocks in listed for block in blocks)


def _anthropic_block(block: Record, role: str, path: str) -> Faults:
    kind = block.get("type")
    own = (
        ("text", "thinking", "redacted_thinking", "tool_use")
        if role == "assistant"
        else ("text", "image", "document", "tool_result")
    )
    if kind not in own and not str(kind).startswith(("server_", "web_", "code_", "mcp_", "bash_", "search_")):
        yield f"{path}.type: {kind!r} in a message of role {role!r}"
    if "cache_control" in block and (kind in ("thinking", "redacted_thinking") or block.get("text") == ""):
        yield f"{path}.cache_control: not allowed here"
    if kind == "text" and not _visible(block.get("text")):
        yield f"{path}.text: no visible character"
    elif kind == "thinking" and not (isinstance(block.get("thinking"), str) and block.get("signature")):
        yield f"{path}: thinking without its signature"
    elif kind == "tool_use":
        call_id, name = block.get("id"), block.get("name")
        if not isinstance(call_id, str) or not _ANTHROPIC_ID.fullmatch(call_id):
            yield f"{path}.id: {call_id!r}"
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            yield f"{path}.name: {name!r}"
        if not isinstance(block.get("input"), Mapping):
            yield f"{path}.input: {type(block.get('input')).__name__}"
    elif kind == "tool_result":
        yield from _anthropic_result(block, path)


def _anthropic_result(block: Record, path: str) -> Faults:
    content = block.get("content")
    inner = _records(content)
    if block.get("is_error") and not (_visible(content) or inner):
        yield f"{path}.content: empty although is_error is true"
    if isinstance(content, str) or content is None:
        return
    for place, part in enumerate(inner):
        if part.get("type") == "text" and not _visible(part.get("text")):
            yield f"{path}.content[{place}].text: no visible character"
        if part.get("type") not in ("text", "image", "document", "search_result", "tool_reference"):
            yield f"{path}.content[{place}].type: {part.get('type')!r}"
        if block.get("is_error") and part.get("type") != "text":
            yield f"{path}.content[{place}]: only text if is_error is true"


# Gemini


def _gemini(request: Record) -> Faults:
    contents = _records(request.get("contents"))
    if not contents:
        yield "contents: is not specified"
    waiting: list[tuple[object, object]] = []
    for index, content in enumerate(contents):
        path = f"contents[{index}]"
        expected = "model" if index % 2 else "user"
        if content.get("role") != expected:
            yield f"{path}.role: {content.get('role')!r} where {expected!r} is due"
        parts = _records(content.get("parts"))
        if not parts:
            yield f"{path}.parts: must not be empty"
        answers, calls = _gemini_named(parts, "functionResponse"), _gemini_named(parts, "functionCall")
        yield from _gemini_pairs(waiting, answers, path)
        waiting = calls
        for place, part in enumerate(parts):
            yield from _gemini_part(part, content.get("role"), f"{path}.parts[{place}]")
    if waiting:
        yield f"contents: calls of {[name for name, _ in waiting]} have no response"
    if contents and contents[-1].get("role") != "user":
        yield "contents: ends with the model"


def _gemini_inner(part: Record, camel: str) -> Record | None:
    snake = re.sub("([A-Z])", lambda found: f"_{found[1].lower()}", camel)
    inner = part.get(camel, part.get(snake))
    return inner if isinstance(inner, Mapping) else None


def _gemini_named(parts: Sequence[Record], key: str) -> list[tuple[object, object]]:
    found = [_gemini_inner(part, key) for part in parts]
    return [(inner.get("name"), inner.get("id")) for inner in found if inner is not None]


def _gemini_pairs(
    calls: Sequence[tuple[object, object]], answers: Sequence[tuple[object, object]], path: str
) -> Faults:
    if len(calls) != len(answers):
        yield f"{path}: {len(answers)} function responses for {len(calls)} function calls"
    elif sorted(str(name) for name, _ in calls) != sorted(str(name) for name, _ in answers):
        yield f"{path}: calls of {[name for name, _ in calls]}, responses of {[name for name, _ in answers]}"
    ids = {call_id for _, call_id in calls if call_id}
    if unknown := [answer for _, answer in answers if answer and answer not in ids]:
        yield f"{path}: responses with ids {unknown}, which no call has"


def _gemini_part(part: Record, role: object, path: str) -> Faults:
    kinds = [key for key in part if key in _GEMINI_KINDS]
    if len(kinds) != 1:
        yield f"{path}: one of its kinds of data is required, found {kinds}"
    signed = "thoughtSignature" in part or "thought_signature" in part
    if "text" in part and not (isinstance(part["text"], str) and (part["text"] or signed)):
        yield f"{path}.text: empty"
    call, answer = _gemini_inner(part, "functionCall"), _gemini_inner(part, "functionResponse")
    for inner, fields, side in ((call, ("args",), "model"), (answer, ("response",), "user")):
        if inner is None:
            continue
        if not isinstance(inner.get("name"), str) or not _GEMINI_NAME.fullmatch(inner["name"]):
            yield f"{path}: the function name {inner.get('name')!r}"
        if role != side:
            yield f"{path}: in a content of role {role!r}"
        for key in fields:
            if not isinstance(inner.get(key, {}), Mapping):
                yield f"{path}.{key}: not an object"
