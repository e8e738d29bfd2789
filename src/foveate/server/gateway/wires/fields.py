"""Reads fields of provider JSON with clear errors, and adds up usage."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

import msgspec

from foveate.errors import BadRequest, BadUpstream

Record: TypeAlias = "dict[str, Any]"
"""A JSON object of a provider: its fields are open-ended, so their types are not checked statically."""


def decode(data: bytes) -> Record:
    """Decode the JSON object of an upstream event. Raises `BadUpstream`."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        value = _decode_leniently(data, error)
    if not isinstance(value, dict):
        raise BadUpstream("an event of the stream is not a JSON object")
    return value


def _decode_leniently(data: bytes, error: Exception) -> object:
    """Decode an event with a lone surrogate: some providers split a text inside an emoji."""
    try:
        return json.loads(data.decode())
    except (ValueError, RecursionError):
        raise BadUpstream(f"an event of the stream is not JSON: {error}") from None


def encode(value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def joined(pieces: Iterable[str]) -> str:
    """Join the text of deltas; a surrogate pair that was split between two is merged."""
    text = "".join(pieces)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def parse_arguments(text: str) -> object:
    """Parse a tool call's arguments: JSON (`{}` if empty), or the text itself if it is not JSON."""
    if not text.strip():
        return {}
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return text


def record_in(data: Mapping[str, Any], key: str) -> Record:
    """Return an object field of an upstream answer; `{}` if it is missing or null."""
    value = data.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadUpstream(f"{key} is not an object")
    return value


def records_in(data: Mapping[str, Any], key: str) -> list[Record]:
    """Return a list of objects in an upstream answer; empty if it is missing or null."""
    value = data.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(element, dict) for element in value):
        raise BadUpstream(f"{key} is not a list of objects")
    return value


def usage_in(data: Mapping[str, Any], key: str) -> Record:
    """Return the usage of an upstream answer; `{}` for anything but an object, since no answer should fail for it."""
    value = data.get(key)
    return value if isinstance(value, dict) else {}


def text_in(data: Mapping[str, Any], key: str) -> str:
    """Return a text field of an upstream answer; empty if it is missing or null."""
    value = data.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadUpstream(f"{key} is not a text")
    return value


def int_in(data: Mapping[str, Any], key: str) -> int | None:
    """Return a whole number in an upstream answer; None if it is missing or null."""
    value = data.get(key)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadUpstream(f"{key} is not a whole number")
    return value


def count_in(data: Mapping[str, Any], *keys: str) -> int:
    """Return a token count at a path of keys; 0 if there is none."""
    value: object = data
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def add_usage(total: Record, more: Record) -> Record:
    """Add up usage: counts are added, lists joined, other values taken from the later round."""
    added = dict(total)
    for key, value in more.items():
        before = added.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            added[key] = add_usage(before, value)
        elif (isinstance(value, list) and isinstance(before, list)) or (_is_count(value) and _is_count(before)):
            added[key] = before + value
        elif value is not None or before is None:
            added[key] = value
    return added


def client_usage(total: Record, last: Record, inputs: Collection[str]) -> Record:
    """Return the client's usage of several rounds: the output of all, but only the last round's input.

    Clients read the size of their context from the input, and compact when it approaches the model's window.
    """
    if not any(key in last for key in inputs):
        return total
    measured = {key: value for key, value in last.items() if key in inputs}
    return {**{key: value for key, value in total.items() if key not in inputs}, **measured}


def _is_count(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def separator(before: str, after: str) -> str:
    """Return the separator between two rounds' texts, for formats with one text per answer."""
    return "\n\n" if before and after and not before[-1].isspace() and not after[0].isspace() else ""


# The client's request.


def request_object(body: object) -> Record:
    if not isinstance(body, dict):
        raise BadRequest("the request body must be a JSON object")
    return body


def request_text(body: Record, key: str) -> str:
    """Return an optional text field; empty if it is missing or null."""
    value = body.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadRequest("must be a string", key)
    return value


def request_flag(body: Record, key: str) -> bool:
    value = body.get(key)
    if value is not None and not isinstance(value, bool):
        raise BadRequest("must be true or false", key)
    return bool(value)


def request_objects(body: Record, key: str, *, is_required: bool = False) -> list[Record]:
    value = body.get(key)
    if value is None and not is_required:
        return []
    if not isinstance(value, list):
        raise BadRequest("must be a list" if key in body else "is required", key)
    for i, element in enumerate(value):
        if not isinstance(element, dict):
            raise BadRequest("must be an object", f"{key}[{i}]")
    return value


def request_messages(body: Record) -> list[Record]:
    """Return `messages` of Anthropic and Chat: objects with a role; content is a text, a list of objects or null."""
    messages = request_objects(body, "messages", is_required=True)
    for i, message in enumerate(messages):
        if not isinstance(message.get("role"), str):
            raise BadRequest("must be a string", f"messages[{i}].role")
        check_content(message.get("content"), f"messages[{i}].content")
    return messages


def check_content(content: object, where: str) -> None:
    if content is None or isinstance(content, str):
        return
    if not isinstance(content, list):
        raise BadRequest("must be a string or a list", where)
    for i, block in enumerate(content):
        if not isinstance(block, dict):
            raise BadRequest("must be an object", f"{where}[{i}]")


def limit_in(body: Record, *keys: str) -> int | None:
    """Return the largest limit of the fields `keys`: which one a provider reads differs. None without any, or if one is
    not a number above 0, which some servers take for no limit."""
    values = [value for key in keys if (value := body.get(key)) is not None]
    limits = [value for value in values if isinstance(value, int) and not isinstance(value, bool) and value > 0]
    return max(limits) if limits and len(limits) == len(values) else None


def answers_in(body: Record, *keys: str) -> int:
    """Return the largest number of answers that the fields `keys` request; also one that is written as a text or with
    a fraction of 0, which some servers accept."""
    found = 1
    for key in keys:
        with suppress(TypeError, ValueError, OverflowError):
            found = max(found, int(body.get(key) or 1))
    return found


def text_of(content: object) -> str:
    """Return the text of a string, or of a list of blocks joined by newlines."""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        return ""
    texts = (block.get("text") for block in content if isinstance(block, dict))
    return "\n".join(text for text in texts if isinstance(text, str))


CACHED_KEYS: Final = (
    *("tools", "system", "instructions", "systemInstruction", "system_instruction"),
    *("messages", "input", "contents"),
)
"""Fields of a request that providers cache, in this order."""


def in_cache_order(body: Record) -> Record:
    """Move tools, instructions and messages to the end of a request, in the order in which providers cache them.

    Caches that compare requests byte by byte then match as much as the providers' own.
    """
    first = {key: value for key, value in body.items() if key not in CACHED_KEYS}
    return first | {key: body[key] for key in CACHED_KEYS if key in body}


def texts_in(value: object, prefix: str = "") -> dict[str, str]:
    """Return the text fields of an object, with `prefix` before their keys."""
    if not isinstance(value, dict):
        return {}
    return {f"{prefix}{key}": text for key, text in value.items() if isinstance(key, str) and isinstance(text, str)}
