"""The doors of the README open: its commands, run in order against a scripted provider, do what it says."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from itertools import pairwise
from pathlib import Path

import httpx2
import pytest

from support.command_line import Shell
from support.homes import CLAUDE
from support.paths import ROOT
from support.patience import PATIENCE_SECONDS
from support.provider_process import provider
from support.served import served
from support.upstream import Upstream, say

README = (ROOT / "README.md").read_text("utf-8")
DEFAULT_URL = "http://127.0.0.1:8484"


def block(beginning: str) -> list[list[str]]:
    """The commands of the block that begins like this, as words."""
    (text,) = re.findall(rf"^```\n({re.escape(beginning)}.*?)^```", README, re.MULTILINE | re.DOTALL)
    lines = text.replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True) for line in lines]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    settings = tmp_path / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(CLAUDE, "utf-8")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    return tmp_path


def test_a_readers_own_history_is_imported_and_searched(home: Path) -> None:
    importing, search, sessions = (words[1:] for words in block("foveate import ~/.claude/projects"))
    shutil.copytree(ROOT / "tests/fixtures/claude_code", home / ".claude/projects/tidepool")
    shell = Shell(home / "chat.db")
    assert "8 sessions, 98 messages" in shell(*(word.replace("~", str(home)) for word in importing))
    assert "Fix the tide table after the clock change\n  T-1" in shell(*search)
    assert "Fix the tide table" in shell(*sessions)


def test_a_coding_agent_is_connected_served_and_disconnected(home: Path) -> None:
    connect, serve, disconnect = (words[1:] for words in block("foveate connect claude"))
    shell, settings = Shell(home / "chat.db"), home / ".claude" / "settings.json"
    shown = shell(*connect, "--yes")
    assert " ".join(["foveate", *serve]) in shown, "the command names the same one"
    assert json.loads(settings.read_text("utf-8"))["env"]["ANTHROPIC_BASE_URL"] == DEFAULT_URL
    prompt = {"model": "claude-haiku-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}
    with provider(Upstream(lambda _: say("Good day."))) as variables:
        serve = [variables["ANTHROPIC_BASE_URL"] if word.startswith("https://") else word for word in serve[1:]]
        with served(shell, *serve, HOME=str(home)) as (_, ready):
            answer = httpx2.post(f"{ready['url']}/v1/messages", json=prompt, timeout=PATIENCE_SECONDS)
    assert answer.json()["content"][0]["text"] == "Good day."
    assert [info["turns"] for info in shell.json("sessions")] == [1]
    shell(*disconnect, "--yes")
    assert settings.read_text("utf-8") == CLAUDE


def test_an_apps_request_is_answered_through_the_gateway_and_recorded(home: Path) -> None:
    serve, curl, sessions = block("foveate serve --upstream https://api.openai.com")
    shell = Shell(home / "chat.db")
    headers = [words.split(": ", 1) for option, words in pairwise(curl) if option == "-H"]
    (address,) = (word for word in curl if word.startswith(DEFAULT_URL))
    body = json.loads(curl[curl.index("-d") + 1])
    with provider(Upstream(lambda _: say("Good day."))) as variables:
        upstream = variables["OPENAI_BASE_URL"].removesuffix("/v1")
        with served(shell, "--upstream", upstream, HOME=str(home)) as (_, ready):
            at = address.replace(DEFAULT_URL, ready["url"])
            answer = httpx2.post(at, json=body, headers=dict(headers), timeout=PATIENCE_SECONDS)
    assert serve[:3] == ["foveate", "serve", "--upstream"]
    assert answer.json()["choices"][0]["message"]["content"] == "Good day."
    assert "Hello" in shell(*sessions[1:])
