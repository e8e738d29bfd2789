"""What one model made of a turn stands though another can't be asked, and an outage is outlasted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from foveate import Foveate
from foveate.models import Ask
from foveate.store import open_store
from foveate.testing.scripted import Behaviour, Fails, Scripted
from refining import MODEL, honest, kept, scripted_store, talk, with_model

HOUR_US = 3_600_000_000


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


def test_the_calls_of_a_turn_outlast_an_outage_and_end_with_it(tmp_path: Path) -> None:
    """Nothing is asked again within seconds; when one turn gets its answer, the others are due at once."""

    async def run() -> None:
        down = True
        model = Scripted(lambda ask: Fails("server") if down else honest(ask), name=MODEL)
        given = with_model(backoff_seconds=1.0)
        fov = Foveate(await open_store(str(tmp_path / "chat.db"), given.store), given, load=lambda *_: model)
        session = await fov.session("s")
        await talk(session, 3)
        for _ in range(4):
            await fov.settle()
        assert len(model.asks) == 3
        due = fov._store.derived.due
        for _ in range(3):
            await due.hurry(fov._worker._refiner._now_us())
            await fov.settle()
        assert len(model.asks) == 12
        stats = await session.stats()
        assert (stats.waiting, stats.fallbacks) == (3, 3)
        ((_, due_us),) = await due.sessions()
        assert due_us - fov._worker._refiner._now_us() > HOUR_US // 8
        down = False
        await talk(session, 1, first=9)
        await fov.settle()
        await fov.settle()
        stats = await session.stats()
        assert (stats.by_model, stats.fallbacks, stats.waiting) == (4, 0, 0)
        await fov.close()

    asyncio.run(run())
