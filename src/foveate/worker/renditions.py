"""One turn's renditions, from stored rows to stored rows: the job that a worker runs for each turn, in any process."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from foveate.compress.local import LocalCompressor
from foveate.compress.model import is_worth_asking
from foveate.compress.settings import CompressSettings
from foveate.context.costs import content_tokens, counting
from foveate.context.cut import take_head
from foveate.errors import contained
from foveate.history.worth import pack_words
from foveate.recall.passages import index_turn
from foveate.renditions import TINY_TOKENS, Compressor, Level, Renditions, Unit, without_recalled
from foveate.store import MessageRow, bodies
from foveate.store.codec import restore_message, weigh_part
from foveate.store.rows import NewPassages, NewRendition
from foveate.text import encodable, turn_text
from foveate.tokens import Counter, EncodingName, exact_counter
from foveate.turn import Attachment, Json, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult

MAX_UNIT_CHARS = 200
MAX_TURN_CHARS = 2_000_000
"""Long texts of a larger turn are reduced to their beginning and end, and the turn is marked as incomplete."""
COARSE_CHARS = 20_000
"""Maximum source size of a coarse rendition."""
MAX_ITEMS = 1_000
"""Maximum number of items that are read from a list or object in the arguments of a large turn."""
HEAD_SHARE = 2 / 3
"""Share of a shortened text that is its beginning."""

_log = logging.getLogger(__name__)


def make_local(  # noqa: PLR0917 - a job's arguments go to another process by position
    turn: int,
    rows: Sequence[MessageRow],
    encoding: EncodingName,
    call_levels: Sequence[Sequence[Level]] = (),
    due_us: int | None = None,
    embeddings: str | None = None,
    settings: CompressSettings | None = None,
) -> NewRendition:
    """Make all levels of a turn without a model. The turn is due for a model if any of its calls is worthwhile.

    `call_levels` are the levels of each call to a model. With `embeddings` set, the turn's index entry is made too.
    """
    messages = without_recalled([restore_message(row) for row in rows])
    compressor = LocalCompressor.of(settings or CompressSettings())
    made = make_rendition(compressor, turn, messages, exact_counter(encoding), tiny_tokens=compressor.tiny_tokens)
    if embeddings is not None:
        made = replace(made, passages=_indexed(turn, rows[0].at_us, messages, embeddings))
    if not call_levels:
        return made
    count = exact_counter(encoding).base
    is_due = any(is_worth_asking(messages, count, levels) for levels in call_levels)
    return replace(made, due_us=due_us if is_due else None)


def make_coarse(  # noqa: PLR0917 - as `make_local`
    turn: int,
    rows: Sequence[MessageRow],
    encoding: EncodingName,
    call_levels: Sequence[Sequence[Level]] = (),  # noqa: ARG001
    due_us: int | None = None,  # noqa: ARG001
    embeddings: str | None = None,  # noqa: ARG001
    settings: CompressSettings | None = None,
) -> NewRendition:
    """Make a turn's renditions quickly, whatever it contains: its beginning and end, marked as incomplete."""
    messages = bound_messages(without_recalled([restore_message(row) for row in rows]), COARSE_CHARS)
    counter = exact_counter(encoding)
    compressor = LocalCompressor.of(settings or CompressSettings())
    made = fall_back(turn, messages, counter, compressor.tiny_tokens)
    return _packed(compressor, turn, messages, made, counter)


def make_rendition(
    compressor: Compressor,
    turn: int,
    messages: Sequence[Message],
    counter: Counter,
    *,
    tiny_tokens: int = TINY_TOKENS,
) -> NewRendition:
    """Make all levels of a turn; if that fails, a fallback, marked as one."""
    made = compress_safely(compressor, turn, messages, counter, tiny_tokens=tiny_tokens)
    return _packed(compressor, turn, messages, made, counter)


def _packed(
    compressor: Compressor, turn: int, messages: Sequence[Message], made: Renditions, counter: Counter
) -> NewRendition:
    tiny = encodable(made.tiny)
    return NewRendition(
        turn=turn,
        messages=len(messages),
        maker=compressor.name,
        version=compressor.version,
        is_complete=made.is_complete,
        smoothed_tokens=content_tokens(made.smoothed, "S", counter),
        compressed_tokens=content_tokens(made.compressed, "C", counter),
        tiny_tokens=content_tokens(tiny, "T", counter),
        tiny=tiny,
        compressed=bodies.squeeze(made.compressed),
        smoothed=bodies.squeeze(made.smoothed),
        units=pack_units(made.units),
        refusals=len(made.refusals),
        words=pack_words(messages, made.smoothed, made.compressed, tiny, made.brief),
        brief=bodies.squeeze(made.brief) if made.brief else None,
        brief_tokens=content_tokens(made.brief, "C", counter) if made.brief else None,
    )


def make_passages(turn: int, rows: Sequence[MessageRow], embeddings: str) -> NewPassages | None:
    """Make a turn's index entry; None if that fails: each search then scans the turn."""
    messages = without_recalled([restore_message(row) for row in rows])
    return _indexed(turn, rows[0].at_us, messages, embeddings)


def _indexed(turn: int, at_us: int, messages: Sequence[Message], embeddings: str) -> NewPassages | None:
    with contained(_log, "turn %d could not be indexed", turn):
        return index_turn(turn, messages, at_us=at_us, embeddings=embeddings)
    return None


def compress_safely(
    compressor: Compressor,
    turn: int,
    messages: Sequence[Message],
    counter: Counter,
    *,
    max_chars: int = MAX_TURN_CHARS,
    tiny_tokens: int = TINY_TOKENS,
) -> Renditions:
    """Compress the messages, or return the fallback if that fails; larger ones than `max_chars` are reduced to their
    beginnings and ends, and marked as incomplete."""
    bounded = bound_messages(messages, max_chars)
    with contained(_log, "the %s compressor failed on turn %d", compressor.name, turn):
        made = compressor.compress(turn, bounded, counter.base)
        return made if bounded is messages else replace(made, is_complete=False)
    return fall_back(turn, bounded, counter, tiny_tokens)


def bound_messages(messages: Sequence[Message], max_chars: int) -> Sequence[Message]:
    """Shorten the longest texts, so that all messages have about `max_chars` characters in total."""
    sizes = [weigh_part(part) for message in messages for part in message.parts]
    if sum(sizes) <= max_chars:
        return messages
    most = _level_limit(sizes, max_chars)
    return [
        replace(message, parts=tuple(_shortened(part, most) for part in message.parts), original=None)
        for message in messages
    ]


def _level_limit(sizes: Sequence[int], total: int) -> int:
    """Return the maximum size of each text, so that all fit: small ones are kept in full."""
    left = total
    for place, size in enumerate(ordered := sorted(sizes)):
        share = left // (len(ordered) - place)
        if size > share:
            return share
        left -= size
    return total


def _shortened(part: Part, most: int) -> Part:
    if weigh_part(part) <= most:
        return part
    match part:
        case Text(text) | Reasoning(text):
            return replace(part, text=_ends(text, most))
        case ToolCall(arguments=value):
            return replace(part, arguments=_shortened_json(value, most))
        case Opaque(data=value):
            return replace(part, data=_shortened_json(value, most))
        case ToolResult(content=content):
            share = most // max(1, len(content))
            return replace(part, content=tuple(_shortened(inner, share) for inner in content))  # type: ignore[misc]
        case Attachment():
            return part  # its data is never compressed


def _shortened_json(value: Json, most: int) -> Json:
    if isinstance(value, str):
        return _ends(value, most)
    if isinstance(value, Mapping):
        share = most // max(1, min(len(value), MAX_ITEMS))
        return {key: _shortened_json(item, share) for key, item in islice(value.items(), MAX_ITEMS)}
    if isinstance(value, Sequence):
        share = most // max(1, min(len(value), MAX_ITEMS))
        return [_shortened_json(item, share) for item in value[:MAX_ITEMS]]
    return value


def _ends(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    head = int(most * HEAD_SHARE)
    tail = len(text) - (most - head)
    return f"{text[:head]}\n(… {tail - head:,} characters left out)\n{text[tail:]}"


def fall_back(turn: int, messages: Sequence[Message], counter: Counter, tiny_tokens: int = TINY_TOKENS) -> Renditions:
    """Make the fallback: each level is replaced by the next higher one, and tiny is truncated."""
    raw = turn_text(tuple(messages))
    text = raw.strip() or "(nothing said)"
    words = " ".join(text.split())
    tiny = take_head(words, tiny_tokens, counting("T", counter)) or "…"
    unit = Unit(turn, words[:MAX_UNIT_CHARS], 1.0, frozenset())
    return Renditions(raw, text, tiny, (unit,), is_complete=False)


def pack_units(units: Sequence[Unit]) -> bytes:
    rows: Json = [[unit.turn, unit.text, round(unit.worth, 3), sorted(unit.facts)] for unit in units]
    return bodies.squeeze(rows)


def unpack_units(data: bytes) -> tuple[Unit, ...]:
    rows: Any = bodies.expand(data)
    return tuple(Unit(turn, text, worth, frozenset(facts)) for turn, text, worth, facts in rows)
