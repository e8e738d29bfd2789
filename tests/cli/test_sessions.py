"""`foveate sessions` lists what there is, and renames, labels and deletes it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from foveate import sync
from support.command_line import Shell, command, shell_with

UUID = "d703a1a9-1b7b-4fb1-b512-c9738b1fe617"


def test_the_session_used_last_comes_first(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    with sync.open(shell.db) as fov:
        fov.session("newer").record({"role": "user", "content": "Hi"})
    listed = shell("sessions").splitlines()[2:]
    assert [row.split()[0] for row in listed] == ["newer", "s"]
    assert [info["id"] for info in shell.json("sessions")] == ["newer", "s"]
    assert shell.json("sessions")[1]["turns"] == 3


@pytest.mark.parametrize("width", [80, 120])
def test_a_row_is_one_line_with_a_short_id_that_names_it(width: int, tmp_path: Path) -> None:
    shell = Shell(shell_with(tmp_path, UUID).db, width)
    with sync.open(shell.db) as fov:
        session = fov.open_session(UUID)
        session.rename("A title that is much too long for any terminal " * 4)
        session.label(channel="/home/ada/tides")
        session.record({"role": "user", "content": "Now"})
    header, _, row = shell("sessions").splitlines()
    assert header.split()[:5] == ["session", "title", "project", "age", "turns"]
    assert row.startswith("d703a1a9 ")
    assert "…" in row
    assert " tides " in row
    assert " 0 min " in row
    assert shell.json("show", "d703a1a9")["session"]["id"] == UUID


def test_children_are_counted_at_their_parent_and_listed_on_request(tmp_path: Path) -> None:
    shell = shell_with(tmp_path, UUID)
    with sync.open(shell.db) as fov:
        fov.open_session(UUID).fork("fork")
        fov.session(f"{UUID}/agent-1234567890abcdef")
        fov.session("alone")
    shown = shell("sessions")
    assert {row.split()[0] for row in shown.splitlines()[2:4]} == {"alone", "d703a1a9"}
    assert "+2" in shown
    assert "2 children not listed (--all lists them)" in shown
    every = shell("sessions", "--all")
    assert "d703a1a9/agen" in every
    assert len(every.splitlines()) == 2 + 4
    assert shell.json("show", "d703a1a9/agen")["session"]["id"] == f"{UUID}/agent-1234567890abcdef"


def test_a_project_is_the_channel_or_the_last_folder_of_its_path(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    with sync.open(shell.db) as fov:
        fov.session("a", channel="/home/ada/tides")
        fov.session("b", channel="#help")
    assert [info["id"] for info in shell.json("sessions", "--project", "Tides")] == ["a"]
    assert [info["id"] for info in shell.json("sessions", "--project", "#help")] == ["b"]


def test_a_title_and_a_unique_beginning_name_a_session_everywhere(tmp_path: Path) -> None:
    shell = shell_with(tmp_path, UUID)
    shell("sessions", "rename", "d70", "The login that failed")
    assert shell.json("show", "the login that failed")["session"]["id"] == UUID
    assert list(shell.json("prune", "The login", "--older-than", "1d")["sessions"]) == [UUID]
    assert "did you mean d703a1a9-1b7b-4fb1-b512-c9738b1fe617 ('The login that failed')?" in " ".join(
        shell.error("show", "The logon that faild").split()
    )
    assert shell.json("sessions", "delete", "d703", "--yes")["id"] == UUID


def test_a_list_may_be_limited_and_says_so(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    with sync.open(shell.db) as fov:
        for number in range(5):
            fov.session(f"more-{number}")
    assert "… and 4 more (--limit 0 lists all)" in shell("sessions", "--limit", "2")
    assert len(shell("sessions", "--limit", "0").splitlines()) == 2 + 6
    assert "not in the range" in shell.error("sessions", "--limit", "-1", code=2)


def test_only_those_of_a_platform_or_channel_are_listed(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    shell("sessions", "label", "s", "--platform", "slack", "--channel", "#help")
    assert [info["id"] for info in shell.json("sessions", "--platform", "slack")] == ["s"]
    assert [info["id"] for info in shell.json("sessions", "--channel", "#help")] == ["s"]
    assert shell.json("sessions", "--channel", "#other") == []
    assert "No sessions found" in shell("sessions", "--platform", "other")


def test_a_session_is_renamed_and_labelled(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    assert shell("sessions", "rename", "s", "A better title") == "s is now called 'A better title'.\n"
    assert shell("sessions", "label", "s", "--channel", "#help") == "s now has channel '#help'.\n"
    (info,) = shell.json("sessions")
    assert (info["title"], info["platform"], info["channel"]) == ("A better title", "tests", "#help")
    assert shell.json("sessions", "rename", "s", "Again")["title"] == "Again"
    assert "give --platform, --channel, or both" in shell.error("sessions", "label", "s", code=2)


def test_a_session_is_deleted_only_when_that_is_confirmed(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    refused = shell.run("sessions", "delete", "s", given="n\n", code=1)
    assert "Delete session s (A talk) and its 3 turns permanently? [y/N]" in refused.stderr
    assert "Aborted!" in refused.stderr
    assert len(shell.json("sessions")) == 1
    assert "Deleted s." in shell("sessions", "delete", "s", given="y\n")
    assert shell.json("sessions") == []


def test_a_session_that_a_fork_reads_is_not_deleted(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    shell("fork", "s", "f")
    assert "delete or export them first" in shell.error("sessions", "delete", "s", "--yes")
    assert shell.json("sessions", "delete", "f", "--yes")["id"] == "f"
    assert shell.json("sessions", "delete", "s", "--yes")["id"] == "s"


def test_an_option_before_a_subcommand_is_refused_rather_than_not_heard(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    said = shell.error("sessions", "--db", str(tmp_path / "other.db"), "delete", "s", "--yes", code=2)
    assert "put --db after 'delete', not before it" in said
    assert len(shell.json("sessions")) == 1


def test_a_session_is_shown_by_another_strategy_with_settings_of_its_own(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    assert shell("sessions", "strategy", "s") == "s uses the strategy gradient.\n"
    shown = shell("sessions", "strategy", "s", "standard", "--set", "when_full=fail", "--set", "prompt_share=0.5")
    assert shown == "s uses the strategy standard, with when_full = fail, prompt_share = 0.5.\n"
    answer = shell.json("sessions", "strategy", "s")
    assert (answer["strategy"], answer["strategy_settings"]) == (
        "standard",
        {"when_full": "fail", "prompt_share": 0.5},
    )
    assert shell("sessions", "strategy", "s", "gradient") == "s uses the strategy gradient.\n"
    assert shell.json("sessions")[0]["strategy_settings"] == {}


def test_a_strategy_or_setting_that_does_not_exist_changes_nothing(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    assert "gradient" in shell.error("sessions", "strategy", "s", "nosuch")
    assert "standard.when_ful" in shell.error("sessions", "strategy", "s", "standard", "--set", "when_ful=drop")
    assert "drop or fail" in shell.error("sessions", "strategy", "s", "standard", "--set", "when_full=never")
    assert "KEY=VALUE" in shell.error("sessions", "strategy", "s", "standard", "--set", "when_full", code=2)
    assert "needs the name of a strategy before it" in shell.error(
        "sessions", "strategy", "s", "--set", "when_full=drop", code=2
    )
    assert shell.json("sessions", "strategy", "s")["strategy"] == "gradient"


def test_a_session_shown_by_checkpoints_has_its_reliability_beside_it(tmp_path: Path) -> None:
    shell = Shell(shell_with(tmp_path).db, 160)
    assert "reliability" not in shell("sessions") + shell("stats")
    assert shell.json("sessions")[0]["reliability"] is None
    with sync.open(shell.db) as fov:
        chat = fov.session("long", strategy="checkpoint", budget_tokens=8_000, model="llama-13b")
        said = " ".join(f"word{place}" for place in range(300))
        for turn in range(12):
            chat.record([{"role": "user", "content": f"Why {turn}?"}, {"role": "assistant", "content": said}])
        notes = chat.context().planned.notes
    assert notes["compressions"]
    score = f"{100 * float(str(notes['reliability'])):.1f} % {notes['reliability_level']}"
    assert score in shell("sessions")
    assert score in shell("stats")
    listed = {info["id"]: info["reliability"] for info in shell.json("sessions")}
    assert listed["s"] is None
    assert (round(listed["long"]["score"], 4), listed["long"]["level"]) == (
        notes["reliability"],
        notes["reliability_level"],
    )
    assert shell.json("stats", "long")["sessions"]["long"]["reliability"] == listed["long"]


def test_a_session_has_a_scope(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    assert shell("sessions", "scope", "s") == "s has no scope.\n"
    assert shell("sessions", "scope", "s", "user:anna") == "s has the scope user:anna.\n"
    assert shell.json("sessions", "scope", "s")["scope"] == "user:anna"
    assert "scope" in shell.error("sessions", "scope", "s", "pirate")
    assert shell("sessions", "scope", "s", "--off") == "s has no scope.\n"


def test_titles_are_whole_where_no_terminal_limits_them(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db")
    title = "a long title of many words " * 8
    shell("demo", "--turns", "3")
    shell("sessions", "rename", "demo", title)
    environment = {key: value for key, value in shell.environment().items() if key != "COLUMNS"}
    listed = subprocess.run(command("sessions"), env=environment, capture_output=True, text=True, check=True).stdout
    assert title.strip() in listed
    assert title.strip() not in shell("sessions")
