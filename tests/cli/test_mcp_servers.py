"""`--mcp`: the tools of MCP servers in a chat, a run and background agents."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from support.command_line import Shell

SERVER = str(Path(__file__).parent.parent / "tools" / "mcp_server.py")
BERTH = "mcp__harbour__berth"


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    replies = [
        {"results": 0, "calls_tool": BERTH, "arguments": {"number": 3}},
        {"result_contains": "12 m", "says": "STATUS: done: It is 12 m deep."},
        {"says": "STATUS: done: I may not look."},
    ]
    (tmp_path / "epic.md").write_text("How deep is berth 3?", "utf-8")
    (tmp_path / "script.json").write_text(json.dumps({"reply": replies}), "utf-8")
    server = {"command": sys.executable, "args": [SERVER], "allow": ["berth"]}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"harbour": server}}), "utf-8")
    return Shell(tmp_path / "chat.db", width=120)


def configure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = folder / "foveate.toml"
    lines = ("[tools.mcp_servers.harbour]", f"command = {json.dumps(sys.executable)}", f"args = [{json.dumps(SERVER)}]")
    settings.write_text("\n".join(lines), "utf-8")
    monkeypatch.setenv("FOVEATE_CONFIG", str(settings))


@pytest.mark.parametrize(("approved", "said"), [((), "I may not look."), (("--approve", BERTH), "It is 12 m deep.")])
def test_a_run_uses_the_tools_of_a_file_of_servers(shell: Shell, approved: tuple[str, ...], said: str) -> None:
    words = ("run", "--epic", "epic.md", "--model", "scripted:script.json", "--mcp", "mcp.json", *approved)
    assert said in shell(*words)


def test_a_chat_uses_the_tools_of_a_configured_server(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(tmp_path, monkeypatch)
    words = ("chat", "--model", "scripted:script.json", "--mcp", "harbour", "--approve", BERTH)
    assert "It is 12 m deep." in shell(*words, given="How deep is berth 3?\n")


def test_a_background_agent_has_configured_servers_and_waits_for_approval(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(tmp_path, monkeypatch)
    spawned = shell.json("agents", "spawn", "How deep?", "--model", "scripted:script.json", "--mcp", "harbour")
    shell("worker", "--drain")
    assert shell.json("agents", "show", spawned["id"])["waits"]["tool"] == BERTH
    shell("agents", "approve", spawned["id"])
    shell("worker", "--drain")
    assert shell("agents", "wait", spawned["id"]) == "It is 12 m deep.\n"


def test_a_server_that_is_not_there_is_named(shell: Shell) -> None:
    words = ("--model", "scripted:script.json", "--mcp", "quay")
    assert "quay can't be read: No such file" in shell.error("run", "--epic", "epic.md", *words)
    assert "the settings have no MCP server 'quay'" in shell.error("agents", "spawn", "How deep?", *words)
