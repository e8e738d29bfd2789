"""What a session was given besides its turns, and how contexts show it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import foveate
from foveate.errors import InputError, InvalidMessage
from foveate.session.documents import NO_TASKS
from support.engine import settings

HELLO = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Good day"}]


def test_epic_and_tasks_stand_around_the_log(tmp_path: Path) -> None:
    async def look() -> None:
        async with foveate.open(tmp_path / "chat.db", settings=settings()) as fov:
            session = await fov.session("s", strategy="oneshot")
            await session.documents.give("epic", "Build a <T-1-R> house.")
            await session.documents.give("tasks", "1. [ ] dig")
            await session.record(HELLO)
            context = await session.context("Go on.")
            names = [segment.name for segment in context.segments]
            assert names == ["epic", "history", "tasks", "prompt", "framing"]
            assert "<epic>\nBuild a <\\T-1-R> house.\n</epic>\n<T-1-R>\n" in context.text
            assert context.text.endswith("</T-1-R>\n<tasks>\n1. [ ] dig\n</tasks>\n")
            stable = {segment.name: segment.is_stable for segment in context.segments}
            assert (stable["epic"], stable["tasks"]) == (True, False)
            assert await session.documents.get("epic") == "Build a <T-1-R> house."

    asyncio.run(look())


def test_without_an_epic_the_title_stands_for_it_and_there_are_no_tasks(tmp_path: Path) -> None:
    async def look() -> None:
        async with foveate.open(tmp_path / "chat.db", settings=settings()) as fov:
            session = await fov.session("s", strategy="oneshot", title="Build a house")
            text = (await session.context("Go on.")).text
            assert "<epic>\nBuild a house\n</epic>\n" in text
            assert f"<tasks>\n{NO_TASKS}\n</tasks>\n" in text
            await session.rename("")
            assert "<epic>\n" not in (await session.context("Go on.")).text

    asyncio.run(look())


def test_other_strategies_show_neither(tmp_path: Path) -> None:
    async def look() -> None:
        async with foveate.open(tmp_path / "chat.db", settings=settings()) as fov:
            session = await fov.session("s", title="A talk")
            await session.documents.give("epic", "Build a house.")
            assert "Build a house" not in (await session.context("Go on.")).text
            assert "Build a house" in (await session.context("Go on.", strategy="oneshot")).text

    asyncio.run(look())


def test_an_epic_over_its_limit_is_refused_and_says_by_how_much(tmp_path: Path) -> None:
    async def look() -> None:
        async with foveate.open(tmp_path / "chat.db", settings=settings()) as fov:
            session = await fov.session("s", strategy="oneshot")
            await session.documents.give("epic", "hill " * 4_999)
            with pytest.raises(InputError, match=r"has 5,201 tokens, 201 more than the 5,000 it may have"):
                await session.documents.give("epic", "hill " * 5_200)
            assert await session.documents.get("epic") == "hill " * 4_999
            await session.use("oneshot", epic_tokens=1_000)
            with pytest.raises(InputError, match=r"raise oneshot\.epic_tokens"):
                await session.context("Go on.")
            await session.use("oneshot", epic_tokens=6_000)
            await (await fov.open_session("s")).documents.give("epic", "hill " * 5_200)
            assert (await session.context("Go on.")).tokens > 5_200

    asyncio.run(look())


def test_an_epic_that_leaves_no_room_in_the_budget_says_so(tmp_path: Path) -> None:
    async def look() -> None:
        async with foveate.open(tmp_path / "chat.db", settings=settings()) as fov:
            session = await fov.session("s", strategy="oneshot", budget_tokens=2_000)
            await session.documents.give("epic", "hill " * 3_000)
            with pytest.raises(InputError, match="epic 3,0"):
                await session.context("Go on.")

    asyncio.run(look())


def test_only_what_contexts_know_can_be_given(tmp_path: Path) -> None:
    async def look() -> None:
        async with foveate.open(tmp_path / "chat.db", settings=settings()) as fov:
            session = await fov.session("s")
            with pytest.raises(InputError, match="available: epic, tasks"):
                await session.documents.give("goals", "G-1")
            with pytest.raises(InvalidMessage, match="lone surrogate"):
                await session.documents.give("epic", "\ud83d")
            assert await session.documents.get("epic") == ""

    asyncio.run(look())
