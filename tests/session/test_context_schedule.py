"""When levels are chosen anew by the `interval` schedule, and what can be read of the plan in use."""

from __future__ import annotations

import asyncio
import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from foveate import Foveate
from foveate.context.coverage import turns_without_words
from support.engine import assistant, talk, user, with_store
from support.examples import times


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
        shown = await session.context("Now?")
        assert planned.turns_without_words == sum(map(len, turns_without_words(shown.segments)))
        bands = sorted(planned.bands, key=lambda band: band.first)
        assert bands[0].first >= 1
        assert bands[-1].last == 80
        assert all(band.tokens > 0 for band in bands)
        assert sum(band.tokens for band in bands) >= planned.tokens

    asyncio.run(with_store(tmp_path / "chat.db", job))


@pytest.mark.parametrize("schedule", ["interval", "adaptive"])
@given(data=st.data())
@examples(max_examples=times(1), deadline=None)
def test_there_is_at_most_one_rebuild_in_a_turn_and_one_in_ten_turns(
    schedule: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    prompts = data.draw(st.lists(st.sampled_from([5, 40, 300, 900, 1_200]), min_size=12, max_size=16))

    async def job(fov: Foveate) -> None:
        session = await fov.session(
            "s", strategy="gradient", strategy_settings={"schedule": schedule}, budget_tokens=3_000
        )
        await talk(session, 40)
        await fov.settle()
        await session.context("Now?")
        last = 40
        for turn, words in enumerate(prompts, 41):
            causes: list[str | None] = []
            await session.record(user(f"Question {turn}: {'word ' * words}?"))
            for _ in range(3):
                planned = (await session.context()).planned
                causes += [planned.cause] if planned.is_new and planned.cause != "made" else []
            assert len(causes) <= 1, (turn, words, causes, planned.room_tokens)
            last = turn if causes else last
            assert schedule == "adaptive" or turn - last < 10
            await session.record(assistant(f"Answer {turn}."))

    asyncio.run(with_store(tmp_path_factory.mktemp("s") / "chat.db", job))
