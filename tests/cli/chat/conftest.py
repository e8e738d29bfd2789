"""A conversation of three turns in a wide terminal, and the scripted model of the test module."""

from dataclasses import replace
from pathlib import Path

import pytest

from support.command_line import Shell, shell_with


@pytest.fixture
def model(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """The name of a model that answers by the module's `SCRIPT`."""
    (tmp_path / "script.toml").write_text(request.module.SCRIPT)
    return f"scripted:{tmp_path / 'script.toml'}"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return replace(shell_with(tmp_path), width=200)
