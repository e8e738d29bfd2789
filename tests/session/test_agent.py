"""The compression agent of a hybrid session, started by itself at the trigger; contexts never wait for it."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from foveate import Foveate, Session
from foveate.context.context import Context
from foveate.events import Event
from foveate.settings import Settings
from foveate.testing.scripted import Behaviour, Fails, Refuses, Says, ScriptedModel, Stalls
from support.agents import good_agent, work
from support.engine import settings
from support.patience import until
from support.refining import MODEL, scripted_store, until_asked

WINDOW_TOKENS = 10_500


def with_agent(**hybrid: object) -> Settings:
    models = {"shrink": MODEL, "backoff_seconds": 0.0, "breaker_failures": 1_000}
    return settings(models=models, hybrid={"window_tokens": WINDOW_TOKENS, **hybrid})


async def recorded(fov: Foveate, turns: int = 11) -> Session:
    session = await fov.session("s", strategy="hybrid", budget_tokens=20_000)
    for number in range(1, turns + 1):
        await session.record(work(number))
    return session


async def looked_at(session: Session) -> Context:
    context = await session.context("And now?")
    assert context.tokens <= context.budget_tokens
    return context


def modes(told: list[Event], kind: str) -> list[object]:
    return [event.data.get("mode", "direct") for event in told if event.kind == kind]


def test_the_agent_starts_at_the_trigger_and_its_words_are_shown(tmp_path: Path) -> None:
    told: list[Event] = []

    async def run() -> None:
        async with scripted_store(tmp_path / "chat.db", good_agent, with_agent()) as (fov, model):
            with fov.subscribe(told.append) as subscription:
                session = await recorded(fov)
                first = await looked_at(session)
                assert "(short" not in first.history
                assert first.planned.notes["agent"] == "due"
                await fov.settle()
                assert model.asks
                second = await looked_at(session)
                assert "[user] Set limit_1 to 10 ms, never more. (short T-1)" in second.history
                assert second.planned.notes["compressions"] == 0
                assert float(str(second.planned.notes["used_share"])) <= 0.42
                assert "agent" not in second.planned.notes
                subscription.drain()

    asyncio.run(run())
    assert modes(told, "compression-triggered") == ["agent"]
    assert modes(told, "context-threshold-reached") == ["agent"]


def test_below_the_trigger_and_without_a_model_no_agent_starts(tmp_path: Path) -> None:
    async def run(given: Settings, turns: int) -> Context:
        async with scripted_store(tmp_path / f"{turns}.db", good_agent, given) as (fov, model):
            session = await recorded(fov, turns)
            context = await looked_at(session)
            await fov.settle()
            assert not model.asks
            return context

    assert "(short" not in asyncio.run(run(with_agent(), 5)).history
    direct = settings(hybrid={"window_tokens": WINDOW_TOKENS})
    assert "(short" in asyncio.run(run(direct, 11)).history


@pytest.mark.parametrize("behaviour", [Fails(), Fails(is_permanent=True), Refuses(), Says("No.")])
def test_an_agent_that_fails_leaves_it_to_the_direct_mode(behaviour: Behaviour, tmp_path: Path) -> None:
    async def run() -> None:
        async with scripted_store(tmp_path / "chat.db", lambda ask: behaviour, with_agent()) as (fov, model):
            session = await recorded(fov)
            assert "(short" not in (await looked_at(session)).history
            await fov.settle()
            asked = len(model.asks)
            direct = await looked_at(session)
            assert "(short T-1)" in direct.history
            assert direct.planned.notes["compressions"] == 1
            await looked_at(session)
            await fov.settle()
            assert len(model.asks) == asked

    asyncio.run(run())


def test_contexts_go_on_while_the_agent_runs_and_a_full_window_is_compressed_at_once(tmp_path: Path) -> None:
    async def run() -> None:
        model = ScriptedModel(lambda ask: Stalls(), name=MODEL)
        async with scripted_store(tmp_path / "chat.db", model, with_agent()) as (fov, _):
            session = await recorded(fov)
            before = await looked_at(session)
            await until_asked(model)
            during = await looked_at(session)
            assert during.history == before.history
            assert len(model.asks) == 1
            for number in range(12, 18):
                await session.record(work(number))
            full = await looked_at(session)
            assert "(short T-" in full.history
            assert full.planned.notes["compressions"] == 1
            assert len(model.asks) == 1

    asyncio.run(run())


def test_the_next_trigger_is_the_agents_again(tmp_path: Path) -> None:
    async def run() -> None:
        async with scripted_store(tmp_path / "chat.db", good_agent, with_agent()) as (fov, model):
            session = await recorded(fov)
            await looked_at(session)
            await fov.settle()
            asked = len(model.asks)
            for number in range(12, 24):
                await session.record(work(number))
                if (await looked_at(session)).planned.notes.get("agent") == "due":
                    break
            await fov.settle()
            assert len(model.asks) > asked

            async def is_short() -> bool:
                return "(short T-10)" in (await looked_at(session)).history

            await until(is_short)

    asyncio.run(run())


def test_a_preview_starts_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        async with scripted_store(tmp_path / "chat.db", good_agent, with_agent()) as (fov, model):
            session = await recorded(fov)
            context = await session.context("And now?", budget_tokens=9_000)
            await fov.settle()
            assert context.tokens <= 9_000
            assert not model.asks

    asyncio.run(run())


def test_of_two_processes_one_runs_the_agent(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"

    async def run() -> None:
        first, second = (ScriptedModel(lambda ask: Stalls(), name=MODEL) for _ in range(2))
        async with (
            scripted_store(path, first, with_agent()) as (fov, _),
            scripted_store(path, second, with_agent()) as (other, _),
        ):
            session = await recorded(fov)
            twin = await other.session("s")
            assert (await looked_at(session)).planned.notes["agent"] == "due"
            await until_asked(first)
            assert "agent" not in (await looked_at(twin)).planned.notes
            assert not second.asks
            # A process that ended without a word loses its lease.
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute("UPDATE leases SET until_us = 0 WHERE turn < 0")
            await looked_at(twin)
            await until_asked(second)
        async with scripted_store(path, good_agent, with_agent()) as (fov, model):
            await looked_at(await fov.session("s"))
            await fov.settle()
            assert model.asks

    asyncio.run(run())
