"""Scripts: tools called from a sandbox, with limits, and every inner call in the output."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from foveate.tools import Toolbox, Workspace, registry, tool
from foveate.tools.settings import ToolsSettings
from foveate.tools.tool import ToolOutput

LIMITS = ToolsSettings(script_seconds=0.5, script_memory_bytes=20_000_000, script_calls=3)


@tool
def double(number: int) -> str:
    """Double a number."""
    return str(2 * number)


@tool
def fail() -> str:
    """Fail."""
    raise ZeroDivisionError("division by zero")


@tool(approval="ask")
def delete() -> str:
    """Delete everything."""
    raise AssertionError("called without approval")


def _run(script: str, tmp_path: Path) -> ToolOutput:
    async def approve(*_given: object) -> bool:
        return True

    tools = [double, fail, delete, registry.find("list_dir"), registry.find("run_script")]
    box = Toolbox(tools, Workspace.at([tmp_path], settings=LIMITS), approve=approve)
    return asyncio.run(box.call("run_script", {"script": script}))


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("print(double(4))\nint(double(number=2)) + 1", "8\n5\n(2 tool calls)\n"),
        ("await double(4)", "8\n(1 tool call)\n"),
        ("try:\n    fail()\nexcept RuntimeError as error:\n    print('caught', error)", "caught fail failed:"),
        ("list_dir()", "a.txt 1\n"),
    ],
)
def test_a_script_calls_tools(script: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    output = _run(script, tmp_path)
    assert not output.is_error
    assert text in output.text


def test_every_inner_call_is_in_the_output(tmp_path: Path) -> None:
    output = _run("double(1)\ndouble(number=2)", tmp_path)
    assert [(call.name, call.arguments, call.output.text) for call in output.inner] == [
        ("double", {"number": 1}, "2"),
        ("double", {"number": 2}, "4"),
    ]


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("while True: pass", "TimeoutError"),
        ("x = 'a'\nwhile True: x += x", "MemoryError"),
        ("for n in range(9):\n    try:\n        double(n)\n    except Exception: pass", "more than 3 calls"),
        ("while True: print('x' * 10_000)", "printed more than"),
        ("def f(): return f()\nf()", "RecursionError"),
        ("run_script('1')", "NameError"),
        ("delete()", "NameError"),
        ("double", "call double(…)"),
        ("double(1, 2)", "takes 1 argument"),
        ("double('x')", "number: expected 'int'"),
        ("open('/etc/passwd')", "PermissionError"),
        ("import os\nos.environ", "not supported"),
        ("import socket", "ModuleNotFoundError"),
        ("this is no Python", "not valid Python"),
        ("unknown_name", "NameError"),
    ],
)
def test_a_script_has_limits(script: str, problem: str, tmp_path: Path) -> None:
    output = _run(script, tmp_path)
    assert output.is_error
    assert problem in output.text


@pytest.mark.parametrize("script", ["list_dir(path=b'x')", "list_dir()\nx = double"])
def test_a_call_with_any_argument_is_in_the_output_whatever_ends_the_script(script: str, tmp_path: Path) -> None:
    output = _run(script, tmp_path)
    assert output.is_error
    assert [call.name for call in output.inner] == ["list_dir"]
    assert json.dumps([dict(call.arguments) for call in output.inner])


def test_a_script_that_takes_too_long_keeps_the_records_of_its_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadlines: list[asyncio.Timeout] = []
    timeout = asyncio.timeout

    def noted(seconds: float | None) -> asyncio.Timeout:
        deadlines.append(timeout(seconds))
        return deadlines[-1]

    @tool
    async def hang() -> str:
        """Never answer; the time of the script is over now."""
        deadlines[1].reschedule(asyncio.get_running_loop().time())
        await asyncio.Event().wait()
        return ""

    monkeypatch.setattr(asyncio, "timeout", noted)  # the first is the tool's, the second the script's
    box = Toolbox([double, hang, registry.find("run_script")], Workspace.at([tmp_path], settings=LIMITS))
    output = asyncio.run(box.call("run_script", {"script": "print(double(1))\nhang()"}))
    assert output.is_error
    assert "it took more than 600 seconds" in output.text
    assert [(call.name, call.output.is_error) for call in output.inner] == [("double", False), ("hang", True)]
