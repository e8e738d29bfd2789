"""Workers that are killed lose no agent and double none; `bench/agents_storm.py` is the long storm."""

from __future__ import annotations

import asyncio
from pathlib import Path

from agents_storm import storm


def test_agents_survive_kills_of_their_workers(tmp_path: Path) -> None:
    done = asyncio.run(storm(5, 0.2, tmp_path, seed=3))
    assert (done.states, done.refused, done.kills > 0) == ({"done": 5}, 20, True)
