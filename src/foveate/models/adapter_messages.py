"""Conversion of canonical messages to pydantic-ai's and of its answers back.

A model's reasoning is returned only to its own provider, with its signature; another provider would get text that was
never recorded. Content that a provider does not support becomes a note, so that nothing is dropped silently.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from foveate.formats import CALL_IDS
from foveate.formats.exchanges import Family, FamilyPart, PairedResult, Results, Utterance, exchanges, note_of
from foveate.formats.frameworks.pydantic_ai import REDACTED, Writer, joined, parse_said, parse_usage, thought_signature
from foveate.models import Answer, Finish
from foveate.models.failures import BrokenOff
from foveate.models.names import Kind, ModelName
from foveate.turn import Attachment, Json, Message, Opaque, Part, Reasoning, Text, ToolCall
from foveate.words.grammar import unfence_json

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.tools import ToolDefinition

OUTPUT_TOOL: Final = "final_answer"
"""The tool that carries a structured answer if the provider has no native form for it."""
MAX_TOOL_NAME_CHARS: Final = 64

_Record: TypeAlias = Mapping[str, Any]
_CACHE_POINT: Final[_Record] = {"kind": "cache-point"}
_FAMILIES: Final[Mapping[Kind, Family]] = {"anthropic": "anthropic", "google": "gemini"}


def to_messages(messages: Sequence[Message], parsed: ModelName, *, system: str, marks: bool) -> list[ModelMessage]:
    """Convert messages for a request to this model. `system` is pydantic-ai's name for the provider; `marks` sets cache
    breakpoints after what the next request of a conversation will repeat."""
    from pydantic_ai.messages import ModelMessagesTypeAdapter  # noqa: PLC0415 - only with the extra

    records = _ProviderWriter(parsed, system, marks=marks).write(messages)
    return ModelMessagesTypeAdapter.validate_python(records)


class _ProviderWriter(Writer):
    def __init__(self, parsed: ModelName, system: str, *, marks: bool) -> None:
        self._parsed = parsed
        self._system = system
        self._marks = marks
        self._family: Family = _FAMILIES.get(parsed.kind, "openai")
        self._joins = parsed.kind in ("endpoint", "ollama")
        """Templates of many open models require alternating roles, and some accept plain text only."""

    def write(self, messages: Sequence[Message]) -> list[_Record]:
        shown = [self._with_own_reasoning(message) for message in messages if message.kind != "display"]
        standing = _count_leading_system(shown)
        written: list[_Record] = []
        if top := "\n\n".join(text for message in shown[:standing] if (text := message.text)):
            written.append({"kind": "request", "parts": [{"part_kind": "system-prompt", "content": top}]})
        entries = exchanges(shown[standing:], CALL_IDS)
        users = [
            index for index, entry in enumerate(entries) if isinstance(entry, Utterance) and entry.role != "assistant"
        ]
        for index, entry in enumerate(entries):
            if isinstance(entry, Results):
                _request_parts(written).extend(map(self.result, entry.answers))
            elif entry.role == "assistant":
                self._respond(written, entry)
            else:
                self._request(written, entry, is_lead=index == users[0], is_prompt=index == users[-1])
        return written

    def _with_own_reasoning(self, message: Message) -> Message:
        """Return the message without another provider's reasoning and signatures, if its model is known."""
        if message.model is None or _is_own(message.model, self._parsed):
            return message
        parts = (part for part in message.parts if not isinstance(part, Reasoning))
        return replace(
            message,
            parts=tuple(replace(part, signature=None) if isinstance(part, ToolCall) else part for part in parts),
        )

    def _respond(self, written: list[_Record], utterance: Utterance) -> None:
        parts: list[_Record] = []
        for piece in utterance.pieces:
            if isinstance(piece.part, Reasoning):
                if piece.may_be_of(self._family):
                    self._add_thinking(parts, piece.part)
            else:
                parts += self.said(piece)
        if parts:
            written.append({"kind": "response", "parts": parts, "provider_name": self._system})

    def tool_name(self, name: str) -> str:
        return tool_name(name)

    def said(self, piece: FamilyPart) -> Iterator[_Record]:
        match piece.part:
            case Text(""):
                return
            case Opaque() as other:
                yield {"part_kind": "text", "content": note_of(other)}
            case ToolCall(signature=str(signature)) if self._family == "gemini" and piece.may_be_of("gemini"):
                yield from ({**call, **self._signed(signature)} for call in super().said(piece))
            case _:
                yield from super().said(piece)

    def _signed(self, signature: str | None) -> _Record:
        """Return a part's provider, with its Gemini signature."""
        details = {"provider_details": {"thought_signature": signature}} if signature else {}
        return {"provider_name": self._system, **details}

    def _add_thinking(self, parts: list[_Record], reasoning: Reasoning) -> None:
        thinking: _Record = {"part_kind": "thinking", "content": reasoning.text, "provider_name": self._system}
        if self._family == "anthropic":
            if reasoning.encrypted:
                parts.append({**thinking, "content": "", "id": REDACTED, "signature": reasoning.encrypted})
            elif reasoning.signature:
                parts.append({**thinking, "signature": reasoning.signature})
        elif self._family == "gemini":
            if reasoning.text:
                parts.append({**thinking, **self._signed(reasoning.signature)})
            elif reasoning.signature and parts and parts[-1]["part_kind"] == "text":
                parts[-1] = {**parts[-1], **self._signed(reasoning.signature)}
        elif reasoning.id and reasoning.id != "content":
            # Servers of open models name the field of their reasoning, and accept it back there.
            parts.append({**thinking, "id": reasoning.id})

    def _request(self, written: list[_Record], utterance: Utterance, *, is_lead: bool, is_prompt: bool) -> None:
        content = [found for piece in utterance.pieces if (found := self.content(piece.part))]
        if not content:
            return
        if self._marks and is_lead and not (is_prompt and len(content) == 1) and isinstance(content[0], str):
            content.insert(1, _CACHE_POINT)
        if self._marks and is_prompt and not is_lead and _can_carry_mark(written):
            content.insert(0, _CACHE_POINT)
        parts = _request_parts(written)
        if self._joins and parts and parts[-1]["part_kind"] == "user-prompt":
            earlier = parts.pop()["content"]
            content = [*([earlier] if isinstance(earlier, str) else earlier), *content]
        parts.append({"part_kind": "user-prompt", "content": joined(content, "\n\n" if self._joins else None)})

    def result(self, answer: PairedResult) -> _Record:
        content = tuple(part for part in answer.result.content if part != Text(""))
        return super().result(replace(answer, result=replace(answer.result, content=content)))

    def content(self, part: Part) -> Any:
        """Convert a text, an image or a PDF; a note if the provider does not support it, or it is incomplete."""
        if isinstance(part, Text):
            return part.text
        assert isinstance(part, Attachment | Opaque), "exchanges leave nothing else in a user's message"
        return (_media(part, self._parsed.kind) if isinstance(part, Attachment) else None) or note_of(part)


def _count_leading_system(messages: Sequence[Message]) -> int:
    roles = (message.role in ("system", "developer") for message in messages)
    return next((index for index, is_system in enumerate(roles) if not is_system), len(messages))


def _request_parts(written: list[_Record]) -> list[_Record]:
    """Return the parts of the open request: consecutive messages of the user's side form one request."""
    if not written or written[-1]["kind"] != "request":
        written.append({"kind": "request", "parts": []})
    parts: list[_Record] = written[-1]["parts"]
    return parts


def _can_carry_mark(written: list[_Record]) -> bool:
    """Return whether a cache breakpoint may follow the last part: Anthropic allows none on thinking."""
    last = written[-1]["parts"][-1] if written and written[-1]["parts"] else None
    return last is not None and last["part_kind"] not in ("thinking", "system-prompt")


def _is_own(model: str, parsed: ModelName) -> bool:
    """Return whether a message's model, named as in settings or by the provider, is of the current provider."""
    if model == parsed.name or model.startswith(f"{parsed.provider}:") or model.endswith(f"//{parsed.provider}"):
        return True
    word = {"anthropic": "claude", "google": "gemini"}.get(parsed.kind)
    if word is None or ":" in model or "@" in model:
        return parsed.kind == "endpoint" and f"//{parsed.provider}" in model
    return word in model.lower()


def _media(part: Attachment, kind: Kind) -> _Record | None:
    is_image = part.media == "image"
    media_type = part.media_type or ("image/png" if is_image else "")
    if not is_image and media_type != "application/pdf":
        return None
    if part.data is not None:
        try:
            return {"kind": "binary", "data": base64.b64decode(part.data, validate=True), "media_type": media_type}
        except (binascii.Error, ValueError):
            return None
    # For Google the file would be downloaded locally on every request.
    if kind == "google" or not part.uri or not part.uri.startswith(("https://", "http://")):
        return None
    return {"kind": "image-url" if is_image else "document-url", "url": part.uri, "media_type": media_type}


def tool_name(name: str) -> str:
    """Return a tool's name in a form that every provider accepts."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:MAX_TOOL_NAME_CHARS] or "tool"


def to_tools(tools: Iterable[Mapping[str, Json]]) -> list[ToolDefinition]:
    """Convert OpenAI-shaped definitions; `strict` stays off, since it disallows optional arguments."""
    from pydantic_ai.tools import ToolDefinition  # noqa: PLC0415

    definitions = []
    for tool in tools:
        inner = tool.get("function")
        function = inner if isinstance(inner, Mapping) else tool
        parameters = function.get("parameters")
        schema = dict(parameters) if isinstance(parameters, Mapping) else {"type": "object", "properties": {}}
        description = function.get("description")
        definitions.append(
            ToolDefinition(
                name=str(function.get("name")),
                description=description if isinstance(description, str) else None,
                parameters_json_schema=schema,
                strict=False,
            )
        )
    return definitions


@dataclass(frozen=True, slots=True)
class AnswerShape:
    """The expected form of an answer."""

    name: str
    is_structured: bool = False
    was_streamed: bool = False


def answer_of(response: ModelResponse, expected: AnswerShape) -> Answer:
    """Convert an answer to canonical form. A truncated one is an error; an empty one was billed and reports its
    usage."""
    from pydantic_ai.messages import ModelMessagesTypeAdapter  # noqa: PLC0415

    is_cut = response.finish_reason is None and (expected.was_streamed or not response.parts)
    if is_cut or response.finish_reason == "error":
        raise BrokenOff("it ended without saying that it was done")
    (read,) = ModelMessagesTypeAdapter.dump_python([response], mode="json")
    parts: list[Part] = []
    for part, given in zip(response.parts, read["parts"], strict=True):
        if expected.is_structured and part.part_kind == "tool-call" and part.tool_name == OUTPUT_TOOL:
            parts.append(Text(part.args_as_json_str()))
        else:
            parts += _canonical(given)
    if expected.is_structured:
        parts = [Text(unfence_json(part.text)) if isinstance(part, Text) else part for part in parts]
    message = Message("assistant", tuple(parts), model=expected.name, usage=parse_usage(read))
    return Answer(message, _finish(response, message))


def _canonical(given: _Record) -> list[Part]:
    """Return a part's content; the signature of a text becomes reasoning after it."""
    parts = [part for part in parse_said(given, "answer") if isinstance(part, Text | Reasoning | ToolCall)]
    kept: list[Part] = [part for part in parts if part != Text("")]
    if given["part_kind"] == "text" and (signature := thought_signature(given)):
        kept.append(Reasoning("", signature=signature))
    return kept


def _finish(response: ModelResponse, message: Message) -> Finish:
    if response.finish_reason == "content_filter":
        return "refused"
    if response.finish_reason == "length":
        return "length"
    return "tool-calls" if message.tool_calls else "stop"
