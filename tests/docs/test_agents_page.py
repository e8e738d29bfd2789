"""The run on the page about agents happens as the page shows it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.command_line import Shell
from support.paths import ROOT

PAGE = (ROOT / "docs" / "guides" / "agents.md").read_text("utf-8")
_STATUS_LINE = re.compile(r"^T-\d+ [█░].*\n", re.MULTILINE)
_TOKENS = re.compile(r"[\d.,]+k? tokens")
"""Of a test's output, which has its time."""


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def _plain(text: str) -> str:
    return _TOKENS.sub("… tokens", _STATUS_LINE.sub("", text))


def test_the_run_on_the_page_is_what_the_command_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (script,), (shown,) = _blocks("toml"), _blocks("console")
    for text in _blocks("py"):
        (tmp_path / text.partition("\n")[0].removeprefix("# ")).write_text(text, "utf-8")
    (tmp_path / "fix.md").write_text("Make the tests pass.", "utf-8")
    (tmp_path / "fix.toml").write_text(script, "utf-8")
    monkeypatch.chdir(tmp_path)
    typed, _, printed = shown.partition("\n")
    words = typed.removeprefix("$ foveate ").split()
    # Not every machine has a sandbox.
    assert _plain(Shell(tmp_path / "chat.db", width=120)(*words, "--allow-unsandboxed")) == _plain(printed)
    assert "return a + b" in (tmp_path / "calc.py").read_text("utf-8")
