"""`foveate search`: what people see of what was found."""

from __future__ import annotations

from pathlib import Path

import pytest

from foveate import sync
from foveate.recall.table import MAX_LOOSE_TURNS
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
    plain = shell("search", "-s", "s", "storage", "ports", "--role", "user")
    assert "T-2  user, 2026-02-01 10:00" in plain
    assert "Which port has the storage?" in plain
    assert "\x1b[1;33mport\x1b[0m" in shell("search", "ports", "--role", "user", colours=True)


def test_filters_are_handed_on(shell: Shell) -> None:
    def roles(*options: str) -> list[str]:
        return [found["role"] for found in shell.json("search", "-s", "s", "port", *options)["found"]]

    assert roles("--role", "assistant") == ["assistant"]
    assert roles("--tool", "grep") == ["tool"]
    assert roles("--after", "2026-02-02") == []
    assert roles("--before", "2026-02-02", "--file", "src/store.py", "--role", "user") == ["user"]
    assert "2 is not a time" in shell.error("search", "-s", "s", "port", "--after", "2").replace("'", "")


def test_all_arguments_are_words_and_all_sessions_are_searched(shell: Shell) -> None:
    found = shell.json("search", "storage", "other", "ports")["found"]
    assert {(each["session_id"], each["turn_id"]) for each in found} >= {("s", "T-2"), ("other", "T-1")}
    assert shell.json("search", "--all", "s", "ports")["found"][0]["turn_id"]


def test_hits_are_grouped_by_session_the_best_first(shell: Shell) -> None:
    with sync.open(shell.db) as fov:
        fov.session("s").record([{"role": "user", "content": "The storage port changed to 9001."}])
        fov.settle()
    lines = shell("search", "--all", "storage", "ports").splitlines()
    heads = [each.split()[0] for each in lines if not each.startswith(" ")]
    assert heads == ["s", "other"]
    assert [each.split()[0] for each in lines if each.startswith("  T-")][:2] == ["T-3", "T-2"]


def test_the_first_word_names_a_session_for_one_more_release(shell: Shell) -> None:
    found = shell.json("search", "other", "ports")["found"]
    assert [(each["session_id"], each["turn_id"]) for each in found] == [("other", "T-1")]
    assert "'other' is taken as the session" in shell.run("search", "other", "ports").stderr
    assert shell.json("search", "--all", "other", "ports")["found"] != found


def test_times_are_given_as_dates_or_counted_back_from_now(shell: Shell) -> None:
    with sync.open(shell.db) as fov:
        fov.session("s").record([{"role": "user", "content": "A port of today"}])
    for time in ("7d", "yesterday", "12h", "2 days ago", "last month"):
        assert [each["turn_id"] for each in shell.json("search", "port", "--after", time)["found"]] == ["T-3"]
    assert "T-3" not in {each["turn_id"] for each in shell.json("search", "port", "--before", "1h")["found"]}


def test_nothing_to_look_for_is_an_error_and_nothing_found_is_not(shell: Shell) -> None:
    assert "the search is empty" in shell.error("search", "-s", "s", "  ")
    assert "no session 'nobody'" in shell.error("search", "-s", "nobody", "port")
    assert "Nothing was found for 'zebra'." in shell("search", "-s", "s", "zebra")
    assert shell.json("search", "-s", "s", "zebra") == {"found": [], "unsearched_turns": 0}


def test_what_was_said_can_not_style_the_answer(tmp_path: Path) -> None:
    shell = shell_with(tmp_path, messages=[{"role": "user", "content": AWKWARD}], turns=1)
    assert "\x1b" not in shell("search", "-s", "s", "red")
    assert "[red]not red[/red]" in shell("search", "-s", "s", "red")


def test_older_turns_that_are_not_indexed_yet_are_told_and_pruned_ones_are_not(tmp_path: Path) -> None:
    shell = shell_with(tmp_path, turns=1)
    settings = load_settings(environment={}, overrides={"compress": {"enabled": False}})
    with sync.open(shell.db, settings=settings) as fov:
        for number in range(40):
            fov.session("s").record([{"role": "user", "content": f"port {number}"}], at="2026-02-01T10:00:00Z")
        assert fov.unsearched_turns("s") == fov.unsearched_turns() == 41 - MAX_LOOSE_TURNS
    told = "Indexing is not finished: 9 older turns not searched; 'foveate store compress s' finishes it."
    assert " ".join(shell("search", "-s", "s", "port").split()).startswith(told)
    assert shell.json("search", "-s", "s", "port")["unsearched_turns"] == 9
    assert "'foveate store compress --all' finishes it" in " ".join(shell("search", "--all", "port").split())
    with sync.open(shell.db, settings=settings) as fov:
        fov.prune("s", before="2026-02-02", dry_run=False)
        assert fov.unsearched_turns("s") == 0
    shell("compress", "s")
    assert "Indexing" not in shell("search", "-s", "s", "port")


def test_turns_are_listed_by_date_without_words(shell: Shell) -> None:
    listed = shell("search", "-s", "s", "--order", "time", "--role", "user", "--after", "January 2026")
    assert "T-2  user, 2026-02-01 10:00" in listed
    both = shell("search", "ports", "--order", "time", "--before", "April 2026")
    assert both.index("2026-02-01") < both.index("2026-03-01")
    assert "only --order time needs none" in shell.error("search", code=2)


def test_messages_of_a_speaker_are_found_by_the_name(shell: Shell) -> None:
    with sync.open(shell.db) as fov:
        fov.session("s").record([{"role": "user", "content": "Anna: the port is closed"}])
    assert "the port is closed" in shell("search", "port", "--speaker", "Anna")
    assert "Nothing was found" in shell("search", "port", "--speaker", "Ben")
