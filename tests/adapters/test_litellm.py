"""The callback of LiteLLM."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from foveate.testing.adapters import Case, run_case
from support.adapter_cases import every_short_case

pytest.importorskip("litellm", reason="not installed; `make adapters` runs this")


@every_short_case
def test_the_callback_conforms(case: Case, tmp_path: Path) -> None:
    from support.litellm_door import LiteLLMDoor

    asyncio.run(run_case(case, LiteLLMDoor, tmp_path / "chat.db"))
