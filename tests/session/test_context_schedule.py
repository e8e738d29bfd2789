"""When levels are chosen anew by the `interval` schedule, and what can be read of the plan in use."""

from __future__ import annotations

import asyncio
import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path

from foveate import Foveate
from support.engine import talk, with_store


def test_an_interval_rebuild_comes_every_ten_turns(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session(
            "s", strategy="gradient", strategy_settings={"schedule": "interval"}, budget_tokens=6_000
        )
        await talk(session, 120)
        await fov.settle()
        await session.context("Now?")
        rebuilt = []
        for turn in range(121, 171):
            await talk(session, 1, first=turn)
            planned = (await session.context("Now?")).planned
            if planned.is_new and planned.cause != "made":
                rebuilt.append((turn, planned.cause))
            if turn % 5 == 0:
                await fov.settle()
        assert [cause for _, cause in rebuilt[1:]] == ["interval"] * (len(rebuilt) - 1)
        assert len(rebuilt) >= 4
        assert {later - earlier for (earlier, _), (later, _) in itertools.pairwise(rebuilt[1:])} == {10}

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_turns_too_large_for_the_interval_are_rebuilt_earlier_and_it_says_so(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session(
            "s", strategy="gradient", strategy_settings={"schedule": "interval"}, budget_tokens=3_000
        )
        await talk(session, 60, words=150)
        await fov.settle()
        causes = set()
        for turn in range(61, 75):
            await talk(session, 1, words=150, first=turn)
            planned = (await session.context("Now?")).planned
            causes.add(planned.cause)
            if planned.cause == "full":
                assert "did not fit" in str(planned.notes["schedule"])
        assert "full" in causes

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_the_plan_in_use_can_be_read(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s", budget_tokens=3_000)
        await talk(session, 80)
        await fov.settle()
        await session.context("Now?")
        await talk(session, 1, first=81)
        planned = (await session.context("Now?")).planned
        assert planned.trigger_turn == 80
        assert planned.made_at is not None
        assert timedelta(0) <= datetime.now(UTC) - planned.made_at < timedelta(minutes=5)
        assert planned.compression_ratio == planned.raw_tokens / planned.tokens > 1
        assert 0 < planned.tokens <= planned.room_tokens
        assert planned.changed_share == 0.0

    asyncio.run(with_store(tmp_path / "chat.db", job))
