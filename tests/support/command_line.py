"""Running `foveate` in tests: inside this process, where that is enough, and as a real command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from foveate import sync
from foveate.cli import cli

AWKWARD = "[red]not red[/red] \x1b[31mESC\x1b[0m \x07 [/] 👩\u200d👩\u200d👧 日本\u3000語 \u202e \ud83d end"
"""What must neither style the output, nor ring, nor turn it round, nor break it."""
SHOWN = "[red]not red[/red] \\u001b[31mESC\\u001b[0m \\u0007 [/] 👩\u200d👩\u200d👧 日本\u3000語 \\u202e \\ud83d end"
HELLO = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Good day"}]


@dataclass(frozen=True)
class Shell:
    """Runs commands on one store, in a terminal so wide."""

    db: Path
    width: int = 80

    def __call__(self, *arguments: str, code: int = 0, given: str | bytes | None = None, colours: bool = False) -> str:
        """What a command prints; it must end with this code, and never with a traceback."""
        return self.run(*arguments, code=code, given=given, colours=colours).stdout

    def run(self, *arguments: str, code: int = 0, given: str | bytes | None = None, colours: bool = False) -> Result:
        environment = {"FOVEATE_DB": str(self.db), "COLUMNS": str(self.width), "FORCE_COLOR": "1" if colours else None}
        result = CliRunner().invoke(cli, arguments, input=given, env=environment, prog_name="foveate")
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self(*arguments, "--json", code=code))

    def error(self, *arguments: str, code: int = 1, given: str | bytes | None = None) -> str:
        """What a command that fails says; nothing of it goes where its output would."""
        result = self.run(*arguments, code=code, given=given)
        assert "Traceback" not in result.output
        assert result.stderr.splitlines()[-1].startswith("Error: ")
        return result.stderr

    def really(
        self, *arguments: str, given: bytes | None = None, **environment: str
    ) -> subprocess.CompletedProcess[bytes]:
        """The same in a process of its own."""
        return subprocess.run(
            command(*arguments), input=given, capture_output=True, check=False, env=self.environment(**environment)
        )

    def environment(self, **more: str) -> dict[str, str]:
        return os.environ | {"FOVEATE_DB": str(self.db), "COLUMNS": str(self.width)} | more


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "foveate", *arguments]


def shell_with(
    folder: Path, session_id: str = "s", messages: Sequence[dict[str, Any]] = HELLO, turns: int = 3
) -> Shell:
    """A shell on a store that has one session of a few turns."""
    shell = Shell(folder / "chat.db")
    with sync.open(shell.db) as fov:
        session = fov.session(session_id, title="A talk", platform="tests")
        for hour in range(turns):
            session.record(messages, at=f"2026-01-0{hour + 1}T10:00:00Z")
    return shell
