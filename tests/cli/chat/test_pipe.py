"""`foveate chat` whose reader goes away, as `head` does: it ends, and says nothing of itself."""

import os
import subprocess
from pathlib import Path

from support.command_line import command, shell_with
from support.patience import PATIENCE_SECONDS

SCRIPT = """
[[reply]]
says = "A long answer, word by word by word, of which nobody reads more than the beginning."
"""


def test_it_ends_when_nobody_reads_its_answers_any_more(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    (tmp_path / "script.toml").write_text(SCRIPT)
    chat = command("chat", "fresh", "--new", "--model", f"scripted:{tmp_path / 'script.toml'}")
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as nowhere:
        ended = subprocess.run(
            chat,
            input=b"Which port?\n" * 20,
            stdout=nowhere,
            stderr=subprocess.PIPE,
            timeout=PATIENCE_SECONDS,
            check=False,
            env=shell.environment(),
        )
    assert (ended.returncode, ended.stderr) == (141, b"New session: fresh\n")
    assert shell.json("show", "fresh")["session"]["turns"] == 1, "it does not talk on to nobody"
    assert "Which port?" in shell("show", "fresh", "T-1")
