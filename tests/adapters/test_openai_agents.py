"""The adapter of the OpenAI Agents SDK."""

from __future__ import annotations

import asyncio
from pathlib import Path

from foveate.testing.adapters import Case, run_case
from support.adapter_cases import every_short_case
from support.openai_agents_door import OpenAIAgentsDoor


@every_short_case
def test_the_session_and_its_filter_conform(case: Case, tmp_path: Path) -> None:
    asyncio.run(run_case(case, OpenAIAgentsDoor, tmp_path / "chat.db"))
