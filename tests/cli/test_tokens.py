"""`foveate tokens` counts files and standard input."""

from __future__ import annotations

from pathlib import Path

import pytest

from foveate import sync
from support.command_line import Shell


def test_standard_input_is_counted(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db")
    assert shell("tokens", given="hello world") == "2\n"
    assert shell("tokens", "-", given="") == "0\n"
    assert shell.really("tokens", given=b"hello world").stdout == b"2\n"
    assert not shell.db.exists()


def test_files_are_counted_one_by_one(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db")
    a, b = tmp_path / "a.txt", tmp_path / "b.txt"
    a.write_text("hello world")
    b.write_text("お誕生日おめでとう")
    assert shell("tokens", str(a)) == "2\n"
    assert [line.split() for line in shell("tokens", str(a), str(b)).splitlines()] == [["2", str(a)], ["8", str(b)]]


def test_a_model_that_is_not_openais_is_estimated_and_that_is_said(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db")
    exact = shell.run("tokens", "--model", "gpt-5", given="hello world")
    assert (exact.stdout, exact.stderr) == ("2\n", "")
    estimated = shell.run("tokens", "--model", "claude-sonnet-4-5", given="hello world")
    assert estimated.stdout == "3\n"
    assert estimated.stderr.startswith("estimated by claude-4: ")


def test_json_says_what_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("hello world")
    answer = Shell(tmp_path / "chat.db").json("tokens", str(path))
    assert (answer["counter"], answer["exact"], answer["tokens"]) == ("o200k_base", True, {str(path): 2})


def test_what_is_no_text_is_a_mistake_that_says_where(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db")
    assert "<stdin>: not UTF-8 text (byte 3)" in shell.error("tokens", given=b"abc\xff\xfe")
    assert "No such file" in shell.error("tokens", str(tmp_path / "missing"), code=2)
    assert "directory" in shell.error("tokens", str(tmp_path), code=2)


def test_the_model_of_the_settings_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOVEATE_SESSION__MODEL", "claude-sonnet-4-5")
    shell = Shell(tmp_path / "chat.db")
    assert int(shell("tokens", given="hello world")) > 2
    assert shell("tokens", "--model", "gpt-5", given="hello world") == "2\n"
    monkeypatch.setenv("FOVEATE_SESSION__STRATEGY", "gradiant")
    assert "session.strategy" in shell.error("tokens", given="hello world")


def test_a_session_counts_with_its_calibration(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db")
    with sync.open(shell.db) as fov:
        session = fov.session("s")
        session.record([{"role": "user", "content": "Hello, harbour. " * 200}])
        context = session.context()
        session.calibrate(context, reported_tokens=context.tokens * 2)
    assert int(shell("tokens", "--session", "s", given="hello world " * 50)) > 150
    assert int(shell("tokens", given="hello world " * 50)) < 110
