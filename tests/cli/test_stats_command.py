"""`foveate stats` tells what is kept, and `foveate fork` and `foveate demo` keep more."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import Shell, shell_with


def test_stats_of_all_sessions_or_of_one(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    shell("fork", "s", "f")
    assert [row.split()[0] for row in shell("stats").splitlines()[2:4]] == ["f", "s"]
    answer = shell.json("stats", "s")
    assert list(answer["sessions"]) == ["s"]
    assert answer["file_bytes"] == shell.db.stat().st_size
    stats = answer["sessions"]["s"]
    assert (stats["stats"]["turns"], stats["stats"]["messages"]) == (3, 6)
    assert stats["compression_ratio"] > 0
    assert "no session 'nobody'" in shell.error("stats", "nobody")


@pytest.mark.parametrize("width", [80, 120, 160])
def test_a_row_of_stats_is_one_line(width: int, tmp_path: Path) -> None:
    shell = Shell(shell_with(tmp_path, "d703a1a9-1b7b-4fb1-b512-c9738b1fe617").db, width)
    head, rule, row, *_ = shell("stats").splitlines()
    assert row.startswith("d703a1a9-1b7b-4fb1-b512-c9738b1fe617 ")
    assert len(row) <= width
    assert len(rule) <= width
    assert ("first" in head) == (width == 160)


def test_an_empty_store_has_stats_too(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    shell("sessions", "delete", "s", "--yes")
    assert "0 sessions, " in shell("stats")
    assert shell.json("stats")["sessions"] == {}


def test_a_fork_shares_what_came_before(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    assert shell("fork", "s", "f", "--at", "T-2") == "f shares s up to T-2; its next turn is T-3.\n"
    assert shell("show", "f", "--plain") == "[user] Hello\n[assistant] Good day\n" * 2
    answer = shell.json("fork", "f", "g", "--title", "Another try")
    assert (answer["parent_id"], answer["fork_turn_id"], answer["title"]) == ("f", "T-2", "Another try")


def test_a_fork_that_cannot_be_is_refused(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    assert "no turn T-9 in session 's'; it has T-1 to T-3" in shell.error("fork", "s", "f", "--at", "T-9")
    assert "session 's' exists already" in shell.error("fork", "s", "s")
    assert "can't be one" in shell.error("fork", "s", "two\nlines")


def test_the_demo_keeps_every_fact_and_adds_nothing_the_second_time(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db")
    first = shell.json("demo", "--turns", "60")
    assert first["facts"] == first["facts_kept"] > 0
    assert first["stats"]["turns"] == 60
    assert shell.json("demo", "--turns", "60") == first
    shown = shell("demo", "--turns", "60")
    assert "planted facts read back, to the letter." in shown
    assert f"foveate doctor --db {shell.db}" in "".join(shown.splitlines())
    assert shell.json("doctor")["ok"]
