"""A context as a provider's messages: older turns as tagged text, the newest as messages of the provider's own.

    system · tagged history · newest turns, native · memory and the turn at work · board and prompt

What came in the same format goes out to the letter, with three exceptions: cache hints, which belong to the request
that had them; what an Anthropic answer has beside role and content; and a call without its result, which the provider
would refuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from foveate.context.invariants import tool_pairs_whole
from foveate.errors import UnknownFormat
from foveate.formats import render_messages
from foveate.text import message_text, part_text
from foveate.turn import Attachment, Json, Message, Part, Text, ToolResult

if TYPE_CHECKING:
    from foveate.context.context import Context

Record: TypeAlias = Mapping[str, Json]

FORMATS: Final = ("openai", "openai-responses", "anthropic", "gemini")
MAX_BREAKPOINTS: Final = 4
"""Anthropic refuses more."""
NATIVE_BREAKPOINTS: Final = 2
"""The ends of the newest two turns: of this context, and of the one before, whose cache is to be found."""
_TWO_SIDED: Final = ("anthropic", "gemini")
_TEXT_TYPES: Final = {"openai": "text", "openai-responses": "input_text", "anthropic": "text"}
_THINKING: Final = ("thinking", "redacted_thinking")
_EPHEMERAL: Final = {"type": "ephemeral"}


@dataclass(frozen=True, slots=True)
class Native:
    """A turn, or a step of one, that goes out as messages."""

    messages: tuple[Message, ...]
    is_stable: bool
    before: str = ""
    """What stands before it, in the same message if it is the user's."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What goes where in a provider's messages."""

    stable_lead: str = ""
    """Tagged history that the next context repeats."""
    lead: str = ""
    """What else comes before the native turns."""
    native: tuple[Native, ...] = ()
    tail: str = ""
    """Memory and board, where they come last; while a turn is at work, memory stands before it."""
    prompt: tuple[Message, ...] = ()
    is_cacheable: bool = True
    """Nothing that changes stands before the native turns."""


def render_request(format: str, messages: list[Any], *, system: str, tools: Sequence[Record]) -> dict[str, Any]:  # noqa: A002
    """The keyword arguments of the provider's own call, everything in its place; what is empty is left out."""
    offered = _filled(tools=list(tools))
    match format:
        case "anthropic":
            return {**_filled(system=system), "messages": messages, **offered}
        case "gemini":
            return {"contents": messages, **_filled(config=_filled(system_instruction=system, **offered))}
        case "openai-responses":
            return {"input": messages, **offered}
    return {"messages": messages, **offered}


def _filled(**parts: Any) -> dict[str, Any]:
    return {name: part for name, part in parts.items() if part}


def render_layout(layout: Layout, system: str, format: str, *, cache: bool) -> list[Json]:  # noqa: A002
    if format not in FORMATS:
        raise UnknownFormat(f"no messages of format {format!r}; there are {', '.join(FORMATS)}")
    marks = cache and format == "anthropic"
    rendered: list[Record] = []
    if system and format not in _TWO_SIDED:
        rendered.append({"role": "system", "content": system})
    if lead := [text for text in (layout.stable_lead, layout.lead) if text]:
        message = _user(format, lead)
        rendered.append(_mark(message, 0) if marks and layout.stable_lead else message)
    edges = _edges(layout) if marks and layout.is_cacheable else ()
    for index, native in enumerate(layout.native):
        own = _behind(native.before, _render_native(native.messages, format), format)
        if index in edges and own:
            own[-1] = _mark(own[-1])
        rendered.extend(own)
    rendered.extend(_render_end(layout, format))
    return list(_two_sided(rendered, format) if format in _TWO_SIDED else rendered)


def _edges(layout: Layout) -> Sequence[int]:
    """The native turns at whose end a breakpoint is worth its place."""
    unstable = next((index for index, native in enumerate(layout.native) if not native.is_stable), len(layout.native))
    return range(unstable)[-NATIVE_BREAKPOINTS:]


def _render_native(messages: Sequence[Message], format: str) -> list[Record]:  # noqa: A002
    shown = [message for message in messages if message.kind != "display"]
    rendered = render_messages(format, shown)
    if tool_pairs_whole.problem(format, rendered):
        by_meaning = [
            message.without_original() if message.original and message.original.format == format else message
            for message in shown
        ]
        rendered = render_messages(format, by_meaning)
    records = [record for record in rendered if isinstance(record, Mapping)]
    return [_sendable(record) for record in records] if format == "anthropic" else records


def _render_end(layout: Layout, format: str) -> list[Record]:  # noqa: A002
    """Memory and board, then the prompt."""
    return _behind(layout.tail, _render_native(layout.prompt, format), format)


def _behind(text: str, records: list[Record], format: str) -> list[Record]:  # noqa: A002
    """The messages with a text before them, in one user message if they begin with one."""
    if not text:
        return records
    before = _user(format, [text])
    if records and records[0].get("role") == "user":
        return [_join(before, records[0], format), *records[1:]]
    return [before, *records]


def _user(format: str, texts: Sequence[str]) -> Record:  # noqa: A002
    if format == "gemini":
        return {"role": "user", "parts": [{"text": text} for text in texts]}
    if len(texts) == 1 and format != "anthropic":
        return {"role": "user", "content": texts[0]}
    return {"role": "user", "content": [{"type": _TEXT_TYPES[format], "text": text} for text in texts]}


def _content(record: Record, format: str) -> list[Record]:  # noqa: A002
    content = record.get("parts" if format == "gemini" else "content")
    if isinstance(content, str):
        return [{"type": _TEXT_TYPES[format], "text": content}] if content else []
    return [block for block in content if isinstance(block, Mapping)] if isinstance(content, Sequence) else []


def _join(first: Record, second: Record, format: str) -> Record:  # noqa: A002
    key = "parts" if format == "gemini" else "content"
    return {**first, **second, key: [*_content(first, format), *_content(second, format)]}


def _two_sided(records: Iterable[Record], format: str) -> list[Record]:  # noqa: A002
    """One message for each time a side speaks: not every server of these formats takes two in a row."""
    joined: list[Record] = []
    for record in records:
        if joined and _side(joined[-1]) == _side(record):
            joined[-1] = _join(joined[-1], record, format)
        else:
            joined.append(record)
    return joined


def _side(record: Record) -> bool:
    return record.get("role") in ("assistant", "model")


def _mark(record: Record, index: int | None = None) -> Record:
    """The message with a breakpoint at this block, or at the last one that can carry it."""
    blocks = _content(record, "anthropic")
    able = [place for place, block in enumerate(blocks) if _can_carry(block)]
    if not able:
        return record
    place = able[-1] if index is None else index
    blocks[place] = {**blocks[place], "cache_control": _EPHEMERAL}
    return {**record, "content": blocks}


def _can_carry(block: Record) -> bool:
    return block.get("type") not in _THINKING and block.get("text") != ""


def _sendable(record: Record) -> Record:
    """Role and content, without cache hints: Anthropic refuses what else its own answer had."""
    content = record.get("content")
    if not isinstance(content, str) and isinstance(content, Sequence):
        content = [_clean(block) if isinstance(block, Mapping) else block for block in content]
    return {"role": record.get("role"), "content": content}


def _clean(block: Record) -> Record:
    inner = block.get("content")
    if block.get("type") == "tool_result" and isinstance(inner, Sequence) and not isinstance(inner, str):
        block = {**block, "content": [_clean(part) if isinstance(part, Mapping) else part for part in inner]}
    return {key: value for key, value in block.items() if key != "cache_control"}


def canonical_messages(context: Context, *, has_tools: bool = True) -> tuple[Message, ...]:
    """The messages of a request; they end with the prompt, or with the results that wait for an answer.

    Without tools calls and results are written as text: some providers refuse calls of tools they were not given.
    """
    layout = context.layout
    messages = [Message("system", (Text(context.system),))] if context.system else []
    if lead := tuple(Text(text) for text in (layout.stable_lead, layout.lead) if text):
        messages.append(Message("user", lead))
    said = [message for message in (*_native(context), *layout.prompt) if message.kind != "display"]
    messages += said if has_tools else map(_as_text, said)
    if layout.tail:
        board = Text(layout.tail)
        if said and said[-1].opens_turn:
            # Nothing of the prompt is cached yet, so what changes can stand before it.
            messages[-1] = replace(messages[-1], parts=(board, *messages[-1].parts), original=None)
        else:
            messages.append(Message("user", (board,)))
    return tuple(messages)


def _native(context: Context) -> Iterator[Message]:
    """The native turns' messages. Images and files of earlier turns are named, not sent: their tokens are not counted,
    and not every model takes them."""
    shown = [segment for segment in context.segments if segment.is_native]
    for segment, block in zip(shown, context.layout.native, strict=True):
        for message in block.messages:
            yield message if segment.last == shown[-1].last else _with_named_files(message)


def _with_named_files(message: Message) -> Message:
    parts = tuple(_named(part) for part in message.parts)
    return message if parts == message.parts else replace(message, parts=parts, original=None)


def _named(part: Part) -> Part:
    if isinstance(part, Attachment):
        return Text(part_text(part))
    if isinstance(part, ToolResult):
        content = (Text(part_text(inner)) if isinstance(inner, Attachment) else inner for inner in part.content)
        return replace(part, content=tuple(content))
    return part


def _as_text(message: Message) -> Message:
    if not message.tool_calls and not message.tool_results:
        return message
    return Message("assistant" if message.role == "assistant" else "user", (Text(message_text(message)),))
