"""Writes `foveate/sync.pyi` from the signatures of the async classes: `python tests/support/stubs.py`.

Coroutines lose their `async`, `AsyncIterator` becomes `Iterator`, and sessions are the blocking ones.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import get_type_hints

import foveate
from foveate import client as api
from foveate import session
from foveate.session import (
    cabinet,
    checkpoints,
    documents,
    exchange,
    files,
    goals,
    keys,
    knowledge,
    memory,
    prompts,
    subagents,
)
from foveate.session import topics as topical

STUB = Path(inspect.getfile(api)).with_name("sync.pyi")
OWN = (
    "Foveate",
    "Session",
    "Exchange",
    "Checkpoints",
    "Documents",
    "Files",
    "Goals",
    "Keys",
    "Knowledge",
    "Memory",
    "SessionTopics",
    "Agents",
    "Cabinet",
    "Prompts",
    "open",
)
HEAD = """# Written by tests/support/stubs.py from the async classes; don't edit.
# ruff: noqa: A001, A002 - `open` and `format` are the words users know
"""
ENTER = """
    def close(self) -> None: ...
    def __enter__(self) -> Foveate: ...
    def __exit__(self, *_: object) -> None: ...
"""
ENTER_TURN = """
    def __enter__(self) -> Exchange: ...
    def __exit__(self, *_: object) -> None: ...
"""
UNWRAP = """
def unwrap(value: object) -> tuple[object, Any]: ...
"""
MethodDef = ast.FunctionDef | ast.AsyncFunctionDef


def generate() -> str:
    """The stub as it should be."""
    names: dict[str, str] = {}
    bodies = [
        _class(documents, "Documents", names),
        _class(files, "Files", names),
        _class(checkpoints, "Checkpoints", names),
        _class(goals, "Goals", names),
        _class(keys, "Keys", names),
        _class(knowledge, "Knowledge", names),
        _class(memory, "Memory", names),
        _class(subagents, "Agents", names),
        _class(cabinet, "Cabinet", names),
        _class(prompts, "Prompts", names),
        _class(topical, "SessionTopics", names),
        _class(exchange, "Exchange", names) + ENTER_TURN,
        _class(session, "Session", names),
        _class(api, "Foveate", names, skip=("close",)) + ENTER,
        _open(names),
    ]
    return _tidy("\n".join([HEAD, *_imports(names), *bodies, UNWRAP]))


def _class(module: ModuleType, name: str, names: dict[str, str], skip: tuple[str, ...] = ()) -> str:
    (definition,) = (node for node in _tree(module).body if isinstance(node, ast.ClassDef) and node.name == name)
    lines = [f"class {name}:"]
    for member in definition.body:
        if isinstance(member, MethodDef) and member.name == "__init__":
            lines += _attributes(module, member, names)
        elif isinstance(member, MethodDef) and not member.name.startswith("_") and member.name not in skip:
            lines.append(_signature(module, member, names))
    return "\n".join(lines)


def _attributes(module: ModuleType, init: MethodDef, names: dict[str, str]) -> Iterator[str]:
    """What `__init__` sets under a public name: a parameter, or an attribute of one."""
    given = {argument.arg: argument.annotation for argument in init.args.args if argument.annotation}
    for node in init.body:
        match node:
            case ast.Assign([ast.Attribute(ast.Name("self"), name)], ast.Name(source)) if name[0] != "_":
                yield f"    {name}: {_annotation(module, given[source], names)}"
            case ast.Assign([ast.Attribute(ast.Name("self"), name)], ast.Attribute(ast.Name(source), field)) if (
                name[0] != "_"
            ):
                holder = getattr(module, ast.unparse(given[source]))
                yield f"    {name}: {get_type_hints(holder)[field].__name__}"
            case ast.AnnAssign(ast.Attribute(ast.Name("self"), name), annotation) if name[0] != "_":
                yield f"    {name}: {_annotation(module, annotation, names)}"


def _signature(module: ModuleType, method: MethodDef, names: dict[str, str]) -> str:
    arguments = ast.parse(f"def f({ast.unparse(method.args)}): ...").body[0]
    assert isinstance(arguments, ast.FunctionDef)
    every = [*arguments.args.posonlyargs, *arguments.args.args, *arguments.args.kwonlyargs]
    for argument in every:
        if argument.annotation:
            argument.annotation = ast.parse(_annotation(module, argument.annotation, names), mode="eval").body
    assert method.returns, f"{method.name} says what it returns"
    returns = _annotation(module, method.returns, names).replace("AsyncIterator[", "Iterator[")
    decorators = "".join(f"    @{ast.unparse(decorator)}\n" for decorator in method.decorator_list)
    return f"{decorators}    def {method.name}({ast.unparse(arguments.args)}) -> {returns}: ..."


def _open(names: dict[str, str]) -> str:
    (definition,) = (node for node in _tree(api).body if isinstance(node, ast.FunctionDef) and node.name == "open")
    definition.returns = ast.Name("Foveate")
    return _signature(api, definition, names).strip() + "\n"


def _annotation(module: ModuleType, annotation: ast.expr, names: dict[str, str]) -> str:
    """The annotation as written; where its names come from is noted."""
    for node in ast.walk(annotation):
        if isinstance(node, ast.Name) and not hasattr(builtins, node.id) and node.id not in OWN:
            name = node.id.removeprefix("Async")
            names[name] = "collections.abc" if name != node.id else _origin(module, name)
    return ast.unparse(annotation)


def _origin(module: ModuleType, name: str) -> str:
    for node in _tree(module).body:
        if isinstance(node, ast.ImportFrom) and name in {alias.name for alias in node.names}:
            return node.module or ""
    return module.__name__


def _imports(names: dict[str, str]) -> Iterator[str]:
    """What the signatures name, and everything else that `foveate` offers."""
    for name in foveate.__all__:
        if name in ("__version__", "errors"):
            yield f"from foveate import {name} as {name}"
        elif name not in OWN:
            yield f"from {_home(name)} import {name} as {name}"
    yield from (f"from {home} import {name}" for name, home in names.items() if name not in foveate.__all__)


def _home(name: str) -> str:
    value = getattr(foveate, name)
    assert getattr(importlib.import_module(value.__module__), name) is value
    return str(value.__module__)


def _tree(module: ModuleType) -> ast.Module:
    return ast.parse(inspect.getsource(module))


def _tidy(text: str) -> str:
    for command in (["check", "--select", "I", "--fix-only"], ["format"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--quiet", "--stdin-filename", str(STUB), "-"]
        text = subprocess.run(ruff, input=text, text=True, capture_output=True, check=True).stdout
    return text


if __name__ == "__main__":
    STUB.write_text(generate(), "utf-8")
