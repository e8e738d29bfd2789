"""`foveate search`: what people see of what was found."""

from __future__ import annotations

from pathlib import Path

import pytest

from foveate import sync
from foveate.recall.index import MAX_LOOSE_TURNS
from foveate.settings import load_settings
from support.command_line import AWKWARD, Shell, shell_with


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    shell = shell_with(tmp_path, turns=1)
    with sync.open(shell.db) as fov:
        session = fov.session("s")
        call = {"id": "c1", "type": "function", "function": {"name": "grep", "arguments": '{"for": "port"}'}}
        session.record(
            [
                {"role": "user", "content": "Which port has the storage? Look into src/store.py."},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c1", "content": "the storage port is 9000"},
                {"role": "assistant", "content": "It is port 9000."},
            ],
            at="2026-02-01T10:00:00Z",
        )
        fov.session("other").record([{"role": "user", "content": "Other ports"}], at="2026-03-01T10:00:00Z")
        fov.settle()
    return shell


def test_a_turn_is_shown_with_who_when_and_the_words_marked(shell: Shell) -> None:
    plain = shell("search", "s", "storage", "ports", "--role", "user")
    assert "T-2  user, 2026-02-01 10:00" in plain
    assert "Which port has the storage?" in plain
    assert "\x1b[1;33mport\x1b[0m" in shell("search", "s", "ports", "--role", "user", colours=True)


def test_filters_are_handed_on(shell: Shell) -> None:
    def roles(*options: str) -> list[str]:
        return [found["role"] for found in shell.json("search", "s", "port", *options)["found"]]

    assert roles("--role", "assistant") == ["assistant"]
    assert roles("--tool", "grep") == ["tool"]
    assert roles("--after", "2026-02-02") == []
    assert roles("--before", "2026-02-02", "--file", "src/store.py", "--role", "user") == ["user"]
    assert "2 is not a time" in shell.error("search", "s", "port", "--after", "2").replace("'", "")


def test_all_sessions_are_searched_and_named(shell: Shell) -> None:
    found = shell.json("search", "--all", "ports")["found"]
    assert {(each["session_id"], each["turn_id"]) for each in found} == {("s", "T-2"), ("other", "T-1")}
    assert "other  T-1" in shell("search", "--all", "ports")


def test_one_argument_is_what_to_look_for_in_every_session(shell: Shell) -> None:
    assert shell.json("search", "other ports") == shell.json("search", "--all", "other ports")
    assert "other  T-1" in shell("search", "other")


def test_words_that_begin_with_no_session_are_told_how_to_look_everywhere(shell: Shell) -> None:
    said = shell.error("search", "tide", "it's late")
    assert "no session 'tide'; 'foveate sessions' lists those that exist" in said
    assert """'foveate search --all tide 'it'"'"'s late'' looks in all of them""" in said


def test_nothing_to_look_for_is_an_error_and_nothing_found_is_not(shell: Shell) -> None:
    assert "there is nothing to look for" in shell.error("search", "s", "  ")
    assert "no session 'nobody'" in shell.error("search", "nobody", "port")
    assert "Nothing was found for 'zebra'." in shell("search", "s", "zebra")
    assert shell.json("search", "s", "zebra") == {"found": [], "unsearched_turns": 0}


def test_what_was_said_can_not_style_the_answer(tmp_path: Path) -> None:
    shell = shell_with(tmp_path, messages=[{"role": "user", "content": AWKWARD}], turns=1)
    assert "\x1b" not in shell("search", "s", "red")
    assert "[red]not red[/red]" in shell("search", "s", "red")


def test_older_turns_that_are_not_indexed_yet_are_told_and_pruned_ones_are_not(tmp_path: Path) -> None:
    shell = shell_with(tmp_path, turns=1)
    settings = load_settings(environment={}, overrides={"compress": {"enabled": False}})
    with sync.open(shell.db, settings=settings) as fov:
        for number in range(40):
            fov.session("s").record([{"role": "user", "content": f"port {number}"}], at="2026-02-01T10:00:00Z")
        assert fov.unsearched_turns("s") == fov.unsearched_turns() == 41 - MAX_LOOSE_TURNS
    told = "Not indexed yet, and so not searched: 9 older turns; 'foveate compress s' does it."
    assert told in " ".join(shell("search", "s", "port").split())
    assert shell.json("search", "s", "port")["unsearched_turns"] == 9
    assert "'foveate compress --all' does it" in " ".join(shell("search", "--all", "port").split())
    with sync.open(shell.db, settings=settings) as fov:
        fov.prune("s", before="2026-02-02", dry_run=False)
        assert fov.unsearched_turns("s") == 0
    shell("compress", "s")
    assert "Not indexed" not in shell("search", "s", "port")
