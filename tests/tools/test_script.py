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


GATHERED = (
    "await asyncio.gather(meet('a'), meet('b'))",
    "await asyncio.gather(*[meet(name) for name in 'ab'])",
    "await asyncio.gather(*(meet(name) for name in 'ab'))",
    "both = [meet(name) for name in 'ab']\nawait asyncio.gather(*both)",
    "both = []\nfor name in 'ab':\n    both.append(meet(name))\nawait asyncio.gather(*both)",
    "one = meet('a')\nother = meet('b')\n[await one, await other]",
    "async def ask(name):\n    'ü'; return await meet(name)\nawait asyncio.gather(ask('a'), ask('b'))",
    "async def main():\n    return await asyncio.gather(meet('a'), meet('b'))\nasyncio.run(main())",
)


@pytest.mark.parametrize("script", GATHERED)
def test_calls_that_are_awaited_together_run_at_the_same_time(script: str, tmp_path: Path) -> None:
    """Each call waits until the other one has begun."""

    async def test() -> ToolOutput:
        barrier = asyncio.Barrier(2)

        @tool
        async def meet(name: str) -> str:
            """Wait for the other call."""
            await barrier.wait()
            return name.upper()

        box = Toolbox([meet, registry.find("run_script")], Workspace.at([tmp_path], settings=LIMITS))
        return await box.call("run_script", {"script": f"import asyncio\n{script}"})

    output = asyncio.run(test())
    assert (output.is_error, output.text) == (False, "['A', 'B']\n(2 tool calls)\n")
    assert [(call.arguments, call.output.text) for call in output.inner] == [({"name": "a"}, "A"), ({"name": "b"}, "B")]


def test_an_answer_continues_its_part_of_the_script_while_another_call_waits(tmp_path: Path) -> None:
    async def test() -> ToolOutput:
        begun = asyncio.Event()

        @tool
        async def wait() -> str:
            """Wait for the second call of the other part."""
            await begun.wait()
            return "waited"

        @tool
        async def begin() -> str:
            """Let the waiting call end."""
            begun.set()
            return "begun"

        box = Toolbox([wait, begin, double, registry.find("run_script")], Workspace.at([tmp_path], settings=LIMITS))
        script = """import asyncio
async def chain():
    await double(1)
    return await begin()
await asyncio.gather(wait(), chain())
"""
        return await box.call("run_script", {"script": script})

    assert asyncio.run(test()).text == "['waited', 'begun']\n(3 tool calls)\n"


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("await asyncio.gather(double(1), fail())", "fail failed:"),
        ("await asyncio.gather(*[double(n) for n in range(9)])", "more than 3 calls"),
        ("print(double(2))\nprint(await asyncio.gather(double(3)))", "4\n['6']\n"),
        ("names = []\nnames.append(double(2))\nprint(names, await asyncio.gather(double(3)))", "['4'] ['6']\n"),
        ("await asyncio.gather(run_script('1'))", "NameError"),
        (f"await {' if 1 else '.join(['double(1)'] * 2_000)}", "Error"),
        ("x = " + "double(1)" + "()" * 3_000, "Error"),
    ],
)
def test_awaited_calls_have_the_limits_and_errors_of_others(script: str, text: str, tmp_path: Path) -> None:
    assert text in _run(f"import asyncio\n{script}", tmp_path).text


def test_a_call_that_nobody_awaits_is_interrupted_at_the_end(tmp_path: Path) -> None:
    @tool
    async def hang() -> str:
        """Never answer."""
        await asyncio.Event().wait()
        return ""

    box = Toolbox([hang, registry.find("run_script")], Workspace.at([tmp_path], settings=LIMITS))
    script = "import asyncio\nlate = [hang()]\nif False:\n    await asyncio.gather(*late)\n'ended'"
    output = asyncio.run(box.call("run_script", {"script": script}))
    assert output.text == "ended\n(1 tool call)\n"
    assert [call.output.is_error for call in output.inner] == [True]


def test_a_script_has_a_limit_of_characters(tmp_path: Path) -> None:
    assert "up to 100,000 characters" in _run("x" * 100_001, tmp_path).text
