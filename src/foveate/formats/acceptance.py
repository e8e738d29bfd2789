"""What a provider accepts: recorded messages are changed as little as its API needs, and always in the same way.

Raw messages stay as recorded. In the request, a call id that is missing, repeated or not allowed is replaced (with the
id of its result), a tool name of another provider is spelled as this one allows, empty parts are omitted, and a message
that the API would reject in its recorded form is rendered by its meaning instead.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from foveate.formats.exchanges import answers
from foveate.formats.parse import Record
from foveate.formats.providers import anthropic, openai, openai_responses
from foveate.turn import Attachment, Json, Message, Part, Reasoning, Text, ToolCall, ToolResult

EMPTY_MESSAGE: Final = "(empty message)"
"""Sent for a user message without content, because no provider accepts an empty one."""
NO_OUTPUT: Final = "(no output)"
MAX_NAME_CHARS: Final = 64

_CALL_IDS: Final[Mapping[str, re.Pattern[str] | None]] = {
    "openai": openai.CALL_IDS,
    "openai-responses": openai_responses.CALL_IDS,
    "anthropic": anthropic.CALL_IDS,
    "gemini": None,
}
_NAMES: Final = re.compile(rf"[a-zA-Z0-9_-]{{1,{MAX_NAME_CHARS}}}")
_GEMINI_NAMES: Final = re.compile(rf"[a-zA-Z_][a-zA-Z0-9_.:-]{{0,{MAX_NAME_CHARS - 1}}}")
_AUTHORS: Final = re.compile(r"[^\s<|\\/>]{1,64}")
_ITEM_IDS: Final = {"function_call": "fc_", "custom_tool_call": "ctc_", "reasoning": "rs_", "message": "msg_"}
_GEMINI_KINDS: Final = ("text", "Data", "_data", "functionCall", "function_call", "functionResponse")
_GEMINI_OTHERS: Final = ("function_response", "executableCode", "executable_code", "Result", "_result")


class Acceptance:
    """Prepares the messages of one request, segment by segment, in order."""

    def __init__(self, format: str, *, keeps_system: bool = False) -> None:  # noqa: A002
        self.format = format
        self.keeps_system = keeps_system
        self._ids = _CALL_IDS[format]
        self._names = _GEMINI_NAMES if format == "gemini" else _NAMES
        self._used: set[str] = set()
        self._uses: Counter[str] = Counter()
        self._waiting: list[tuple[ToolCall, str | None]] = []

    def prepare(self, messages: Iterable[Message]) -> list[Message]:
        """Return the messages in a form that can be rendered; unchanged messages are the same objects."""
        prepared = []
        for message in messages:
            changed = self._with_calls(message)
            if changed.original and changed.original.format == self.format:
                if accepts(self.format, changed.original.data, keeps_system=self.keeps_system):
                    prepared.append(changed)
                    continue
                changed = changed.without_original()
            if (filled := self._filled(changed)) is not None:
                prepared.append(filled)
        return prepared

    @property
    def recorded_ids(self) -> frozenset[str] | None:
        """The ids of all calls so far; None if one was replaced, was used twice, or has no result yet."""
        is_recorded = not self._waiting and all(uses == 1 and key in self._used for key, uses in self._uses.items())
        return frozenset(self._used) if is_recorded else None

    def add_prepared(self, call_ids: frozenset[str]) -> bool:
        """Continue after messages that were prepared separately and have calls with these ids (`recorded_ids`).

        False if they have to be prepared here, because an id was used before or a call waits for its result.
        """
        if self._waiting or not self._used.isdisjoint(call_ids):
            return False
        self._used |= call_ids
        self._uses.update(call_ids)
        return True

    def _with_calls(self, message: Message) -> Message:
        parts = tuple(map(self._part, message.parts))
        name = message.name if message.name is None or _AUTHORS.fullmatch(message.name) else None
        if parts == message.parts and name == message.name:
            return message
        is_own = message.original is not None and message.original.format == self.format
        return replace(message, parts=parts, name=name, original=None if is_own else message.original)

    def _part(self, part: Part) -> Part:
        if isinstance(part, ToolCall):
            call_id = self._call_id(part.id)
            self._waiting.append((part, call_id))
            return replace(part, id=call_id, name=self._name(part.name))
        if isinstance(part, ToolResult):
            return self._result(part)
        return part

    def _result(self, result: ToolResult) -> ToolResult:
        for entry in self._waiting:
            call, call_id = entry
            if answers(result, call):
                self._waiting.remove(entry)
                # Gemini finds the call by its name; a recorded result may name another tool.
                name = call.name if result.name and self.format == "gemini" else result.name
                result = replace(result, call_id=call_id if self._ids else result.call_id, name=name)
                break
        return replace(result, name=self._name(result.name)) if result.name is not None else result

    def _call_id(self, recorded: str | None) -> str | None:
        """Return the recorded id if it is allowed and new, else one derived from it and its number of uses."""
        if self._ids is None:
            return recorded
        key = recorded or ""
        self._uses[key] += 1
        call_id = key
        if not self._ids.fullmatch(key) or key in self._used:
            digest = hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()[:12]
            call_id = f"call_{digest}_{self._uses[key]}"
        self._used.add(call_id)
        return call_id

    def _name(self, name: str) -> str:
        return name if self._names.fullmatch(name) else tool_name(name)

    def _filled(self, message: Message) -> Message | None:
        """Return the message without empty parts; None if it becomes empty and is not needed."""
        is_blank: Callable[[str], bool] = (lambda text: not text.strip()) if self.format == "anthropic" else _is_empty
        parts = tuple(
            _without_blank(part, is_blank) if isinstance(part, ToolResult) else part
            for part in message.parts
            if not (isinstance(part, Text) and is_blank(part.text))
        )
        if self.format == "anthropic":
            parts = tuple(_as_error(part) if isinstance(part, ToolResult) else part for part in parts)
        if any(not isinstance(part, Reasoning) for part in parts):
            return message if parts == message.parts else replace(message, parts=parts)
        if message.role == "user":
            return replace(message, parts=(Text(EMPTY_MESSAGE),))
        return replace(message, parts=parts) if parts and message.role == "assistant" else None


def _is_empty(text: str) -> bool:
    return not text


def _without_blank(result: ToolResult, is_blank: Callable[[str], bool]) -> ToolResult:
    """Return the result without empty texts next to its images and files."""
    content = tuple(part for part in result.content if not (isinstance(part, Text) and is_blank(part.text)))
    return replace(result, content=content) if content and content != result.content else result


def _as_error(result: ToolResult) -> ToolResult:
    """Return an error with text only, and never empty, as Anthropic requires."""
    if not result.is_error:
        return result
    content = tuple(
        part if isinstance(part, Text) else Text(f"[{part.media if isinstance(part, Attachment) else part.format}]")
        for part in result.content
        if not isinstance(part, Text) or part.text.strip()
    )
    content = content or (Text(NO_OUTPUT),)
    return result if content == result.content else replace(result, content=content)


def tool_name(name: str) -> str:
    """Return a tool's name in a form that every provider allows."""
    cleaned = re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:MAX_NAME_CHARS]
    return cleaned if re.match(r"[a-zA-Z_]", cleaned) else f"_{cleaned}"[:MAX_NAME_CHARS]


def accepts(format: str, record: Json, *, keeps_system: bool = False) -> bool:  # noqa: A002
    """Check whether the API accepts a recorded message unchanged, apart from pairs of calls and results.

    With `keeps_system`, Anthropic's model accepts system messages.
    """
    if not isinstance(record, Mapping):
        return False
    match format:
        case "openai":
            return _openai(record)
        case "openai-responses":
            return _responses(record)
        case "anthropic":
            return _anthropic(record, keeps_system=keeps_system)
    return _gemini(record)


def _blocks(content: Json) -> Sequence[Record]:
    listed = content if isinstance(content, Sequence) and not isinstance(content, str) else ()
    return [block for block in listed if isinstance(block, Mapping)]


def _says(content: Json, *types: str) -> bool:
    """Check for a text, or blocks of the allowed types without an empty text."""
    if isinstance(content, str):
        return bool(content)
    blocks = _blocks(content)
    texts = (block.get("text", block.get("refusal")) for block in blocks if str(block.get("type")).endswith("text"))
    return bool(blocks) and all(block.get("type") in types for block in blocks) and all(texts)


def _openai(record: Record) -> bool:
    role, content = record.get("role"), record.get("content")
    if any(value is None for key, value in record.items() if key not in ("content", "refusal", "audio")):
        return False
    if role == "assistant":
        calls = record.get("tool_calls")
        has_more = bool(calls) or record.get("audio") is not None
        is_said = (content in (None, "") and has_more) or _says(content, "text", "refusal")
        return is_said and calls != [] and "function_call" not in record
    if role == "tool":
        return content == "" or _says(content, "text")
    types = ("text", "image_url", "input_audio", "file") if role == "user" else ("text",)
    return role in ("user", "system", "developer") and _says(content, *types)


def _responses(record: Record) -> bool:
    kind = str(record.get("type", "message"))
    prefix = _ITEM_IDS.get(kind)
    if prefix and record.get("id") is not None and not str(record["id"]).startswith(prefix):
        return False
    if kind == "message":
        if record.get("role") == "assistant":
            return _says(record.get("content"), "output_text", "refusal")
        return _says(record.get("content"), "input_text", "input_image", "input_file", "input_audio")
    if kind.endswith("_output"):
        output = record.get("output")
        return isinstance(output, str) or bool(_blocks(output))
    return kind != "reasoning" or isinstance(record.get("summary"), Sequence)


def _anthropic(record: Record, *, keeps_system: bool) -> bool:
    role, content = record.get("role"), record.get("content")
    if role not in ("user", "assistant") and not (keeps_system and role == "system"):
        return False
    if isinstance(content, str):
        return bool(content.strip())
    blocks = _blocks(content)
    return bool(blocks) and all(_anthropic_block(block, str(role)) for block in blocks)


def _anthropic_block(block: Record, role: str) -> bool:
    kind = block.get("type")
    if kind == "text":
        return bool(str(block.get("text", "")).strip())
    if kind == "thinking":
        return role == "assistant" and bool(block.get("signature"))
    if kind == "tool_use":
        return role == "assistant" and isinstance(block.get("input"), Mapping)
    if kind == "tool_result":
        return role == "user" and _anthropic_result(block)
    return kind not in ("image", "document") or role == "user"


def _anthropic_result(block: Record) -> bool:
    content = block.get("content")
    inner = _blocks(content)
    if block.get("is_error") and not (inner or (isinstance(content, str) and content.strip())):
        return False
    if any(part.get("type") == "text" and not str(part.get("text", "")).strip() for part in inner):
        return False
    return not (block.get("is_error") and any(part.get("type") != "text" for part in inner))


def _gemini(record: Record) -> bool:
    parts = _blocks(record.get("parts"))
    return record.get("role") in ("user", "model") and bool(parts) and all(map(_gemini_part, parts))


def _gemini_part(part: Record) -> bool:
    kinds = [key for key in part if key.endswith(_GEMINI_KINDS + _GEMINI_OTHERS)]
    is_signed = "thoughtSignature" in part or "thought_signature" in part
    return len(kinds) == 1 and bool(part.get("text", True) or is_signed)


def encodable(value: Json) -> Json:
    """Return a value that UTF-8 JSON can represent: lone surrogates are replaced, NaN and infinity become text.

    What is encodable already, which is nearly everything, is returned as it is.
    """
    return value if is_encodable(value) else _encodable(value)


def is_encodable(value: Json) -> bool:
    """Check whether UTF-8 JSON can represent the value."""
    try:
        (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, allow_nan=False)).encode()
    except (UnicodeEncodeError, ValueError):
        return False
    return True


def _encodable(value: Json) -> Json:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(_encodable(key)): _encodable(inner) for key, inner in value.items()}
    if isinstance(value, Sequence):
        return [_encodable(inner) for inner in value]
    return value
