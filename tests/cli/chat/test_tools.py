"""`foveate chat` with tools: approvals at the keyboard and without one, and the commands around them."""

import json
from pathlib import Path

import pytest

from foveate import sync
from support.command_line import Shell
from support.terminals import CTRL_D, Terminal

WRITE = {"calls_tool": "write_file", "arguments": {"path": "note.txt", "content": "{prompt}"}}


@pytest.fixture
def tools(tmp_path: Path) -> list[str]:
    """Options for a model that writes each prompt to a file, and then says so."""
    script = tmp_path / "writes.json"
    script.write_text(json.dumps({"reply": [WRITE, {"says": "I tried."}] * 3}), "utf-8")
    (tmp_path / "work").mkdir()
    return ["--model", f"scripted:{script}", "--pack", "file-ops", "--root", str(tmp_path / "work")]


def test_a_person_refuses_a_call_and_allows_a_tool_for_the_session(
    tmp_path: Path, shell: Shell, tools: list[str]
) -> None:
    note = tmp_path / "work" / "note.txt"
    with Terminal(shell, "chat", "w", "--new", *tools) as terminal:
        terminal.wait_for("> ")
        terminal.type("first\n")
        assert "write_file needs your approval" in terminal.wait_for("for the rest of the session: ")
        terminal.type("n\n")
        terminal.wait_for("I tried.")
        assert not note.exists()
        terminal.wait_for("predicted)")
        terminal.wait_for("> ")
        terminal.type("second\n")
        terminal.wait_for("for the rest of the session: ")
        terminal.type("s\n")
        terminal.wait_for("I tried.")
        assert note.read_text("utf-8") == "second"
        terminal.wait_for("predicted)")
        terminal.wait_for("> ")
        terminal.type("third\n")
        assert "approval" not in terminal.wait_for("I tried.")
        assert note.read_text("utf-8") == "third"
        terminal.wait_for("predicted)")
        terminal.wait_for("> ")
        terminal.type(CTRL_D)
        assert terminal.wait_for_end() == 0


def test_from_a_pipe_a_call_is_refused_with_what_to_do_unless_it_is_approved(
    tmp_path: Path, shell: Shell, tools: list[str]
) -> None:
    note = tmp_path / "work" / "note.txt"
    assert shell("chat", "p", "--new", *tools, given="first\n") == "I tried.\n"
    with sync.open(shell.db) as fov:
        (result,) = [
            result for message in fov.open_session("p").load_turn(1).messages for result in message.tool_results
        ]
        assert "the user can allow it with --approve write_file" in str(result.content)
    assert not note.exists()
    shell("chat", "--continue", *tools, "--approve", "write_file", given="second\n")
    assert note.read_text("utf-8") == "second"


def test_the_commands_for_tools_goals_and_topics(tmp_path: Path, shell: Shell, tools: list[str]) -> None:
    lines = "/tools\n/tools research\n/tools none\n/goal Ship it\n/goal\n/goal done G-1\n/seal\n"
    result = shell.run("chat", "c", "--new", *tools, "--strategy", "topics", given=lines, code=1)
    told = result.stderr
    assert "write_file (asks first)" in told
    assert "web_search" in told
    assert "The model can read and search old turns." in told
    assert "G-1 added." in told
    assert "G-1 is done." in told
    assert "there is no pack 'nope'" in shell.error("chat", "d", "--new", *tools[:2], "--pack", "nope", given="x\n")
    shell.error("chat", "c", "--continue", *tools, code=2)
