"""Files of a session: what its tool calls say of them, and summaries that a program gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from foveate import sync
from foveate.errors import InputError

PATH = "src/jwt.py"


def turn(number: int) -> list[dict[str, Any]]:
    """A turn that reads a file."""
    content = f"# Part {number}\n" + "\n".join(f"def sign_{number}_{line}(): ..." for line in range(60))
    call = {
        "id": f"c{number}",
        "type": "function",
        "function": {"name": "read_file", "arguments": f'{{"path": "{PATH}"}}'},
    }
    return [
        {"role": "user", "content": f"Look at the file, please, time {number}."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": content},
        {"role": "assistant", "content": f"It has {number} problems."},
    ]


def test_a_given_summary_is_shown_in_place_of_the_files_own(tmp_path: Path) -> None:
    with sync.open(tmp_path / "chat.db") as fov:
        chat = fov.session("s", strategy="hybrid", budget_tokens=6_000)
        chat.files.summarize(PATH, "Signs tokens with keys\nof the vault.")
        for number in range(20):
            chat.record(turn(number))
        fov.settle()
        text = chat.context("What now?").text
    assert "Signs tokens with keys of the vault" in text
    assert "Part 1." not in text


def test_files_and_todos_are_read_as_values(tmp_path: Path) -> None:
    todo = {"todos": [{"content": "fix the signature", "status": "in_progress"}]}
    with sync.open(tmp_path / "chat.db") as fov:
        chat = fov.session("s")
        chat.record(turn(1))
        calls = [("TodoWrite", todo), ("write_file", {"path": PATH, "content": "x\ny\n"})]
        for name, arguments in calls:
            chat.record(
                [
                    {
                        "role": "assistant",
                        "content": [{"type": "tool_use", "id": name, "name": name, "input": arguments}],
                    },
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": name, "content": "ok"}]},
                ]
            )
        chat.refresh()
        chat.files.summarize(PATH, "Signs tokens.")
        found = chat.files.list()
        assert [(read.path, read.summary, read.lines) for read in found.reads] == [(PATH, "Signs tokens.", 61)]
        assert [(change.path, change.todo) for change in found.changes] == [(PATH, "fix the signature")]
        assert [item.status for item in found.todos] == ["active"]
        chat.files.summarize(PATH, "")
        assert chat.files.summaries() == {}
        with pytest.raises(InputError, match="path is empty"):
            chat.files.summarize(" ", "x")
