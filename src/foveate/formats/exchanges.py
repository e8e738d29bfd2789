"""Tool calls paired with their results across formats, and notes for content that a format can't express."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from foveate.formats.parse import Record
from foveate.turn import Attachment, Json, Message, Opaque, Part, Reasoning, Role, Text, ToolCall, ToolResult

NO_RESULT = "[No result of this call was recorded.]"


def note_of(part: Attachment | Opaque) -> str:
    """Return one line that describes the part which was here."""
    if isinstance(part, Opaque):
        kind = part.data.get("type") if isinstance(part.data, Mapping) else None
        return f"[{kind if isinstance(kind, str) else 'A block'} of {part.format}, not readable here]"
    fields = [part.name, part.uri, part.file_id and f"file id {part.file_id}", part.media_type]
    details = ", ".join(detail for detail in fields if detail) or "inline"
    return f"[{part.media}: {details}]"


def stray_result(result: ToolResult) -> str:
    """Return the heading of a result whose call is missing."""
    of = " ".join(word for word in (result.name, result.call_id) if word)
    return f"[Result of a tool call that is not part of this conversation{of and ': '}{of}]"


def wrap_system(text: str) -> str:
    """Wrap system text for messages without a system role."""
    return f"<system>\n{text}\n</system>"


Family = Literal["anthropic", "gemini", "openai"]
"""The provider whose signatures, encrypted reasoning and file ids a message carries."""

_FAMILIES: dict[str, Family] = {
    "anthropic": "anthropic",
    "claude-code": "anthropic",
    "codex": "openai",
    "gemini": "gemini",
    "openai": "openai",
    "openai-responses": "openai",
}


@dataclass(frozen=True, slots=True)
class FamilyPart:
    """A part and its provider; `family` is None if the provider is unknown."""

    part: Part
    family: Family | None

    def may_be_of(self, family: Family) -> bool:
        return self.family in (family, None)


@dataclass(slots=True)
class Utterance:
    """The message of one side; an assistant's calls are answered by the `Results` that follow directly."""

    role: Role
    pieces: list[FamilyPart] = field(default_factory=list)
    name: str | None = None


@dataclass(frozen=True, slots=True)
class PairedResult:
    """A result with the id and the name of its call; `call` is None if it is in another list."""

    result: ToolResult
    call: ToolCall | None
    family: Family | None


@dataclass(slots=True)
class Results:
    answers: list[PairedResult] = field(default_factory=list)


@dataclass(slots=True)
class _Pending:
    """A call that still needs its result."""

    call: ToolCall
    family: Family | None
    answer: PairedResult | None = None


@dataclass(slots=True)
class _Response:
    """Consecutive assistant messages are one response: some formats write each block as a message."""

    utterance: Utterance
    calls: list[_Pending] = field(default_factory=list)
    closed: bool = False


def exchanges(messages: Iterable[Message], call_ids: re.Pattern[str] | None) -> list[Utterance | Results]:
    """Return messages in the order that a provider expects. Calls whose id is missing, repeated or does not match
    `call_ids` get one derived from their content; None keeps all ids, for a provider that needs none."""
    weaver = _Weaver(call_ids)
    for message in messages:
        weaver.add(message)
    return weaver.finish()


def two_sided(
    entries: Iterable[Utterance | Results], render: Callable[[Utterance | Results], list[Record]]
) -> list[tuple[bool, list[Record]]]:
    """Render entries for a provider with only a model and a user: whether it is the model, and the content.

    A user message directly after results is joined with them: the provider would read it so, and may have sent it so.
    """
    turns: list[tuple[bool, list[Record]]] = []
    after_results = False
    for entry in entries:
        is_model = isinstance(entry, Utterance) and entry.role == "assistant"
        if content := render(entry):
            if after_results and not is_model:
                turns[-1][1].extend(content)
            else:
                turns.append((is_model, content))
            after_results = isinstance(entry, Results)
    return turns


def plain_or_list(content: list[Record]) -> Json:
    """Return a single text as plain text, the shape people write; anything else as the list."""
    if not content:
        return ""
    is_text = len(content) == 1 and content[0].get("type") in ("text", "input_text", "output_text")
    return content[0]["text"] if is_text and "text" in content[0] else content


class _Weaver:
    def __init__(self, call_ids: re.Pattern[str] | None) -> None:
        self._call_ids = call_ids
        self._entries: list[_Response | Utterance | Results] = []
        self._taken: set[str] = set()
        self._made = 0

    def add(self, message: Message) -> None:
        family = _FAMILIES.get(message.original.format) if message.original else None
        role: Role = "user" if message.role == "tool" else message.role
        own: list[FamilyPart] = []
        for part in message.parts:
            if isinstance(part, ToolResult):
                self._answer(part, family)
            elif role == "assistant" or isinstance(part, ToolCall):
                self._respond(part, message, family)
            elif not isinstance(part, Reasoning):
                own.append(FamilyPart(part, family))
        if role != "assistant" and (own or not message.parts):
            self._entries.append(Utterance(role, own, message.name))
        elif not message.parts:
            self._response(message)

    def finish(self) -> list[Utterance | Results]:
        woven: list[Utterance | Results] = []
        for index, entry in enumerate(self._entries):
            if isinstance(entry, _Response):
                woven.extend(self._settle(entry, is_last=index == len(self._entries) - 1))
            else:
                woven.append(entry)
        return woven

    def _response(self, message: Message) -> _Response:
        last = self._entries[-1] if self._entries else None
        if not isinstance(last, _Response) or last.closed:
            last = _Response(Utterance("assistant"))
            self._entries.append(last)
        last.utterance.name = last.utterance.name or message.name
        return last

    def _respond(self, part: Part, message: Message, family: Family | None) -> None:
        response = self._response(message)
        response.utterance.pieces.append(FamilyPart(part, family))
        if isinstance(part, ToolCall):
            response.calls.append(_Pending(part, family))

    def _answer(self, result: ToolResult, family: Family | None) -> None:
        if self._entries and isinstance(self._entries[-1], _Response):
            self._entries[-1].closed = True
        if pending := self._waiting(result):
            pending.answer = PairedResult(result, pending.call, family)
        elif self._may_continue(result):
            if not self._entries:
                self._entries.append(Results())
            leading = self._entries[0]
            if isinstance(leading, Results):
                leading.answers.append(PairedResult(result, None, family))
        else:
            parts: tuple[Part, ...] = (Text(stray_result(result)), *result.content)
            self._entries.append(Utterance("user", [FamilyPart(part, family) for part in parts]))

    def _waiting(self, result: ToolResult) -> _Pending | None:
        """Return the call that a result answers: by id, by name, or in order; of equals, the first of the latest."""
        for response in reversed(self._entries):
            for pending in response.calls if isinstance(response, _Response) else ():
                if pending.answer is None and answers(result, pending.call):
                    return pending
        return None

    def _may_continue(self, result: ToolResult) -> bool:
        at_start = all(isinstance(entry, Results) for entry in self._entries)
        return at_start and (self._call_ids is None or bool(self._call_ids.fullmatch(result.call_id or "")))

    def _settle(self, response: _Response, *, is_last: bool) -> list[Utterance | Results]:
        calls = [replace(pending.call, id=self._call_id(pending)) for pending in response.calls]
        in_order = iter(calls)
        pieces = [
            FamilyPart(next(in_order), piece.family) if isinstance(piece.part, ToolCall) else piece
            for piece in response.utterance.pieces
        ]
        paired = []
        for pending, call in zip(response.calls, calls, strict=True):
            answer = pending.answer
            if answer is None and is_last:
                continue
            result = answer.result if answer else ToolResult(None, (Text(NO_RESULT),), is_error=True)
            settled = replace(result, call_id=call.id, name=call.name)
            paired.append(PairedResult(settled, call, answer.family if answer else pending.family))
        utterance = Utterance("assistant", pieces, response.utterance.name)
        return [utterance, Results(paired)] if paired else [utterance]

    def _call_id(self, pending: _Pending) -> str | None:
        call_id = pending.call.id or None
        if self._call_ids is None:
            return call_id
        if call_id is None or call_id in self._taken or not self._call_ids.fullmatch(call_id):
            # The digest distinguishes ids made in separately rendered segments of one conversation.
            content = repr((pending.call, pending.answer and pending.answer.result))
            digest = hashlib.sha256(content.encode(errors="surrogatepass")).hexdigest()[:8]
            self._made += 1
            call_id = f"call_{self._made}_{digest}"
        self._taken.add(call_id)
        return call_id


def answers(result: ToolResult, call: ToolCall) -> bool:
    """Check whether a result may belong to a call: by id if both have one, else by name, else in order."""
    if result.call_id and call.id:
        return result.call_id == call.id
    return result.name in (None, call.name)


_FITTING = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class _Waiting(NamedTuple):
    """A call without its result yet, and the id it has now."""

    call: ToolCall
    id: str


def with_call_ids(messages: Iterable[Message]) -> Iterator[Message]:
    """Yield the messages with an id for every call and result; matching ids are unchanged."""
    waiting: list[_Waiting] = []
    made = 0
    for message in messages:
        parts: list[Part] = []
        for part in message.parts:
            if isinstance(part, ToolCall):
                made += 1
                id_ = part.id if part.id and _FITTING.fullmatch(part.id) else f"call_{made}"
                waiting.append(_Waiting(part, id_))
                parts.append(replace(part, id=id_))
            elif isinstance(part, ToolResult):
                parts.append(_answered(part, waiting))
            else:
                parts.append(part)
        yield replace(message, parts=tuple(parts))


def _answered(result: ToolResult, waiting: list[_Waiting]) -> ToolResult:
    entry = next((entry for entry in waiting if answers(result, entry.call)), None)
    if entry is None:
        return result
    waiting.remove(entry)
    return replace(result, call_id=entry.id)


def said_in(parts: Iterable[Part]) -> list[str]:
    """Return the texts, and a note for each attachment and unknown block; reasoning, calls and results are omitted."""
    visible = (part for part in parts if isinstance(part, Text | Attachment | Opaque))
    return [part.text if isinstance(part, Text) else note_of(part) for part in visible]


def result_text(result: ToolResult) -> str:
    return "\n".join(said_in(result.content))
