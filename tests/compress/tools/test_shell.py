"""Shells: command, exit code, first error or last line."""

from __future__ import annotations

import pytest

from support.exchanges import lines, smoothed, summary

TRACEBACK = """Traceback (most recent call last):
  File "a.py", line 1, in <module>
    load()
ValueError: row 7 has no date
"""


@pytest.mark.parametrize(
    ("command", "output", "exit_code", "said"),
    [
        ("date", "2026-11-15", 0, "{bash date: 2026-11-15}"),
        ("true", "", 0, "{bash true: no output}"),
        ("cd /x && python a.py", TRACEBACK, 1, "{bash python a.py: exit 1, a.py:1: ValueError: row 7 has no date}"),
        ("make", "cc a.c\ncc b.c\ndone", 0, "{bash make: 3 lines, last: done}"),
        ("cat a.txt", "a\nb\nc", 0, "{bash cat a.txt: 3 lines}"),
        ("grep -rn x .", "a.py:1:x\na.py:2:x\nb.py:3:x", 0, "{bash grep -rn x .: 3 hits in 2 files, first a.py}"),
        ("grep -rn x .", "", 1, "{bash grep -rn x .: exit 1, no output}"),
        ("ls", "a\nb", 0, "{bash ls: 2 entries: a, b}"),
        ("git log --oneline", "d675894 QS-17: a\n1234567 QS-18: b\n7654321 QS-19: c", 0, None),
    ],
)
def test_a_command_is_summed_up_by_what_it_printed(command: str, output: str, exit_code: int, said: str | None) -> None:
    shown = summary("bash", {"command": command}, output, exit_code=exit_code)
    assert shown == (said or "{bash git log --oneline: 3 lines, last: 7654321 QS-19: c}")


def test_progress_is_not_shown() -> None:
    output = "Collecting a\nDownloading a\n 10 % fetch\n 90 % fetch\nSuccessfully installed a-1.0"
    assert smoothed("bash", {"command": "pip install a"}, output) == [
        "Successfully installed a-1.0",
        "(… 4 lines of progress)",
    ]


def test_headings_are_no_progress() -> None:
    assert "# Title" in smoothed("bash", {"command": "show"}, "# Title\ntext")


def test_errors_are_among_the_key_lines_of_a_long_output() -> None:
    output = "\n".join([*(f"compiled {chr(97 + n % 26)}{n}" for n in range(200)), "error: missing ;", *("x" * 200)])
    assert "error: missing ;" in lines("exec", {"command": "make"}, output, exit_code=2)
