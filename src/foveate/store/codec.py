"""Conversion of a message to its row and back: its body packed, its tokens counted once.

The body holds the record in its original format, so it is restored exactly, and a later version with better support for
a format reads more from the same bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from functools import cache
from itertools import chain

from foveate import formats
from foveate.errors import FoveateError
from foveate.formats.sizes import SentSizes
from foveate.store import bodies
from foveate.store.redaction import Redactor
from foveate.store.rows import Draft, MessageRow
from foveate.text import message_pieces, message_text, weigh_json
from foveate.tokens import count_pieces
from foveate.turn import (
    Attachment,
    Json,
    Message,
    Opaque,
    Original,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    from_us,
    to_us,
)

CANONICAL = "foveate"
LARGE_CHARS = 50_000
"""From this size a batch is packed and counted in threads: tiktoken, zstd and sha256 release the GIL."""
MANY_MESSAGES = 200
"""So does a batch of this many messages or parts, however small: each takes about 0.1 ms."""
PACKERS = 2
PACKED_TOGETHER = 64
"""Messages that one job of a packer takes."""


async def draft_messages(
    messages: Sequence[Message],
    at: datetime | None,
    keys: Sequence[str | None],
    sizes: SentSizes,
    compression_level: int,
) -> list[Draft]:
    """Make drafts whose turns are detected; `at` is the time of messages without one."""

    def make(message: Message, key: str | None, *, in_slices: bool = True) -> Draft:
        return _draft(message, at, key, sizes, compression_level, in_slices=in_slices)

    parts = sum(len(message.parts) for message in messages)
    if max(len(messages), parts) < MANY_MESSAGES and sum(map(weigh, messages)) < LARGE_CHARS:
        return [make(message, key, in_slices=False) for message, key in zip(messages, keys, strict=True)]

    def make_some(start: int) -> list[Draft]:
        end = start + PACKED_TOGETHER
        return list(map(make, messages[start:end], keys[start:end]))

    starts = range(0, len(messages), PACKED_TOGETHER)
    return await asyncio.to_thread(lambda: list(chain.from_iterable(_packers().map(make_some, starts))))


async def draft_turn(
    turn: Turn, at: datetime | None, key: str | None, sizes: SentSizes, compression_level: int
) -> list[Draft]:
    """Make the drafts of a whole turn, which always starts a new turn."""
    keys = [None if key is None else f"{key}#{index}" for index in range(len(turn.messages))]
    drafts = await draft_messages(turn.messages, at, keys, sizes, compression_level)
    return [replace(draft, starts=index == 0) for index, draft in enumerate(drafts)]


def restore_message(row: MessageRow) -> Message:
    """Restore the message of a row. If its format is not installed any more, its record is kept but not parsed."""
    assert row.body is not None, "a pruned message has no body to restore"
    kept = bodies.load(row.body)
    assert isinstance(kept, dict), "a body is an object with a format and data"
    format_name, data = str(kept["format"]), kept["data"]
    try:
        message = formats.parse_message(format_name, data)
    except FoveateError:
        message = Message(row.role, (Opaque(format_name, data),), original=Original(format_name, data))
    original = None if format_name == CANONICAL else message.original
    prefix = kept.get("prefix")
    known = prefix if isinstance(prefix, str) else None
    return replace(message, kind=row.kind, at=from_us(row.at_us), original=original, prefix=known)


def redact_message(row: MessageRow, redactor: Redactor, sizes: SentSizes, compression_level: int) -> Draft | None:
    """Return a stored message without a text; None if it does not contain it, or was pruned."""
    if row.body is None or row.problem or not redactor.is_in(row.body):
        return None
    value, message = bodies.load(row.body), restore_message(row)
    redacted = redactor.message(message)
    assert isinstance(value, dict), "a body is an object with a format and data"
    if redacted == replace(message, original=None) and not redactor.is_said(value["data"]):
        return None
    # Stored by its meaning: the text may be in any field of the provider's own record.
    return _draft(redacted, None, None, sizes, compression_level, in_slices=True)


def note_body(role: Role, note: str) -> bytes:
    """Encode a note that replaces a message which can't be read."""
    return bodies.encode(_stored_form(Message(role, (Text(note),))))


def _draft(
    message: Message,
    at: datetime | None,
    key: str | None,
    sizes: SentSizes,
    compression_level: int,
    *,
    in_slices: bool,
) -> Draft:
    moment = message.at or at
    body = bodies.pack(_stored_form(message), compression_level, in_slices=in_slices)
    counter = sizes.counter
    tokens = (
        count_pieces(message_pieces(message), counter.encoding) if in_slices else counter.base(message_text(message))
    )
    return Draft(
        role=message.role,
        kind=message.kind,
        opens_turn=message.opens_turn,
        is_preamble=message.is_preamble,
        tokens=tokens + sizes.extra_tokens([message]),
        tool_calls=len(message.tool_calls),
        tool_results=len(message.tool_results),
        at_us=None if moment is None else to_us(moment),
        body=body.data,
        digest=body.digest,
        size=body.size,
        key=key,
    )


def _stored_form(message: Message) -> Json:
    made_under: dict[str, Json] = {"prefix": message.prefix} if message.prefix else {}
    if message.original:
        return {"format": message.original.format, "data": message.original.data, **made_under}
    (data,) = formats.load_messages(CANONICAL).render([message])
    return {"format": CANONICAL, "data": data, **made_under}


def weigh(message: Message) -> int:
    """Estimate the characters of a message without serializing it."""
    return sum(map(weigh_part, message.parts))


def weigh_part(part: Part) -> int:
    """Estimate the characters of a part."""
    match part:
        case Text(text) | Reasoning(text):
            return len(text)
        case Attachment(data=data):
            return len(data or "")
        case ToolCall(arguments=value) | Opaque(data=value):
            return weigh_json(value)
        case ToolResult(content=content):
            return sum(map(weigh_part, content))


@cache
def _packers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(PACKERS, thread_name_prefix="foveate-packer")
