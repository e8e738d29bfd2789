"""`foveate replay` plays a session again and says what it would have cost; `foveate demo` ends on the picture."""

from __future__ import annotations

from pathlib import Path

from support.command_line import Shell, shell_with


def test_a_replay_tells_overruns_cached_share_and_price(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    shown = shell("replay", "s", "--budget", "2000")
    assert "3 turns" in shown
    assert "overruns      0 " in shown
    answer = shell.json("replay", "s", "--budget", "2000", "--schedule", "interval", "--order", "documented")
    assert (answer["calls"], answer["overruns"], answer["schedule"]) == (3, 0, "interval")
    assert 0 < answer["cached_share"] < 1
    assert answer["order"] == "documented"


def test_a_replay_leaves_the_session_as_it_is(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    before = shell("export", "s")
    assert shell.json("replay", "s", "--turns", "2", "--retrieve-every", "1")["turns"] == 2
    assert shell("export", "s") == before
    assert shell.json("board", "s")["retrieved"] == []


def test_the_demo_ends_on_a_picture_and_a_fact_found_again(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db")
    shown = shell("demo", "--turns", "60", "--no-replay")
    assert "of 16,000 tokens" in shown
    assert "in view" in shown
    answer = shell.json("demo", "--turns", "60")
    assert answer["facts_kept"] == answer["facts"] >= answer["facts_in_context"] > 0
    assert answer["context_tokens"] <= 16_000
    assert answer["overruns"] == 0
    assert 0.5 < answer["cached_share"] < 1
