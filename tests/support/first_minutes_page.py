"""What the commands on `docs/start/quickstart.md` print: `python tests/support/first_minutes_page.py`.

The words around them stay as they are.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from click.testing import CliRunner

from foveate.cli import cli
from foveate.tools.sandbox import layers
from support.paths import ROOT

PAGE = ROOT / "docs" / "start" / "quickstart.md"
TRANSCRIPTS = ROOT / "tests" / "fixtures" / "claude_code"
COLUMNS = 96
QUIET = {"FOVEATE_COMPRESS__ENABLED": "false", "FOVEATE_COMPRESS__PROCESSES": "0"}
"""What is made in the background while a command runs depends on how long it runs."""
MACHINE = layers.Layers(linux=True, machine=True, landlock=7, seccomp=True, namespaces=True)
"""What can confine a command, whatever machine the page is made on."""
_BLOCK = re.compile(r"^```text\n\$ foveate (?P<typed>[^\n]*)\n.*?^```$", re.MULTILINE | re.DOTALL)


def generate() -> str:
    """The page as it should be."""
    before = Path.cwd()
    with TemporaryDirectory() as home, patch.object(layers, "detect", lambda: MACHINE):
        shutil.copytree(TRANSCRIPTS, Path(home, ".claude", "projects"))
        os.chdir(home)
        try:
            return _BLOCK.sub(lambda block: _captured(block["typed"], home), PAGE.read_text("utf-8"))
        finally:
            os.chdir(before)


def _captured(typed: str, home: str) -> str:
    words, _, piped = typed.partition(" | ")
    environment = {"HOME": home, "COLUMNS": str(COLUMNS), "FOVEATE_DB": None, **QUIET}
    arguments = [word.replace("~", home) for word in words.split()]
    printed = CliRunner().invoke(cli, arguments, env=environment, prog_name="foveate").stdout.rstrip()
    lines = [line.rstrip() for line in printed.replace(home, "~").splitlines()]
    shown = lines[-1:] if piped == "tail -1" else lines
    return "\n".join([f"```text\n$ foveate {typed}", *shown, "```"])


if __name__ == "__main__":
    PAGE.write_text(generate(), "utf-8")
