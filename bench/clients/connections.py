"""`foveate connect` with the real clients, against a scripted provider.

    python bench/clients/connections.py hooks              # Claude Code, Codex: no gateway, the second session recalls
    python bench/clients/connections.py gateway            # the same through `foveate serve`
    python bench/clients/connections.py prompt             # OpenCode, Aider, Cline, Continue: one prompt each

For each client: connect a home that has settings of its own, check, talk, and disconnect. Printed are the time of each
prompt, what was recorded and recalled, and whether the home has its old bytes again. Clients are installed by
`run.py install`.
"""

from __future__ import annotations

import difflib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.extend(str(Path(__file__).resolve().parents[2] / folder) for folder in ("bench", "tests"))

import foveate.sync as foveate
from clients.agents import AGENTS, KEY, Conversation, Place
from clients.run import CACHE, gateway, upstream

CLIENTS = {"claude": "claude-code", "codex": "codex"}
FACT = "Remember: the port of the harbour service is 8443."
QUESTION = "What is the port of the harbour service?"
FILLER = [f"Refactor module number {number} of the lighthouse project, please." for number in range(12)]
RECORD_SECONDS = 60
OWN_FILES = {
    "claude": {".claude/settings.json": '{\n   "env": {"EDITOR": "vi"},\n   "hooks": {}\n}\n'},
    "codex": {
        ".codex/config.toml": '# mine\nmodel = "gpt-5.5" # it\n\n[projects."/nowhere"]\ntrust_level = "trusted"\n',
        ".codex/hooks.json": '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}\n',
    },
    "opencode": {
        ".config/opencode/opencode.jsonc": (
            '{\n  // mine\n  "$schema": "https://opencode.ai/config.json",\n'
            '  "model": "anthropic/claude-haiku-4-5",\n  "theme": "system",\n}\n'
        )
    },
    "aider": {".aider.conf.yml": "# mine\nmodel: openai/scripted\ndark-mode: true\n"},
    "continue": {
        ".continue/config.yaml": (
            "name: Mine # it\nversion: 1.0.0\nschema: v1\nmodels:\n"
            f"  - name: scripted\n    provider: openai\n    model: gpt-5.5\n    apiKey: {KEY}\n    roles: [chat]\n"
        )
    },
    "cline": {},
}
AIDER_OPTIONS = "--no-check-update --no-git --yes-always --no-show-model-warnings --no-analytics --no-pretty --message"
COMMANDS = {
    "opencode": ["opencode", "run"],
    "aider": ["aider", *AIDER_OPTIONS.split()],
    "cline": ["cline", "--json", "-P", "openai-compatible", "-m", "scripted"],
    "continue": ["cn", "-p"],
}
"""Clients that are asked one thing; the prompt comes last."""
CLINE_PROVIDER = [
    "cline",
    "auth",
    "-p",
    "openai-compatible",
    "-k",
    KEY,
    "-m",
    "scripted",
    "-b",
    "http://127.0.0.1:9/v1",
]
CLINE_FILE = ".cline/data/settings/providers.json"


class Home:
    """A person's home with one client in it."""

    def __init__(self, client: str, root: Path, provider: str) -> None:
        self.client = client
        self.place = Place(CACHE, root / "home", root / "work")
        self.db = root / "chat.db"
        self._provider = provider
        self.place.work.mkdir(parents=True)
        for name, text in OWN_FILES[client].items():
            path = self.place.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        self._names = list(OWN_FILES[client])
        if client == "cline":  # it writes the file itself
            self.run(CLINE_PROVIDER)
            self._names = [CLINE_FILE]
        self.before = self.files()

    def files(self) -> dict[str, str]:
        return {name: (self.place.home / name).read_text("utf-8") for name in self._names}

    def print_difference(self) -> None:
        """Whether the client's files are as they were; what differs was changed by the client itself."""
        after = self.files()
        print("own files have their old bytes:", after == self.before, flush=True)
        for name, text in self.before.items():
            print(*difflib.unified_diff(text.splitlines(), after[name].splitlines(), name, name, n=0), sep="\n")

    def environment(self) -> dict[str, str]:
        programs = CACHE / "npm" / "node_modules"
        paths = [programs / "node" / "bin", programs / ".bin", programs / "@anthropic-ai" / "claude-code-linux-x64"]
        paths += [CACHE / "aider" / "bin", Path("/usr/bin"), Path("/bin")]
        known = {"PATH": os.pathsep.join(map(str, paths)), "HOME": str(self.place.home), "LANG": "C.UTF-8"}
        known |= {name: os.environ[name] for name in ("PYTHONPATH", "TMPDIR") if name in os.environ}
        if self.client == "claude":
            known |= {"ANTHROPIC_AUTH_TOKEN": KEY, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "IS_SANDBOX": "1"}
            if self._provider:
                known["ANTHROPIC_BASE_URL"] = self._provider
        else:
            # Continue adds models to its settings for a key of Anthropic.
            known |= {"ANTHROPIC_API_KEY" if self.client == "opencode" else "OPENAI_API_KEY": KEY, "TERM": "dumb"}
            known |= {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}
        return known

    def run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a client, as a person does."""
        environment = self.environment()
        program = shutil.which(command[0], path=environment["PATH"])
        if program is None:
            raise RuntimeError(f"{command[0]} is not installed: run.py install")
        return subprocess.run(
            [program, *command[1:]],
            cwd=self.place.work,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )

    def foveate(self, *words: str) -> str:
        command = [sys.executable, "-m", "foveate", *words]
        done = subprocess.run(command, env=self.environment(), capture_output=True, text=True, check=False)
        return f"{done.stdout}{done.stderr}"

    def ask(self, prompt: str, talk: Conversation) -> float:
        """Ask the client as a person does; the seconds it took."""
        agent = AGENTS[CLIENTS[self.client]]
        options: list[str] = []
        if self.client == "codex":
            options = ["--dangerously-bypass-hook-trust"]
            if self._provider:  # what a person without a gateway has by default
                options += ["-c", 'model_provider="plain"', "-c", 'model_providers.plain.name="plain"']
                options += ["-c", f'model_providers.plain.base_url="{self._provider}/v1"']
                options += ["-c", 'model_providers.plain.env_key="OPENAI_API_KEY"']
        started = time.monotonic()
        command = agent.command(agent, self.place, prompt, talk, options)
        done = self.run(command)
        if done.returncode:
            raise RuntimeError(f"{self.client} ended with {done.returncode}: {done.stdout[-500:]}{done.stderr[-500:]}")
        talk.number += 1
        self.said = done.stdout
        return time.monotonic() - started

    def recorded(self, prompts: Sequence[str]) -> dict[str, int]:
        """How often each prompt is in the store, once recording in the background has ended."""
        until = time.monotonic() + RECORD_SECONDS
        while True:
            counts = self._counts(prompts)
            if all(counts.values()) or time.monotonic() > until:
                return counts
            time.sleep(0.5)

    def _counts(self, prompts: Sequence[str]) -> dict[str, int]:
        with foveate.open(self.db) as fov:
            sessions = [fov.open_session(info.id) for info in fov.sessions() if info.turns]
            texts = [
                message.text
                for session in sessions
                for turn in session.load_turns(1)
                for message in turn.messages
                if message.role == "user" and message.kind == "message"
            ]
        return {prompt: sum(prompt in text for text in texts) for prompt in prompts}


def try_prompt(client: str) -> None:
    """Connect a client, check, ask one thing, and disconnect."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        log = root / "upstream.jsonl"
        with upstream(log, "lenient") as provider:
            home = Home(client, root, "")
            with gateway(home.db, provider, 100_000) as url:
                print(f"== {client}")
                print(home.foveate("connect", client, "--url", url, "--yes"))
                print(home.foveate("connect", client, "--check"))
                started = time.monotonic()
                done = home.run([*COMMANDS[client], FACT])
                print(f"ended with {done.returncode} after {time.monotonic() - started:.1f} s;", end=" ")
                print(f"it shows the answer: {'Scripted answer' in done.stdout}")
                if done.returncode:
                    print(done.stdout[-600:], done.stderr[-600:])
                print("recorded, times:", home.recorded([FACT])[FACT])
                print(home.foveate("disconnect", client, "--yes").strip())
            home.print_difference()


def requests_of(log: Path) -> list[dict[str, Any]]:
    return [entry for line in log.read_text("utf-8").splitlines() if (entry := json.loads(line))["format"]]


def try_client(client: str, mode: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        log = root / "upstream.jsonl"
        with upstream(log, "lenient") as provider:  # Codex sends recalled turns as its last message
            home = Home(client, root, provider if mode == "hooks" else "")
            if mode == "hooks":
                _talk(home, ["--mode", "hooks"], log)
            else:
                with gateway(home.db, provider, 100_000) as url:
                    _talk(home, ["--url", url], log)


def _talk(home: Home, options: Sequence[str], log: Path) -> None:
    print(f"== {home.client}", *options)
    print(home.foveate("connect", home.client, *options, "--db", str(home.db), "--yes"))
    print(home.foveate("connect", home.client, "--check"))
    first, prompts = Conversation(), [FACT, *FILLER]
    seconds = [home.ask(prompt, first) for prompt in prompts]
    print("recorded, times each:", sorted(set(home.recorded(prompts).values())))
    seconds.append(home.ask(QUESTION, Conversation()))
    body = json.dumps(requests_of(log)[-1]["body"])
    print(f"a new session is asked for the fact; it is in the request: {FACT[:-1] in body}")
    print("recorded, times each:", sorted(set(home.recorded([*prompts, QUESTION]).values())))
    print(f"seconds of each prompt: {', '.join(f'{one:.1f}' for one in seconds)}")
    log_file = home.place.home / ".foveate" / "hooks.log"
    print("errors of hooks:", log_file.read_text("utf-8") if log_file.exists() else "none")
    print(home.foveate("disconnect", home.client, "--yes").strip().splitlines()[-1])
    home.print_difference()


if __name__ == "__main__":
    match sys.argv[1:]:
        case [mode, *names] if mode in ("hooks", "gateway"):
            for name in names or CLIENTS:
                try_client(name, mode)
        case ["prompt", *names]:
            for name in names or COMMANDS:
                try_prompt(name)
        case _:
            print(__doc__)
