"""What is not used is not loaded, and the core install stays small."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import foveate

HEAVY = ("tiktoken", "zstandard", "rich", "sqlite3", "msgspec", "click", "asyncio", "yaml")
MAX_PACKAGES = 25


def loaded_after(statement: str, *suspects: str) -> list[str]:
    """Which of these modules are loaded once the statement has run in a new interpreter."""
    code = f"import sys\n{statement}\nprint(*(name for name in {suspects!r} if name in sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return run.stdout.splitlines()[-1].split()


def test_importing_foveate_loads_nothing_heavy() -> None:
    assert loaded_after("import foveate", *HEAVY) == []


def test_a_name_loads_no_more_than_it_needs() -> None:
    assert loaded_after("from foveate import FoveateError, Message", *HEAVY) == []
    assert loaded_after("from foveate import Foveate, Session", "rich", "click", "sqlite3", "tiktoken", "yaml") == []


def test_opening_a_store_loads_nothing_of_the_server() -> None:
    run = "import foveate.sync, tempfile\nwith foveate.sync.open(tempfile.mkdtemp() + '/a.db') as fov: fov.session('a')"
    assert loaded_after(run, "starlette", "uvicorn", "httpx2", "mcp", "foveate.server.app") == []


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["show", "--help"], ["import", "--help"], ["serve", "--help"]]
)
def test_help_loads_no_library_that_only_commands_need(arguments: list[str]) -> None:
    run = (
        f"sys.argv = ['foveate', *{arguments!r}]\ntry: import foveate.cli; foveate.cli.main()\nexcept SystemExit: pass"
    )
    assert loaded_after(run, "rich", "sqlite3", "tiktoken", "zstandard", "msgspec", "asyncio") == []


@pytest.mark.parametrize("name", foveate.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(foveate, name) is not None
    assert name in dir(foveate)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'foveate' has no attribute 'nonsense'"):
        _ = foveate.nonsense  # type: ignore[attr-defined]


def test_no_package_imports_a_private_module_of_another() -> None:
    """A private module's name begins with an underscore; its own package alone imports it."""
    root = Path(foveate.__file__).parent
    broken = []
    for path in sorted(root.rglob("*.py")):
        package = ".".join(("foveate", *path.relative_to(root).parent.parts))
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                owner, _, private = name.partition("._")
                if private and name.startswith("foveate") and owner != package:
                    broken.append(f"{path.relative_to(root)} imports {name}")
    assert broken == []


def test_only_what_authors_of_plug_ins_test_with_is_part_of_the_package() -> None:
    modules = {path.stem for path in (Path(foveate.__file__).parent / "testing").rglob("*.py")}
    assert modules == {"__init__", "adapters", "behaviours", "histories", "scripted", "scripts", "strategies"}


def test_the_core_install_is_small() -> None:
    installed = _closure("foveate")
    assert len(installed) <= MAX_PACKAGES, sorted(installed)


def _closure(name: str) -> set[str]:
    """A package and everything it needs, extras left out."""
    found: set[str] = set()
    pending = [name]
    while pending:
        package = re.sub(r"[-_.]+", "-", pending.pop()).lower()
        if package in found:
            continue
        found.add(package)
        for line in metadata.requires(package) or []:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                pending.append(requirement.name)
    return found
