"""What every test runs under."""

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings

# A process per store would cost each test half a second; the tests of the pool ask for one.
os.environ["FOVEATE_COMPRESS__PROCESSES"] = "0"
# A context that falls back to a simpler plan is a failure here.
os.environ["FOVEATE_STRICT"] = "1"
# Compressing at the end would cost each test what it recorded; the tests of `close` ask for it.
os.environ["FOVEATE_COMPRESS__CLOSE_SECONDS"] = "0"

pytest_plugins = ["support.local_model", "support.provider_server"]

# The same examples in every run; `make thorough` tries many others, and what it finds becomes a fixed example.
settings.register_profile("default", deadline=None, print_blob=True, max_examples=10, derandomize=True, database=None)
settings.register_profile("thorough", deadline=None, print_blob=True, max_examples=1_000)
settings.load_profile("default")


@pytest.fixture(scope="session")
def _homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for each test."""
    folder = tmp_path_factory.mktemp("homes")
    return (folder / str(number) for number in count())


@pytest.fixture(autouse=True)
def _own_home(_homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's own store."""
    home = next(_homes)
    home.mkdir()
    monkeypatch.setenv("FOVEATE_DB", str(home / "foveate.db"))
