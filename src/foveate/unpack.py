"""Decompression in bounded steps: no input, however small, fills the memory before a limit is checked."""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

import zstandard

PIECE_BYTES = 65_536
"""Largest piece of inflated text."""
ZSTD_SLICE_BYTES = 256
"""zstd is fed in slices: a block of four bytes expands to at most 128 KB, so a slice to 8 MB."""
MAX_WINDOW_BYTES = 2**23
"""Largest window of a zstd frame in a response (RFC 8878)."""
MAX_ENTRIES = 65_534
"""Files in a zip archive. Real exports have thousands; their directory is read into memory."""
MAX_RATIO = 200
"""An archive whose files unpack to more than this many times its size was made to fill a disk; exports have 5 to 20."""
FREE_RATIO_BYTES = 256 * 1024 * 1024
"""Up to this size, the ratio does not matter: short repetitive texts compress well."""
_END = struct.Struct("<4s4H2LH")
_END_64_BYTES = 56
_LOCATOR_BYTES = 20
_SMALLEST_ENTRY_BYTES = 46


class UnpackError(ValueError):
    """The encoding is not supported, or the content is damaged."""


class Unpacker:
    """Decompresses the chunks of one stream, whose `Content-Encoding` may be `gzip`, `deflate`, `zstd` or none."""

    def __init__(self, encoding: str) -> None:
        encoding = encoding.strip().lower()
        if encoding not in ("", "identity", "gzip", "x-gzip", "deflate", "zstd"):
            raise UnpackError(f"has the content-encoding {encoding[:50]!r}, which is not supported")
        self._encoding = encoding
        self._inflater: zlib._Decompress | None = None
        self._frames = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES).decompressobj()

    def feed(self, raw: bytes) -> Iterator[bytes]:
        """Yield the content of a chunk in small pieces."""
        if self._encoding in ("", "identity"):
            yield raw
            return
        try:
            yield from self._zstd(raw) if self._encoding == "zstd" else self._zlib(raw)
        except (zlib.error, zstandard.ZstdError) as error:
            raise UnpackError(f"is not {self._encoding}: {error}") from error

    def _zstd(self, raw: bytes) -> Iterator[bytes]:
        for start in range(0, len(raw), ZSTD_SLICE_BYTES):
            if piece := self._frames.decompress(raw[start : start + ZSTD_SLICE_BYTES]):
                yield piece

    def _zlib(self, raw: bytes) -> Iterator[bytes]:
        if self._inflater is None:
            if not raw:
                return
            # Some servers send `deflate` without zlib's header, whose first byte ends in 8.
            is_bare = self._encoding == "deflate" and raw[0] & 0x0F != zlib.DEFLATED
            self._inflater = zlib.decompressobj(-zlib.MAX_WBITS if is_bare else 32 + zlib.MAX_WBITS)
        while raw and not self._inflater.eof:
            piece = self._inflater.decompress(raw, PIECE_BYTES)
            raw = self._inflater.unconsumed_tail
            if piece:
                yield piece


def archive_bytes(stream: BinaryIO, is_read: Callable[[str], bool]) -> int:
    """Return how many bytes an import of a zip archive unpacks; `is_read` chooses its files by name.

    No file of an archive yields more than its directory states. `ValueError` names the limit that the archive exceeds;
    the stream is left at its beginning.
    """
    size = stream.seek(0, os.SEEK_END)
    if _directory_bytes(stream, size) // _SMALLEST_ENTRY_BYTES > MAX_ENTRIES:
        raise ValueError(f"the zip file has more than {MAX_ENTRIES:,} files")
    try:
        with zipfile.ZipFile(stream) as archive:
            unpacked = sum(entry.file_size for entry in archive.infolist() if is_read(entry.filename))
    finally:
        stream.seek(0)
    if unpacked > max(FREE_RATIO_BYTES, MAX_RATIO * size):
        raise ValueError(f"the zip file unpacks to {unpacked:,} bytes, more than {MAX_RATIO} times its size")
    return unpacked


def _directory_bytes(stream: BinaryIO, size: int) -> int:
    """Return the size of the archive's directory from the records at its end; 0 if there is none."""
    tail_start = max(0, size - _END.size - 0xFFFF - _LOCATOR_BYTES - _END_64_BYTES)
    stream.seek(tail_start)
    tail = stream.read()
    place = tail.rfind(b"PK\x05\x06")
    if place < 0 or place + _END.size > len(tail):
        return 0
    found: int = _END.unpack_from(tail, place)[5]
    large = place - _LOCATOR_BYTES - _END_64_BYTES
    if large >= 0 and tail[large : large + 4] == b"PK\x06\x06":
        found = int(struct.unpack_from("<Q", tail, large + 40)[0])
    return found
