"""Reading the body of a request: size limit, gzip and zstd without bombs, JSON."""

from __future__ import annotations

import asyncio
import gzip
import io
import zlib
from typing import IO, Any, TypeVar

import msgspec
import zstandard
from starlette.requests import Request

from foveate.server.problems import ProblemError
from foveate.server.settings import MB

T = TypeVar("T")

CHUNK_BYTES = 65_536
INLINE_BYTES = 65_536
"""A compressed body up to this size is expanded at once, a larger one in a thread."""
MAX_WINDOW_BYTES = 2**27
"""Memory that a zstd frame may ask for."""


async def read_body(request: Request, *, max_mb: int) -> bytes:
    """The body, decompressed. `ProblemError` 413 if it is larger than the limit, 415 for an unknown encoding."""
    limit = max_mb * MB
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip", "zstd"):
        raise ProblemError(415, f"content-encoding {encoding[:50]!r} is not supported; use gzip, zstd or none")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > limit:
        raise _too_large(max_mb)
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > limit:
            raise _too_large(max_mb)
    if encoding in ("", "identity"):
        return bytes(raw)
    if len(raw) <= INLINE_BYTES:
        return _expand(bytes(raw), encoding, max_mb)
    return await asyncio.to_thread(_expand, bytes(raw), encoding, max_mb)


def decode_json(body: bytes, kind: type[T]) -> T:
    """The body as a value of this type. `ProblemError` 400 if it is not JSON, 422 if it does not fit the type."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise ProblemError(422, f"the body does not fit: {error}") from error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        problem = "is nested too deeply" if isinstance(error, RecursionError) else f"is not JSON: {error}"
        raise ProblemError(400, f"the body {problem}") from error


def _expand(raw: bytes, encoding: str, max_mb: int) -> bytes:
    expanded = bytearray()
    try:
        reader = _reader(raw, encoding)
        while chunk := reader.read(CHUNK_BYTES):
            expanded += chunk
            if len(expanded) > max_mb * MB:
                raise _too_large(max_mb)
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        raise ProblemError(400, f"the body is not {encoding}: {error}") from error
    return bytes(expanded)


def _reader(raw: bytes, encoding: str) -> IO[bytes] | Any:
    if encoding == "zstd":
        window = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
        return window.stream_reader(io.BytesIO(raw), read_across_frames=True)
    return gzip.GzipFile(fileobj=io.BytesIO(raw))


def _too_large(max_mb: int) -> ProblemError:
    return ProblemError(413, f"the body is larger than {max_mb} MB; server.max_body_mb raises the limit")
