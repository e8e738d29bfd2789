"""Reads the bodies of a provider's answers, within limits."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, Final

import httpx2
import msgspec

from foveate.errors import BadUpstream
from foveate.unpack import Unpacker, UnpackError

Record = dict[str, Any]

MAX_ERROR_BYTES: Final = 1_000_000
LARGE_BYTES: Final = 1_000_000
"""Size from which a request is large: about 250,000 tokens of text, or 25,000 messages of a word."""
MAX_ANSWER_BYTES: Final = 64 * 1_048_576
"""Size limit of an answer that is not streamed."""


def is_large(body: bytes) -> bool:
    """Check whether a client's body is decoded in a thread, and prepared without another large one beside it."""
    return len(body) >= LARGE_BYTES


def decoded(data: bytes) -> Record:
    """Decode the JSON object of an answer; raise `BadUpstream` if it is none."""
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadUpstream("the upstream's answer is not JSON") from error
    if not isinstance(found, dict):
        raise BadUpstream("the upstream's answer is not a JSON object")
    return found


def is_json(response: httpx2.Response) -> bool:
    """Check whether an answer is one JSON body, not a stream of events."""
    media_type, *_ = response.headers.get("content-type", "").split(";")
    return bool(media_type.strip().lower() == "application/json")


async def content_of(response: httpx2.Response) -> AsyncGenerator[bytes, None]:
    """Yield the decompressed content in small pieces; `BadUpstream` for several encodings, or a damaged one."""
    encoding = response.headers.get("content-encoding", "")
    if encoding in ("", "br"):
        async for chunk in response.aiter_bytes():
            yield chunk
        return
    try:
        unpacker = Unpacker(encoding)
        async for raw in response.aiter_raw():
            for piece in unpacker.feed(raw):
                yield piece
    except UnpackError as error:
        raise BadUpstream(f"the upstream's answer {error}") from error


async def read_answer(response: httpx2.Response, max_bytes: int | None = None) -> bytes:
    """Read the body of an answer into memory; raise `BadUpstream` above the limit, by default `MAX_ANSWER_BYTES`."""
    most = MAX_ANSWER_BYTES if max_bytes is None else max_bytes
    data = bytearray()
    try:
        async for chunk in content_of(response):
            data += chunk
            if len(data) > most:
                raise BadUpstream(f"the upstream's answer is larger than the limit of {most:,} bytes")
    finally:
        await response.aclose()
    return bytes(data)


async def read_error(response: httpx2.Response) -> bytes:
    """Read the body of an error, up to a limit."""
    data = b""
    try:
        async for chunk in content_of(response):
            data += chunk
            if len(data) > MAX_ERROR_BYTES:
                break
    except (httpx2.HTTPError, BadUpstream):
        pass
    await response.aclose()
    return data
