"""`read_file`: ranges, blocks, encodings, and what is no text."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from foveate.tools.builtin.read_file import block_lines
from support.tooling import answer, refusal

CODE = """\
import os

class Harbour:
    name = "Skarvik"

    @cached
    # The tide decides.
    def depth(
        self,
        hour: int,
    ) -> float:
        if hour > 6:
            return 1.2

        return 0.8

    def close(self) -> None:
        pass
"""


def test_lines_have_numbers_and_a_range_says_where_to_read_on(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\nthree")
    assert answer(tmp_path, "read_file", path="a.txt") == "     1\tone\n     2\ttwo\n     3\tthree\n"
    shown = answer(tmp_path, "read_file", path="a.txt", first_line=2, lines=1)
    assert shown == "     2\ttwo\n(more lines follow; read on with first_line=3)\n"
    assert "has 3 lines; first_line is 4" in refusal(tmp_path, "read_file", path="a.txt", first_line=4)


@pytest.mark.parametrize(
    ("anchor", "levels", "expected"),
    [
        (13, 1, [3, 8, 12, 13]),
        (15, 1, [3, *range(6, 16)]),
        (8, 1, [3, *range(6, 16)]),
        (13, 2, [3, *range(6, 16)]),
        (18, 2, [*range(3, 19)]),
        (1, 1, [*range(1, 19)]),
    ],
)
def test_a_block_is_shown_with_its_headers(anchor: int, levels: int, expected: list[int]) -> None:
    shown = block_lines(CODE.splitlines(), anchor - 1, levels, 100)
    assert [place + 1 for place in shown] == expected


def test_a_block_that_is_too_long_is_shown_around_the_line(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f():\n" + "".join(f"    x = {number}\n" for number in range(100)))
    shown = answer(tmp_path, "read_file", path="a.py", first_line=50, mode="indentation", lines=4)
    assert shown == "    48\t    x = 46\n    49\t    x = 47\n    50\t    x = 48\n    51\t    x = 49\n"


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ("grün\n".encode("utf-8-sig"), "     1\tgrün\n"),
        ("grün\n".encode("utf-16"), "     1\tgrün\n"),
        ("grün\n".encode("latin-1"), "     1\tgrün\n(not UTF-8; read as Latin-1)\n"),
        (b"", "(empty file)\n"),
    ],
)
def test_encodings_are_detected(tmp_path: Path, data: bytes, shown: str) -> None:
    (tmp_path / "a.txt").write_bytes(data)
    assert answer(tmp_path, "read_file", path="a.txt") == shown


def test_a_binary_file_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    assert "is a binary file (PNG image, 10 bytes), not text; view_image" in refusal(
        tmp_path, "read_file", path="a.txt"
    )


def test_a_gigabyte_is_read_by_range_and_never_whole(tmp_path: Path) -> None:
    """A line of a sparse gigabyte ends the file: it is read in chunks, and its beginning is shown."""
    big = tmp_path / "big.log"
    big.write_bytes(b"first\n" + b"x" * 10_000)
    os.truncate(big, 1 << 30)
    assert answer(tmp_path, "read_file", path="big.log", lines=1).startswith("     1\tfirst\n(more lines")
    assert "1,073,741,824 bytes" in refusal(tmp_path, "read_file", path="big.log", mode="indentation")
    os.truncate(big, 0)
    os.truncate(big, 1 << 30)
    assert "is a binary file (1,073,741,824 bytes)" in refusal(tmp_path, "read_file", path="big.log")


def test_a_long_line_is_cut(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"x" * 5_000 + b"\nshort\n")
    first, second = answer(tmp_path, "read_file", path="a.txt").splitlines()
    assert first.endswith("x … 3,000 more bytes")
    assert second == "     2\tshort"


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "out").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "notes.md").touch()
    assert "too many symbolic links" in refusal(tmp_path, "read_file", path="loop")
    assert "outside the folders" in refusal(tmp_path, "read_file", path="out")
    assert "not a regular file" in refusal(tmp_path, "read_file", path="pipe")
    assert "is a folder; list_dir" in refusal(tmp_path, "read_file", path=".")
    assert "did you mean notes.md?" in refusal(tmp_path, "read_file", path="note.md")
    assert "path: expected 'str', got 'int'" in refusal(tmp_path, "read_file", path=1)
