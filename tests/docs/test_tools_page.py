"""The pages about tools: their commands and programs run as they stand."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from foveate.tools import packs, registry
from support.docs_examples import python_examples
from support.paths import ROOT

PAGE = ROOT / "docs" / "tools.md"
TUTORIAL = ROOT / "docs" / "tutorial-tool.md"


def _blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def _commands(page: Path) -> list[list[str]]:
    lines = "".join(_blocks(page, "console")).splitlines()
    assert all(line.startswith("$ foveate ") for line in lines)
    return [shlex.split(line.removeprefix("$ foveate ")) for line in lines]


def _run(folder: Path, *arguments: str, site: Path | None = None) -> str:
    environment = {**os.environ, "COLUMNS": "110"}
    if site is not None:
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(site), environment.get("PYTHONPATH")]))
    ran = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_the_program_and_the_commands_of_the_page_run(tmp_path: Path) -> None:
    (program,) = python_examples(PAGE)
    printed = _run(tmp_path, "-c", program)
    assert "notes.md:1:The gateway uses port 8443.\n" in printed
    assert printed.endswith("Replaced 1 occurrence in notes.md.\n True\n")
    shown = [_run(tmp_path, "-m", "foveate", *command) for command in _commands(PAGE)]
    assert shown[-2] == "     1\tThe gateway uses port 443.\n"
    assert shown[-1] == "notes.md:1:The gateway uses port 443.\n"


@pytest.mark.parametrize("pack", packs.PACKS)
def test_the_page_lists_each_pack_as_it_is(pack: str) -> None:
    row = f"| `{pack}` | {', '.join(packs.PACKS[pack])} |"
    assert row in PAGE.read_text("utf-8")


def test_the_page_names_every_tool() -> None:
    page = PAGE.read_text("utf-8")
    assert [name for name in registry.names() if f"`{name}" not in page] == []


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The tutorial's package as an installer would leave it."""
    module, _, tests = python_examples(TUTORIAL)
    project = tomllib.loads(_blocks(TUTORIAL, "toml")[0])["project"]
    folder = tmp_path / "site"
    metadata = folder / "foveate_tides-1.0.dist-info"
    metadata.mkdir(parents=True)
    (folder / "tides.py").write_text(module)
    (tmp_path / "test_tides.py").write_text(tests)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 1.0\n")
    points = project["entry-points"]["foveate.tools"]
    lines = [f"{name} = {place}" for name, place in points.items()]
    (metadata / "entry_points.txt").write_text("\n".join(["[foveate.tools]", *lines, ""]))
    return folder


def test_the_tutorials_tool_is_shown_called_and_tested(site: Path) -> None:
    shown, called, listed = (_run(site.parent, "-m", "foveate", *command, site=site) for command in _commands(TUTORIAL))
    assert shown.startswith("tide(place, [unit])\nLook up the water level of a harbour.\n")
    assert called == "Skarvik: 1.2 m\n"
    assert "tide " in listed
    tested = _run(site.parent, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_tides.py", site=site)
    assert "2 passed" in tested


def test_the_tutorials_tool_that_writes_is_confined(tmp_path: Path) -> None:
    _, program, _ = python_examples(TUTORIAL)
    check = (
        "import asyncio\nfrom foveate.tools import Toolbox\n"
        "async def yes(*_): return True\n"
        "box = Toolbox([save_tide], Workspace.at(['.']), approve=yes)\n"
        "for path in ('a.txt', '../a.txt'):\n"
        "    print(asyncio.run(box.call('save_tide', {'place': 'Skarvik', 'path': path})).text, end='')\n"
    )
    printed = _run(tmp_path, "-c", f"{program}\n{check}").splitlines()
    assert printed[0] == "Saved to a.txt."
    assert "outside the folders" in printed[1]
