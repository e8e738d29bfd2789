"""`foveate export` writes a session whole, or leaves nothing behind."""

from __future__ import annotations

import json
import os
import shlex
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from foveate.formats import transcript_formats
from support.command_line import AWKWARD, HELLO, shell_with


def test_json_is_the_default_and_holds_everything(tmp_path: Path) -> None:
    exported = json.loads(shell_with(tmp_path)("export", "s"))
    assert exported["session"]["id"] == "s"
    assert [turn["id"] for turn in exported["turns"]] == ["T-1", "T-2", "T-3"]
    assert [message["original"]["data"] for message in exported["turns"][0]["messages"]] == HELLO


def test_a_message_format_gives_a_list_ready_to_send(tmp_path: Path) -> None:
    assert json.loads(shell_with(tmp_path)("export", "s", "--format", "openai")) == HELLO * 3


def test_a_range_of_turns_may_be_named(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    assert json.loads(shell("export", "s", "--format", "openai", "--from", "T-3")) == HELLO
    assert json.loads(shell("export", "s", "--format", "openai", "--to", "T-2")) == HELLO * 2
    assert "no turn nonsense" in shell.error("export", "s", "--from", "nonsense")


def test_a_file_holds_what_the_screen_would_show(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    target = tmp_path / "talk.md"
    assert shell("export", "s", "--format", "markdown", "-o", str(target)).startswith(f"Wrote {target} (")
    assert target.read_text() == shell("export", "s", "--format", "markdown")
    assert shell.json("export", "s", "-o", str(target)) == {"output": str(target), "bytes": target.stat().st_size}
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".foveate-")] == []


def test_an_export_is_private_and_follows_no_link_that_was_prepared(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    victim, target = tmp_path / "victim", tmp_path / "talk.json"
    victim.write_text("precious")
    target.symlink_to(victim)
    (tmp_path / "talk.json.partial").symlink_to(victim)
    old = os.umask(0)
    try:
        shell("export", "s", "-o", str(target))
    finally:
        os.umask(old)
    assert victim.read_text() == "precious"
    assert not target.is_symlink()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


@pytest.mark.parametrize("format_", ["json", "markdown", "openai", "anthropic", *transcript_formats()])
def test_awkward_text_goes_out_in_every_format_to_screen_and_file_alike(format_: str, tmp_path: Path) -> None:
    shell = shell_with(tmp_path, messages=[{"role": "user", "content": AWKWARD}], turns=1)
    target = tmp_path / "out"
    shell("export", "s", "--format", format_, "-o", str(target))
    assert target.read_bytes() == shell.run("export", "s", "--format", format_).stdout_bytes
    assert b"\\ud83d" in target.read_bytes()


def test_escape_sequences_go_out_as_they_came(tmp_path: Path) -> None:
    shell = shell_with(tmp_path, messages=[{"role": "user", "content": "\x1b[31mred\x1b[0m"}], turns=1)
    assert b"\x1b[31mred\x1b[0m" in shell.really("export", "s", "--format", "markdown").stdout


def test_a_failed_export_leaves_no_half_of_a_file_and_the_old_one_as_it_was(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    with closing(sqlite3.connect(shell.db)) as connection:
        connection.execute("ALTER TABLE bodies RENAME TO gone")
        connection.commit()
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text("the old one")
    for target in (old, new):
        assert "no such table" in shell.error("export", "s", "-o", str(target))
    assert old.read_text() == "the old one"
    assert {path.name for path in tmp_path.iterdir()} <= {"chat.db", "chat.db-wal", "chat.db-shm", "old.json"}


def test_mistakes_are_told_before_anything_is_written(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    target = tmp_path / "x.json"
    assert "nonsense" in shell.error("export", "s", "--format", "nonsense", "-o", str(target))
    assert "no session 'nobody'" in shell.error("export", "nobody", "-o", str(target))
    assert not target.exists()
    missing = tmp_path / "missing" / "x.json"
    assert f"{missing}: can't be written: No such file or directory" in shell.error("export", "s", "-o", str(missing))


def test_an_export_is_limited_to_a_time(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    answer = shell.json("export", "s", "--after", "2026-01-02", "--before", "2026-01-03")
    assert [turn["id"] for turn in answer["turns"]] == ["T-2"]
    assert "is not a time" in shell.error("export", "s", "--after", "soon")


def test_every_export_comes_as_json_too(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    assert shell.json("export", "s", "--format", "markdown")["content"] == shell("export", "s", "--format", "markdown")
    assert shell.json("export", "s", "--format", "openai") == json.loads(shell("export", "s", "--format", "openai"))


def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        shell_with(tmp_path)("export", "s", "--format", "openai", "-o", str(pipe))
        assert json.loads(os.read(reader, 60_000)) == HELLO * 3
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_the_command_of_a_handoff_quotes_its_path(tmp_path: Path) -> None:
    out = tmp_path / "a $(touch pwn) 'b.md"
    shown = shell_with(tmp_path)("handoff", "s", "--to", "opencode", "-o", str(out), "--json")
    assert f'"$(cat {shlex.quote(str(out))})"' in json.dumps(json.loads(shown), ensure_ascii=False).replace('\\"', '"')
