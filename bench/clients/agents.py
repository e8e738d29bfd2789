"""The real clients: how each is installed, pointed at a server, and asked something, in a new or a known conversation.

All run with an empty environment, a home folder of their own and no network but the server they are pointed at.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

NODE = "22"
PACKAGES = (
    "@anthropic-ai/claude-code-linux-x64",
    "@openai/codex",
    "opencode-ai",
    "@earendil-works/pi-coding-agent",
    "cline",
    "@continuedev/cli",
)
AIDER = "aider-chat"
TIMEOUT_SECONDS = 180
LONG_TIMEOUT_SECONDS = 1_800
"""Of a prompt that is repeated."""
EDIT_MARGIN_MS = 500
"""OpenCode stores a message this long before its parts, at most."""
KEY = "test-key"
SDKS = ("openai", "openai-responses", "anthropic", "gemini")


@dataclass(frozen=True)
class Place:
    """Where clients are installed, and where one runs."""

    cache: Path
    home: Path
    work: Path

    @property
    def node_modules(self) -> Path:
        return self.cache / "npm" / "node_modules"


@dataclass
class Conversation:
    """What a client needs to go on with a conversation."""

    number: int = 0
    """Prompts so far."""
    session_id: str = ""


Command = Callable[["Agent", Place, str, Conversation, Sequence[str]], list[str]]


@dataclass(frozen=True)
class Agent:
    """A client."""

    name: str
    bash: str
    """Its tool that runs a command, as the scripted model calls it."""
    command: Command
    configure: Callable[[Place, str], Mapping[str, str]]
    """Writes the client's files and returns its environment."""
    forks: Sequence[str] = ()
    """Options that continue a conversation as a new one."""
    extra: Mapping[str, str] = field(default_factory=dict)
    transcripts: str = ""
    """Where the client keeps its conversations, below its home or work folder."""

    def forget(self, place: Place, prompt: str) -> None:
        """Take a prompt and all behind it out of the client's newest conversation, as its editor of prompts does."""
        if self.name == "opencode":
            _forget_rows(place.home / self.transcripts, prompt)
            return
        folder = place.work if self.name == "aider" else place.home
        newest = max(folder.glob(self.transcripts), key=lambda path: path.stat().st_mtime)
        lines = newest.read_text("utf-8").splitlines(keepends=True)
        first = next(index for index, line in enumerate(lines) if prompt in line)
        newest.write_text("".join(lines[:first]), "utf-8")

    def call(self, command: str) -> str:
        """Text that makes the scripted model run a command."""
        return self.bash.replace("COMMAND", command)

    def ask(self, place: Place, url: str, prompt: str, talk: Conversation, options: Sequence[str] = ()) -> str:
        """Ask the client something; what it prints."""
        place.home.mkdir(parents=True, exist_ok=True)
        place.work.mkdir(parents=True, exist_ok=True)
        environment = {"PATH": f"{place.cache}/npm/node_modules/node/bin:/usr/bin:/bin", "HOME": str(place.home)}
        environment |= {"TERM": "dumb", "LANG": "C.UTF-8", "TMPDIR": os.environ.get("TMPDIR", "/tmp")}
        environment |= self.configure(place, url)
        done = subprocess.run(
            self.command(self, place, prompt, talk, options),
            cwd=place.work,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LONG_TIMEOUT_SECONDS if prompt.startswith("repeat ") else TIMEOUT_SECONDS,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{self.name} ended with {done.returncode}: {done.stdout[-800:]}{done.stderr[-800:]}")
        talk.number += 1
        return done.stdout


def _forget_rows(path: Path, prompt: str) -> None:
    """The same in the database of OpenCode."""
    with closing(sqlite3.connect(path)) as connection, connection:
        query = "SELECT min(time_created) FROM part WHERE instr(data, ?)"
        (since,) = connection.execute(query, (prompt,)).fetchone()
        for table in ("part", "message"):
            connection.execute(f"DELETE FROM {table} WHERE time_created >= ?", (since - EDIT_MARGIN_MS,))


def install(cache: Path) -> None:
    """Install all clients by name, once."""
    npm = cache / "npm"
    if not (npm / "node_modules" / "node" / "bin" / "node").exists():
        npm.mkdir(parents=True, exist_ok=True)
        options = ("--silent", "--no-audit", "--no-fund", "--prefix", str(npm))
        subprocess.run(["npm", "install", *options, f"node@{NODE}", *PACKAGES], check=True)
    if not (cache / "aider" / "bin" / "aider").exists():
        subprocess.run([sys.executable, "-m", "venv", str(cache / "aider")], check=True)
        subprocess.run([str(cache / "aider" / "bin" / "pip"), "install", "--quiet", AIDER], check=True)


def _claude(agent: Agent, place: Place, prompt: str, talk: Conversation, options: Sequence[str]) -> list[str]:
    known = ["--continue"] if talk.number else []
    fixed = ["--output-format", "json", "--permission-mode", "bypassPermissions", *agent.extra.get("model", "").split()]
    binary = place.node_modules / "@anthropic-ai" / "claude-code-linux-x64" / "claude"
    return [str(binary), "-p", prompt, *fixed, *known, *options]


def _claude_files(_place: Place, url: str) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_AUTH_TOKEN": KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "IS_SANDBOX": "1",
    }


def _codex(_agent: Agent, place: Place, prompt: str, talk: Conversation, options: Sequence[str]) -> list[str]:
    fixed = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", *options]
    known = ["resume", "--last"] if talk.number else []
    return [str(place.node_modules / ".bin" / "codex"), "exec", *fixed, *known, prompt]


def _codex_files(place: Place, url: str) -> dict[str, str]:
    folder = place.home / ".codex"
    folder.mkdir(exist_ok=True)
    provider = f'name = "test"\nbase_url = "{url}/v1"\nenv_key = "TEST_KEY"\nwire_api = "responses"\n'
    text = f'model = "gpt-5.5"\nmodel_provider = "test"\n\n[model_providers.test]\n{provider}'
    (folder / "config.toml").write_text(text, "utf-8")
    return {"TEST_KEY": KEY}


def _opencode(_agent: Agent, place: Place, prompt: str, talk: Conversation, options: Sequence[str]) -> list[str]:
    known = ["--continue"] if talk.number else []
    return [str(place.node_modules / ".bin" / "opencode"), "run", "--auto", *known, *options, prompt]


def _opencode_files(place: Place, url: str) -> dict[str, str]:
    provider = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": f"{url}/v1", "apiKey": KEY}}
    limits = {"context": 200_000, "output": 8_000}
    config = {
        "model": "test/scripted",
        "provider": {"test": {**provider, "models": {"scripted": {"name": "scripted", "limit": limits}}}},
    }
    path = place.home / "opencode.json"
    path.write_text(json.dumps(config), "utf-8")
    return {"OPENCODE_CONFIG": str(path), "OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}


def _pi(agent: Agent, place: Place, prompt: str, talk: Conversation, options: Sequence[str]) -> list[str]:
    known = ["--continue"] if talk.number else []
    model = ["--provider", agent.extra["api"], "--model", "scripted"]
    return [str(place.node_modules / ".bin" / "pi"), *model, *known, *options, "-p", prompt]


def _pi_files(place: Place, url: str) -> dict[str, str]:
    folder = place.home / ".pi" / "agent"
    folder.mkdir(parents=True, exist_ok=True)
    model = {"id": "scripted", "name": "scripted", "contextWindow": 200_000, "maxTokens": 8_000, "input": ["text"]}
    apis = ("openai-completions", "openai-responses", "anthropic-messages")
    providers = {
        api: {
            "baseUrl": url if api.startswith("anthropic") else f"{url}/v1",
            "api": api,
            "apiKey": KEY,
            "models": [model],
        }
        for api in apis
    }
    (folder / "models.json").write_text(json.dumps({"providers": providers}), "utf-8")
    return {"PI_OFFLINE": "1"}


def _aider(_agent: Agent, place: Place, prompt: str, talk: Conversation, options: Sequence[str]) -> list[str]:
    known = ["--restore-chat-history"] if talk.number else []
    fixed = ["--model", "openai/scripted", "--no-check-update", "--no-git", "--yes-always", "--no-show-model-warnings"]
    fixed += ["--no-analytics", "--no-pretty"]
    return [str(place.cache / "aider" / "bin" / "aider"), *fixed, *known, *options, "--message", prompt]


def _aider_files(_place: Place, url: str) -> dict[str, str]:
    return {"OPENAI_API_BASE": f"{url}/v1", "OPENAI_API_KEY": KEY}


def _sdk(agent: Agent, place: Place, prompt: str, talk: Conversation, _options: Sequence[str]) -> list[str]:
    script = Path(__file__).with_name("sdk_chat.py")
    return [
        sys.executable,
        str(script),
        agent.extra["format"],
        str(place.home / "history.json"),
        str(talk.number),
        prompt,
    ]


def _sdk_files(_place: Place, url: str) -> dict[str, str]:
    return {"TEST_URL": url, "TEST_KEY": KEY}


def _call(tool: str, arguments: str) -> str:
    return f"Please [[call {tool} {arguments}]]"


AGENTS = {
    agent.name: agent
    for agent in (
        *(
            Agent(
                name,
                _call("Bash", '{"command": "COMMAND", "description": "run it"}'),
                _claude,
                _claude_files,
                ("--fork-session",),
                {"model": model},
                ".claude/projects/*/*.jsonl",
            )
            for name, model in (("claude-code", ""), ("claude-code-haiku", "--model claude-haiku-4-5"))
        ),
        Agent(
            "codex",
            _call("exec_command", '{"cmd": "COMMAND"}'),
            _codex,
            _codex_files,
            transcripts=".codex/sessions/*/*/*/*.jsonl",
        ),
        Agent(
            "opencode",
            _call("bash", '{"command": "COMMAND", "description": "run it"}'),
            _opencode,
            _opencode_files,
            ("--fork",),
            transcripts=".local/share/opencode/opencode.db",
        ),
        *(
            Agent(
                f"pi-{short}",
                _call("bash", '{"command": "COMMAND"}'),
                _pi,
                _pi_files,
                extra={"api": api},
                transcripts=".pi/agent/sessions/*/*.jsonl",
            )
            for short, api in (
                ("chat", "openai-completions"),
                ("responses", "openai-responses"),
                ("messages", "anthropic-messages"),
            )
        ),
        Agent("aider", "Please say COMMAND", _aider, _aider_files, transcripts=".aider.chat.history.md"),
        *(
            Agent(f"sdk-{name}", _call("run", '{"command": "COMMAND"}'), _sdk, _sdk_files, extra={"format": name})
            for name in SDKS
        ),
    )
}


def session_in(text: str) -> str:
    """The session id that a client printed."""
    found = re.search(r'"session_id": ?"([^"]+)"', text)
    return found[1] if found else ""
