"""The tutorial's strategy: its file, its line of metadata and its tests work as they stand on the page."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from support.docs_examples import examples
from support.paths import ROOT

PAGE = ROOT / "docs" / "guides" / "plugins.md"


def _blocks(language: str) -> list[str]:
    return examples(PAGE, language, "A strategy")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The package as an installer would leave it."""
    module, tests = _blocks("python")
    project = tomllib.loads(_blocks("toml")[0])["project"]
    folder = tmp_path / "site"
    metadata = folder / "foveate_digest-1.0.dist-info"
    metadata.mkdir(parents=True)
    (folder / "digest.py").write_text(module)
    (tmp_path / "test_digest.py").write_text(tests)
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    points = project["entry-points"]["foveate.strategies"]
    lines = [f"{name} = {place}" for name, place in points.items()]
    (metadata / "entry_points.txt").write_text("\n".join(["[foveate.strategies]", *lines, ""]))
    return folder


def _run(site: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(site), "FOVEATE_DB": str(site / "chat.db"), "COLUMNS": "110"}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    ran = subprocess.run(
        [sys.executable, *arguments], cwd=site.parent, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_the_tutorials_strategy_passes_the_suite_that_ships(site: Path) -> None:
    # All of them run for each strategy of this package; these are some of each kind.
    some = "forges or pruned"
    shown = _run(
        site, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-k", some, "test_digest.py"
    )
    assert "2 passed" in shown


def test_the_tutorials_commands_show_its_summary(site: Path) -> None:
    typed = [line.removeprefix("$ ").split() for line in "".join(_blocks("console")).splitlines()]
    printed = _run(
        site,
        "-c",
        "import json, sys\n"
        "from click.testing import CliRunner\n"
        "import foveate.sync as foveate\n"
        "from foveate.cli import cli\n"
        "from foveate.demo import load_conversation\n"
        f"with foveate.open({str(site / 'chat.db')!r}) as fov:\n"
        "    session = fov.session('demo')\n"
        "    for turn in load_conversation(14).turns: session.record(turn)\n"
        "    fov.settle()\n"
        "print(json.dumps([CliRunner().invoke(cli, words[1:]).stdout for words in json.loads(sys.argv[1])]))\n",
        json.dumps(typed),
    )
    for (command, *arguments), shown in zip(typed, json.loads(printed), strict=True):
        assert command == "foveate"
        if arguments[0] == "sessions":
            assert shown == "demo uses the strategy digest, with digest_tokens = 200.\n"
        elif "--budget" in arguments:
            assert "Strategy: digest." in shown
            assert "summaries" in shown
        else:
            assert "Preview with a different strategy" in shown
