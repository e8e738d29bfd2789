"""`foveate connect` shows a diff, writes on request, and says whether the connection works."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from support.command_line import Shell
from support.homes import CLAUDE, files_of, make_home
from support.transcripts import FIXTURES

VARIABLES = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME", "OPENCODE_CONFIG", "CLINE_DIR")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return make_home(tmp_path / "home", "claude")


def test_the_diff_comes_first_and_yes_writes(tmp_path: Path, home: Path) -> None:
    shell = Shell(tmp_path / "chat.db", 200)
    before = files_of(home)
    shown = shell("connect", "claude", code=1)
    assert '"ANTHROPIC_BASE_URL": "http://127.0.0.1:8484"' in shown
    assert "--yes" in shown
    assert files_of(home) == before
    assert "foveate serve --upstream" in shell("connect", "claude", "--yes")
    assert files_of(home) != before
    assert "connected already" in shell("connect", "claude")
    shown = shell("disconnect", "claude", code=1)
    assert "ANTHROPIC_BASE_URL" in shown
    assert files_of(home) != before
    assert "backups/claude-" in shell("disconnect", "claude", "--yes")
    assert files_of(home) == before
    assert "is not connected" in shell.error("disconnect", "claude")


def test_settings_that_were_there_before_are_connected_and_stay(tmp_path: Path, home: Path) -> None:
    shell = Shell(tmp_path / "chat.db")
    path = home / ".aider.conf.yml"
    path.write_text("openai-api-base: http://127.0.0.1:8484/v1\n")
    before = path.read_bytes()
    assert "connected already" in shell("connect", "aider")
    assert "they existed before" in shell("connect", "aider", "--check", code=1)
    assert "stay" in shell("disconnect", "aider")
    assert path.read_bytes() == before
    (home / ".foveate" / "connections" / "aider.json").write_text("junk")
    assert "delete it and connect again" in shell.error("disconnect", "aider")


@pytest.mark.parametrize(
    ("client", "name", "text", "url"),
    [
        ("claude", ".claude/settings.json", '{"env": {"ANTHROPIC_BASE_URL": "https://x.test/a"}}', "https://x.test/a"),
        (
            "codex",
            ".codex/config.toml",
            'model_provider = "own"\n[model_providers.own]\nbase_url = "https://x.test/b"\n',
            "https://x.test/b",
        ),
        ("aider", ".aider.conf.yml", "openai-api-base: https://x.test/c\n", "https://x.test/c"),
        (
            "opencode",
            ".config/opencode/opencode.json",
            """{"model": "own/big", "provider": {"own": {"npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "https://x.test/d"}}}}""",
            "https://x.test/d",
        ),
        (
            "opencode",
            ".config/opencode/opencode.json",
            '{"model": "openrouter/anthropic/claude-opus-4.5"}',
            "https://openrouter.ai/api/v1",
        ),
    ],
)
def test_the_gateway_is_started_with_the_url_that_was_replaced(
    tmp_path: Path, home: Path, *, client: str, name: str, text: str, url: str
) -> None:
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    shown = Shell(tmp_path / "chat.db", 300)("connect", client, "--yes")
    assert f"foveate serve --upstream {url}\n" in shown
    assert "http://127.0.0.1:8484" in path.read_text()
    assert f"'foveate disconnect {client}' undoes" in shown


def test_a_backup_is_readable_by_its_owner_alone(tmp_path: Path, home: Path) -> None:
    (home / ".claude/settings.json").chmod(0o644)
    Shell(tmp_path / "chat.db")("connect", "claude", "--yes")
    (backup,) = (home / ".foveate/connections/backups").iterdir()
    assert backup.stat().st_mode & 0o077 == 0
    assert (home / ".foveate/connections/claude.json").stat().st_mode & 0o077 == 0


def test_hooks_name_the_store_and_json_has_the_diff(tmp_path: Path, home: Path) -> None:
    shell = Shell(tmp_path / "my chat.db")
    answer = shell.json("connect", "claude", "--mode", "hooks", "--yes")
    assert answer["written"] is True
    assert f"hook claude --db '{tmp_path}/my chat.db'" in answer["diff"]
    assert shell.json("disconnect", "claude", "--yes")["kept"] == []
    assert (home / ".claude/settings.json").read_text() == CLAUDE


def test_the_check_says_what_is_missing(tmp_path: Path, home: Path) -> None:
    shell = Shell(tmp_path / "chat.db", 300)
    assert "is not connected" in shell("connect", "claude", "--check", code=1)
    shell("connect", "claude", "--yes", "--url", "http://127.0.0.1:9/v1")
    found = shell.json("connect", "claude", "--check", code=1)["findings"]
    assert found[0] == {"ok": True, "text": f"settings are in place (gateway mode): {home}/.claude/settings.json"}
    assert found[-1]["text"].startswith("no gateway at http://127.0.0.1:9 (")
    assert "start 'foveate serve --upstream URL', or run 'foveate disconnect claude'" in found[-1]["text"]
    (home / ".claude/settings.json").write_text("{}")
    assert "no longer set" in shell("connect", "claude", "--check", code=1)


def test_the_check_of_hooks_runs_them(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "foveate"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\ncat > /dev/null\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    shell = Shell(tmp_path / "chat.db", 300)
    shell("connect", "claude", "--mode", "hooks", "--yes")
    assert f"'{program} hook claude --db {tmp_path}/chat.db' works" in shell("connect", "claude", "--check", code=1)
    program.write_text("#!/bin/sh\necho out of order\n")
    assert "fails: out of order" in shell("connect", "claude", "--check", code=1)


def test_what_a_client_does_not_have_is_said(tmp_path: Path, home: Path) -> None:
    shell = Shell(tmp_path / "chat.db")
    assert "neither hooks nor MCP" in shell.error("connect", "aider", "--mode", "hooks")
    assert "is not a URL" in shell.error("connect", "claude", "--url", "localhost:8484", code=2)
    assert "run 'cline auth' first" in shell.error("connect", "cline")


def test_watching_once_imports_what_is_new(tmp_path: Path, home: Path) -> None:
    shell = Shell(tmp_path / "chat.db")
    assert "no transcripts of coding agents" in shell.error("watch", "--once")
    folder = home / ".codex/sessions/2026"
    folder.mkdir(parents=True)
    shutil.copy(next((FIXTURES / "codex").rglob("*.jsonl")), folder)
    (event,) = [json.loads(one) for one in shell("watch", "--once", "--json").splitlines()]
    assert event["added"] > 0
    assert shell("watch", "--once", "--json") == ""
