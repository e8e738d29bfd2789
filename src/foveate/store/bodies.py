"""A message's stored body: JSON, compressed where that helps, with a hash that is verified on reading."""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import dataclass
from io import BytesIO

import zstandard

from foveate.errors import InputError
from foveate.text import json_slices, json_text
from foveate.turn import Json

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
"""zstd's first bytes. No JSON text starts with them, so a body's compression is detected from its content."""
SMALLEST_COMPRESSED_BYTES = 200
"""Below this, zstd's frame costs more than it saves."""
MAX_BODY_BYTES = 512 * 1024 * 1024
"""Half of SQLite's maximum row size."""

_local = threading.local()


@dataclass(frozen=True, slots=True)
class Body:
    data: bytes
    digest: bytes
    size: int


def pack(value: Json, compression_level: int, *, in_slices: bool = True) -> Body:
    """Encode a value as bytes to store. Lone surrogates are preserved (UTF-8 with `surrogatepass`).

    Without `in_slices` no other thread runs during encoding, which is faster for a short value.
    """
    raw = encode(value) if in_slices else json_text(value).encode("utf-8", "surrogatepass")
    if len(raw) > MAX_BODY_BYTES:
        raise InputError(
            f"a message of {len(raw):,} bytes is too large; at most {MAX_BODY_BYTES:,} bytes can be stored"
        )
    return Body(squeeze_bytes(raw, compression_level), hashlib.sha256(raw).digest(), len(raw))


def encode(value: Json) -> bytes:
    out = BytesIO()
    out.writelines(piece.encode("utf-8", "surrogatepass") for piece in json_slices(value))
    return out.getvalue()


def squeeze(value: Json, compression_level: int = 3) -> bytes:
    """Encode a derived value as bytes; the row that holds it is hashed as a whole."""
    return pack(value, compression_level).data


def expand(data: bytes) -> Json:
    """Decode the result of `squeeze`."""
    return load(expand_bytes(data))


def squeeze_bytes(raw: bytes, compression_level: int = 3) -> bytes:
    """Compress bytes where that helps; they must not start with zstd's magic number."""
    if len(raw) < SMALLEST_COMPRESSED_BYTES:
        return raw
    return min(raw, _compressor(compression_level).compress(raw), key=len)


def expand_bytes(data: bytes) -> bytes:
    """Decompress the result of `squeeze_bytes`."""
    return _decompress(data) if data.startswith(ZSTD_MAGIC) else data


def unpack(data: bytes, digest: bytes, *, is_packed: bool | None = None) -> bytes:
    """Return the original bytes; raise `ValueError` if they are damaged. Compression of JSON is detected by default."""
    if data.startswith(ZSTD_MAGIC) if is_packed is None else is_packed:
        try:
            data = _decompress(data)
        except zstandard.ZstdError as error:
            raise ValueError(f"can't be decompressed ({error})") from error
    if hashlib.sha256(data).digest() != digest:
        raise ValueError("does not match its hash")
    return data


def digest_of(*values: object) -> bytes:
    """Hash the values of a derived row: bytes as they are, texts and numbers as text."""
    digest = hashlib.sha256()
    for index, value in enumerate(values):
        data = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
        digest.update(data if index == 0 else b"\x00%d\x00" % len(data) + data)
    return digest.digest()


def is_intact(digest: bytes | None, *values: object) -> bool:
    """Return whether values match their hash; rows stored before hashes existed count as intact."""
    return digest is None or digest_of(*values) == digest


def load(raw: bytes) -> Json:
    """Decode the JSON value that `pack` encoded."""
    value: Json = json.loads(raw.decode("utf-8", "surrogatepass"))
    return value


def _compressor(level: int) -> zstandard.ZstdCompressor:
    """Return this thread's compressor: expensive to create, and not thread-safe."""
    if getattr(_local, "level", None) != level:
        _local.compressor = zstandard.ZstdCompressor(level=level)
        _local.level = level
    compressor: zstandard.ZstdCompressor = _local.compressor
    return compressor


def _decompress(data: bytes) -> bytes:
    """Decompress a frame. Its header decides how much memory is allocated, so it is checked first."""
    if zstandard.frame_content_size(data) > MAX_BODY_BYTES:
        raise zstandard.ZstdError(f"more than {MAX_BODY_BYTES:,} bytes")
    return _decompressor().decompress(data, max_output_size=MAX_BODY_BYTES)


def _decompressor() -> zstandard.ZstdDecompressor:
    if not hasattr(_local, "decompressor"):
        _local.decompressor = zstandard.ZstdDecompressor()
    decompressor: zstandard.ZstdDecompressor = _local.decompressor
    return decompressor
