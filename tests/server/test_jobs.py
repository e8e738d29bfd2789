"""Jobs of a server: each pool has places of its own."""

from __future__ import annotations

import asyncio
from typing import Any

from foveate.server.access import Principal
from foveate.server.api.jobs import Advance, Jobs

ACME = Principal("acme", frozenset({"write"}), "K-1")
BETA = Principal("beta", frozenset({"write"}), "K-2")


async def forever(_advance: Advance) -> dict[str, Any]:
    await asyncio.Event().wait()
    return {}


async def quick(_advance: Advance) -> dict[str, Any]:
    return {}


def test_jobs_wait_only_for_those_of_their_pool() -> None:
    async def work() -> list[str]:
        jobs = Jobs(1)
        made = [
            jobs.start(ACME, "run", "a", total=1, work=forever, pool="runs of acme"),
            jobs.start(ACME, "run", "b", total=1, work=quick, pool="runs of acme"),
            jobs.start(BETA, "run", "a", total=1, work=quick, pool="runs of beta"),
            jobs.start(BETA, "compare", "a", total=1, work=quick),
        ]
        await asyncio.gather(*(job.task for job in made[2:] if job.task))
        statuses: list[str] = [job.status for job in made]
        await jobs.stop()
        return statuses

    assert asyncio.run(work()) == ["running", "queued", "done", "done"]
