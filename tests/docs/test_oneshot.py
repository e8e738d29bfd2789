"""What the page on runs shows is what happens: its files, its commands and its program."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from support.command_line import Shell
from support.docs_examples import run_example
from support.paths import ROOT

PAGE = (ROOT / "docs" / "concepts" / "oneshot.md").read_text("utf-8")
CODES = (5, 0)
_STATUS_LINE = re.compile(r"^T-\d+ [█░].*$", re.MULTILINE)
"""Has the time that an answer took."""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the page's commands are typed."""
    epic, tasks = blocks("markdown")
    (script,) = blocks("toml")
    for name, text in (("spec.md", epic), ("tasks.md", tasks), ("script.toml", script)):
        (tmp_path / name).write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_run_on_the_page_is_what_the_commands_print(folder: Path) -> None:
    shell = replace(Shell(folder / "chat.db"), width=100)
    (shown,) = blocks("console")
    _, *steps = re.split(r"^\$ foveate ", shown, flags=re.MULTILINE)
    assert len(steps) == len(CODES)
    for step, code in zip(steps, CODES, strict=True):
        typed, _, printed = step.partition("\n")
        words = [word.strip('"') for word in re.findall(r'"[^"]*"|\S+', typed)]
        assert _STATUS_LINE.sub("", shell(*words, code=code)) == _STATUS_LINE.sub("", printed)


def test_the_program_on_the_page_runs(folder: Path) -> None:
    (program,) = blocks("python")
    scripted = program.replace("openai:gpt-5-mini", "scripted:script.toml")
    assert scripted != program
    assert run_example(scripted, folder).endswith("question Which port does the payment service use?\n")
