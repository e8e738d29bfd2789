"""Tokens of messages as a provider gets them, beyond those of their text.

Arguments are sent as recorded, with escapes and white space; images and files are sent completely; signed and
encrypted thinking is returned to its provider. Messages are rendered in every format, and the largest one counts.
"""

from __future__ import annotations

import math
from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from foveate.formats import render_messages
from foveate.formats.acceptance import Acceptance
from foveate.formats.exchanges import stray_result, wrap_system
from foveate.formats.files import encode_json
from foveate.formats.media_tokens import (
    ImageRule,
    attachment_note,
    block_media,
    image_rule,
    media_note,
    media_tokens,
)
from foveate.formats.parse import Record
from foveate.text import LISTS, OBJECTS, attachment_text, compact_json, turn_text
from foveate.tokens import Counter, EncodingName, session_counter
from foveate.turn import Attachment, Json, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult

PROVIDERS: Final = ("openai", "openai-responses", "anthropic", "gemini")
SIGNATURE_CHARS_PER_TOKEN: Final = 4
"""A signature or encrypted block holds thinking that only the provider reads; its base64 is longer than its text."""
MIN_SIGNATURE_CHARS: Final = 64
"""Shorter ones hold no thinking, such as the constant that Google accepts for a call that Gemini did not make."""
MARK_TOKENS: Final = 3
"""Minimum tokens of a marker such as `[user]` or `[call …]` in a turn's text, which no provider's message has."""

_STRUCTURE: Final = frozenset((
    "type", "role", "id", "call_id", "tool_call_id", "tool_use_id", "status", "cache_control", "detail", "is_error",
    "thought", "index", "model", "stop_reason", "stop_sequence", "usage", "phase", "mimeType", "mime_type",
    "media_type", "format",
))  # fmt: skip
"""Keys whose values a model does not read as text."""
_SIGNATURES: Final = ("signature", "thoughtSignature", "thought_signature", "encrypted_content")
_OBJECTS: Final = ("input", "args", "action", "operation", "response", "parameters")
"""Keys of JSON that a model or a tool wrote."""
_NAMES: Final = ("title", "filename", "displayName", "display_name")


@dataclass(slots=True)
class SentParts:
    """The counted parts of a provider's message."""

    texts: list[str] = field(default_factory=list)
    media: list[Attachment] = field(default_factory=list)
    signature_tokens: int = 0

    @classmethod
    def of(cls, records: Iterable[Json]) -> SentParts:
        """Collect the parts of a provider's messages."""
        sent = cls()
        for record in records:
            sent.add(record)
        return sent

    def add(self, value: Json, key: str = "") -> None:
        """Add a message, or a value inside one under a key."""
        if isinstance(value, str):
            if key in _SIGNATURES and len(value) >= MIN_SIGNATURE_CHARS:
                self.signature_tokens += math.ceil(len(value) / SIGNATURE_CHARS_PER_TOKEN)
            elif key not in _STRUCTURE and key not in _SIGNATURES and value:
                self.texts.append(value)
        elif isinstance(value, OBJECTS):
            self._add_object(value, key)
        elif isinstance(value, LISTS):
            for element in value:
                self.add(element, key)

    def _add_object(self, value: Record, key: str) -> None:
        if key in _STRUCTURE:
            return
        if key in _OBJECTS:
            self.texts.append(_object_text(value))
        elif attachment := block_media(value):
            self.media.append(attachment)
            names = (value.get(name) for name in _NAMES)
            self.texts += [name for name in names if isinstance(name, str)]
        elif value.get("type") == "redacted_thinking":
            self.add(value.get("data"), "signature")
        else:
            for name, inner in value.items():
                self.add(inner, name)


def _object_text(value: Record) -> str:
    """Return JSON as text; a function response that is one text is that text."""
    if len(value) == 1:
        (key, inner), *_ = value.items()
        if key in ("output", "error") and isinstance(inner, str):
            return inner
    return encode_json(value)


@dataclass(frozen=True, slots=True)
class SentSizes:
    """Counts messages as they are sent, for one model."""

    counter: Counter
    rule: ImageRule

    @staticmethod
    def of(model: str | None, encoding: EncodingName = "o200k_base") -> SentSizes:
        return _sizes_of(model, encoding)

    def media_tokens(self, attachment: Attachment) -> int:
        """Return the base tokens of an attachment: the counter's factor applies only to text."""
        return math.ceil(media_tokens(attachment, self.rule, self.counter.count) / self.counter.factor)

    def extra_tokens(self, messages: Iterable[Message]) -> int:
        """Return the base tokens of the messages beyond those of `message_text`, in the format with the most."""
        return sum(map(self._extra, messages))

    def tagged_text(self, messages: Iterable[Message]) -> str:
        """Return the text of messages in tags, where attachments are notes unless those are larger."""
        return turn_text(messages, self._attachment_text)

    def _attachment_text(self, attachment: Attachment) -> str:
        note = attachment_note(attachment)
        return note if self.counter.base(note) <= self.media_tokens(attachment) else attachment_text(attachment)

    def beyond_text_tokens(self, messages: Sequence[Message]) -> int:
        """Return the base tokens of the messages beyond those of `tagged_text`."""
        extra = self.extra_tokens(messages)
        if not has_media(messages):
            return extra
        notes = self.counter.base(self.tagged_text(messages)) - self.counter.base(turn_text(messages))
        return max(0, extra - notes)

    def note_tokens(self, results: Iterable[ToolResult]) -> int:
        """Return the base tokens of the headings of results whose calls are not in the request."""
        return sum(self.counter.base(stray_result(result)) for result in results)

    def _extra(self, message: Message) -> int:
        if message.kind == "display" or _is_plain(message):
            return 0
        same, written = Tally(_same_texts(message)), Tally(_written_texts(message))
        # Most formats send the same texts: each distinct rendering is counted once, and each text once.
        ways: list[SentParts] = []
        for records in _renderings(message):
            sent = SentParts.of(records)
            if sent not in ways:
                ways.append(sent)
        counts: dict[str, int] = {}
        return max(0, *(self._beyond(sent, same, written, counts) for sent in ways))

    def _beyond(self, sent: SentParts, same: Tally[str], written: Tally[str], counts: dict[str, int]) -> int:
        tokens = sum(map(self.media_tokens, sent.media)) + sent.signature_tokens
        texts = Tally(sent.texts) - same
        if fresh := texts - written:
            spared = written - texts
            counts |= {text: self.counter.base(text) for text in [*fresh, *spared] if text not in counts}
            tokens += sum(counts[text] * number for text, number in fresh.items()) - MARK_TOKENS
            tokens -= sum((counts[text] + MARK_TOKENS) * number for text, number in spared.items())
        return tokens

    def fit_media(self, messages: Sequence[Message], room_tokens: int, tokens: int) -> tuple[Message, ...]:
        """Replace attachments that do not fit by notes, the oldest first. `tokens` is the size before that.

        Everything else is kept, whether it fits or not.
        """
        kept = list(messages)
        for index, message in enumerate(kept):
            if tokens <= room_tokens:
                break
            before = self.extra_tokens([message])
            kept[index] = self.without_media(message)
            tokens -= before - self.extra_tokens([kept[index]])
        return tuple(kept)

    def without_media(self, message: Message) -> Message:
        """Return the message with a note in the place of each attachment that is larger than its note."""
        parts = tuple(self._noted(part) for part in message.parts)
        return message if parts == message.parts else replace(message, parts=parts, original=None)

    def _noted(self, part: Part) -> Part:
        if isinstance(part, Attachment):
            note = media_note(part, media_tokens(part, self.rule, self.counter.count))
            return Text(note) if self.media_tokens(part) > self.counter.base(note) else part
        if isinstance(part, ToolResult) and any(isinstance(inner, Attachment) for inner in part.content):
            noted = (self._noted(inner) for inner in part.content)
            return replace(part, content=tuple(one for one in noted if isinstance(one, Text | Attachment | Opaque)))
        return part


@lru_cache(maxsize=64)
def _sizes_of(model: str | None, encoding: EncodingName) -> SentSizes:
    return SentSizes(session_counter(model, encoding), image_rule(model))


def has_media(messages: Iterable[Message]) -> bool:
    """Check whether an image, file, sound or video is attached to any of the messages."""
    parts = (part for message in messages for part in message.parts)
    return any(
        isinstance(part, Attachment)
        or (isinstance(part, ToolResult) and any(isinstance(inner, Attachment) for inner in part.content))
        for part in parts
    )


def _is_plain(message: Message) -> bool:
    """Check for text only, which every format sends unchanged; for an empty message some send a note."""
    if message.role not in ("user", "assistant") or not message.parts:
        return False
    if not all(isinstance(part, Text) and part.text.strip() for part in message.parts):
        return False
    data = message.original.data if message.original else None
    return data is None or (isinstance(data, Mapping) and data.keys() == {"role", "content"})


def _renderings(message: Message) -> Iterator[list[Json]]:
    """Render the message in every provider's format, as it accepts it; in its own as recorded, and by its meaning."""
    for name in PROVIDERS:
        yield render_messages(name, Acceptance(name).prepare([message]))
        if message.original and message.original.format == name:
            yield render_messages(name, Acceptance(name).prepare([message.without_original()]))


def _same_texts(message: Message) -> Iterator[str]:
    """Yield the texts that the turn's text contains exactly as they are sent."""
    for part in message.parts:
        match part:
            case Text(text) | Reasoning(text):
                yield text
                if message.role in ("system", "developer"):
                    yield wrap_system(text)
            case ToolCall(name):
                yield name
            case ToolResult(name=name, content=content):
                yield from (inner.text for inner in content if isinstance(inner, Text))
                yield from [name] if name else []


def _written_texts(message: Message) -> Iterator[str]:
    """Yield the texts that the turn's text has in another form than a provider's message."""
    for part in message.parts:
        match part:
            case ToolCall(arguments=arguments):
                yield compact_json(arguments)
            case Opaque(data=data):
                yield compact_json(data)
