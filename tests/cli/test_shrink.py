"""`foveate shrink`: the compression agent at work from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.command_line import Shell

SCRIPT = """
[[reply]]
call = 1
calls_tool = "get_compression_metadata"
[[reply]]
call = 2
calls_tool = "compress_tool_result"
arguments = { turn = "T-1", position = 2 }
[[reply]]
says = "That is all."
"""
WINDOW = ("--window", "1000")


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """With a session of an agent that read much."""
    output = "\n".join(f"{number}: the value is {number * 7}" for number in range(200))
    lines = []
    for number in range(6):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "exec", "arguments": "{}"}}
        lines += [
            {"role": "user", "content": f"Look at part {number}."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": output},
            {"role": "assistant", "content": f"Part {number} is fine."},
        ]
    (tmp_path / "work.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    (tmp_path / "script.toml").write_text(SCRIPT)
    shell = Shell(tmp_path / "chat.db")
    shell("import", str(tmp_path / "work.jsonl"), "--session", "s")
    return shell


def model(shell: Shell) -> tuple[str, str]:
    return "--model", f"scripted:{shell.db.parent / 'script.toml'}"


def test_what_the_agent_proposes_is_short_from_then_on(shell: Shell) -> None:
    shell("sessions", "strategy", "s", "hybrid")
    answer = shell.json("shrink", "s", *model(shell), *WINDOW)
    assert (answer["mode"], answer["accepted"], answer["refused"]) == ("agent", 1, 0)
    assert answer["tokens_after"] < answer["tokens_before"]
    again = shell("shrink", "s", *model(shell), *WINDOW)
    assert "Nothing was changed: done." in again  # it is short already


def test_a_person_is_told_what_came_of_it(shell: Shell) -> None:
    shell("sessions", "strategy", "s", "hybrid")
    said = shell("shrink", "s", *model(shell), *WINDOW)
    assert "Shortened: 1. Rejected: 0." in said
    assert "Stopped before the target was reached: done." in said


def test_a_session_of_another_strategy_is_refused_with_the_command_that_helps(shell: Shell) -> None:
    assert "foveate sessions strategy s hybrid" in shell.error("shrink", "s", *model(shell))


def test_without_a_model_it_says_how_to_name_one(shell: Shell) -> None:
    shell("sessions", "strategy", "s", "hybrid")
    assert "--model" in shell.error("shrink", "s")


def test_with_nothing_to_do_nothing_is_changed(shell: Shell) -> None:
    shell("sessions", "strategy", "s", "hybrid")
    assert "Nothing was changed: nothing to do" in shell("shrink", "s", *model(shell))
