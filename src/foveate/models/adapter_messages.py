"""Canonical messages as pydantic-ai has them, and its answers as canonical messages.

A model's reasoning goes back to its own provider only, with the proof that came with it; to another it would be text
that were not recorded. Content that a provider has no form for becomes a note, so that nothing is dropped silently.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from foveate.formats import CALL_IDS
from foveate.formats.exchanges import Family, FamilyPart, Results, Utterance, exchanges, note_of
from foveate.formats.exchanges import PairedResult as Result
from foveate.formats.parse import arguments_object, parse_arguments
from foveate.models import Answer, Finish
from foveate.models.failures import BrokenOff
from foveate.models.names import Kind, ModelName
from foveate.turn import (
    Attachment,
    Json,
    Message,
    Opaque,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from foveate.words.grammar import unfence_json

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse, ModelResponsePart, UserContent
    from pydantic_ai.tools import ToolDefinition

OUTPUT_TOOL: Final = "final_answer"
"""The tool that carries a structured answer where the provider has no form of its own for one."""
REDACTED: Final = "redacted_thinking"
"""What pydantic-ai calls Anthropic's thinking that only Anthropic can read."""
MAX_TOOL_NAME_CHARS: Final = 64

_FAMILIES: Final[Mapping[Kind, Family]] = {"anthropic": "anthropic", "google": "gemini"}


def to_messages(messages: Sequence[Message], parsed: ModelName, *, system: str, marks: bool) -> list[ModelMessage]:
    """The messages for a request to this model. `system` is pydantic-ai's name for the provider; `marks` sets cache
    breakpoints behind what the next request of a conversation will repeat."""
    return _Writer(parsed, system, marks=marks).write(messages)


class _Writer:
    def __init__(self, parsed: ModelName, system: str, *, marks: bool) -> None:
        self._parsed = parsed
        self._system = system
        self._marks = marks
        self._family: Family = _FAMILIES.get(parsed.kind, "openai")
        self._joins = parsed.kind in ("endpoint", "ollama")
        """The templates of many open models take the two sides in turn only, and some take plain text only."""

    def write(self, messages: Sequence[Message]) -> list[ModelMessage]:
        from pydantic_ai.messages import ModelRequest, SystemPromptPart  # noqa: PLC0415 - only with the extra

        shown = [self._with_own_reasoning(message) for message in messages if message.kind != "display"]
        standing = _count_leading_system(shown)
        written: list[ModelMessage] = []
        if top := "\n\n".join(text for message in shown[:standing] if (text := message.text)):
            written.append(ModelRequest([SystemPromptPart(top)]))
        entries = exchanges(shown[standing:], CALL_IDS)
        users = [
            index for index, entry in enumerate(entries) if isinstance(entry, Utterance) and entry.role != "assistant"
        ]
        for index, entry in enumerate(entries):
            if isinstance(entry, Utterance) and entry.role == "assistant":
                self._respond(written, entry)
            elif isinstance(entry, Utterance):
                is_lead, is_prompt = index == users[0], index == users[-1]
                self._request(written, entry, is_lead=is_lead, is_prompt=is_prompt)
            else:
                self._return(written, entry)
        return written

    def _with_own_reasoning(self, message: Message) -> Message:
        """The message without another provider's reasoning and signatures, where its model says whose they are."""
        if message.model is None or _is_own(message.model, self._parsed):
            return message
        parts = (part for part in message.parts if not isinstance(part, Reasoning))
        return replace(
            message,
            parts=tuple(replace(part, signature=None) if isinstance(part, ToolCall) else part for part in parts),
        )

    def _respond(self, written: list[ModelMessage], said: Utterance) -> None:
        from pydantic_ai.messages import ModelResponse  # noqa: PLC0415

        parts: list[ModelResponsePart] = []
        for piece in said.pieces:
            self._add_response_part(parts, piece)
        if parts:
            written.append(ModelResponse(parts, provider_name=self._system))

    def _add_response_part(self, parts: list[ModelResponsePart], piece: FamilyPart) -> None:
        from pydantic_ai.messages import TextPart, ToolCallPart  # noqa: PLC0415

        match piece.part:
            case Text(text):
                if text:
                    parts.append(TextPart(text))
            case ToolCall(name, arguments, call_id, signature):
                part = ToolCallPart(tool_name(name), dict(arguments_object(arguments)), call_id or "")
                if signature and self._family == "gemini" and piece.may_be_of("gemini"):
                    part.provider_name, part.provider_details = self._system, {"thought_signature": signature}
                parts.append(part)
            case Reasoning() as reasoning if piece.may_be_of(self._family):
                self._add_thinking(parts, reasoning)
            case Attachment() | Opaque() as other:
                parts.append(TextPart(note_of(other)))

    def _add_thinking(self, parts: list[ModelResponsePart], reasoning: Reasoning) -> None:
        from pydantic_ai.messages import TextPart, ThinkingPart  # noqa: PLC0415

        if self._family == "anthropic":
            if reasoning.encrypted:
                parts.append(ThinkingPart("", id=REDACTED, signature=reasoning.encrypted, provider_name=self._system))
            elif reasoning.signature:
                parts.append(ThinkingPart(reasoning.text, signature=reasoning.signature, provider_name=self._system))
        elif self._family == "gemini":
            details = {"thought_signature": reasoning.signature} if reasoning.signature else None
            if reasoning.text:
                parts.append(ThinkingPart(reasoning.text, provider_name=self._system, provider_details=details))
            elif details and parts and isinstance(parts[-1], TextPart):
                parts[-1].provider_name, parts[-1].provider_details = self._system, details
        elif reasoning.id and reasoning.id != "content":
            # Servers of open models name the field that their reasoning came in, and take it back there.
            parts.append(ThinkingPart(reasoning.text, id=reasoning.id, provider_name=self._system))

    def _request(self, written: list[ModelMessage], said: Utterance, *, is_lead: bool, is_prompt: bool) -> None:
        from pydantic_ai.messages import CachePoint, UserPromptPart  # noqa: PLC0415

        content: list[UserContent] = []
        for piece in said.pieces:
            content.extend(self._user_content(piece.part))
        if not content:
            return
        if self._marks and is_lead and not (is_prompt and len(content) == 1) and isinstance(content[0], str):
            content.insert(1, CachePoint())
        if self._marks and is_prompt and not is_lead and _can_carry_mark(written):
            content.insert(0, CachePoint())
        parts = _request_parts(written)
        if self._joins and parts and isinstance(parts[-1], UserPromptPart):
            earlier = parts.pop().content
            content = [*([earlier] if isinstance(earlier, str) else earlier), *content]
        texts = [piece for piece in content if isinstance(piece, str)]
        is_plain = len(texts) == len(content) and (self._joins or len(texts) == 1)
        parts.append(UserPromptPart("\n\n".join(texts) if is_plain else content))

    def _return(self, written: list[ModelMessage], results: Results) -> None:
        parts = _request_parts(written)
        parts.extend(self._tool_return(result) for result in results.answers)

    def _tool_return(self, result: Result) -> Any:
        from pydantic_ai.messages import ToolReturnPart  # noqa: PLC0415

        answered: ToolResult = result.result
        content = [piece for part in answered.content for piece in self._user_content(part)]
        texts = [piece for piece in content if isinstance(piece, str)]
        return ToolReturnPart(
            tool_name(answered.name or "tool"),
            "\n".join(texts) if len(texts) == len(content) else content,
            answered.call_id or "",
            outcome="failed" if answered.is_error else "success",
        )

    def _user_content(self, part: Part) -> list[UserContent]:
        match part:
            case Text(text):
                return [text] if text else []
            case Attachment():
                return [_media(part, self._parsed.kind) or note_of(part)]
            case Opaque():
                return [note_of(part)]
        return []


def _count_leading_system(messages: Sequence[Message]) -> int:
    roles = (message.role in ("system", "developer") for message in messages)
    return next((index for index, is_system in enumerate(roles) if not is_system), len(messages))


def _request_parts(written: list[ModelMessage]) -> list[Any]:
    """The parts of the open request: what a user's side says in a row is one request."""
    from pydantic_ai.messages import ModelRequest  # noqa: PLC0415

    if not written or not isinstance(written[-1], ModelRequest):
        written.append(ModelRequest([]))
    last = written[-1]
    assert isinstance(last, ModelRequest)
    assert isinstance(last.parts, list)
    return last.parts


def _can_carry_mark(written: list[ModelMessage]) -> bool:
    """Whether a breakpoint may come at the end of the parts: Anthropic allows none on thinking."""
    last = written[-1].parts[-1] if written and written[-1].parts else None
    return last is not None and last.part_kind not in ("thinking", "system-prompt")


def _is_own(model: str, parsed: ModelName) -> bool:
    """Whether a message's model, as a name of ours or of the provider's, is of the provider that is asked now."""
    if model == parsed.name or model.startswith(f"{parsed.provider}:") or model.endswith(f"//{parsed.provider}"):
        return True
    word = {"anthropic": "claude", "google": "gemini"}.get(parsed.kind)
    if word is None or ":" in model or "@" in model:
        return parsed.kind == "endpoint" and f"//{parsed.provider}" in model
    return word in model.lower()


def _media(part: Attachment, kind: Kind) -> UserContent | None:
    """An image or a PDF as content; None where the provider has no form for it, or it is not there in full."""
    from pydantic_ai.messages import BinaryContent, DocumentUrl, ImageUrl  # noqa: PLC0415

    is_image = part.media == "image"
    media_type = part.media_type or ("image/png" if is_image else "")
    if not is_image and media_type != "application/pdf":
        return None
    if part.data is not None:
        try:
            return BinaryContent(base64.b64decode(part.data, validate=True), media_type=media_type)
        except (binascii.Error, ValueError):
            return None
    # For Google the file would be downloaded here first, at every request.
    if kind == "google" or not part.uri or not part.uri.startswith(("https://", "http://")):
        return None
    return ImageUrl(part.uri, media_type=media_type) if is_image else DocumentUrl(part.uri, media_type=media_type)


def tool_name(name: str) -> str:
    """The name of a tool as every provider takes it."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:MAX_TOOL_NAME_CHARS] or "tool"


def to_tools(tools: Iterable[Mapping[str, Json]]) -> list[ToolDefinition]:
    """OpenAI-shaped definitions; `strict` stays off, since arguments that may be left out would not be allowed."""
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
    """What an answer is read by."""

    name: str
    is_structured: bool = False
    was_streamed: bool = False


def answer_of(response: ModelResponse, expected: AnswerShape) -> Answer:
    """The answer in canonical form. A broken one is an error; an empty one was paid for, and says what it took."""
    is_cut = response.finish_reason is None and (expected.was_streamed or not response.parts)
    if is_cut or response.finish_reason == "error":
        raise BrokenOff("it ended without saying that it was done")
    parts: list[Part] = []
    for part in response.parts:
        parts.extend(_canonical(part, expected))
    if expected.is_structured:
        parts = [Text(unfence_json(part.text)) if isinstance(part, Text) else part for part in parts]
    message = Message("assistant", tuple(parts), model=expected.name, usage=_usage(response))
    return Answer(message, _finish(response, message))


def _finish(response: ModelResponse, message: Message) -> Finish:
    if response.finish_reason == "content_filter":
        return "refused"
    if response.finish_reason == "length":
        return "length"
    return "tool-calls" if message.tool_calls else "stop"


def _canonical(part: ModelResponsePart, expected: AnswerShape) -> list[Part]:
    details = getattr(part, "provider_details", None) or {}
    signature = details.get("thought_signature")
    match part.part_kind:
        case "text":
            text: list[Part] = [Text(part.content)] if part.content else []
            return [*text, Reasoning("", signature=signature)] if signature else text
        case "thinking" if part.id == REDACTED:
            return [Reasoning("", encrypted=part.signature)]
        case "thinking":
            return [Reasoning(part.content, signature=part.signature or signature, id=part.id)]
        case "tool-call" if expected.is_structured and part.tool_name == OUTPUT_TOOL:
            return [Text(part.args_as_json_str())]
        case "tool-call":
            args: Any = part.args
            arguments = parse_arguments(args, "arguments")
            return [ToolCall(part.tool_name, arguments, id=part.tool_call_id, signature=signature)]
    return []


def _usage(response: ModelResponse) -> Usage:
    usage = response.usage
    return Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        reasoning_tokens=usage.details.get("reasoning_tokens", 0) or usage.details.get("thoughts_tokens", 0),
    )
