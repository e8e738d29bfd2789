"""Figures of the code's layout: modules, lines, names used twice, broad excepts, and what one warm `context()` crosses.

python bench/house.py [SOURCE]        SOURCE: a `src/foveate` to measure, by default this one
"""

from __future__ import annotations

import ast
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from pathlib import Path
from types import FrameType

WRITER = "foveate-writer"
SOURCE = Path(__file__).parents[1] / "src" / "foveate"


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


def swallows(node: ast.AST) -> bool:
    """Whether a handler catches everything and does not raise, or an `__exit__` returns True."""
    if isinstance(node, ast.FunctionDef) and node.name == "__exit__":
        returned = [inner.value for inner in ast.walk(node) if isinstance(inner, ast.Return)]
        return any(isinstance(value, ast.Constant) and value.value is True for value in returned)
    return isinstance(node, ast.ExceptHandler) and catches_all(node)


def catches_all(handler: ast.ExceptHandler) -> bool:
    names = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)} if handler.type else {""}
    is_broad = bool(names & {"", "Exception", "BaseException"})
    return is_broad and not any(isinstance(node, ast.Raise) for node in ast.walk(handler))


def static_figures(source: Path) -> dict[str, object]:
    paths = {module_name(path, source): path for path in sorted(source.rglob("*.py"))}
    trees = {name: ast.parse(path.read_text("utf-8")) for name, path in paths.items()}
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
    broad = [node for tree in trees.values() for node in ast.walk(tree) if swallows(node)]
    return {
        "modules": len(paths),
        "lines": sum(len(path.read_text("utf-8").splitlines()) for path in paths.values()),
        "top-level modules": len(list(source.glob("*.py"))),
        "top-level folders": len([path for path in source.iterdir() if path.is_dir() and path.name != "__pycache__"]),
        "public class names used more than once": sorted(name for name, count in classes.items() if count > 1),
        "broad excepts that swallow": len(broad),
        "modules with a single importer": sum(len(importers[name]) == 1 for name in paths),
    }


def crossed() -> dict[str, tuple[int, int]]:
    """The modules and functions of ours that a warm `session.context()` runs through: first in a new turn, then again.

    The call's own path counts: the event loop and the reading threads it waits for. The writing thread does not, since
    what a context stores is written after it was returned.
    """
    import foveate.sync as foveate

    seen: set[tuple[str, str]] = set()
    is_measured = threading.Event()

    def trace(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        is_ours = "foveate" in code.co_filename and "<" not in code.co_name
        if event == "call" and is_measured.is_set() and is_ours and threading.current_thread().name != WRITER:
            seen.add((code.co_filename, code.co_qualname))

    def measure() -> tuple[int, int]:
        fov.settle()  # what the background does is no part of a context
        seen.clear()
        is_measured.set()
        chat.context(prompt="And which one did we say it was?", tools=True)
        is_measured.clear()
        return len({path for path, _ in seen}), len(seen)

    threading.setprofile(trace)  # for the threads that the store starts
    with tempfile.TemporaryDirectory() as folder, foveate.open(Path(folder) / "chat.db") as fov:
        chat = fov.session("house", budget_tokens=8_000)
        for number in range(60):
            question = f"Question {number}: which port does gateway {number} use? " + "More words. " * 40
            answer = f"Port {8000 + number}. " * 20
            chat.record([{"role": "user", "content": question}, {"role": "assistant", "content": answer}])
        fov.settle()
        for _ in range(3):
            chat.context(prompt="And which one did we say it was?", tools=True)
        chat.record([{"role": "user", "content": "A new one."}, {"role": "assistant", "content": "Yes."}])
        figures = {"a warm context() in a new turn crosses": measure(), "the same call again crosses": measure()}
    threading.setprofile(None)
    return figures


if __name__ == "__main__":
    given = Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE
    for name, figure in static_figures(given).items():
        print(f"{name:45} {len(figure) if isinstance(figure, list) else figure}")
        if isinstance(figure, list):
            print(f"{'':45} {', '.join(figure)}")
    for name, (modules, functions) in crossed().items():
        print(f"{name:45} {modules} modules, {functions} functions")
