"""Home folders of people who use coding agents: settings with comments, odd layout, and hooks of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from foveate.connections.clients import CLIENTS, ConnectionRequest, Mode
from foveate.connections.connection import Connections

URL = "http://127.0.0.1:8484"

CLAUDE = """{
   "model": "opus",
   "env": {"EDITOR": "vi",
           "PAGER": "less" },
   "hooks": {
      "Stop": [
         {"hooks": [{"type": "command", "command": "notify-send done"}]}
      ],
      "PreToolUse": [ ]
   },

   "permissions": {"allow": ["Bash(ls:*)"]}
}
"""
CODEX = """# Codex
model = "gpt-5.5"   # not the mini one
approval_policy = 'on-request'

[mcp_servers.docs]
command = "docs-server"
args = [
  "--quiet", # no noise
]

[projects."/home/anna/shop"]
trust_level = "trusted"
# the end
"""
CODEX_HOOKS = """{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "beep"}]}]}}
"""
OPENCODE = """{
\t"$schema": "https://opencode.ai/config.json",
\t"model": "anthropic/claude-sonnet-4-5", // for now
\t"provider": {
\t\t"anthropic": {
\t\t\t"options": {}
\t\t}
\t}
}"""
AIDER = """# Aider
model: gpt-5   # cheap enough
set-env:
  - LANG=C
  # more of these later

dark-mode: true
"""
CLINE = """{
  "version": 1,
  "lastUsedProvider": "anthropic",
  "modes": {},
  "providers": {
    "anthropic": {
      "settings": {
        "provider": "anthropic",
        "apiKey": "sk-1",
        "model": "claude-sonnet-4-5"
      },
      "tokenSource": "manual"
    }
  }
}
"""
CONTINUE = """name: mine
version: 0.0.1
models:
  # the good one
  - name: Sonnet
    provider: anthropic
    model: claude-sonnet-4-5
    roles: [chat, edit]   # not autocomplete
  - name: Local
    provider: ollama
    model: qwen3
  - provider: openai
    name: GPT
    model: gpt-5
    apiBase: https://proxy.example/v1

context:
  - provider: diff
"""

FILES: Mapping[str, Mapping[str, str]] = {
    "claude": {".claude/settings.json": CLAUDE, ".claude.json": '{"numStartups": 3, "mcpServers": {}}'},
    "codex": {".codex/config.toml": CODEX, ".codex/hooks.json": CODEX_HOOKS},
    "opencode": {".config/opencode/opencode.jsonc": OPENCODE},
    "aider": {".aider.conf.yml": AIDER},
    "cline": {".cline/data/settings/providers.json": CLINE},
    "continue": {".continue/config.yaml": CONTINUE},
}
MODES: Sequence[tuple[str, Mode]] = [
    *((name, "gateway") for name in FILES),
    *((name, "hooks") for name in FILES if name != "aider"),
]


def make_home(folder: Path, client: str) -> Path:
    """A home with the settings of a client."""
    for name, text in FILES[client].items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return folder


def files_of(home: Path) -> dict[str, bytes]:
    """All files of a home but our own."""
    paths = (path for path in home.rglob("*") if path.is_file() and ".foveate" not in path.parts)
    return {str(path.relative_to(home)): path.read_bytes() for path in paths}


def request_for(home: Path, mode: Mode, url: str = URL, providers: Sequence[str] = ()) -> ConnectionRequest:
    return ConnectionRequest(mode=mode, url=url, command=["/opt/foveate"], home=home, providers=providers)


def connect(home: Path, client: str, mode: Mode, url: str = URL) -> Connections:
    connections = Connections(home)
    connections.write(connections.plan_connect(CLIENTS[client], request_for(home, mode, url)))
    return connections


def disconnect(home: Path, client: str) -> list[str]:
    """Disconnect a client; what was kept because others changed it."""
    connections = Connections(home)
    plan = connections.plan_disconnect(CLIENTS[client])
    connections.write(plan)
    return plan.kept
