"""A lease is held while its block runs: renewed, released at the end, and given up once it was lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from foveate.errors import Refused
from foveate.store import Store, open_store
from foveate.store.leases import Lease, SessionJob
from foveate.store.settings import StoreSettings
from support.patience import until
from support.stores import new_session

JOB: tuple[str, SessionJob] = ("s", "roll-ups")
LONG_SECONDS = 600.0
QUICK_SECONDS = 0.01


class Lost(Refused):
    pass


def with_store(path: Path, job: Callable[[Store], Awaitable[None]]) -> None:
    async def run() -> None:
        store = await open_store(str(path / "leases.db"), StoreSettings())
        try:
            await store.create_session(new_session())
            await job(store)
        finally:
            await store.close()

    asyncio.run(run())


def test_of_two_one_holds_the_lease_and_the_other_is_told(tmp_path: Path) -> None:
    async def job(store: Store) -> None:
        async with Lease(store.leases, "session", LONG_SECONDS, job=JOB) as first:
            async with Lease(store.leases, "session", LONG_SECONDS, job=JOB) as second:
                assert (first.is_held, second.is_held) == (True, False)
            assert await store.leases.is_held("session", first.owner)
        assert not await store.leases.is_taken(*JOB)

    with_store(tmp_path, job)


def test_a_lease_outlives_its_duration_while_its_block_runs(tmp_path: Path) -> None:
    async def job(store: Store) -> None:
        async with Lease(store.leases, "session", 0.3, job=JOB) as lease:
            for _ in range(10):
                await asyncio.sleep(0.1)
                assert not await store.leases.take(*JOB, "other", LONG_SECONDS)
            assert lease.is_held

    with_store(tmp_path, job)


@pytest.mark.parametrize("is_settled", [False, True])
def test_an_error_in_the_block_releases_the_lease(tmp_path: Path, *, is_settled: bool) -> None:
    async def job(store: Store) -> None:
        async def fail() -> None:
            async with Lease(store.leases, "session", LONG_SECONDS, job=JOB) as lease:
                if is_settled:
                    lease.settle()
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        assert not await store.leases.is_taken(*JOB)

    with_store(tmp_path, job)


def test_a_lost_lease_ends_the_block_with_its_error_and_takes_nothing_from_its_new_owner(tmp_path: Path) -> None:
    async def job(store: Store) -> None:
        lease = Lease(store.leases, "session", LONG_SECONDS, job=JOB, lost=Lost("gone"), look_seconds=QUICK_SECONDS)

        async def lose() -> None:
            async with lease:
                await store.leases.release("session", lease.owner)
                assert await store.leases.take(*JOB, "other", LONG_SECONDS)
                await asyncio.Event().wait()

        with pytest.raises(Lost, match="gone"):
            await lose()
        assert not lease.is_held
        assert await store.leases.is_held("session", "other")
        task = asyncio.current_task()
        assert task is not None
        assert not task.cancelling()

    with_store(tmp_path, job)


def test_a_lease_that_was_lost_at_the_last_moment_still_ends_with_its_error(tmp_path: Path) -> None:
    async def job(store: Store) -> None:
        lease = Lease(store.leases, "session", LONG_SECONDS, job=JOB, lost=Lost("gone"), look_seconds=QUICK_SECONDS)

        async def lose() -> None:
            async with lease:
                task = asyncio.current_task()
                assert task is not None
                lease.is_held = not task.cancel()  # as the heartbeat does; the block does not wait any more

        with pytest.raises(Lost):
            await lose()
        await asyncio.sleep(0)

    with_store(tmp_path, job)


def test_a_cancellation_from_outside_stays_one(tmp_path: Path) -> None:
    async def job(store: Store) -> None:
        entered = asyncio.Event()

        async def work() -> None:
            async with Lease(store.leases, "session", LONG_SECONDS, job=JOB, lost=Lost("gone")):
                entered.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not await store.leases.is_taken(*JOB)

    with_store(tmp_path, job)


def test_a_settled_lease_interrupts_nothing_and_is_left_to_the_result(tmp_path: Path) -> None:
    async def job(store: Store) -> None:
        lease = Lease(store.leases, "session", LONG_SECONDS, job=JOB, lost=Lost("gone"), look_seconds=QUICK_SECONDS)
        async with lease:
            lease.settle()
            await store.leases.release("session", lease.owner)
            await asyncio.sleep(10 * QUICK_SECONDS)
            assert await store.leases.take(*JOB, lease.owner, LONG_SECONDS)
        assert await store.leases.is_taken(*JOB)

    with_store(tmp_path, job)


def test_a_renewal_that_fails_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    renewed: list[str] = []

    async def job(store: Store) -> None:
        renew = store.leases.renew

        async def fails_once(kind: str, owner: str, lease_seconds: float) -> bool:
            renewed.append(owner)
            if len(renewed) == 1:
                raise OSError("no disk")
            return await renew("session", owner, lease_seconds)

        monkeypatch.setattr(store.leases, "renew", fails_once)
        async with Lease(store.leases, "session", 0.3, job=JOB, lost=Lost("gone")) as lease:

            async def is_renewed() -> bool:
                return len(renewed) > 1

            await until(is_renewed)
            assert lease.is_held

    with_store(tmp_path, job)
