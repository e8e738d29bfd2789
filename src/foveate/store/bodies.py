"""A message's body as the store keeps it: JSON, compressed where that helps, with a hash that is checked on reading."""

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
"""No JSON text begins like this, so a body says by itself whether it is compressed."""
SMALLEST_COMPRESSED_BYTES = 200
"""Below this, zstd's frame costs more than it saves."""
MAX_BODY_BYTES = 512 * 1024 * 1024
"""Half of what one SQLite row holds."""

_local = threading.local()


@dataclass(frozen=True, slots=True)
class Body:
    data: bytes
    digest: bytes
    size: int


def pack(value: Json, compression_level: int, *, in_slices: bool = True) -> Body:
    """The value as bytes to store. Lone surrogates are kept as they are (UTF-8 with surrogates passed).

    Without `in_slices` no other thread runs while it is encoded, which is faster for a short value.
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
    """A derived value as bytes; the row that holds it is hashed as a whole."""
    return pack(value, compression_level).data


def expand(data: bytes) -> Json:
    """The value that `squeeze` was given."""
    return load(expand_bytes(data))


def squeeze_bytes(raw: bytes, compression_level: int = 3) -> bytes:
    """Bytes, compressed where that helps; they must not begin as zstd's do."""
    if len(raw) < SMALLEST_COMPRESSED_BYTES:
        return raw
    return min(raw, _compressor(compression_level).compress(raw), key=len)


def expand_bytes(data: bytes) -> bytes:
    """The bytes that `squeeze_bytes` was given."""
    return _decompressor().decompress(data) if data.startswith(ZSTD_MAGIC) else data


def unpack(data: bytes, digest: bytes, *, is_packed: bool | None = None) -> bytes:
    """The bytes; `ValueError` if they are not what was stored. JSON shows by itself whether it is compressed."""
    if data.startswith(ZSTD_MAGIC) if is_packed is None else is_packed:
        try:
            data = _decompressor().decompress(data, max_output_size=MAX_BODY_BYTES)
        except zstandard.ZstdError as error:
            raise ValueError(f"can't be decompressed ({error})") from error
    if hashlib.sha256(data).digest() != digest:
        raise ValueError("does not match its hash")
    return data


def digest_of(*values: object) -> bytes:
    """The hash of a derived row: of its bytes, and of its texts and numbers as they are written."""
    digest = hashlib.sha256()
    for index, value in enumerate(values):
        data = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
        digest.update(data if index == 0 else b"\x00%d\x00" % len(data) + data)
    return digest.digest()


def is_intact(digest: bytes | None, *values: object) -> bool:
    """Whether values are those that were stored; those stored before rows were hashed are taken as they are."""
    return digest is None or digest_of(*values) == digest


def load(raw: bytes) -> Json:
    """The value that `pack` was given."""
    value: Json = json.loads(raw.decode("utf-8", "surrogatepass"))
    return value


def _compressor(level: int) -> zstandard.ZstdCompressor:
    """One per thread: they are dear to make, and not to be shared."""
    if getattr(_local, "level", None) != level:
        _local.compressor = zstandard.ZstdCompressor(level=level)
        _local.level = level
    compressor: zstandard.ZstdCompressor = _local.compressor
    return compressor


def _decompressor() -> zstandard.ZstdDecompressor:
    if not hasattr(_local, "decompressor"):
        _local.decompressor = zstandard.ZstdDecompressor()
    decompressor: zstandard.ZstdDecompressor = _local.decompressor
    return decompressor
