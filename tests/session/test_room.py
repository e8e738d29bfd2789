"""`context_remaining` tells a model how full its context is and what is compressed next, from the store alone."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from foveate import Foveate, Session
from support.engine import talk, with_store


async def remaining(session: Session) -> str:
    return await session.call_tool("context_remaining", {})


def test_a_session_without_turns_has_all_of_its_budget(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s", budget_tokens=4_000)
        answer = await remaining(session)
        assert answer.startswith("Budget: 4,000 tokens. The history uses 0; 4,000 are free for")
        assert "Compressed next" not in answer

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_used_and_free_tokens_add_up_to_the_budget(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s", budget_tokens=8_000)
        await talk(session, 10)
        answer = await remaining(session)
        used, free = (int(number.replace(",", "")) for number in re.findall(r"(?:uses|; ) ?([\d,]+)", answer))
        assert used == (await session.stats()).tokens
        assert used + free == 8_000
        assert "Compressed next, when it is full: T-1 to T-10, verbatim now, the oldest first." in answer

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_the_turns_that_are_compressed_next_are_the_oldest_verbatim_ones_of_the_plan(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s", budget_tokens=4_000)
        await talk(session, 120)
        await fov.settle()
        context = await session.context("Go on.")
        raw = [part for part in context.segments if part.name == "history" and part.level == "R"]
        assert 1 < (raw[0].first or 0) < 120
        answer = await remaining(session)
        assert f"when it is full: T-{raw[0].first} to T-120, verbatim now" in answer
        assert await remaining(session) == answer
        await talk(session, 1, first=121)
        assert f"T-{raw[0].first} to T-121" in await remaining(session)

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_asking_for_the_room_changes_nothing(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s", budget_tokens=2_400)
        await talk(session, 60)
        await fov.settle()
        await session.context("Go on.")
        store = session.engine.store
        before = [await store.derived.plan("s", "gradient"), await store.artefacts.board("s")]
        await remaining(session)
        assert [await store.derived.plan("s", "gradient"), await store.artefacts.board("s")] == before

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_history_that_does_not_fit_verbatim_is_full(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s", budget_tokens=1_000)
        await talk(session, 60)
        answer = await remaining(session)
        assert "; it is full.\nCompressed next, with the next prompt: T-1 to T-60, verbatim now" in answer

    asyncio.run(with_store(tmp_path / "chat.db", job))
