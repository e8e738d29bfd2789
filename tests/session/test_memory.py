"""Memory across sessions: a scope recalls its own sessions, and nothing of another scope or tenant."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from foveate import Foveate
from support.engine import settings, with_store
from support.scope_table import LESSONS, MAY_SEE, QUESTION, SESSIONS, asking, fill, lessons, secrets_in, view

EXACT = settings(recall={"deadline_seconds": None, "gate": False})


def test_no_scope_shows_anything_of_another_scope_or_tenant(tmp_path: Path) -> None:
    """Search, memory layer, and the tools that search and read turns."""

    async def job(fov: Foveate) -> None:
        await fill(fov)
        for (tenant, scope), expected in MAY_SEE.items():
            hits = await view(fov, tenant).memory(scope).search(QUESTION, 50)
            assert secrets_in("".join(hit.text for hit in hits)) == expected, (tenant, scope)
            session = await asking(fov, tenant, scope)
            for budget in (None, 3_000):
                assert secrets_in((await session.context(QUESTION, budget_tokens=budget)).text) == expected
            found = await session.call_tool("search_history", {"query": QUESTION, "max_results": 50})
            assert secrets_in(found) == expected
            read = [await session.call_tool("get_turn", {"turn_id": f"{name}/T-1"}) for name in _names()]
            assert secrets_in("".join(read)) == expected
            await view(fov, tenant).delete_session("asking")

    asyncio.run(with_store(tmp_path / "chat.db", job, EXACT))


def test_no_session_sees_a_lesson_of_another_scope_or_tenant(tmp_path: Path) -> None:
    """In the memory layer, and by the tool that reads one."""

    async def job(fov: Foveate) -> None:
        for tenant, items in lessons().items():
            await fov._store.knowledge.add(tenant, items)
        ids = [each.id for items in lessons().values() for each in items]
        for (tenant, scope), secret in LESSONS.items():
            session = await asking(fov, tenant, scope)
            assert secrets_in((await session.context(QUESTION)).text) == {secret}, (tenant, scope)
            read = [await session.call_tool("get_turn", {"turn_id": each}) for each in ids]
            assert secrets_in("".join(read)) == {secret}
            await view(fov, tenant).delete_session("asking")

    asyncio.run(with_store(tmp_path / "chat.db", job, EXACT))


def _names() -> list[str]:
    return sorted({placed.id for placed in SESSIONS} | {f"{placed.tenant}:{placed.id}" for placed in SESSIONS})


def test_the_layer_names_session_title_day_and_turn_and_how_to_read_more(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        trip = await fov.session("trip", scope="user:anna", title="Trip to <Rome>")
        await trip.record([{"role": "user", "content": "The hotel in Rome is the Albergo Quirino."}], at="2026-03-02")
        await fov.settle()
        session = await fov.session("today", scope="user:anna")
        memory = "".join(
            part.text
            for part in (await session.context("What is the hotel in Rome?")).segments
            if part.name == "memory"
        )
        assert '2 March 2026, session trip "Trip to <Rome>":\nTurn 1: The hotel in Rome' in memory
        assert 'get_turn("SESSION/T-12", "R")' in memory
        read = await session.call_tool("get_turn", {"turn_id": "trip/T-1"})
        assert read.startswith('Session trip "Trip to <Rome>".\nT-1 · 2 March 2026\n<T-1-R>')
        ranged = await session.call_tool("get_turns", {"first": "trip/T-1", "last": "T-1", "level": "R"})
        assert ranged == read
        assert (await session.board()).retrieved == ()
        assert "no session 'rome'" in await session.call_tool("get_turn", {"turn_id": "rome/T-1"})

    asyncio.run(with_store(tmp_path / "chat.db", job, EXACT))


def test_a_session_without_a_scope_recalls_only_itself(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        await fill(fov)
        session = await fov.session("alone", channel="shop")
        await session.record([{"role": "user", "content": "Hello."}])
        assert secrets_in((await session.context(QUESTION)).text) == set()
        assert secrets_in(await session.call_tool("search_history", {"query": QUESTION})) == set()

    asyncio.run(with_store(tmp_path / "chat.db", job, EXACT))


def test_a_fork_recalls_its_parent_s_turns_as_its_own_up_to_the_fork(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        parent = await fov.session("parent")
        await parent.record([{"role": "user", "content": "The harbour gate opens with the code KA-101."}])
        await parent.record([{"role": "user", "content": "Fine."}])
        await parent.fork("child")
        await parent.record([{"role": "user", "content": "The harbour gate now opens with the code KA-202."}])
        child = await fov.session("child", scope="user:anna", budget_tokens=4_000)
        other = await fov.session("other", scope="user:anna")
        await other.record([{"role": "user", "content": "For Bert the harbour gate has the code KB-303."}])
        await fov.settle()
        found = await child.call_tool("search_history", {"query": QUESTION, "max_results": 50})
        assert secrets_in(found) == {"KA-101", "KB-303"}
        assert re.search(r"^T-1 · .* · user: The harbour gate opens", found, re.MULTILINE)
        assert re.search(r"^other/T-1 · .* · user: For Bert", found, re.MULTILINE)

    asyncio.run(with_store(tmp_path / "chat.db", job, EXACT))


def test_the_index_of_all_sessions_is_used_only_if_it_is_ready_in_time(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        await fill(fov)
        session = await asking(fov, "", "user:anna")
        assert secrets_in((await session.context(QUESTION)).text) == set()

    asyncio.run(with_store(tmp_path / "chat.db", job, settings(recall={"deadline_seconds": 0.0, "gate": False})))


def test_a_deleted_session_is_not_shown_again_to_the_same_prompt(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        await fill(fov)
        session = await asking(fov, "", "user:bert")
        assert secrets_in((await session.context(QUESTION)).text) == {"KB-303"}
        await fov.delete_session("bert-1")
        assert secrets_in((await session.context(QUESTION)).text) == set()

    asyncio.run(with_store(tmp_path / "chat.db", job, EXACT))
