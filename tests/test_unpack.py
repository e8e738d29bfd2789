"""Decompression in bounded steps."""

from __future__ import annotations

import gzip
import io
import struct
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


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("zstd", zstd)])
@pytest.mark.parametrize("cut", [1, 7, 10_000])
def test_each_member_and_frame_of_a_stream_is_read(encoding: str, pack: Callable[[bytes], bytes], cut: int) -> None:
    packed, unpacker = pack(b"one, ") + pack(b"two, ") + pack(b"three"), Unpacker(encoding)
    chunks = [packed[start : start + cut] for start in range(0, len(packed), cut)]
    assert b"".join(piece for chunk in chunks for piece in unpacker.feed(chunk)) == b"one, two, three"


@pytest.mark.parametrize(("encoding", "pack"), PACKERS[:-1])
def test_data_behind_the_end_of_a_stream_is_named(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    with pytest.raises(ValueError, match=encoding):
        list(Unpacker(encoding).feed(pack(b"one") + b"and something else"))


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
    monkeypatch.setattr(zipfile, "ZipInfo", None)
    with pytest.raises(ValueError, match="more than 200 files"):
        archive_bytes(stream, lambda _name: True)


ENTRY = struct.Struct("<4s4B4HL2L5H2L")
END = struct.Struct("<4s4H2LH")


def entry(comment: bytes = b"") -> bytes:
    sizes = (0, 0, 0, 1, 0, len(comment), 0, 0, 0, 0)
    return ENTRY.pack(b"PK\x01\x02", 20, 0, 20, 0, 0, 0, 0, 0, *sizes) + b"a" + comment


def ending(directory: bytes, disks: tuple[int, int] = (0, 0)) -> bytes:
    return directory + END.pack(b"PK\x05\x06", *disks, 0, 0, len(directory), 0, 0)


@pytest.mark.parametrize(
    "raw",
    [
        ending(entry() * 300, struct.unpack("<2H", b"PK\x05\x06")),
        ending(entry() * 300 + entry(b"PK\x06\x06" + bytes(72))),
    ],
    ids=["mark inside the end record", "zip64 record without locator"],
)
def test_the_number_of_files_is_that_of_the_directory_that_is_read(raw: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(zipfile.ZipFile(io.BytesIO(raw)).infolist()) >= 300
    monkeypatch.setattr(unpack, "MAX_ENTRIES", 200)
    with pytest.raises(ValueError, match="more than 200 files"):
        archive_bytes(io.BytesIO(raw), lambda _name: True)


def test_files_with_long_paths_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpack, "MAX_ENTRIES", 200)
    names = [f"{'folder/' * 20}{number}" for number in range(200)]
    assert archive_bytes(archive(*names), lambda _name: True) == 2_000


def test_an_archive_made_to_fill_a_disk_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpack, "FREE_RATIO_BYTES", 1_000)
    with pytest.raises(ValueError, match="more than 200 times its size"):
        archive_bytes(archive("a.json", size=1_000_000), lambda _name: True)


def test_what_is_no_archive_says_so(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(b"PK\x03\x04 and nothing else")
    with (tmp_path / "x.zip").open("rb") as stream, pytest.raises(zipfile.BadZipFile):
        archive_bytes(stream, lambda _name: True)
