"""Jobs of a server: each pool has places of its own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from foveate.server.access import Principal
from foveate.server.api.jobs import MAX_KEPT, MAX_KEPT_OF_TENANT, MAX_QUEUED, Advance, Jobs
from foveate.server.problems import ProblemError

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


def test_jobs_in_progress_are_found_and_stopped_whatever_number_of_others_ends() -> None:
    async def work() -> None:
        jobs = Jobs(2)
        running = jobs.start(BETA, "run", "a", total=1, work=forever, pool="runs of beta")
        ended = jobs.start(BETA, "compare", "a", total=1, work=quick)
        for number in range(MAX_KEPT + 2):
            made = jobs.start(ACME, "compare", str(number), total=1, work=quick)
            assert made.task
            await made.task
        await asyncio.sleep(0)
        assert jobs.get(BETA, running.id).status == "running"
        assert jobs.in_progress("run", "beta:a") is running
        assert jobs.get(BETA, ended.id).status == "done"
        assert len(jobs.list(ACME)) == MAX_KEPT_OF_TENANT
        await jobs.stop()
        assert jobs.get(BETA, running.id).status == "cancelled"

    asyncio.run(work())


def test_a_job_in_progress_during_an_erasure_keeps_no_result() -> None:
    async def work() -> None:
        jobs = Jobs(2)
        may_end = asyncio.Event()

        async def until(_advance: Advance) -> dict[str, Any]:
            await may_end.wait()
            return {"title": "hunter2222"}

        running = jobs.start(ACME, "compare", "a", total=1, work=until)
        await asyncio.sleep(0)
        jobs.forget_results()
        may_end.set()
        assert running.task
        await running.task
        await asyncio.sleep(0)
        with pytest.raises(ProblemError):
            jobs.get(ACME, running.id)
        assert jobs.list(ACME) == []

    asyncio.run(work())


def test_a_tenants_queue_does_not_keep_another_tenants_jobs_out() -> None:
    async def work() -> None:
        jobs = Jobs(2)
        may_end = asyncio.Event()

        async def until(_advance: Advance) -> dict[str, Any]:
            await may_end.wait()
            return {}

        first = [jobs.start(ACME, "compare", "a", total=1, work=until) for _ in range(2)]
        for _ in range(MAX_QUEUED - 2):
            jobs.start(ACME, "compare", "a", total=1, work=forever)
        with pytest.raises(ProblemError, match="100 jobs are queued"):
            jobs.start(ACME, "compare", "a", total=1, work=quick)
        other = jobs.start(BETA, "compare", "a", total=1, work=quick)
        await asyncio.sleep(0)
        may_end.set()
        await asyncio.gather(*(job.task for job in (*first, other) if job.task))
        assert other.status == "done"
        await jobs.stop()

    asyncio.run(work())


def test_a_job_that_is_cancelled_before_it_begins_has_ended() -> None:
    async def work() -> None:
        jobs = Jobs(1)
        made = jobs.start(ACME, "compare", "a", total=1, work=quick)
        await jobs.stop()
        assert (made.status, jobs.in_progress("compare", "acme:a")) == ("cancelled", None)

    asyncio.run(work())
