"""`foveate learn` shows what it learned, with sources, and what it would cost."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from foveate import sync
from support.command_line import AWKWARD, SHOWN, Shell

RULE = "Never use tabs in Python files."


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setitem(sys.modules, "sklearn.cluster", None)
    with sync.open(tmp_path / "chat.db") as fov:
        for session, channel in (("a", "shop"), ("b", None)):
            opened = fov.session(session, channel=channel)
            opened.record([{"role": "user", "content": RULE}, {"role": "assistant", "content": "I will."}])
    return Shell(tmp_path / "chat.db", width=120)


def test_the_changes_are_shown_with_their_sources_and_a_second_run_finds_nothing_new(shell: Shell) -> None:
    preview = shell("learn", "--dry-run")
    shown = shell("learn")
    assert "project:shop  1 turn of 1 session, by rules" in shown
    assert f"lesson: {RULE}"[:-1] in shown
    assert "a/T-1" in shown
    assert "1 new, 0 changed, 0 retired, 0 merged" in shown
    assert "+ k-" in preview
    assert "nothing was stored" in preview
    again = shell("learn")
    assert again.splitlines() == [
        "project:  nothing new since the last run",
        "project:shop  nothing new since the last run",
    ]


def test_json_has_the_source_turns_of_each_item(shell: Shell) -> None:
    answer = shell.json("learn", "--scope", "project:shop")
    (scope,) = answer["scopes"]
    assert (answer["dry_run"], answer["calls"], scope["scope"]) == (False, 0, "project:shop")
    assert [change["sources"] for change in scope["changes"]] == [[{"session_id": "a", "turn": 1}]]


def test_awkward_text_is_shown_safely(shell: Shell) -> None:
    with sync.open(shell.db) as fov:
        text = f"Never write {AWKWARD} in files."
        fov.session("a").record([{"role": "user", "content": text}])
    assert "\x1b" not in shell("learn")
    assert SHOWN


def test_a_scope_that_is_none_is_an_error_that_names_the_way_out(shell: Shell) -> None:
    assert "write session:ID, project:NAME" in shell.error("learn", "--scope", "shop")
    assert shell("learn", "--scope", "project:none") == "project:none  no turns\n"
