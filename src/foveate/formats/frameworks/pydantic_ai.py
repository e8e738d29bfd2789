"""Pydantic AI's messages as its `ModelMessagesTypeAdapter` writes them: requests and responses made of parts.

How `render` handles differences between meaning and framework:

- System prompts of a request with other parts are only in the original: adapters count them as overhead.
- Reasoning is omitted: a provider accepts only its own, which is in the original.
- The data of files are in the URL-safe alphabet of base64.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from foveate.errors import InvalidMessage
from foveate.formats import CALL_IDS
from foveate.formats.exchanges import FamilyPart, PairedResult, Results, Utterance, exchanges, note_of
from foveate.formats.parse import (
    Record,
    arguments_object,
    count_at,
    elements,
    media_of,
    optional_text,
    parse_arguments,
    record,
    text_at,
    text_in,
    time_at,
)
from foveate.turn import Attachment, Json, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult, Usage

NAME: Final = "pydantic-ai"
REDACTED: Final = "redacted_thinking"
"""The id of Anthropic's thinking that only Anthropic can read."""
_STANDARD: Final = str.maketrans("-_", "+/")
_URL_SAFE: Final = str.maketrans("+/", "-_")
_URLS: Final = {"image-url": "image", "audio-url": "audio", "video-url": "video", "document-url": "file"}


def recognises(data: Json) -> bool:
    if not isinstance(data, Mapping) or data.get("kind") not in ("request", "response"):
        return False
    return isinstance(data.get("parts"), list)


def parse(data: Json, path: str) -> Message:
    message = record(data, path)
    parts = list(elements(message.get("parts"), f"{path}.parts"))
    if message.get("kind") == "response":
        said = tuple(part for given, where in parts for part in parse_said(given, where))
        usage = parse_usage(message)
        at, model = time_at(message, "timestamp"), text_at(message, "model_name")
        return Message("assistant", said, at=at, model=model, usage=usage if any(_counts(usage)) else None)
    if message.get("kind") != "request":
        raise InvalidMessage(f"{path}.kind", "is neither request nor response")
    at = next((moment for given, _ in parts if (moment := time_at(given, "timestamp"))), None)
    if parts and all(given.get("part_kind") == "system-prompt" for given, _ in parts):
        return Message("system", tuple(Text(text_in(given, "content", where)) for given, where in parts), at=at)
    asked = tuple(part for given, where in parts for part in _parse_request_part(given, where))
    is_results = bool(asked) and all(isinstance(part, ToolResult) for part in asked)
    return Message("tool" if is_results else "user", asked, at=at)


def parse_usage(response: Record) -> Usage:
    """Return the usage of a response. Providers report reasoning in different places."""
    places = (("output_reasoning_tokens",), ("details", "reasoning_tokens"), ("details", "thoughts_tokens"))
    return Usage(
        input_tokens=count_at(response, "usage", "input_tokens"),
        output_tokens=count_at(response, "usage", "output_tokens"),
        cache_read_tokens=count_at(response, "usage", "cache_read_tokens"),
        cache_write_tokens=count_at(response, "usage", "cache_write_tokens"),
        reasoning_tokens=next((found for keys in places if (found := count_at(response, "usage", *keys))), 0),
    )


def _counts(usage: Usage) -> tuple[int, ...]:
    return usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens


def _parse_request_part(part: Record, path: str) -> Iterator[Part]:
    kind, content = part.get("part_kind"), part.get("content")
    call_id = optional_text(part, "tool_call_id", path)
    if kind == "tool-return" or (kind == "retry-prompt" and part.get("tool_name")):
        is_error = kind == "retry-prompt" or part.get("outcome") in ("failed", "denied", "retried")
        result = tuple(_parse_content(content, f"{path}.content"))
        yield ToolResult(call_id, result, name=optional_text(part, "tool_name", path), is_error=is_error)
    elif kind in ("user-prompt", "retry-prompt", "retry-feedback"):
        yield from _parse_content(content, f"{path}.content")
    elif kind != "system-prompt":
        yield Opaque(NAME, part)


def _parse_content(content: Json, path: str) -> Iterator[Text | Attachment | Opaque]:
    """Parse text, files and anything else that a tool may return, which becomes JSON."""
    if isinstance(content, str):
        yield Text(content)
    elif isinstance(content, Sequence) and any(isinstance(item, str) or _is_content(item) for item in content):
        for item in content:
            yield from _parse_content(item, path)
    elif isinstance(content, Mapping) and _is_content(content):
        yield from _parse_file(content, path)
    elif content is not None:
        yield Text(json.dumps(content, ensure_ascii=False))


def _is_content(item: Json) -> bool:
    return isinstance(item, Mapping) and isinstance(item.get("kind"), str)


def _parse_file(item: Record, path: str) -> Iterator[Text | Attachment | Opaque]:
    kind, media_type = str(item["kind"]), optional_text(item, "media_type", path)
    if kind == "binary":
        data = text_in(item, "data", path).translate(_STANDARD)
        yield Attachment(media_of(media_type), data=data, media_type=media_type)
    elif kind in _URLS:
        yield Attachment(media_of(media_type), uri=text_in(item, "url", path), media_type=media_type)
    elif kind == "text-content" or (kind == "text" and "content" in item):
        yield Text(text_in(item, "content", path))
    elif kind != "cache-point":
        yield Opaque(NAME, item)


def parse_said(part: Record, path: str) -> Iterator[Part]:
    """Parse a part of a response, with its provider's signatures if canonical parts can hold them."""
    match part.get("part_kind"):
        case "text":
            yield Text(text_in(part, "content", path))
        case "thinking":
            words, proof = text_in(part, "content", path), optional_text(part, "signature", path)
            if part.get("id") == REDACTED:
                yield Reasoning("", encrypted=proof)
            else:
                yield Reasoning(words, signature=proof or thought_signature(part), id=optional_text(part, "id", path))
        case "tool-call":
            arguments = parse_arguments(part.get("args"), f"{path}.args")
            name, call_id = text_in(part, "tool_name", path), optional_text(part, "tool_call_id", path)
            yield ToolCall(name, arguments, id=call_id, signature=thought_signature(part))
        case "file":
            content = part.get("content")
            yield from _parse_file(content, path) if isinstance(content, Mapping) and _is_content(content) else ()
        case _:
            yield Opaque(NAME, part)


def thought_signature(part: Record) -> str | None:
    """Return the signature that Gemini adds to a part of a response."""
    return text_at(part, "provider_details", "thought_signature")


def render(messages: Sequence[Message]) -> list[Json]:
    writer = Writer()
    rendered: list[Json] = []
    for entry in exchanges(messages, CALL_IDS):
        if isinstance(entry, Results):
            rendered.append({"kind": "request", "parts": [writer.result(answer) for answer in entry.answers]})
        elif entry.role == "assistant":
            parts = [part for piece in entry.pieces for part in writer.said(piece)]
            rendered += [{"kind": "response", "parts": parts}] if parts else []
        else:
            rendered.append({"kind": "request", "parts": [_render_prompt(writer, entry)]})
    return rendered


def _render_prompt(writer: Writer, said: Utterance) -> Record:
    if said.role in ("system", "developer"):
        words = "\n\n".join(piece.part.text for piece in said.pieces if isinstance(piece.part, Text))
        return {"part_kind": "system-prompt", "content": words}
    return {"part_kind": "user-prompt", "content": joined([writer.content(piece.part) for piece in said.pieces], None)}


def joined(content: list[Any], separator: str | None) -> Any:
    """Join texts; without a separator only a single text becomes text. Content with anything else stays a list."""
    texts = [item for item in content if isinstance(item, str)]
    if len(texts) < len(content) or (separator is None and len(texts) != 1):
        return content
    return texts[0] if separator is None else separator.join(texts)


class Writer:
    """Writes canonical parts as records of Pydantic AI. A subclass writes them for one provider."""

    def tool_name(self, name: str) -> str:
        return name

    def said(self, piece: FamilyPart) -> Iterator[Record]:
        """Yield the records of a part of a response."""
        match piece.part:
            case Text(text):
                yield {"part_kind": "text", "content": text}
            case ToolCall(name, arguments, call_id):
                args, called = dict(arguments_object(arguments)), self.tool_name(name)
                yield {"part_kind": "tool-call", "tool_name": called, "args": args, "tool_call_id": call_id or ""}
            case Opaque(format=own, data=data) if own == NAME and isinstance(data, Mapping):
                yield data
            case Attachment() | Opaque() as other:
                yield {"part_kind": "text", "content": note_of(other)}

    def result(self, answer: PairedResult) -> Record:
        """Return a part of a request that answers a call."""
        result = answer.result
        return {
            "part_kind": "tool-return",
            "tool_name": self.tool_name(result.name or "tool"),
            "content": joined([self.content(part) for part in result.content], "\n"),
            "tool_call_id": result.call_id or "",
            "outcome": "failed" if result.is_error else "success",
        }

    def content(self, part: Part) -> Any:
        """Return a text or a file of a prompt or a result."""
        match part:
            case Text(text):
                return text
            case Attachment(data=str(data)):
                media_type = part.media_type or ("image/png" if part.media == "image" else "application/octet-stream")
                return {"kind": "binary", "data": data.translate(_URL_SAFE), "media_type": media_type}
            case Attachment(uri=str(uri)) if uri.startswith(("https://", "http://")):
                kind = next(kind for kind, media in _URLS.items() if media == part.media)
                typed: Record = {"media_type": part.media_type} if part.media_type else {}
                return {"kind": kind, "url": uri, **typed}
            case Opaque(format=own, data=data) if own == NAME:
                return data
            case Attachment() | Opaque():
                return note_of(part)
        raise AssertionError(f"exchanges leave no {type(part).__name__} in what a user said")
