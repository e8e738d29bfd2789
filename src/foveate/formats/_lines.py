"""What the transcript formats share: reading lines of JSON exactly, and telling what can't be read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import BinaryIO

from foveate.errors import InvalidMessage
from foveate.formats import Problem
from foveate.turn import Json, check_json

MAX_LINE_BYTES = 256 * 1024 * 1024
"""A longer line is reported, not read: it would not fit one row of the store."""


BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def decode_json(raw: bytes) -> Json:
    """JSON bytes as a value; `ValueError` with a reason for people when they are not JSON in UTF-8."""
    try:
        return check_json(json.loads(raw.decode("utf-8", "strict")), "record")
    except UnicodeDecodeError as error:
        raise ValueError(f"invalid UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"invalid JSON at column {error.colno}: {error.msg}") from error
    except (RecursionError, InvalidMessage) as error:
        raise ValueError("nested too deeply") from error


def encode_json(value: Json) -> str:
    """JSON on one line, in UTF-8's own characters; lone surrogates are written as escapes, so any value can be."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if text.isascii() or not _has_surrogates(text) else json.dumps(value, separators=(",", ":"))


def _has_surrogates(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def json_lines(stream: BinaryIO) -> Iterator[tuple[int, Json] | Problem]:
    """Each line's number and value, one line in memory at a time; blank lines are passed over."""
    number = 0
    while raw := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        raw = raw.removeprefix(BYTE_ORDER_MARK) if number == 1 else raw
        if len(raw) > MAX_LINE_BYTES:
            while raw and not raw.endswith(b"\n"):
                raw = stream.readline(MAX_LINE_BYTES)
            yield Problem(f"line {number}", f"longer than {MAX_LINE_BYTES:,} bytes")
            continue
        if not raw.strip():
            continue
        try:
            yield number, decode_json(raw)
        except ValueError as error:
            cut = "" if raw.endswith(b"\n") else " (the file ends here: its last line looks cut off)"
            yield Problem(f"line {number}", f"{error}{cut}")


def first_json_line(head: bytes) -> Json:
    """The first line's value, for deciding what a file is; None if it is not JSON."""
    for raw in head.splitlines():
        if raw.strip():
            try:
                return decode_json(raw)
            except ValueError:
                return None
    return None


def content_key(position: int, value: Json) -> str:
    """A lasting name for a record that has none of its own: where it stands and what it says."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return f"{position}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
