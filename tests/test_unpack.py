"""Decompression in bounded steps."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from foveate import unpack
from foveate.unpack import PIECE_BYTES, Unpacker, archive_bytes

BOMB = b" " * 30_000_000
LARGEST_PIECE_BYTES = 8 * 1024 * 1024


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def bare(data: bytes) -> bytes:
    deflater = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return deflater.compress(data) + deflater.flush()


PACKERS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("gzip", gzip.compress),
    ("deflate", zlib.compress),
    ("deflate", bare),
    ("zstd", zstd),
    ("Identity", bytes),
]


@pytest.mark.parametrize(("encoding", "pack"), PACKERS)
@given(data=st.binary(min_size=1, max_size=500), cut=st.integers(1, 50))
def test_what_was_packed_comes_out_whatever_the_chunks(
    encoding: str, pack: Callable[[bytes], bytes], data: bytes, cut: int
) -> None:
    packed, unpacker = pack(data), Unpacker(encoding)
    chunks = [packed[start : start + cut] for start in range(0, len(packed), cut)]
    assert b"".join(piece for chunk in chunks for piece in unpacker.feed(chunk)) == data


@pytest.mark.parametrize(("encoding", "pack"), PACKERS[:-1])
def test_a_bomb_comes_out_in_pieces_that_fit_the_memory(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    sizes = [len(piece) for piece in Unpacker(encoding).feed(pack(BOMB))]
    assert sum(sizes) == len(BOMB)
    assert max(sizes) <= (LARGEST_PIECE_BYTES if encoding == "zstd" else PIECE_BYTES)


@pytest.mark.parametrize("encoding", ["br", "gzip, gzip", "compress"])
def test_other_and_nested_encodings_are_refused(encoding: str) -> None:
    with pytest.raises(ValueError, match="is not supported"):
        Unpacker(encoding)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd"])
def test_damage_is_named(encoding: str) -> None:
    with pytest.raises(ValueError, match=f"is not {encoding}"):
        list(Unpacker(encoding).feed(b"\x00 nothing of the kind"))


def archive(*names: str, size: int = 10) -> io.BytesIO:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as made:
        for name in names:
            made.writestr(name, b" " * size)
    return stream


def test_only_the_files_that_are_read_count() -> None:
    stream = archive("a.json", "photo.png", "b.json")
    assert archive_bytes(stream, lambda name: name.endswith(".json")) == 20
    assert stream.tell() == 0


def test_an_archive_with_too_many_files_is_refused_before_its_directory_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = archive(*map(str, range(300)))
    monkeypatch.setattr(unpack, "MAX_ENTRIES", 200)
    monkeypatch.setattr(zipfile, "ZipFile", None)
    with pytest.raises(ValueError, match="more than 200 files"):
        archive_bytes(stream, lambda _name: True)


def test_an_archive_made_to_fill_a_disk_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpack, "FREE_RATIO_BYTES", 1_000)
    with pytest.raises(ValueError, match="more than 200 times its size"):
        archive_bytes(archive("a.json", size=1_000_000), lambda _name: True)


def test_what_is_no_archive_says_so(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(b"PK\x03\x04 and nothing else")
    with (tmp_path / "x.zip").open("rb") as stream, pytest.raises(zipfile.BadZipFile):
        archive_bytes(stream, lambda _name: True)
