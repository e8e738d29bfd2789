"""What one model made of a turn stands though another can't be asked, and an outage is outlasted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from foveate.models import Ask
from foveate.models.settings import ModelsSettings
from foveate.store import open_store
from foveate.testing.scripted import Behaviour, Fails, Says
from foveate.worker.refine import LEAST_JITTER, MAX_LATER_SECONDS, longest_wait_seconds
from support.faithful import faithful_answer
from support.refining import MODEL, honest, kept, scripted_store, talk, with_model

HOUR_SECONDS = 3_600


def failing(purpose: str, fault: Behaviour) -> Callable[[Ask], Behaviour]:
    """Does its work but for one purpose."""
    return lambda ask: fault if ask.purpose == purpose else honest(ask)


@pytest.mark.parametrize("fault", [Fails("server"), Fails("key", is_permanent=True)])
@pytest.mark.parametrize("mode", ["together", "separate"])
def test_what_one_model_made_is_kept_though_the_other_fails(fault: Behaviour, mode: str, tmp_path: Path) -> None:
    async def run() -> None:
        script = failing("tiny", fault)
        given = with_model(mode=mode, tiny="scripted:other", max_retries=0, max_calls_per_turn=4)
        async with scripted_store(tmp_path / "chat.db", script, given) as (fov, model):
            session = await fov.session("s")
            await talk(session, 2)
            for _ in range(6):
                await fov.settle()
            stats = await session.stats()
            assert (stats.by_model, stats.fallbacks, stats.waiting) == (2, 2, 0)
            assert [ask.purpose for ask in model.asks].count("compress") == 2
        levels = "turn, maker, is_complete"
        assert kept(tmp_path / "chat.db", levels, "WHERE maker <> 'local' ORDER BY turn") == [
            (1, MODEL, 0),
            (2, MODEL, 0),
        ]

    asyncio.run(run())


def test_only_the_levels_that_a_model_made_are_credited_to_it(tmp_path: Path) -> None:
    def reworded(ask: Ask) -> Behaviour:
        if ask.purpose == "tiny":
            return Fails("server")
        return Says(faithful_answer(ask).replace("because the nightly", "since the nightly"))

    async def run() -> None:
        given = with_model(tiny="scripted:other", max_retries=0, max_calls_per_turn=4)
        async with scripted_store(tmp_path / "chat.db", reworded, given) as (fov, _):
            session = await fov.session("s")
            await talk(session, 1)
            for _ in range(6):
                await fov.settle()
            makers = {level.level: level.maker for level in (await session.turn_details(1)).levels}
        assert makers == {"R": "recorded", "S": "local", "C": MODEL, "T": "local"}

    asyncio.run(run())


def test_what_was_kept_in_part_is_made_whole_when_asked_for(tmp_path: Path) -> None:
    async def run() -> None:
        given = with_model(tiny="scripted:other", max_retries=0, max_calls_per_turn=2)
        async with scripted_store(tmp_path / "chat.db", failing("tiny", Fails("server")), given) as (fov, _):
            session = await fov.session("s")
            await talk(session, 1)
            for _ in range(3):
                await fov.settle()
            assert (await session.stats()).fallbacks == 1
        async with scripted_store(tmp_path / "chat.db", honest, given) as (fov, _):
            assert await fov.compress_again() == 2  # the short one, too
            await fov.settle()
            stats = await (await fov.open_session("s")).stats()
            assert (stats.by_model, stats.fallbacks, stats.waiting) == (1, 0, 0)

    asyncio.run(run())


def test_the_calls_of_a_turn_outlast_two_hours_without_a_provider() -> None:
    given = ModelsSettings()
    waits = [longest_wait_seconds(calls, given.backoff_seconds) for calls in range(1, given.max_calls_per_turn)]
    assert sum(waits) * LEAST_JITTER > 2 * HOUR_SECONDS
    assert waits == sorted(waits)
    assert max(waits) <= MAX_LATER_SECONDS


def test_nothing_is_asked_again_within_seconds_and_all_is_due_when_a_model_answers(tmp_path: Path) -> None:
    async def run() -> None:
        down = True
        path = tmp_path / "chat.db"
        script = lambda ask: Fails("server") if down else honest(ask)  # noqa: E731
        async with scripted_store(path, script, with_model(backoff_seconds=1.0)) as (fov, model):
            beside = await open_store(str(path), fov.settings.store)
            session = await fov.session("s")
            await talk(session, 3)
            for _ in range(4):
                await fov.settle()
            assert len(model.asks) == 3
            for _ in range(3):
                await beside.derived.due.hurry(time.time_ns() // 1000)
                await fov.settle()
            assert len(model.asks) == 12
            stats = await session.stats()
            assert (stats.waiting, stats.fallbacks) == (3, 3)
            down = False
            await talk(session, 1, first=9)
            await fov.settle()
            await fov.settle()
            stats = await session.stats()
            assert (stats.by_model, stats.fallbacks, stats.waiting) == (4, 0, 0)
            await beside.close()

    asyncio.run(run())


def test_a_turn_that_always_fails_waits_though_others_succeed(tmp_path: Path) -> None:
    async def run() -> None:
        def script(ask: Ask) -> Behaviour:
            return Fails("server") if "db-1 " in ask.messages[-1].text else honest(ask)

        async with scripted_store(tmp_path / "chat.db", script, with_model(backoff_seconds=1.0)) as (fov, model):
            session = await fov.session("s")
            for number in range(1, 6):
                await talk(session, 1, first=number)
                await fov.settle()
            assert (await session.stats()).by_model == 4
            assert sum("db-1 " in ask.messages[-1].text for ask in model.asks) == 1

    asyncio.run(run())
