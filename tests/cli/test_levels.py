"""`foveate levels`, `search` and `compress`: what a turn became, where it is found, and finishing what is lacking."""

from __future__ import annotations

from pathlib import Path

import pytest

from foveate import sync
from foveate.compress.local import LocalCompressor
from support.command_line import Shell, shell_with

LONG = [
    {"role": "user", "content": "Please move the invoice run to 03:25 UTC. " + "It is a nightly job. " * 40},
    {"role": "assistant", "content": "Done: the invoice run starts at 03:25 UTC. " + "Nothing else changed. " * 40},
]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    shell = shell_with(tmp_path, messages=LONG)
    shell("compress", "s")
    return shell


@pytest.mark.parametrize("width", [80, 160])
def test_a_turn_is_shown_at_its_four_levels(shell: Shell, width: int) -> None:
    shown = Shell(shell.db, width)("levels", "s", "T-1")
    assert all(head in shown for head in ("T-1-R raw", "T-1-S smoothed", "T-1-C compressed", "T-1-T tiny"))
    is_side_by_side = any(all(f"T-1-{level}" in line for level in "RSCT") for line in shown.splitlines())
    assert is_side_by_side == (width == 160)


def test_levels_say_what_each_takes(shell: Shell) -> None:
    answer = shell.json("levels", "s", "T-1")
    assert [each["level"] for each in answer] == ["R", "S", "C", "T"]
    sizes = [each["tokens"] for each in answer]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] <= 50
    assert answer[0]["share"] == 1
    assert "03:25" in answer[3]["content"]


def test_levels_say_who_made_each_when_and_what_the_turn_is(shell: Shell) -> None:
    raw, *made = shell.json("levels", "s", "T-1")
    assert (raw["maker"], raw["version"]) == ("recorded", None)
    assert {(level["maker"], level["version"]) for level in made} == {("local", LocalCompressor().version)}
    assert all(level["made_at"] >= raw["made_at"] for level in made)
    assert raw["prompt_tokens"] + raw["answer_tokens"] == raw["tokens"]
    assert raw["prompt_tokens"] > 100
    assert raw["tool_calls"] == 0
    assert raw["is_complete"] is True
    assert "invoice" in raw["topics"]


def test_turns_of_a_topic_are_read_together(shell: Shell) -> None:
    with sync.open(shell.db) as fov:
        chat = fov.open_session("s")
        chat.record([{"role": "user", "content": "How deep is the harbour?"}, {"role": "assistant", "content": "9 m."}])
        found = chat.get_turns_by_topic("harbour", "C")
        assert [content.turn_id for content in found] == ["T-4"]
        assert "harbour" in found[0].content
        assert not found.is_exact
    assert "How deep is the harbour?" in shell("show", "s", "--topic", "harbour", "--plain")


def test_a_turn_that_is_not_there_is_named(shell: Shell) -> None:
    assert "no turn T-9 in session 's'" in shell.error("levels", "s", "T-9")


def test_words_find_their_turns(shell: Shell) -> None:
    assert shell("search", "s", "invoice", "run").count("T-") >= 3
    assert [found["turn_id"] for found in shell.json("search", "s", "invoice", "--limit", "1")["found"]] == ["T-3"]
    assert "Nothing was found for 'zebra'." in shell("search", "s", "zebra")
    assert shell.json("search", "s", "zebra")["found"] == []


def test_compressing_finishes_what_is_lacking_and_then_has_nothing_to_do(tmp_path: Path) -> None:
    shell = shell_with(tmp_path, messages=LONG)
    first = shell.json("compress", "s")["s"]
    assert (first["pending"], first["rendered"] + first["fallbacks"]) == (0, 3)
    assert shell.json("compress", "--all")["s"]["done"] == 0
    assert "fallbacks" in shell("compress", "--all")
    assert shell.json("stats", "s")["sessions"]["s"]["stats"]["pending"] == 0
    assert shell.json("doctor")["pending_turns"] == 0


def test_compressing_needs_a_session_or_all(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    assert "name sessions, or use --all" in shell.error("compress", code=2)
    assert "name sessions, or use --all" in shell.error("compress", "s", "--all", code=2)
    assert "no session 'nobody'" in shell.error("compress", "nobody")
