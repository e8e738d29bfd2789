"""The clients that can be connected, and the values that their files get.

Only files of the user are changed, never those of a project. Each client is one function from a request to the
changes of its files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from foveate.connections.changes import Change, parse_file, read_file
from foveate.connections.paths import value_at
from foveate.errors import InputError
from foveate.turn import Json

Mode: TypeAlias = Literal["gateway", "hooks"]
SERVER_NAME = "foveate"
HOOK_SECONDS = 30
CLAUDE_EVENTS = ("UserPromptSubmit", "Stop", "SubagentStop", "SessionEnd")
START_EVENT = "SessionStart"
CODEX_EVENTS = ("UserPromptSubmit", "Stop", "SessionEnd")
URLS = {
    "anthropic": "/v1",
    "openai": "/v1",
    "openai-native": "/v1",
    "openai-compatible": "/v1",
    "openrouter": "/v1",
    "google": "/v1beta",
}
"""The providers that the gateway serves, and the suffix of its URL for each."""
PACKAGES = {
    "@ai-sdk/anthropic": "anthropic",
    "@ai-sdk/google": "google",
    "@ai-sdk/openai": "openai",
    "@ai-sdk/openai-compatible": "openai-compatible",
    "@openrouter/ai-sdk-provider": "openrouter",
}
"""Packages of the AI SDK, by which OpenCode speaks to a provider, and their protocols."""
CLAUDE_WORDS = ("claude", "anthropic", "sonnet", "opus", "haiku")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionRequest:
    """The target that a client is to be connected to."""

    mode: Mode
    url: str
    """URL of the gateway, without `/v1`."""
    command: Sequence[str]
    """Command by which the client starts `foveate`."""
    options: Sequence[str] = ()
    """Options of each command that the client runs, e.g. `--db`."""
    home: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    providers: Sequence[str] = ()
    """Providers of the client that are redirected to the gateway. Empty: the one it uses."""

    def folder(self, variable: str, default: str) -> Path:
        """Return a folder that an environment variable may name."""
        named = self.environment.get(variable)
        return Path(named) if named else self.home / default


@dataclass(frozen=True, slots=True)
class FileChanges:
    """Changes of one file."""

    path: Path
    changes: Sequence[Change]
    is_strict: bool = False
    """Whether the client ignores the file if it has comments or trailing commas."""


@dataclass(frozen=True, slots=True)
class Client:
    """A client that can be connected."""

    name: str
    title: str
    program: str
    """Its command."""
    changes: Callable[[ConnectionRequest], list[FileChanges]]
    hint: str = ""
    """Further steps for the user, in hook mode."""


def _claude(request: ConnectionRequest) -> list[FileChanges]:
    folder = request.folder("CLAUDE_CONFIG_DIR", ".claude")
    settings = folder / "settings.json"
    if request.mode == "gateway":
        # Claude Code's own error does not name the address that refused the connection.
        changes = [Change(("env", "ANTHROPIC_BASE_URL"), request.url), *_hooks(request, "claude", [START_EVENT])]
        return [FileChanges(settings, changes, is_strict=True)]
    state = folder / ".claude.json" if request.environment.get("CLAUDE_CONFIG_DIR") else request.home / ".claude.json"
    server = {"type": "stdio", **_mcp_command(request), "alwaysLoad": True}
    return [
        FileChanges(settings, _hooks(request, "claude", CLAUDE_EVENTS), is_strict=True),
        FileChanges(state, [Change(("mcpServers", SERVER_NAME), server)], is_strict=True),
    ]


def _codex(request: ConnectionRequest) -> list[FileChanges]:
    folder = request.folder("CODEX_HOME", ".codex")
    config = folder / "config.toml"
    if request.mode == "gateway":
        # A key that Codex has stored, or one in the environment.
        key: dict[str, Json] = {"env_key": "OPENAI_API_KEY"}
        if (folder / "auth.json").exists():
            key = {"requires_openai_auth": True}
        provider = {"name": "Foveate", "base_url": f"{request.url}/v1", "wire_api": "responses", **key}
        return [
            FileChanges(
                config,
                [
                    Change(("model_provider",), SERVER_NAME),
                    Change(("model_providers", SERVER_NAME), provider),
                ],
            )
        ]
    return [
        FileChanges(folder / "hooks.json", _hooks(request, "codex", CODEX_EVENTS), is_strict=True),
        FileChanges(config, [Change(("mcp_servers", SERVER_NAME), _mcp_command(request))]),
    ]


def _opencode(request: ConnectionRequest) -> list[FileChanges]:
    folder = request.folder("XDG_CONFIG_HOME", ".config") / "opencode"
    named = request.environment.get("OPENCODE_CONFIG")
    path = Path(named) if named else _first(folder, "opencode.jsonc", "opencode.json", "config.json")
    if request.mode == "hooks":
        server: Json = {"type": "local", "command": [*request.command, "mcp", *request.options], "enabled": True}
        return [FileChanges(path, [Change(("mcp", SERVER_NAME), server)])]
    model = _text_in(path, "model")
    providers = request.providers or [model.partition("/")[0] if "/" in model else "anthropic"]
    urls = {name: _base_url(request, _protocol(path, name)) for name in providers}
    return [FileChanges(path, [Change(("provider", name, "options", "baseURL"), url) for name, url in urls.items()])]


def _protocol(path: Path, name: str) -> str:
    """Return the protocol of a provider of OpenCode: of one that the user defined by its package."""
    _, package = value_at(_data(path), ("provider", name, "npm"))
    return PACKAGES.get(package, name) if isinstance(package, str) else name


def _aider(request: ConnectionRequest) -> list[FileChanges]:
    if request.mode == "hooks":
        raise InputError("Aider has neither hooks nor MCP; use --mode gateway, or 'foveate watch' to record it")
    path = request.home / ".aider.conf.yml"
    is_claude = any(word in _text_in(path, "model").lower() for word in CLAUDE_WORDS)
    changes = []
    for name in request.providers or (["anthropic"] if is_claude else ["openai"]):
        _base_url(request, name)
        if name == "anthropic":
            changes.append(Change(("set-env",), f"ANTHROPIC_API_BASE={request.url}", appends=True))
        else:
            changes.append(Change(("openai-api-base",), f"{request.url}/v1"))
    return [FileChanges(path, changes)]


def _cline(request: ConnectionRequest) -> list[FileChanges]:
    folder = request.folder("CLINE_DIR", ".cline") / "data" / "settings"
    if request.mode == "hooks":
        path = folder / "cline_mcp_settings.json"
        return [FileChanges(path, [Change(("mcpServers", SERVER_NAME), _mcp_command(request))], is_strict=True)]
    path = folder / "providers.json"
    _, known = value_at(_data(path), ("providers",))
    providers = request.providers or [name for name in [_text_in(path, "lastUsedProvider")] if name]
    missing = [name for name in providers if not isinstance(known, Mapping) or name not in known]
    if missing or not providers:
        named = f"provider {' '.join(missing)}" if missing else "provider"
        raise InputError(f"Cline has no {named} yet: run 'cline auth' first")
    return [
        FileChanges(
            path,
            [Change(("providers", name, "settings", "baseUrl"), _base_url(request, name)) for name in providers],
            is_strict=True,
        )
    ]


def _continue(request: ConnectionRequest) -> list[FileChanges]:
    folder = request.folder("CONTINUE_GLOBAL_DIR", ".continue")
    path = _first(folder, "config.yaml", "config.json")
    if request.mode == "hooks":
        server = {"name": SERVER_NAME, **_mcp_command(request)}
        return [FileChanges(path, [Change(("mcpServers",), server, appends=True)])]
    label = "title" if path.suffix == ".json" else "name"
    _, models = value_at(_data(path), ("models",))
    served = request.providers or [name for name in URLS if name not in ("google", "openrouter")]
    changes = [
        Change(("models", (label, str(model[label])), "apiBase"), _base_url(request, str(model["provider"])) + "/")
        for model in (models if isinstance(models, list) else [])
        if isinstance(model, Mapping) and label in model and model.get("provider") in served
    ]
    if not changes:
        raise InputError(f"{path} has no model of {' or '.join(served)}: add one first")
    return [FileChanges(path, changes)]


def _hooks(request: ConnectionRequest, name: str, events: Sequence[str]) -> list[Change]:
    command = " ".join(_quoted(word) for word in [*request.command, "hook", name, *request.options])
    hook: Json = {"hooks": [{"type": "command", "command": command, "timeout": HOOK_SECONDS}]}
    return [Change(("hooks", event), hook, appends=True) for event in events]


def _quoted(word: str) -> str:
    import shlex  # noqa: PLC0415

    return shlex.quote(word)


def _mcp_command(request: ConnectionRequest) -> dict[str, Json]:
    program, *arguments = request.command
    return {"command": program, "args": [*arguments, "mcp", *request.options]}


def _base_url(request: ConnectionRequest, provider: str) -> str:
    if provider not in URLS:
        problem = f"the gateway does not serve the provider {provider!r}, so nothing was changed"
        raise InputError(f"{problem}; --provider takes {', '.join(URLS)}")
    return request.url + URLS[provider]


def _first(folder: Path, *names: str) -> Path:
    """Return the first of these files that exists; otherwise the JSON or YAML file that the client documents."""
    found = [folder / name for name in names if (folder / name).exists()]
    default = "opencode.json" if "opencode.json" in names else names[0]
    return found[0] if found else folder / default


def _data(path: Path) -> Json:
    text = read_file(path)
    return {} if text is None else parse_file(path, text)


def _text_in(path: Path, key: str) -> str:
    _, value = value_at(_data(path), (key,))
    return value if isinstance(value, str) else ""


TRUST = "Codex asks once whether the new hooks are trusted; open /hooks in it if it does not."
WATCH = "{} has no hooks: 'foveate watch' records its conversations."
CLIENTS: Mapping[str, Client] = {
    client.name: client
    for client in (
        Client("claude", "Claude Code", "claude", _claude),
        Client("codex", "Codex", "codex", _codex, TRUST),
        Client("opencode", "OpenCode", "opencode", _opencode, WATCH.format("OpenCode")),
        Client("aider", "Aider", "aider", _aider),
        Client("cline", "Cline", "cline", _cline, WATCH.format("Cline")),
        Client("continue", "Continue", "cn", _continue, "Continue has no hooks: only its MCP tools are connected."),
    )
}
