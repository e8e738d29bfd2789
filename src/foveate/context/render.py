"""The renderer: writes a layout as canonical messages and as the messages of each provider.

    system · tagged history · newest turns, native · memory, board and the turn in progress, or the prompt

Messages recorded in the same format are sent unchanged, except for cache hints, which belong to an earlier request,
fields of an Anthropic answer other than role and content, and anything that the provider would reject (see
`formats.acceptance`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, Final, TypeAlias

from foveate.context import invariants
from foveate.context.invariants import tool_pairs_whole
from foveate.context.pairs import TurnMessages, provider_message_count
from foveate.errors import InvalidMessage, UnknownFormat, did_you_mean
from foveate.formats import PROVIDER_FORMATS, render_messages
from foveate.formats.acceptance import Acceptance, encodable, is_encodable
from foveate.formats.providers.openai_responses import unique_ids
from foveate.text import message_text, part_text
from foveate.turn import Attachment, Json, Message, Part, Text, ToolResult

Record: TypeAlias = Mapping[str, Json]

FORMATS: Final = PROVIDER_FORMATS
MAX_BREAKPOINTS: Final = 4
"""Anthropic's limit."""
NATIVE_BREAKPOINTS: Final = 2
"""Breakpoints at the ends of the newest two turns: for the next context, and to match the cache of the previous one."""
_TWO_SIDED: Final = ("anthropic", "gemini")
_TEXT_TYPES: Final = {"openai": "text", "openai-responses": "input_text", "anthropic": "text"}
_THINKING: Final = ("thinking", "redacted_thinking")
_EPHEMERAL: Final = {"type": "ephemeral"}


@dataclass(frozen=True, slots=True)
class Layout:
    """The parts of a request in order."""

    stable_lead: str = ""
    """Tagged history that the next context repeats."""
    lead: str = ""
    """Other text before the native turns."""
    native: tuple[Stretch, ...] = ()
    """The newest turns, or their steps, sent as messages."""
    tail: str = ""
    """Memory and board, if a prompt follows; in a turn in progress they are sent before that turn."""
    prompt: tuple[Message, ...] = ()
    is_cacheable: bool = True
    """The next context repeats all text before the native turns."""
    note: str = ""
    """The line with the id of the first native turn; a separate text, so that the text before it stays the same."""
    open_call: str = ""
    """The called tool whose result is missing: there is nothing to answer yet."""

    def stretches(self) -> Iterator[Stretch]:
        """Yield the parts of the request in order, for all renderers and counts."""
        if lead := tuple(text for text in (self.stable_lead, self.lead, self.note) if text):
            yield Stretch(lead)
        yield from self.native
        if self.tail or self.prompt:
            yield Stretch((self.tail,) if self.tail else (), self.prompt)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Part of a request: texts that are added, and the messages after them. Both may be empty."""

    texts: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()
    turn: int = 0
    """The recorded turn of the messages; 0 if they are not part of the history."""
    is_stable: bool = False
    """The next context repeats it."""
    is_cut: bool = False
    """Texts in its messages are cut, with a note."""

    @property
    def shown(self) -> tuple[Message, ...]:
        return tuple(message for message in self.messages if message.kind != "display")

    @property
    def is_joined(self) -> bool:
        """Whether the texts are sent in the first message, which is the user's in every format."""
        first = next(iter(self.shown), None)
        return bool(self.texts) and first is not None and first.role == "user" and not first.tool_results


@dataclass(frozen=True, slots=True)
class RenderedTurn:
    """A turn in a provider's format; requests share it unless other turns have the same call ids."""

    prepared: Sequence[Message]
    records: Sequence[Record]
    """The messages as recorded; each request sends copies."""
    call_ids: frozenset[str]
    is_encodable: bool


def message_count(layout: Layout) -> int:
    """Return the maximum number of messages of a layout, without the system message."""
    return sum(
        provider_message_count(stretch.messages) + (bool(stretch.texts) and not stretch.is_joined)
        for stretch in layout.stretches()
    )


def canonical_messages(
    layout: Layout, system: str, *, has_tools: bool = True, names_files: bool = True
) -> tuple[Message, ...]:
    """Return a request in canonical messages; the last one is the prompt or an unanswered result.

    Without tools, calls and results are written as text: some providers reject calls of unknown tools. With
    `names_files`, images and files of earlier turns are named and not sent: not every model accepts them.
    """
    check_answerable(layout)
    messages = [Message("system", (Text(system),))] if system else []
    newest = layout.native[-1].turn if layout.native else 0
    for stretch in layout.stretches():
        own = list(stretch.shown)
        if names_files and stretch.turn and stretch.turn != newest:
            own = list(map(_with_named_files, own))
        if not has_tools:
            own = list(map(_as_text, own))
        texts = tuple(map(Text, stretch.texts))
        if stretch.is_joined:
            own[0] = replace(own[0], parts=(*texts, *own[0].parts), original=None)
        elif texts:
            own.insert(0, Message("user", texts))
        messages += own
    return tuple(messages)


def check_answerable(layout: Layout) -> None:
    """Raise `InvalidMessage` if the conversation ends with a call whose result is not recorded."""
    if layout.open_call:
        problem = f"has a call of {layout.open_call!r} without its result; record the result, or give a prompt"
        raise InvalidMessage("newest turn", problem)


def render_request(format: str, messages: list[Any], *, system: str, tools: Sequence[Record]) -> dict[str, Any]:  # noqa: A002
    """Return the keyword arguments of the provider's own call, without empty ones."""
    offered = _filled(tools=list(tools))
    system = str(encodable(system))
    match format:
        case "anthropic":
            shown = system if system.strip() else ""  # the API rejects white space alone
            return {**_filled(system=shown), "messages": messages, **offered}
        case "gemini":
            return {"contents": messages, **_filled(config=_filled(system_instruction=system, **offered))}
        case "openai-responses":
            return {"input": messages, **offered}
    return {"messages": messages, **offered}


def _filled(**parts: Any) -> dict[str, Any]:
    return {name: part for name, part in parts.items() if part}


def render_layout(
    layout: Layout,
    system: str,
    format: str,  # noqa: A002
    *,
    cache: bool,
    keeps_system: bool = False,
) -> list[Json]:
    """Return the messages in a provider's own format; every call has its result and the thinking that it requires.

    With `keeps_system`, recorded system messages of Anthropic's format keep their role.
    """
    if format not in FORMATS:
        raise UnknownFormat(f"no messages of format {format!r}; {did_you_mean(format, FORMATS)}")
    check_answerable(layout)
    has_breakpoints = cache and format == "anthropic"
    rendered: list[Record] = []
    if system and format not in _TWO_SIDED:
        rendered.append({"role": "system", "content": system})
    edges = _edges(layout) if has_breakpoints and layout.is_cacheable else ()
    acceptance = Acceptance(format, keeps_system=keeps_system)
    native: list[Message] = []
    is_sendable = True
    for stretch in layout.stretches():
        known = _known(stretch, acceptance)
        prepared = known.prepared if known else acceptance.prepare(stretch.shown)
        records = known.records if known else _render_native(prepared, format)
        native += prepared if stretch.turn else ()
        is_sendable = is_sendable and all(map(is_encodable, stretch.texts))
        is_sendable = is_sendable and (known.is_encodable if known else is_encodable(records))
        own = _with_texts(stretch.texts, _sendable(records, format), format)
        if has_breakpoints and layout.stable_lead and not stretch.messages and stretch.texts[0] == layout.stable_lead:
            own[0] = _mark(own[0], 0)
        if own and any(stretch is edge for edge in edges):
            own[-1] = _mark(own[-1])
        rendered.extend(own)
    joined = _two_sided(rendered, format) if format in _TWO_SIDED else rendered
    joined = unique_ids(joined) if format == "openai-responses" else joined
    sent = list(joined) if is_sendable and is_encodable(system) else encodable(joined)
    assert isinstance(sent, list), "encoding a list returns a list"
    invariants.check_messages(format, sent, native)
    return sent


def _known(stretch: Stretch, acceptance: Acceptance) -> RenderedTurn | None:
    """Return the cached rendering of a stretch; None if earlier messages of this request change its call ids."""
    messages, name = stretch.messages, acceptance.format
    if not isinstance(messages, TurnMessages):
        return None
    key = name, acceptance.keeps_system
    if key not in messages.rendered:
        alone = Acceptance(name, keeps_system=acceptance.keeps_system)
        prepared = alone.prepare(stretch.shown)
        records = _render_native(prepared, name)
        ids = alone.recorded_ids
        messages.rendered[key] = None if ids is None else RenderedTurn(prepared, records, ids, is_encodable(records))
    known = messages.rendered[key]
    return known if known and acceptance.add_prepared(known.call_ids) else None


def _edges(layout: Layout) -> Sequence[Stretch]:
    """Return the native turns that end with a breakpoint."""
    return list(takewhile(lambda native: native.is_stable, layout.native))[-NATIVE_BREAKPOINTS:]


def _render_native(shown: Sequence[Message], format: str) -> list[Record]:  # noqa: A002
    rendered = render_messages(format, shown)
    if tool_pairs_whole.problem(format, rendered):
        by_meaning = [
            message.without_original() if message.original and message.original.format == format else message
            for message in shown
        ]
        rendered = render_messages(format, by_meaning)
    return [record for record in rendered if isinstance(record, Mapping)]


def _with_texts(texts: Sequence[str], records: list[Record], format: str) -> list[Record]:  # noqa: A002
    """Put texts before messages, into the first one if it is the user's."""
    if not texts:
        return records
    before = _user(format, texts)
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
    """Join consecutive messages of one side: not every server of these formats accepts two in a row."""
    joined: list[Record] = []
    for record in records:
        if joined and _side(joined[-1]) == _side(record) != "system":
            joined[-1] = _join(joined[-1], record, format)
        else:
            joined.append(record)
    return joined


def _side(record: Record) -> str:
    role = record.get("role")
    return "model" if role in ("assistant", "model") else "system" if role == "system" else "user"


def _mark(record: Record, index: int | None = None) -> Record:
    """Set a breakpoint at this block, or at the last one that can carry it."""
    blocks = _content(record, "anthropic")
    able = [place for place, block in enumerate(blocks) if _can_carry(block)]
    if not able:
        return record
    place = able[-1] if index is None else index
    blocks[place] = {**blocks[place], "cache_control": _EPHEMERAL}
    return {**record, "content": blocks}


def _can_carry(block: Record) -> bool:
    return block.get("type") not in _THINKING and block.get("text") != ""


def _sendable(records: Sequence[Record], format: str) -> list[Record]:  # noqa: A002
    """Remove what the API would reject in a request.

    Anthropic rejects the other fields of its own answers, and cache hints are set again. OpenAI rejects a reasoning
    item that is not followed by an item of the model, as in an interrupted answer.
    """
    if format == "anthropic":
        return [_clean_message(record) for record in records]
    return _without_lone_reasoning(records) if format == "openai-responses" else list(records)


def _without_lone_reasoning(records: Sequence[Record]) -> list[Record]:
    kept: list[Record] = []
    is_followed = False
    for record in reversed(records):
        if record.get("type") != "reasoning":
            is_of_model = record.get("role", "assistant") == "assistant"  # calls have no role
            is_followed = is_of_model and not str(record.get("type")).endswith("_output")
        elif not is_followed:
            continue
        kept.append(record)
    return kept[::-1]


def _clean_message(record: Record) -> Record:
    own = record if record.get("role") == "system" else {"role": record.get("role")}
    return {**own, "content": _clean_content(record.get("content"))}


def _clean_content(content: Json) -> Json:
    if isinstance(content, str) or not isinstance(content, Sequence):
        return content
    return [_clean(block) if isinstance(block, Mapping) else block for block in content]


def _clean(block: Record) -> Record:
    inner = block.get("content")
    if block.get("type") == "tool_result" and isinstance(inner, Sequence) and not isinstance(inner, str):
        block = {**block, "content": [_clean(part) if isinstance(part, Mapping) else part for part in inner]}
    return {key: value for key, value in block.items() if key != "cache_control"}


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
