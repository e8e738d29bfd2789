"""Measures the layout of the code: modules, lines, long functions, duplicate names, and the path of one `context()`.

    python bench/house.py [SOURCE]        SOURCE: the `src/foveate` to measure, default: this one
    python bench/house.py --json
    python bench/house.py --check         exits with 1 if a figure exceeds its limit

For the path of a `context()`, it counts modules, functions and read transactions in the event loop and the reading
threads of a SQLite store. The writing thread and background tasks are not counted: a context does not wait for them.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import contextlib
import io
import json
import sys
import tempfile
import threading
import tokenize
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import TypeVar
from unittest.mock import patch

import foveate
from foveate.context.context import Context
from foveate.demo import load_conversation
from foveate.store.database import Database, Job

LIMITS = {
    "lines": 86_000,
    "new turn with recall: modules": 50,
    "new turn with recall: functions": 250,
    "new turn with recall: reads": 5,
}
FUNCTION_LINES = 70
FILE_LINES = 600

SOURCE = Path(__file__).parents[1] / "src" / "foveate"
OURS = str(Path(foveate.__file__).parent)
WRITER = "foveate-writer"
BUDGET_TOKENS = 8_000
TURNS = 80
MAX_TURNS_TO_REBUILD = 400
FOLLOW_UP = "Thanks, go on."
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}

T = TypeVar("T")
Layout = dict[str, int | list[str]]


@dataclass(slots=True)
class Crossed:
    """The path of one `context()`."""

    functions: set[tuple[str, str]] = field(default_factory=set)
    """Files and names of functions."""
    reads: int = 0

    def figures(self) -> dict[str, int]:
        modules = {path for path, _ in self.functions}
        return {"modules": len(modules), "functions": len(self.functions), "reads": self.reads}


_CALL: ContextVar[Crossed | None] = ContextVar("_CALL", default=None)
"""The measured call, in its task and the tasks that it starts."""


class Tracer:
    """Records the paths of measured calls while it is installed."""

    def __init__(self) -> None:
        self._current: Crossed | None = None

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Trace this thread and the threads of a store that is opened inside."""
        read = Database.read

        async def counted(database: Database, job: Job[T]) -> T:
            if call := _CALL.get():
                call.reads += 1
            return await read(database, job)

        threading.setprofile(self._trace_thread)
        sys.setprofile(self._trace_loop)
        try:
            with patch.object(Database, "read", counted):
                yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    async def measure(self, call: Callable[[], Awaitable[Context]]) -> tuple[Context, Crossed]:
        self._current = crossed = Crossed()
        token = _CALL.set(crossed)
        try:
            return await call(), crossed
        finally:
            _CALL.reset(token)
            self._current = None

    def _trace_loop(self, frame: FrameType, event: str, _argument: object) -> None:
        _note(frame, event, _CALL.get())

    def _trace_thread(self, frame: FrameType, event: str, _argument: object) -> None:
        if threading.current_thread().name != WRITER:
            _note(frame, event, self._current)


def _note(frame: FrameType, event: str, crossed: Crossed | None) -> None:
    code = frame.f_code
    if crossed and event == "call" and code.co_filename.startswith(OURS) and "<" not in code.co_name:
        crossed.functions.add((code.co_filename, code.co_qualname))


async def crossings() -> dict[str, dict[str, int]]:
    """Measure a warm `context()` of a session whose history is full: with a kept plan, repeated, and rebuilt."""
    tracer, figures = Tracer(), dict[str, dict[str, int]]()
    with tempfile.TemporaryDirectory() as folder, tracer.installed():
        async with foveate.open(Path(folder) / "chat.db") as fov:
            chat = await fov.session("house", budget_tokens=BUDGET_TOKENS)

            async def measure(prompt: str) -> tuple[Context, dict[str, int]]:
                await fov.settle()  # background work is not part of a context
                context, crossed = await tracer.measure(lambda: chat.context(prompt, tools=True))
                return context, crossed.figures()

            conversation = load_conversation(TURNS)
            for turn in conversation.turns:
                await chat.record(turn)
            question, *others = (fact.question for fact in conversation.facts)
            for prompt in (*others[:2], FOLLOW_UP):  # loads lazy modules
                await measure(prompt)
            await _add_turn(chat)
            context, figures["new turn with recall"] = await measure(question)
            _expect(context, is_new=False, has_memory=True)
            repeated, figures["repeated call"] = await measure(question)
            assert repeated.text == context.text, "a repeated call returns the same context"
            await _add_turn(chat)
            context, figures["new turn without recall"] = await measure(FOLLOW_UP)
            _expect(context, is_new=False, has_memory=False)
            for _ in range(MAX_TURNS_TO_REBUILD):
                await _add_turn(chat)
                context, figures["rebuild with recall"] = await measure(question)
                if context.planned.is_new:
                    break
            _expect(context, is_new=True, has_memory=True)
    return figures


async def _add_turn(chat: foveate.Session) -> None:
    answer = "It was free when I looked, so I wrote it down in the list of the piers. " * 20
    await chat.record([{"role": "user", "content": "Note the berth."}, {"role": "assistant", "content": answer}])


def _expect(context: Context, *, is_new: bool, has_memory: bool) -> None:
    assert context.planned.is_new == is_new, "the plan was kept" if is_new else "the plan was made again"
    assert ("<memory>" in context.text) == has_memory, (
        "nothing was recalled" if has_memory else "something was recalled"
    )


def static_figures(source: Path) -> Layout:
    paths = {module_name(path, source): path for path in sorted(source.rglob("*.py"))}
    texts = {name: path.read_text("utf-8") for name, path in paths.items()}
    trees = {name: ast.parse(text) for name, text in texts.items()}
    importers: dict[str, set[str]] = defaultdict(set)
    for name, tree in trees.items():
        for used in imports_of(tree, set(paths)) - {name}:
            importers[used].add(name)
    classes = Counter(
        node.name
        for tree in trees.values()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    lines = {name: len(text.splitlines()) for name, text in texts.items()}
    return {
        "modules": len(paths),
        "lines": sum(lines.values()),
        "lines of code": sum(code_lines(texts[name], tree) for name, tree in trees.items()),
        f"files of more than {FILE_LINES} lines": _longest(lines, FILE_LINES),
        f"functions of more than {FUNCTION_LINES} lines": _longest(function_lines(trees), FUNCTION_LINES),
        "top-level modules": len(list(source.glob("*.py"))),
        "top-level folders": len([path for path in source.iterdir() if path.is_dir() and path.name != "__pycache__"]),
        "public class names used more than once": sorted(name for name, count in classes.items() if count > 1),
        "broad excepts that swallow": sum(swallows(node) for tree in trees.values() for node in ast.walk(tree)),
        "modules with a single importer": sum(len(importers[name]) == 1 for name in paths),
    }


def module_name(path: Path, source: Path) -> str:
    parts = list(path.relative_to(source.parent).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(tree: ast.AST, modules: set[str]) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("foveate"):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in modules else node.module)
    return found


def code_lines(text: str, tree: ast.AST) -> int:
    """Count the lines that are neither blank nor only a comment or a docstring (of attributes, too)."""
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            found |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(found)


def function_lines(trees: Mapping[str, ast.AST]) -> dict[str, int]:
    return {
        f"{name}.{node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def _longest(lines: Mapping[str, int], limit: int) -> list[str]:
    return [f"{name} {count}" for name, count in sorted(lines.items(), key=lambda each: -each[1]) if count > limit]


def swallows(node: ast.AST) -> bool:
    """Return whether a handler catches everything and does not raise, or an `__exit__` returns True."""
    if isinstance(node, ast.FunctionDef) and node.name == "__exit__":
        returned = [inner.value for inner in ast.walk(node) if isinstance(inner, ast.Return)]
        return any(isinstance(value, ast.Constant) and value.value is True for value in returned)
    return isinstance(node, ast.ExceptHandler) and catches_all(node)


def catches_all(handler: ast.ExceptHandler) -> bool:
    names = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)} if handler.type else {""}
    is_broad = bool(names & {"", "Exception", "BaseException"})
    return is_broad and not any(isinstance(node, ast.Raise) for node in ast.walk(handler))


@dataclass(frozen=True, slots=True)
class Excess:
    """A figure above its limit."""

    name: str
    figure: int
    limit: int


def excesses(layout: Layout, crossed: Mapping[str, Mapping[str, int]]) -> list[Excess]:
    figures: dict[str, object] = {**layout}
    figures |= {f"{call}: {kind}": figure for call, kinds in crossed.items() for kind, figure in kinds.items()}
    found = [(name, figures[name], limit) for name, limit in LIMITS.items()]
    return [Excess(name, figure, limit) for name, figure, limit in found if isinstance(figure, int) and figure > limit]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", nargs="?", type=Path, default=SOURCE)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a figure exceeds its limit")
    options = parser.parse_args()
    layout, crossed = static_figures(options.source), asyncio.run(crossings())
    above = excesses(layout, crossed)
    if options.json:
        figures = {"layout": layout, "context": crossed, "above_limits": [asdict(each) for each in above]}
        print(json.dumps(figures, indent=2))
    else:
        show(layout, crossed, above)
    if options.check and above:
        sys.exit(1)


def show(layout: Layout, crossed: Mapping[str, Mapping[str, int]], above: list[Excess]) -> None:
    for name, figure in layout.items():
        print(f"{name:45} {len(figure) if isinstance(figure, list) else format(figure, ',')}")
        if isinstance(figure, list) and figure:
            print(f"{'':45} {', '.join(figure)}")
    for name, figures in crossed.items():
        print(f"{f'context(), {name}':45} {', '.join(f'{count} {kind}' for kind, count in figures.items())}")
    for each in above:
        print(f"above the limit: {each.name} {each.figure:,} (limit {each.limit:,})")


if __name__ == "__main__":
    main()
