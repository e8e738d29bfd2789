"""Fields of a record that may hold anything: each function gives a value of its type, or None if there is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from foveate.errors import InvalidMessage
from foveate.turn import Attachment, Json, Message, Text, Usage, parse_time

if TYPE_CHECKING:
    from datetime import datetime

MAX_NUMBER = 2**53
"""JSON's whole numbers are exact up to here; what is beyond is no count, code or duration."""


def value_at(record: Json, *path: str) -> Json:
    for name in path:
        if not isinstance(record, Mapping):
            return None
        record = record.get(name)
    return record


def text_at(record: Json, *path: str) -> str | None:
    """Text that is not empty."""
    value = value_at(record, *path)
    return value if isinstance(value, str) and value else None


def number_at(record: Json, *path: str) -> float | None:
    """A number one can reckon with: finite, and not beyond MAX_NUMBER."""
    value = value_at(record, *path)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if -MAX_NUMBER <= value <= MAX_NUMBER else None


def count_at(record: Json, *path: str) -> int:
    """A whole number of something, 0 if there is none."""
    value = value_at(record, *path)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_NUMBER else 0


def time_at(record: Json, *path: str) -> datetime | None:
    """A moment; an unreadable one is no reason to lose what was said at it."""
    value = text_at(record, *path)
    try:
        return parse_time(value) if value else None
    except InvalidMessage:
        return None


def time_text(moment: datetime) -> str:
    """A moment as both programs write it: UTC, milliseconds (finer only where it is finer), `Z`."""
    finer = moment.microsecond % 1000
    return parse_time(moment).isoformat(timespec="microseconds" if finer else "milliseconds").replace("+00:00", "Z")


def anthropic_usage(usage: Json) -> Usage | None:
    """Anthropic counts what came from the cache apart from `input_tokens`; here it is included."""
    if not isinstance(usage, Mapping):
        return None
    read, written = count_at(usage, "cache_read_input_tokens"), count_at(usage, "cache_creation_input_tokens")
    return Usage(
        input_tokens=count_at(usage, "input_tokens") + read + written,
        output_tokens=count_at(usage, "output_tokens"),
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


def every_text(message: Message) -> tuple[str, ...]:
    """A message's texts without the white space around them; none if it also has a picture or file."""
    if any(isinstance(part, Attachment) for part in message.parts):
        return ()
    return tuple(part.text.strip() for part in message.parts if isinstance(part, Text))
