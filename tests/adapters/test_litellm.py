"""The callback of LiteLLM."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from foveate.testing.adapters import Case, run_case
from support.adapter_cases import every_short_case

pytest.importorskip("litellm", reason="not installed; `make adapters` runs this")


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    """One event loop for all cases: LiteLLM reports streams in the first one that it sees."""
    with asyncio.Runner() as opened:
        yield opened


@every_short_case
def test_the_callback_conforms(case: Case, runner: asyncio.Runner, tmp_path: Path) -> None:
    from support.litellm_door import LiteLLMDoor

    runner.run(run_case(case, LiteLLMDoor, tmp_path / "chat.db"))
