"""The shell completes commands and options, and sessions by id and title, without loading the library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from foveate import sync
from support.command_line import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    with sync.open(tmp_path / "chat.db") as fov:
        for name, title in (("harbour-1", "Tides of Hamburg"), ("harbour-2", ""), ("other", "Tides: a poem, 'short'")):
            fov.session(name, title=title).record([{"role": "user", "content": "Hello"}])
    return Shell(tmp_path / "chat.db")


def offered(shell: Shell, words: str, kind: str = "bash") -> list[str]:
    """What the completion script of a shell gets; the last word is the one that is typed."""
    place = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1 + words.endswith(" "))}
    environment = shell.environment(_FOVEATE_COMPLETE=f"{kind}_complete", **place)
    loaded = (
        "import sys; from foveate.cli import main\ntry: main()\nfinally: assert 'foveate.client' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", loaded], env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1] if done.stdout.strip() else []


def test_sessions_are_offered_by_id_with_their_titles_and_by_title(shell: Shell) -> None:
    assert offered(shell, "foveate show harb") == ["plain,harbour-2", "plain,harbour-1"]
    assert offered(shell, "foveate show tides") == [
        "plain,Tides:\\ a\\ poem,\\ \\'short\\'",
        "plain,Tides\\ of\\ Hamburg",
    ]
    assert offered(shell, "foveate topics show harbour-1", "zsh") == ["plain", "harbour-1", "Tides of Hamburg"]


def test_commands_are_offered(shell: Shell) -> None:
    assert offered(shell, "foveate disc") == ["plain,disconnect"]


def test_without_a_store_nothing_is_offered(tmp_path: Path) -> None:
    assert offered(Shell(tmp_path / "none.db"), "foveate show ") == []


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_is_printed(name: str, tmp_path: Path) -> None:
    assert f"_FOVEATE_COMPLETE={name}_complete" in Shell(tmp_path / "none.db")("completion", name)


def test_bash_completes_a_title_with_spaces(shell: Shell, tmp_path: Path) -> None:
    program = tmp_path / "foveate"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m foveate "$@"\n')
    program.chmod(0o755)
    script = """
    eval "$(foveate completion bash)"
    COMP_WORDS=(foveate show tides); COMP_CWORD=2; COMPREPLY=()
    _foveate_completion foveate
    printf '%s\\n' "${COMPREPLY[@]}"
    """
    environment = shell.environment(PATH=f"{tmp_path}:/usr/bin:/bin")
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["Tides:\\ a\\ poem,\\ \\'short\\'", "Tides\\ of\\ Hamburg"]
