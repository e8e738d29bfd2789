"""Writes `foveate/sync.pyi` when the package is built or installed, because `sync` makes its classes on import.

The signatures are those of the async classes, read from the source. Coroutines lose their `async`, `AsyncIterator`
becomes `Iterator`, and returned objects are blocking, too. `python hatch_build.py` also writes the file.
"""

from __future__ import annotations

import ast
import builtins
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

STUB = "src/foveate/sync.pyi"
HEAD = "# Written by hatch_build.py from the async classes."
EXIT = "    def __exit__(self, *_: object) -> None: ..."
UNWRAP = "def unwrap(value: object) -> tuple[object, Any]: ..."
INTERNAL = "engine"
"""Attribute of an async session that a blocking one does not offer."""
Method = ast.FunctionDef | ast.AsyncFunctionDef


class SyncStubHook(BuildHookInterface[Any]):
    """Build hook that runs for wheels and editable installs."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's own parameters
        write_stub(Path(self.root))
        build_data["artifacts"].append(STUB)  # otherwise skipped, because it is in .gitignore


def write_stub(root: Path) -> None:
    """Write the stub into the source folder of a project."""
    (root / STUB).write_text(generate(root / "src"), "utf-8")


def generate(source: Path) -> str:
    """Generate the stub of the package in a source folder."""
    return _Stub(source).text()


class _Stub:
    def __init__(self, source: Path) -> None:
        self._source = source
        self._tree = cache(self._parsed)
        self._names: dict[str, set[str]] = defaultdict(set)
        """Names that the signatures use, by module."""
        self._twins = dict(self._find_twins())
        """Blocking classes, each with the module of its async class."""
        self._own = {*self._twins, "open"}
        self._exports = list(self._find_exports())

    def text(self) -> str:
        classes = [self._class(module, name) for name, module in self._twins.items()]
        functions = [self._function("open"), UNWRAP]
        self._names["typing"].add("Any")
        return "\n".join([HEAD, *self._imports(), "", *classes, *functions, ""])

    def _find_twins(self) -> Iterator[tuple[str, str]]:
        for node in self._tree("foveate.sync").body:
            match node:
                case ast.Assign(value=ast.Call(ast.Name("_twin"), [ast.Attribute(ast.Name(module), name)])):
                    yield name, self._home("foveate.sync", module)
                case ast.ClassDef(name=name, keywords=[ast.keyword(value=ast.Attribute(ast.Name(module)))]):
                    yield name, self._home("foveate.sync", module)

    def _find_exports(self) -> Iterator[tuple[str, str]]:
        """Yield all other public names of `foveate`, each with its module."""
        yield "foveate", "__version__"
        for node in ast.walk(self._tree("foveate")):
            if isinstance(node, ast.ImportFrom):
                yield from (
                    (str(node.module), each.name) for each in node.names if each.asname and each.name not in self._own
                )

    def _imports(self) -> Iterator[str]:
        yield from (f"from {module} import {name} as {name}" for module, name in self._exports)
        for module, names in sorted(self._names.items()):
            if others := sorted(names - {name for _, name in self._exports}):
                yield f"from {module} import {', '.join(others)}"

    def _class(self, module: str, name: str) -> str:
        """Declare a blocking class: the members that `sync` defines, and all others of the async class."""
        own = self._methods("foveate.sync", name)
        replaced = {member.name for member in own}
        others = [member for member in self._methods(module, name) if member.name not in replaced]
        lines = [f"class {name}:"]
        for home, member in (*((module, member) for member in others), *(("foveate.sync", member) for member in own)):
            if member.name == "__init__":
                lines += self._attributes(home, member)
            elif member.name == "__aenter__":
                lines += [f"    def __enter__(self) -> {name}: ...", EXIT]
            elif not member.name.startswith("_") or home == "foveate.sync":
                lines += [f"    {line}" for line in self._signature(home, member)]
        return "\n".join([*lines, ""])

    def _methods(self, module: str, name: str) -> list[Method]:
        classes = [node for node in self._tree(module).body if isinstance(node, ast.ClassDef) and node.name == name]
        return [member for found in classes for member in found.body if isinstance(member, Method)]

    def _attributes(self, module: str, init: Method) -> Iterator[str]:
        """Declare the public attributes that `__init__` sets from a parameter or an annotated value."""
        annotations = {argument.arg: argument.annotation for argument in init.args.args if argument.annotation}
        for node in init.body:
            match node:
                case ast.Assign([ast.Attribute(ast.Name("self"), name)]) if name == INTERNAL:
                    continue
                case ast.Assign([ast.Attribute(ast.Name("self"), name)], ast.Name(source)) if name[0] != "_":
                    yield f"    {name}: {self._annotation(module, annotations[source])}"
                case ast.AnnAssign(ast.Attribute(ast.Name("self"), name), annotation) if name[0] != "_":
                    yield f"    {name}: {self._annotation(module, annotation)}"
                case ast.Assign([ast.Attribute(ast.Name("self"), name)]) if name[0] != "_":
                    raise LookupError(f"{module}: {name} needs an annotation")

    def _function(self, name: str) -> str:
        """Declare a function that `sync` defines."""
        (found,) = (node for node in self._tree("foveate.sync").body if isinstance(node, Method) and node.name == name)
        return "\n".join(self._signature("foveate.sync", found))

    def _signature(self, module: str, method: Method) -> Iterator[str]:
        arguments = method.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if argument.annotation:
                self._annotation(module, argument.annotation)
        assert method.returns, f"{method.name} needs a return annotation"
        returns = self._annotation(module, method.returns)
        yield from (f"@{ast.unparse(decorator)}" for decorator in method.decorator_list)
        yield f"def {method.name}({ast.unparse(arguments)}) -> {returns}: ..."

    def _annotation(self, module: str, annotation: ast.expr) -> str:
        """Return an annotation for a blocking signature, and collect the imports that it needs."""
        for node in ast.walk(annotation):
            if isinstance(node, ast.Name) and node.id == "AsyncIterator":
                node.id = "Iterator"
                self._names["collections.abc"].add(node.id)
            elif isinstance(node, ast.Name) and not hasattr(builtins, node.id) and node.id not in self._own:
                self._names[self._home(module, node.id)].add(node.id)
        return ast.unparse(annotation)

    def _home(self, module: str, name: str) -> str:
        """Return the module that defines a name used in `module`; if the name is a module, return that."""
        for node in self._tree(module).body:
            for alias in node.names if isinstance(node, ast.ImportFrom) else ():
                if (alias.asname or alias.name) == name and isinstance(node, ast.ImportFrom):
                    inner = f"{node.module}.{alias.name}"
                    return inner if self._path(inner) else str(node.module)
        return module

    def _path(self, module: str) -> Path | None:
        place = self._source / module.replace(".", "/")
        return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)

    def _parsed(self, module: str) -> ast.Module:
        path = self._path(module)
        assert path, module
        return ast.parse(path.read_text("utf-8"))


if __name__ == "__main__":
    write_stub(Path(__file__).parent)
