"""`foveate run` and `foveate chat` fix a failing test in a repository, killed three times on the way."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.command_line import Shell, command
from support.patience import wait_until

CALC = "def add(a, b):\n    return a - b\n"
TEST = "import unittest\nfrom calc import add\n\n\nclass Sum(unittest.TestCase):\n    def test_add(self):\n        \
self.assertEqual(add(2, 3), 5)\n"
PATCH = (
    "*** Begin Patch\n*** Update File: calc.py\n@@ def add(a, b):\n-    return a - b\n+    return a + b\n*** End Patch"
)
RUN_TESTS = f"{sys.executable} -m unittest -q"
FOREVER = 600
"""Seconds: until the kill."""


def script(path: Path, last: dict[str, object], *, slow: str = "", tests: str = RUN_TESTS) -> None:
    """A model that decides by the last tool result; with `slow` it thinks about that one until it is killed."""

    def when(name: str, said: str, reply: dict[str, object]) -> dict[str, object]:
        return {"result_contains": said, "delay_seconds": FOREVER if name == slow else 0.0, **reply}

    replies = [
        {"results": 0, **call("grep", pattern="def add")},
        when("applied", "Applied to", call("exec", command=tests)),
        when("interrupted", "may have taken effect", call("read_file", path="calc.py")),
        when("wrong", "return a - b", call("apply_patch", patch=PATCH)),
        when("right", "return a + b", call("exec", command=tests)),
        when("passed", "OK", last),
        when("found", "calc.py", call("read_file", path="calc.py")),
    ]
    path.write_text(json.dumps({"reply": replies}), "utf-8")


def call(name: str, **arguments: object) -> dict[str, object]:
    return {"calls_tool": name, "arguments": arguments}


def killed(words: list[str], shell: Shell, *, given: str, until: str = "", appears: Path | None = None) -> None:
    """Start a command, and kill it once it has printed a line with this text, or made this file."""
    with subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=shell.environment(PYTHONUNBUFFERED="1"),
    ) as child:
        assert child.stdin
        assert child.stdout
        child.stdin.write(given.encode())
        child.stdin.close()
        if appears is not None:
            wait_until(lambda: appears.exists() or child.poll() is not None)
            assert appears.exists(), child.stdout.read().decode()
        else:
            lines: list[bytes] = []
            while until.encode() not in (lines or [b""])[-1]:
                lines.append(child.stdout.readline())
                assert lines[-1], b"".join(lines).decode()
        child.send_signal(signal.SIGKILL)


@pytest.mark.parametrize("surface", ["run", pytest.param("chat", marks=pytest.mark.thorough)])
def test_a_failing_test_is_fixed_although_the_process_is_killed_three_times(tmp_path: Path, surface: str) -> None:
    root = tmp_path / "repo"
    root.mkdir()
    (root / "calc.py").write_text(CALC, "utf-8")
    (root / "test_calc.py").write_text(TEST, "utf-8")
    path, epic, marker = tmp_path / "model.json", tmp_path / "fix.md", root / "started"
    epic.write_text("Make the test in this repository pass.", "utf-8")
    shell = Shell(tmp_path / "chat.db")
    tools = ["--model", f"scripted:{path}", "--pack", "core-codex", "--allow-exec", "--allow-unsandboxed"]
    tools += ["--root", str(root)]
    is_run = surface == "run"
    words = ["run", "--epic", str(epic), *tools] if is_run else ["chat", "fix", *tools]
    first = words if is_run else [*words, "--new"]
    last: dict[str, object] = call("finish", summary="Fixed.") if is_run else {"says": "Fixed."}
    begin, again = ("", "") if is_run else (epic.read_text("utf-8") + "\n", "/retry\n")

    script(path, last, slow="found")
    killed(command(*first), shell, given=begin, until="← grep")
    script(path, last, tests=f"touch started; sleep {FOREVER}")
    killed(command(*words), shell, given=again, appears=marker)
    script(path, last, slow="passed")
    killed(command(*words), shell, given=again, until="← exec: ")
    script(path, last)
    ended = shell.really(*words, given=again.encode())
    assert (ended.returncode, b"Fixed." in ended.stdout) == (0, True), ended.stderr.decode()

    assert "a + b" in (root / "calc.py").read_text("utf-8")
    exported = json.loads(shell("export", "run-fix" if is_run else "fix", "--format", "json"))
    parts = [part for turn in exported["turns"] for message in turn["messages"] for part in message["parts"]]
    called = [part["name"] for part in parts if part.get("type") == "tool_call"]
    expected = ["grep", "read_file", "apply_patch", "exec", "read_file", "exec"]
    assert called == [*expected, "finish"] if is_run else called == expected
