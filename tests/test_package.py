"""A strategy chosen for a long history works it up in the background; nobody waits for it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import foveate
from conversation import make_conversation
from foveate.history import driver as story
from foveate.history import sizes as gathering
from foveate.history import texts
from foveate.worker.renditions import compress_safely


@pytest.mark.parametrize("strategy", ["checkpoint", "topics", "hybrid"])
def test_the_gradient_shows_a_long_history_until_the_strategy_is_ready(
    strategy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(story, "MEANWHILE_TURNS", 20)

    async def run() -> None:
        async with foveate.open(tmp_path / "chat.db") as fov:
            session = await fov.session("long", budget_tokens=8_000)
            for turn in make_conversation(40, 3).turns:
                await session.record(turn)
            await fov.settle()
            await session.use(strategy)
            first = await session.context("And now?")
            assert first.planned.notes["meanwhile"] == "gradient"
            assert first.tokens <= first.budget_tokens
            await fov.settle()
            then = await session.context("And now?")
            assert "meanwhile" not in then.planned.notes
            assert then.tokens <= then.budget_tokens

    asyncio.run(run())


def test_a_long_history_is_compressed_by_the_worker_and_not_by_the_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(story, "MEANWHILE_TURNS", 20)
    compressed: list[int] = []

    def noted(*given: Any) -> Any:
        compressed.append(given[1])
        return compress_safely(*given)

    monkeypatch.setattr(texts, "compress_safely", noted)

    async def run() -> None:
        async with foveate.open(tmp_path / "chat.db") as fov:
            session = await fov.session("long", strategy="checkpoint", budget_tokens=8_000)
            for turn in make_conversation(40, 3).turns:
                await session.record(turn)
            first = await session.context("And now?")
            assert first.planned.notes["meanwhile"] == "gradient"
            await asyncio.gather(*fov._worker._beside)
            assert "meanwhile" not in (await session.context("And now?")).planned.notes

    asyncio.run(run())
    assert [turn for turn in compressed if turn < 40] == []


def test_closing_ends_what_is_still_being_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(story, "MEANWHILE_TURNS", 20)

    async def run() -> None:
        async with foveate.open(tmp_path / "chat.db") as fov:
            session = await fov.session("long", strategy="checkpoint", budget_tokens=8_000)
            for turn in make_conversation(40, 3).turns:
                await session.record(turn)
            await session.context("And now?")

    asyncio.run(run())


def test_contexts_made_at_the_same_time_each_read_their_own_way_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(story, "MEANWHILE_TURNS", 20)
    monkeypatch.setattr(gathering, "INFOS_CHUNK_TURNS", 2)

    async def run() -> None:
        async with foveate.open(tmp_path / "chat.db") as fov:
            session = await fov.session("long", strategy="hybrid", budget_tokens=16_000)
            for turn in make_conversation(40, 3).turns:
                await session.record(turn)
            await fov.settle()
            await session.context("And now?")
            budgets = (6_000, 8_000, 12_000, 20_000)
            made = await asyncio.gather(*(session.context("And now?", budget_tokens=budget) for budget in budgets))
            for budget, context in zip(budgets, made, strict=True):
                alone = await session.context("And now?", budget_tokens=budget)
                assert context.history == alone.history

    asyncio.run(run())
