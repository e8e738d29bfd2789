"""A context is given whatever happens around it: long sessions, a store that can't be written, a defect in a plan."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from foveate import Foveate
from foveate.context.render import FORMATS
from foveate.errors import BudgetExceeded, InvariantBroken
from foveate.events import Event
from foveate.history import driver, texts
from foveate.session import context as contexts
from foveate.store import sqlite
from foveate.strategy import names
from foveate.strategy.gradient import Gradient
from support.engine import recounted, settings, talk, tool_step, user, with_store

PROMPT = "And now?"


@pytest.mark.parametrize("strategy", names())
def test_more_turns_than_the_cache_holds_are_shown(
    strategy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(texts, "MAX_CACHED_TURNS", 20)

    async def job(fov: Foveate) -> None:
        session = await fov.session("s", strategy=strategy, budget_tokens=100_000)
        await talk(session, 45)
        first, *others = [(await session.context(PROMPT)).text for _ in range(3)]
        assert others == [first, first]
        assert "word1x" in first

    asyncio.run(with_store(tmp_path / "chat.db", job))


@pytest.mark.parametrize("strategy", ["gradient", "oneshot", "checkpoint", "topics", "hybrid"])
def test_a_context_is_given_while_another_process_holds_the_lock_and_saved_later(strategy: str, tmp_path: Path) -> None:
    path = tmp_path / "chat.db"

    async def saved(fov: Foveate) -> list[bytes]:
        store = fov._store
        kept = [await store.artefacts.state("s", strategy), await store.derived.plan("s", strategy)]
        return [data for data in kept if data]

    async def job(fov: Foveate) -> None:
        session = await fov.session("s", strategy=strategy, budget_tokens=2_500)
        await talk(session, 60)
        await fov.settle()
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        first = await session.context(PROMPT)
        assert first.tokens == recounted(session, first, PROMPT) <= 2_500
        assert not await saved(fov)
        assert (await session.context(PROMPT)).text == first.text
        other.execute("ROLLBACK")
        other.close()
        assert (await session.context(PROMPT)).text == first.text
        assert await saved(fov)
        assert (await (await fov.open_session("s")).context(PROMPT)).text == first.text

    asyncio.run(with_store(path, job, settings(store={"lock_timeout_seconds": 0.05})))


@pytest.mark.parametrize("strategy", ["gradient", "oneshot", "checkpoint", "topics", "hybrid"])
def test_a_context_is_given_while_the_disk_is_full_and_saved_later(
    strategy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "chat.db"

    async def full(*_: Any, **__: Any) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorname = "SQLITE_FULL"
        raise sqlite._translate(str(path), error)

    async def saved(fov: Foveate) -> list[bytes]:
        store = fov._store
        kept = [await store.artefacts.state("s", strategy), await store.derived.plan("s", strategy)]
        return [data for data in kept if data]

    async def job(fov: Foveate) -> None:
        session = await fov.session("s", strategy=strategy, budget_tokens=2_500)
        await talk(session, 60)
        await fov.settle()
        with monkeypatch.context() as patched:
            for part, writes in {
                fov._store.derived: ("keep_plan", "keep_recalled", "keep_offer"),
                fov._store.artefacts: ("keep_state", "keep_made", "keep_board"),
            }.items():
                for name in writes:
                    patched.setattr(type(part), name, full)
            first = await session.context("What is word3x1?")
            assert first.tokens <= 2_500
            assert (await session.context("What is word3x1?")).history == first.history
            assert not await saved(fov)
        assert (await session.context("What is word3x1?")).history == first.history
        assert await saved(fov)

    asyncio.run(with_store(path, job))


def test_a_context_says_which_part_of_recall_missed_the_deadline(tmp_path: Path) -> None:
    async def notes(fov: Foveate) -> tuple[object, object]:
        session = await fov.session("s", budget_tokens=2_500)
        await talk(session, 40, words=30)
        await fov.settle()
        own = await session.context("What did I say about word3x1?")
        preview = await session.context("What did I say about word3x1?", budget_tokens=2_000)
        return own.planned.notes.get("recall_late"), preview.planned.notes.get("recall_late")

    own, preview = asyncio.run(with_store(tmp_path / "chat.db", notes, settings(recall={"deadline_seconds": 0})))
    assert own == ["words", "vectors", "orders"]
    assert preview == ["words", "vectors", "orders"]
    in_time = asyncio.run(with_store(tmp_path / "other.db", notes, settings(recall={"deadline_seconds": None})))
    assert in_time == (None, None)


def test_a_strategy_whose_state_is_saved_is_ready_while_its_task_still_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s", strategy="checkpoint", budget_tokens=2_500)
        await talk(session, 60)
        await fov.settle()
        first = await session.context(PROMPT)
        monkeypatch.setattr(driver, "MEANWHILE_TURNS", 3)
        session.engine.contexts.driver._building["checkpoint"] = asyncio.get_running_loop().create_future()  # type: ignore[assignment]
        second = await session.context(PROMPT)
        assert "meanwhile" not in second.planned.notes
        assert second.text == first.text

    asyncio.run(with_store(tmp_path / "chat.db", job))


BANDS = {"oneshot": range(190, 240), "gradient": range(200, 240)}
"""Budgets around what the fixed part of a strategy takes, where each one counts."""


@pytest.mark.parametrize("step", [111, pytest.param(37, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("strategy", names())
def test_no_budget_however_small_raises_an_internal_error(strategy: str, step: int, tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        talked, working = await fov.session("talked"), await fov.session("working")
        await talk(talked, 5)
        await talk(working, 3)
        await working.record([user("Do it."), *tool_step(1, "a " * 200), *tool_step(2, "b " * 300)])
        await fov.settle()
        given = 0
        for session, prompt in ((talked, ""), (talked, PROMPT), (working, ""), (working, "Stop.")):
            for budget in sorted({*range(1, 1_400, step), *BANDS.get(strategy, ())}):
                try:
                    context = await session.context(prompt, budget_tokens=budget, strategy=strategy)
                except BudgetExceeded:
                    continue
                assert context.tokens <= budget
                given += 1
        assert given > 60 * 37 // step

    asyncio.run(with_store(tmp_path / "chat.db", job, settings(recall={"enabled": False})))


def _failing(*_: Any, **__: Any) -> Any:
    raise AssertionError("a plan that does not fit")


def test_a_defect_in_a_plan_leads_to_a_simpler_context_and_an_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Gradient, "plan", _failing)

    async def job(fov: Foveate) -> None:
        told: list[Event] = []
        session = await fov.session("s", budget_tokens=2_500)
        await session.pin("Never touch production.", locked=True)
        await talk(session, 30)
        await session.record([user("Run it."), *tool_step(1, "done")])
        with pytest.raises(AssertionError):
            await session.context()
        monkeypatch.delenv(contexts.STRICT_VARIABLE)
        with fov.subscribe(told.append, ["context-fallback"]) as subscription:
            context = await session.context()
            subscription.drain()
        assert context.tokens <= 2_500
        assert "Never touch production." in context.text
        assert context.planned.notes == {"fallback": "whole-turns"}
        (event,) = told
        assert event.data["problem"] == "AssertionError: a plan that does not fit"
        for name in FORMATS:
            assert context.messages(name)
        last: Any = context.messages("openai")[-1]
        assert last["role"] == "tool"

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_where_no_history_can_be_shown_at_all_there_is_still_a_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(texts, "write_text", _failing)
    monkeypatch.delenv(contexts.STRICT_VARIABLE)

    async def job(fov: Foveate) -> None:
        session = await fov.session("s", budget_tokens=2_500)
        await session.pin("Never touch production.", locked=True)
        await talk(session, 3)
        context = await session.context(PROMPT)
        assert context.planned.notes == {"fallback": "none"}
        assert "Never touch production." in context.text
        monkeypatch.setattr(contexts, "assemble", _failing)
        with pytest.raises(InvariantBroken, match="a plan that does not fit"):
            await session.context(PROMPT)

    asyncio.run(with_store(tmp_path / "chat.db", job))
