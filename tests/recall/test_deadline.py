"""Stages under a deadline: what is ready counts, what is late is cancelled. Nothing here waits for a clock."""

from __future__ import annotations

import asyncio

import pytest

from foveate.errors import Damaged
from foveate.recall.judge import run_stages
from foveate.recall.search import Deadline

LONG_SECONDS = 3600.0


async def at_once(value: str) -> str:
    return value


async def never() -> str:
    await asyncio.Event().wait()
    raise AssertionError("never reached")


def test_without_a_deadline_all_stages_are_waited_for() -> None:
    async def job() -> None:
        async def slowly() -> str:
            for _ in range(100):
                await asyncio.sleep(0)
            return "slow"

        done = await run_stages({"quick": lambda: at_once("quick"), "slow": slowly}, None)
        assert done.results == {"quick": "quick", "slow": "slow"}
        assert done.late == ()

    asyncio.run(job())


def test_at_the_deadline_what_is_ready_is_used_and_the_rest_cancelled() -> None:
    async def job() -> None:
        cancelled = asyncio.Event()

        async def late() -> str:
            try:
                return await never()
            finally:
                cancelled.set()

        done = await run_stages({"quick": lambda: at_once("quick"), "late": late}, 0.01)
        assert done.results == {"quick": "quick"}
        assert done.late == ("late",)
        await cancelled.wait()

    asyncio.run(job())


def test_a_stage_that_does_not_end_when_cancelled_is_not_waited_for() -> None:
    async def job() -> None:
        release = asyncio.Event()

        async def stubborn() -> str:
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue
            return "too late"

        done = await run_stages({"stubborn": stubborn}, 0.01)
        assert done.late == ("stubborn",)
        release.set()
        await asyncio.sleep(0)

    asyncio.run(job())


def test_no_time_at_all_starts_nothing() -> None:
    async def job() -> None:
        def unwanted() -> asyncio.Future[str]:
            raise AssertionError("started")

        assert (await run_stages({"words": unwanted}, 0.0)).late == ("words",)

    asyncio.run(job())


def test_a_stage_that_fails_does_not_hold_up_the_others() -> None:
    async def job() -> None:
        async def broken() -> str:
            raise Damaged("chat.db", "can't be read")

        done = await run_stages({"broken": broken, "quick": lambda: at_once("quick")}, LONG_SECONDS)
        assert done.results == {"quick": "quick"}
        assert list(done.failed) == ["broken"]

    asyncio.run(job())


def test_a_defect_is_not_taken_for_a_failure() -> None:
    async def job() -> None:
        async def defect() -> str:
            raise KeyError("defect")

        with pytest.raises(KeyError):
            await run_stages({"defect": defect}, None)

    asyncio.run(job())


def test_a_stage_has_no_more_time_than_the_deadline_leaves_and_any_without_one() -> None:
    async def job() -> None:
        assert Deadline(None).left_seconds(0.1) is None
        assert Deadline(LONG_SECONDS).left_seconds(0.1) == 0.1
        assert Deadline(0.0).left_seconds(0.1) == 0.0
        assert Deadline(0.0).left_seconds() == 0.0

    asyncio.run(job())
