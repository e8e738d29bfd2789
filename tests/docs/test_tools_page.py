"""The pages about tools: their commands and programs run as they stand."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from foveate.context.tools import HISTORY_TOOLS
from foveate.tools import Toolbox, Workspace, packs, registry
from support.command_line import Shell
from support.docs_examples import examples, python_examples
from support.paths import ROOT
from support.tooling import allow

PAGE = ROOT / "docs" / "guides" / "tools.md"
TUTORIAL = ROOT / "docs" / "guides" / "plugins.md"
SECTION = "A tool"
"""Of the tutorial's page."""


def _blocks(page: Path, language: str) -> list[str]:
    return examples(page, language, SECTION if page == TUTORIAL else "")


def _commands(page: Path) -> list[list[str]]:
    lines = "".join(_blocks(page, "console")).splitlines()
    assert all(line.startswith("$ foveate ") for line in lines)
    return [shlex.split(line.removeprefix("$ foveate ")) for line in lines]


def test_the_program_and_the_commands_of_the_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (program,) = python_examples(PAGE, "From a program")
    exec(compile(program, PAGE.name, "exec"), {})
    printed = capsys.readouterr().out
    assert "notes.md:1:The gateway uses port 8443.\n" in printed
    assert printed.endswith("Replaced 1 occurrence in notes.md.\n True\n")
    shell = Shell(tmp_path / "chat.db")
    shown = [shell(*command) for command in _commands(PAGE)]
    assert shown[-2] == "     1\tThe gateway uses port 443.\n"
    assert shown[-1] == "notes.md:1:The gateway uses port 443.\n"


@pytest.mark.parametrize("pack", packs.PACKS)
def test_the_page_lists_each_pack_as_it_is(pack: str) -> None:
    row = f"| `{pack}` | {', '.join(packs.PACKS[pack])} |"
    assert row in PAGE.read_text("utf-8")


def test_the_page_names_every_tool() -> None:
    page = PAGE.read_text("utf-8")
    assert [name for name in [*registry.REGISTRY.built_in, *HISTORY_TOOLS] if f"`{name}" not in page] == []


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The tutorial's package as an installer would leave it."""
    module, _, tests = python_examples(TUTORIAL, SECTION)
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
    """In a process of its own, which finds the package as an installed one; its tests run there too."""
    program = (
        "import json, sys, pytest\n"
        "from click.testing import CliRunner\n"
        "from foveate.cli import cli\n"
        "shown = [CliRunner().invoke(cli, command).stdout for command in json.loads(sys.argv[1])]\n"
        "passed = pytest.main(['-q', '-p', 'no:cacheprovider', 'test_tides.py']) == 0\n"
        "print(json.dumps([passed, *shown]))\n"
    )
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    ran = subprocess.run(
        [sys.executable, "-c", program, json.dumps(_commands(TUTORIAL))],
        cwd=site.parent,
        env={**os.environ, "PYTHONPATH": path, "FOVEATE_DB": str(site / "chat.db"), "COLUMNS": "110"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    passed, shown, called, listed = json.loads(ran.stdout.splitlines()[-1])
    assert passed, ran.stdout
    assert shown.startswith("tide(place, [unit])\nLook up the water level of a harbour.\n")
    assert called == "Skarvik: 1.2 m\n"
    assert "tide " in listed


def test_the_tutorials_tool_that_writes_is_confined(tmp_path: Path) -> None:
    _, program, _ = python_examples(TUTORIAL, SECTION)
    names: dict[str, Any] = {}
    exec(compile(program, TUTORIAL.name, "exec"), names)
    box = Toolbox([names["save_tide"]], Workspace.at([tmp_path]), approve=allow)
    saved, refused = (
        asyncio.run(box.call("save_tide", {"place": "Skarvik", "path": path})).text for path in ("a.txt", "../a.txt")
    )
    assert saved == "Saved to a.txt.\n"
    assert "outside the folders" in refused
