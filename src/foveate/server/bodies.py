"""Reads request bodies: size limit, gzip and zstd with protection against bombs, JSON."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, TypeVar

import msgspec
import zstandard
from starlette.requests import Request
from starlette.types import Scope

from foveate.errors import InvalidMessage
from foveate.intake.chain import part_count
from foveate.server.problems import ProblemError
from foveate.server.settings import MB
from foveate.text import encodable

T = TypeVar("T")

CHUNK_BYTES = 65_536
INLINE_BYTES = 65_536
"""A compressed body up to this size is expanded inline, a larger one in a thread."""
MAX_MESSAGES = 10_000
"""Messages in one request of the API: far more than a client sends, and few enough to count within a second."""
MAX_PARTS = 2_000
"""Parts of one message: several times what a client sends, e.g. images or parallel calls. Each takes about 0.3 ms."""
MAX_VALUES = 1_000_000
"""Values in one JSON body: many times what a client sends. Decoding holds the interpreter, 0.15 s for as many."""
_NO_SEPARATORS = bytes(set(range(256)) - set(b"{[,"))
"""Each value follows a separator, and so does each key."""
MAX_WINDOW_BYTES = 2**27
"""Memory limit of a zstd frame."""


def check_parts(messages: Sequence[Mapping[str, Any]]) -> None:
    """Raise `InvalidMessage` for a message with more than `MAX_PARTS` parts: all of them are processed at once."""
    for index, message in enumerate(messages):
        if (count := part_count(message)) > MAX_PARTS:
            raise InvalidMessage(f"messages[{index}]", f"has {count:,} parts; at most {MAX_PARTS:,} are accepted")


def has_body(scope: Scope) -> bool:
    """Report whether the headers of a request announce a body."""
    headers = dict(scope["headers"])
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"


async def read_body(request: Request, *, max_mb: int) -> bytes:
    """Return the decompressed body. `ProblemError` 413 if it is larger than the limit, 415 for an unknown encoding."""
    encoding = _encoding(request, max_mb)
    raw = io.BytesIO()
    await _receive(request, raw, max_mb)
    if not encoding:
        return raw.getvalue()
    expanded = io.BytesIO()
    if raw.tell() <= INLINE_BYTES:
        _expand(raw, expanded, encoding, max_mb)
    else:
        await asyncio.to_thread(_expand, raw, expanded, encoding, max_mb)
    return expanded.getvalue()


async def spool_body(request: Request, file: BinaryIO, *, max_mb: int) -> None:
    """Write the decompressed body to a file, without holding it in memory."""
    encoding = _encoding(request, max_mb)
    if not encoding:
        await _receive(request, file, max_mb)
        return
    with tempfile.TemporaryFile() as raw:
        await _receive(request, raw, max_mb)
        await asyncio.to_thread(_expand, raw, file, encoding, max_mb)


def _encoding(request: Request, max_mb: int) -> str:
    """Return the encoding of a compressed body; empty if it is not compressed."""
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip", "zstd"):
        raise ProblemError(415, f"content-encoding {encoding[:50]!r} is not supported; use gzip, zstd or none")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > max_mb * MB:
        raise _too_large(max_mb)
    return "" if encoding == "identity" else encoding


async def _receive(request: Request, file: BinaryIO, max_mb: int) -> None:
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > max_mb * MB:
            raise _too_large(max_mb)
        file.write(chunk)


def check_values(body: bytes) -> None:
    """Raise `ProblemError` 413 for a JSON body with more than `MAX_VALUES` values, before it is decoded."""
    if len(body) <= MAX_VALUES:
        return
    separators = len(body.translate(None, _NO_SEPARATORS))  # also those in texts, so this is an upper bound
    if 3 * separators + 1 <= MAX_VALUES:
        return
    plain = body.replace(rb"\\", b"").replace(rb"\"", b"")
    found = plain.count(b'"') // 2
    if found <= MAX_VALUES:
        outside = b"".join(plain.split(b'"')[::2])
        found += sum(map(outside.count, (b"{", b"[", b",")))
    if found > MAX_VALUES:
        raise ProblemError(413, f"the body has more than {MAX_VALUES:,} values; send fewer at a time")


def decode_json(body: bytes, kind: type[T]) -> T:
    """Decode the body as this type. `ProblemError` 400 if it is not JSON, 422 if it does not match the type."""
    check_values(body)
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise ProblemError(422, f"the body does not fit: {error}") from error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ProblemError(400, f"the body {_decode_problem(body, error)}") from error


def _decode_problem(body: bytes, error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "is nested too deeply"
    if decode_with_lone_surrogates(body) is not None:
        return f"has a lone surrogate, such as \\ud83d without its second half: {error}"
    return f"is not JSON: {error}"


def decode_with_lone_surrogates(body: bytes) -> object | None:
    """Decode JSON with lone surrogates, replacing each by U+FFFD; None for any other invalid JSON.

    Programs that count in UTF-16 may cut a text inside an emoji, and then repeat it in every request.
    """
    if b"\\ud" not in body and b"\\uD" not in body:
        return None
    try:
        return _repaired(json.loads(body, parse_constant=_refuse_constant))
    except (ValueError, RecursionError):
        return None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")


def _repaired(value: object) -> object:
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, dict):
        return {encodable(key): _repaired(inner) for key, inner in value.items()}
    return [_repaired(inner) for inner in value] if isinstance(value, list) else value


def _expand(raw: BinaryIO, file: BinaryIO, encoding: str, max_mb: int) -> None:
    raw.seek(0)
    size = 0
    try:
        reader = _reader(raw, encoding)
        while chunk := reader.read(CHUNK_BYTES):
            size += len(chunk)
            if size > max_mb * MB:
                raise _too_large(max_mb)
            file.write(chunk)
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        raise ProblemError(400, f"the body is not {encoding}: {error}") from error


def _reader(raw: BinaryIO, encoding: str) -> Any:
    if encoding == "zstd":
        window = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
        return window.stream_reader(raw, read_across_frames=True, closefd=False)
    return gzip.GzipFile(fileobj=raw)


def _too_large(max_mb: int) -> ProblemError:
    return ProblemError(413, f"the body is larger than {max_mb} MB; server.max_body_mb raises the limit")
