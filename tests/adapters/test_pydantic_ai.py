"""The adapter of Pydantic AI."""

from __future__ import annotations

import asyncio
from pathlib import Path

from foveate.testing.adapters import Case, run_case
from support.adapter_cases import every_short_case
from support.pydantic_ai_door import PydanticAIDoor


@every_short_case
def test_the_capability_conforms(case: Case, tmp_path: Path) -> None:
    asyncio.run(run_case(case, PydanticAIDoor, tmp_path / "chat.db"))
