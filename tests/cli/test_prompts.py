"""`foveate prompts` and `foveate sessions mode`."""

from __future__ import annotations

from pathlib import Path

import foveate.sync as foveate
from support.command_line import Shell


def test_prompts_are_set_from_a_file_or_standard_input_shown_and_reset(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db", width=140)
    assert "modes/developer" in shell("prompts", "list")
    keys = {entry["key"] for entry in shell.json("prompts", "list")}
    assert {"compress/rules", "explain/gradient", "summary/topics", "recall/choose", "run/instructions"} <= keys
    file = tmp_path / "latin.md"
    file.write_text("Answer in Latin.\n{{tier:4}}\nAlso in verse.\n", "utf-8")
    assert shell("prompts", "set", "modes/latin", str(file)).startswith("modes/latin is now version 1")
    shell("prompts", "set", "modes/latin", given="Answer in Latin. {{include:modes/core}}")
    assert shell("prompts", "show", "modes/latin", "--version", "1") == file.read_text()
    assert "Core mandates" in shell("prompts", "show", "modes/latin", "--composed")
    assert [entry["version"] for entry in shell.json("prompts", "history", "modes/latin")] == [1, 2]
    assert shell("prompts", "reset", "modes/latin") == "modes/latin is removed.\n"
    assert shell("prompts", "reset", "modes/planning") == "modes/planning is the built-in prompt.\n"
    assert "no prompt 'modes/latin'" in shell.error("prompts", "show", "modes/latin")
    assert "needs {limits}, {nonce}" in shell.error("prompts", "set", "compress/request", given="{source}")
    assert "is not UTF-8 text" in shell.error("prompts", "set", "own/a", given=b"\xff\xfe")


def test_a_session_has_a_mode(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db")
    with foveate.open(shell.db) as fov:
        fov.session("s").record([{"role": "user", "content": "Hello"}])
    assert shell("sessions", "mode", "s") == "s has no mode.\n"
    assert shell("sessions", "mode", "s", "developer") == "s is in mode developer.\n"
    assert shell.json("sessions", "mode", "s")["mode"] == "developer"
    assert "available: assistant, debugger, developer, planning" in shell.error("sessions", "mode", "s", "pirate")
    assert shell("sessions", "mode", "s", "--off") == "s has no mode.\n"
