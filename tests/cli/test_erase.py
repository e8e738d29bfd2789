"""`foveate erase` and `foveate handoff` show what they would do, do it once, and never overwrite a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.command_line import shell_with


def test_an_erasure_is_previewed_exported_done_and_listed(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    before = shell("export", "s")
    assert "Nothing was changed; --yes erases it." in shell("erase", "s", "T-3")
    assert shell("export", "s") == before
    file = tmp_path / "gone.json"
    answer = shell.json("erase", "s", "T-3", "--yes", "--export", str(file))
    assert answer["erased"] is True
    assert answer["sessions"][0]["counts"]["messages"] == 2
    assert "Good day" in json.dumps(json.loads(file.read_text("utf-8"))["sessions"][0]["turns"])
    assert "exists already" in shell.error("erase", "s", "T-2", "--yes", "--export", str(file))
    assert "was erased on 20" in shell.error("show", "s", "T-3")
    outline = shell("show", "s")
    assert outline.count("(erased on 20") == 1
    assert "(pruned)" not in outline
    assert '{"id":"T-3","removed":true' in shell("export", "s")
    assert "T-3, by " in shell("erase", "s", "--log")
    assert shell.json("doctor")["ok"]


def test_a_title_made_from_the_turn_is_in_the_preview_and_goes(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    shell("sessions", "rename", "s", "Hello")
    assert "1  titles made from the turns" in shell("erase", "s", "T-1")
    shell("erase", "s", "T-1", "--yes")
    assert shell.json("show", "s")["session"]["title"] == "[erased]"


@pytest.mark.parametrize(
    "given",
    [
        ("s",),
        ("s", "T-1", "--text", "Good day"),
        ("--all",),
        ("--all", "s", "--text", "Good day"),
        ("--text", "Good day"),
        ("s", "--text", "a"),
        ("s", "T-99"),
        ("nobody", "T-1"),
    ],
)
def test_wrong_arguments_erase_nothing(given: tuple[str, ...], tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    before = shell("export", "s")
    assert shell.error("erase", *given, "--yes")
    assert shell("export", "s") == before


def test_a_text_is_erased_in_all_sessions(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    assert "Would erase in s" in shell("erase", "--all", "--text", "Good day")
    assert "Erased in s" in shell("erase", "--all", "--text", "Good day", "--yes")
    assert "it does not occur" in shell("erase", "--all", "--text", "Good day")
    assert "Good day" not in shell("export", "s")


def test_a_handoff_writes_where_the_client_looks_and_not_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = shell_with(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    answer = shell.json("handoff", "s", "--to", "codex", "--folder", str(tmp_path))
    path = Path(answer["path"])
    assert path.is_relative_to(tmp_path / "home" / ".codex" / "sessions")
    assert path.stat().st_mode & 0o077 == 0
    assert answer["command"] == f"cd {tmp_path} && codex resume {answer['client_session']}"
    assert answer["tokens"] <= answer["budget_tokens"] == 8_000
    assert "exists already" in shell.error("handoff", "s", "--to", "codex", "--folder", str(tmp_path))
    out = tmp_path / "prompt.md"
    assert "Continue with: opencode run" in shell("handoff", "s", "--to", "opencode", "-o", str(out), "--budget", "2k")
    assert "Good day" in out.read_text("utf-8")
