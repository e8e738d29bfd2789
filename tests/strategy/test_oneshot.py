"""Oneshot is the gradient within the log's share; what all strategies promise is in test_conformance."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import foveate
from conversation import make_conversation
from foveate.context.context import Context
from foveate.context.tags import parse_blocks
from foveate.errors import SettingsError
from foveate.settings import load_settings, make_strategy
from foveate.strategy.gradient import Gradient
from foveate.strategy.oneshot import Oneshot
from foveate.turn import Json
from support.engine import settings

EPIC = "Keep the deployment going, whatever happens."
BUDGET_TOKENS = 4_000


async def _worked(fov: foveate.Foveate, name: str, **given: Json) -> foveate.Session:
    session = await fov.session(name, strategy="oneshot", budget_tokens=BUDGET_TOKENS, strategy_settings=given)
    await session.documents.give("epic", EPIC)
    for turn in make_conversation(60).turns:
        await session.record(turn)
    await fov.settle()
    return session


def log_tokens(context: Context) -> int:
    return sum(segment.tokens for segment in context.segments if segment.name == "history")


def test_the_newest_entries_are_raw_and_the_oldest_summed_up(tmp_path: Path) -> None:
    async def look() -> None:
        async with foveate.open(tmp_path / "chat.db", settings=settings()) as fov:
            session = await _worked(fov, "s")
            context = await session.context("Go on.")
            levels = [block.level for block in parse_blocks(context.history)]
            assert levels[-1] == "R"
            assert levels[0] in ("E", "T", "C")
            assert context.tokens <= BUDGET_TOKENS
            assert EPIC in context.system
            raw = await session.get_turn("T-1", "R", format="plain")
            assert raw.content not in context.text
            assert raw.content.splitlines()[0] in await session.call_tool("get_turn", {"turn_id": "T-1"})

    asyncio.run(look())


def test_the_log_keeps_within_its_share(tmp_path: Path) -> None:
    async def look() -> None:
        async with foveate.open(tmp_path / "chat.db", settings=settings()) as fov:
            whole = await _worked(fov, "whole", low_water=1.0)
            half = await _worked(fov, "half", low_water=1.0, log_share=0.5)
            more, less = await whole.context("Go on."), await half.context("Go on.")
            assert less.planned.room_tokens == more.planned.room_tokens // 2
            assert log_tokens(less) <= less.planned.room_tokens < log_tokens(more) <= more.planned.room_tokens

    asyncio.run(look())


def test_a_call_sends_the_prompt_before_it_and_something_more(tmp_path: Path) -> None:
    async def look() -> None:
        async with foveate.open(tmp_path / "chat.db", settings=settings()) as fov:
            session = await fov.session("s", strategy="oneshot")
            await session.documents.give("epic", EPIC)
            seen = ""
            for number, turn in enumerate(make_conversation(12).turns):
                await session.record(turn)
                await session.documents.give("tasks", f"1. [ ] task {number}")
                context = await session.context("Go on.")
                before_tasks = context.text.partition("<tasks>")[0]
                assert before_tasks.startswith(seen)
                seen = before_tasks

    asyncio.run(look())


def test_nothing_is_recalled_into_it(tmp_path: Path) -> None:
    async def look() -> None:
        async with foveate.open(tmp_path / "chat.db", settings=settings()) as fov:
            session = await _worked(fov, "s")
            asked = (await session.load_turn("T-1")).messages[0].text
            for budget_tokens in (None, 3_000):
                context = await session.context(asked, budget_tokens=budget_tokens)
                names = {segment.name for segment in context.segments}
                assert names <= {"explanation", "epic", "history", "tasks", "prompt", "framing"}

    asyncio.run(look())


def test_its_settings_are_the_gradients_and_its_own() -> None:
    given = {"epic_tokens": 100, "recent": 0.5, "working": 0.1, "deep": 0.1}
    made = make_strategy("oneshot", load_settings(environment={}), given)
    assert isinstance(made, Oneshot)
    assert isinstance(made, Gradient)
    assert (made.epic_tokens, made.tasks_tokens, made.log_share, made.recent) == (100, 3_000, 1.0, 0.5)
    assert Oneshot().epic_tokens == 5_000
    with pytest.raises(SettingsError, match=r"oneshot\.log_share: takes a number"):
        make_strategy("oneshot", load_settings(environment={}), {"log_share": 2})
    with pytest.raises(SettingsError, match="add up to 1"):
        make_strategy("oneshot", load_settings(environment={}), {"recent": 0.5})
    with pytest.raises(SettingsError, match=r"did you mean oneshot\.epic_tokens"):
        make_strategy("oneshot", load_settings(environment={}), {"epic_token": 5})
