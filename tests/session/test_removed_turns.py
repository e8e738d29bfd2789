"""What was made from turns that were removed meanwhile is neither stored nor shown."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from foveate import Foveate
from foveate.store.operations import Derived
from support.engine import assistant, talk, user, with_store

OLD = "2020-01-01T00:00:00Z"


def test_a_plan_made_before_a_prune_is_not_stored_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep: Any = Derived.keep_plan

    async def keep_after_a_prune(derived: Derived, *given: Any) -> None:
        monkeypatch.setattr(Derived, "keep_plan", keep)
        await stores[0].prune("s", before_us=time.time_ns() // 1_000 - 10_000_000, dry_run=False)
        await keep(derived, *given)

    stores: list[Any] = []

    async def job(fov: Foveate) -> None:
        stores.append(fov.store)
        session = await fov.session("s", budget_tokens=3_000)
        for number in range(60):
            said = f"The zebra {number} lives at place {number}, remember it well."
            await session.record([user(said), assistant("I will keep the zebra in mind. " * 5)], at=OLD)
        await talk(session, 3, first=70)
        await fov.settle()
        monkeypatch.setattr(Derived, "keep_plan", keep_after_a_prune)
        assert "zebra" in (await session.context("Now?")).text
        for handle in (session, await fov.session("s")):
            assert "zebra" not in (await handle.context("Now?")).text

    asyncio.run(with_store(tmp_path / "chat.db", job))


@pytest.mark.parametrize("strategy", ["gradient", "checkpoint", "hybrid", "standard"])
def test_pruned_turns_take_one_line_of_a_block(strategy: str, tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s", budget_tokens=3_000, strategy=strategy)
        for number in range(120):
            await session.record([user(f"The zebra lives at place {number}."), assistant("Noted.")], at=OLD)
        await talk(session, 5, first=100)
        await fov.settle()
        await fov.store.prune("s", before_us=time.time_ns() // 1_000 - 10_000_000, dry_run=False)
        await fov.settle()
        text = (await session.context("Now?")).text
        assert 1 <= text.count("removed by a command") <= 120 / 3
        assert "were removed by a command)" in text

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_turns_whose_text_says_that_they_were_removed_are_not_joined(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s", budget_tokens=8_000, strategy="checkpoint")
        for _ in range(10):
            await session.record([user("(removed by a command)"), assistant("Fine.")])
        await fov.settle()
        assert (await session.context("Now?")).text.count("(removed by a command)") >= 10

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_handle_of_a_session_that_was_created_again_shows_nothing_of_the_old_one(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        old = await fov.session("s")
        await old.record([user("The secret zebra."), assistant("Yes."), user("More?"), assistant("No.")])
        await old.context("And now?")
        await fov.delete_session("s")
        new = await fov.session("s")
        await new.record([user("Hello."), assistant("You."), user("What?"), assistant("This.")])
        for handle in (new, old):
            assert "zebra" not in (await handle.context("And now?")).text

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_turn_retrieved_while_another_is_dismissed_stays_on_the_board(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s", budget_tokens=20_000)
        await talk(session, 5)
        await session.call_tool("get_turn", {"turn_id": "T-1"})
        retrieved = session.call_tool("get_turn", {"turn_id": "T-2"})
        await asyncio.gather(session.dismiss("T-1-R"), retrieved)
        assert [entry.name for entry in (await session.board()).retrieved] == ["T-2-R"]

    asyncio.run(with_store(tmp_path / "chat.db", job))
