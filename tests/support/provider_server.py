"""What the tests of providers run against."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.asking import KEY, Asking
from support.faulty_server import FaultyServer, environment, faulty_server


@pytest.fixture(scope="module")
def server() -> Iterator[FaultyServer]:
    with faulty_server() as server:
        yield server


@pytest.fixture
def asking(server: FaultyServer, monkeypatch: pytest.MonkeyPatch) -> Asking:
    """All three providers' own packages are led to the server."""
    for variable, value in environment(server, KEY).items():
        monkeypatch.setenv(variable, value)
    return Asking(server)
