"""Decompression in bounded steps: no input, however small, fills the memory before a limit is checked."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, cast

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
MAX_ENTRY_BYTES = 512
"""Average size of a file's entry in the directory of an archive: 46 bytes, its path and its times."""
MAX_TAIL_BYTES = 65_536 + 22
"""The end of an archive in which `zipfile` looks for the record of its directory."""
_ENTRY_MARK = b"PK\x01\x02"


class UnpackError(ValueError):
    """The encoding is not supported, or the content is damaged."""


class Unpacker:
    """Decompresses the chunks of one stream, whose `Content-Encoding` may be `gzip`, `deflate`, `zstd` or none.

    A stream may have several gzip members or zstd frames; anything else behind its end is damage.
    """

    def __init__(self, encoding: str) -> None:
        encoding = encoding.strip().lower()
        if encoding not in ("", "identity", "gzip", "x-gzip", "deflate", "zstd"):
            raise UnpackError(f"has the content-encoding {encoding[:50]!r}, which is not supported")
        self._encoding = encoding
        self._inflater: zlib._Decompress | None = None
        self._frames = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES).decompressobj(
            read_across_frames=True
        )

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
        while raw:
            if self._inflater is None:
                # Some servers send `deflate` without zlib's header, whose first byte ends in 8.
                is_bare = self._encoding == "deflate" and raw[0] & 0x0F != zlib.DEFLATED
                self._inflater = zlib.decompressobj(-zlib.MAX_WBITS if is_bare else 32 + zlib.MAX_WBITS)
            elif self._inflater.eof:
                raw = raw.lstrip(b"\0")  # padding
                if raw and self._encoding == "deflate":
                    raise UnpackError("has data behind the end of its deflate stream")
                self._inflater = zlib.decompressobj(16 + zlib.MAX_WBITS) if raw else self._inflater
                continue
            piece = self._inflater.decompress(raw, PIECE_BYTES)
            raw = self._inflater.unconsumed_tail or self._inflater.unused_data
            if piece:
                yield piece


def archive_bytes(stream: BinaryIO, is_read: Callable[[str], bool]) -> int:
    """Return how many bytes an import of a zip archive unpacks; `is_read` chooses its files by name.

    No file of an archive yields more than its directory states. `ValueError` names the limit that the archive exceeds;
    the stream is left at its beginning.
    """
    size = stream.seek(0, os.SEEK_END)
    try:
        with zipfile.ZipFile(cast(BinaryIO, _LimitedDirectory(stream))) as archive:
            unpacked = sum(entry.file_size for entry in archive.infolist() if is_read(entry.filename))
    finally:
        stream.seek(0)
    if unpacked > max(FREE_RATIO_BYTES, MAX_RATIO * size):
        raise ValueError(f"the zip file unpacks to {unpacked:,} bytes, more than {MAX_RATIO} times its size")
    return unpacked


class _LimitedDirectory:
    """A zip file whose directory is read by `zipfile` only if it has at most `MAX_ENTRIES` files."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.seek, self.tell, self.seekable = stream.seek, stream.tell, stream.seekable

    def read(self, size: int = -1) -> bytes:
        limit = max(MAX_ENTRIES * MAX_ENTRY_BYTES, MAX_TAIL_BYTES)
        raw = self._stream.read(limit + 1 if size < 0 else min(size, limit + 1))
        if len(raw) > limit or raw.count(_ENTRY_MARK) > MAX_ENTRIES:
            raise ValueError(f"the zip file has more than {MAX_ENTRIES:,} files")
        return raw
