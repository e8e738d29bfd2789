"""The figures of the code's layout are counted right; their limits are checked by `python bench/house.py --check`."""

from __future__ import annotations

import ast
import asyncio
from pathlib import Path

import foveate
from foveate.store.database import Database
from house import LIMITS, Crossed, Tracer, code_lines, excesses, function_lines, static_figures

TEXT = '''"""A module."""

# A comment.
import os  # and one behind code

LIMIT = 3
"""What a constant's docstring says."""


def two(name: str) -> str:
    """Two
    lines.
    """
    text = """a string

    that is code"""
    return text + name
'''


def test_lines_of_code_are_neither_blank_nor_comments_nor_docstrings() -> None:
    assert code_lines(TEXT, ast.parse(TEXT)) == 7


def test_a_functions_lines_count_its_docstring() -> None:
    assert function_lines({"module": ast.parse(TEXT)}) == {"module.two": 8}


def test_long_files_and_functions_are_named(tmp_path: Path) -> None:
    source = tmp_path / "foveate"
    source.mkdir()
    (source / "__init__.py").write_text("from foveate import long\n")
    (source / "long.py").write_text("def all_of_it() -> None:\n" + "    print()\n" * 600)
    layout = static_figures(source)
    assert (layout["modules"], layout["lines"], layout["lines of code"]) == (2, 602, 602)
    assert layout["files of more than 600 lines"] == ["foveate.long 601"]
    assert layout["functions of more than 70 lines"] == ["foveate.long.all_of_it 601"]
    assert layout["modules with a single importer"] == 1


def test_a_figure_above_its_limit_is_named() -> None:
    crossed = {"new turn with recall": {"modules": 50, "functions": 251, "reads": 5}}
    (above,) = excesses({"lines": LIMITS["lines"]}, crossed)
    assert (above.name, above.figure, above.limit) == ("new turn with recall: functions", 251, 250)


def test_a_calls_own_reads_and_functions_are_counted_and_those_of_other_tasks_not(tmp_path: Path) -> None:
    read = Database.read
    crossed = asyncio.run(_measure(tmp_path / "chat.db"))
    names = {name for _, name in crossed.functions}
    assert "Session.context" in names
    assert "Session.stats" not in names
    assert 0 < crossed.reads < 30
    assert crossed.figures()["modules"] < crossed.figures()["functions"] == len(crossed.functions)
    assert Database.read is read


async def _measure(path: Path) -> Crossed:
    tracer = Tracer()
    with tracer.installed():
        async with foveate.open(path) as fov:
            chat = await fov.session("s", budget_tokens=4_000)
            await chat.record([{"role": "user", "content": "Where?"}, {"role": "assistant", "content": "At the pier."}])
            await fov.settle()
            is_reading = asyncio.Event()
            other = asyncio.create_task(_keep_reading(chat, is_reading))
            await is_reading.wait()
            context, crossed = await tracer.measure(lambda: chat.context("And when?"))
            other.cancel()
    assert "At the pier." in context.text
    return crossed


async def _keep_reading(chat: foveate.Session, is_reading: asyncio.Event) -> None:
    while True:
        await chat.stats()
        is_reading.set()


def test_a_bench_that_uses_the_tests_finds_them_without_a_path_of_its_users() -> None:
    benches = Path(__file__).resolve().parents[2] / "bench"
    texts = {path.relative_to(benches): path.read_text("utf-8") for path in sorted(benches.rglob("*.py"))}
    using = {path for path, text in texts.items() if "\nfrom support" in text}
    assert using
    assert {path for path in using if "sys.path" not in texts[path].partition("\nfrom support")[0]} == set()
