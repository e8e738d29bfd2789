"""`foveate prune` removes only what it is told to, and only when told twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from foveate import sync
from support.command_line import Shell, shell_with


def content(shell: Shell) -> str:
    return shell("export", "s")


def test_a_dry_run_says_what_would_go_and_changes_nothing(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    before = content(shell)
    shown = " ".join(shell("prune", "s", "--older-than", "2026-01-02T12:00:00Z").split())
    assert "Would remove (--yes does it): turns that ended before 2026-01-02 12:00 UTC." in shown
    answer = shell.json("prune", "s", "--older-than", "2026-01-02T12:00:00Z")
    assert answer["removed"] is False
    assert (answer["sessions"]["s"]["turns"], answer["sessions"]["s"]["messages"]) == (2, 4)
    assert content(shell) == before


def test_told_twice_it_removes_the_content_and_keeps_the_ids(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    assert "Removed: turns that ended" in shell("prune", "s", "--older-than", "2026-01-02T12:00:00Z", "--yes")
    assert "was removed by a prune command; its id stays reserved" in shell.error("show", "s", "T-2")
    assert "Good day" in shell("show", "s", "T-3")
    outline = shell("show", "s")
    assert outline.count("(pruned)") == 2
    assert "T-3" in outline
    assert shell.json("doctor")["ok"]


@pytest.mark.parametrize(
    ("format_name", "note"),
    [
        ("json", '{"id":"T-2","removed":true,"tokens":0,"messages":[]}'),
        ("markdown", "*T-1 to T-2 were removed by a command.*"),
        ("openai", ""),
        ("claude-code", ""),
    ],
)
def test_an_export_after_a_prune_has_the_rest_and_names_what_was_removed(
    format_name: str, note: str, tmp_path: Path
) -> None:
    shell = shell_with(tmp_path)
    shell("prune", "s", "--older-than", "2026-01-02T12:00:00Z", "--yes")
    exported = shell("export", "s", "--format", format_name, "-o", str(tmp_path / "out"))
    written = (tmp_path / "out").read_text("utf-8")
    assert "Wrote" in exported
    assert note in written
    assert "Good day" in written


def test_the_help_says_what_goes_and_what_stays(tmp_path: Path) -> None:
    shown = " ".join(shell_with(tmp_path)("prune", "--help").split())
    for word in ("messages", "renditions", "summaries", "search entries", "knowledge", "Pins", "a fork still reads"):
        assert word in shown


def test_a_fork_keeps_what_it_reads(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    shell("fork", "s", "f", "--at", "T-2")
    assert "its forks f" in shell.error("prune", "s", "--older-than", "2026-01-02T12:00:00Z", "--really")
    shown = " ".join(shell("prune", "--all", "--older-than", "2026-01-02T12:00:00Z", "--yes").split())
    assert "kept session 's' shares turns with its forks f" in shown


@pytest.mark.parametrize("age", ["9999d", "999w", "1990-01-31"])
def test_where_nothing_is_that_old_it_says_so(age: str, tmp_path: Path) -> None:
    assert shell_with(tmp_path)("prune", "--all", "--older-than", age) == "No turn is that old.\n"


@pytest.mark.parametrize("age", ["0d", "2w", "2026-06-01"])
def test_an_age_may_be_days_weeks_or_a_date(age: str, tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    with sync.open(shell.db) as fov:
        fov.session("s").record({"role": "user", "content": "The newest"}, at="2027-01-01")
    assert shell.json("prune", "s", "--older-than", age)["sessions"]["s"]["turns"] == 3


def test_mistakes_are_told(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    assert "name the sessions to prune, or use --all" in shell.error("prune", "--older-than", "1d")
    assert "name the sessions to prune, or use --all" in shell.error("prune", "s", "--all", "--older-than", "1d")
    assert "--older-than: 'soon' is not a time" in shell.error("prune", "s", "--older-than", "soon")
    assert "is not a time" in shell.error("prune", "s", "--older-than", "999999d")
    assert "Missing option '--older-than'" in shell.error("prune", "s", code=2)


def test_the_old_name_of_yes_works_and_is_hidden(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    assert shell.json("prune", "s", "--older-than", "2026-01-02T12:00:00Z", "--really")["removed"] is True
    assert "--really" not in shell("prune", "--help")
