"""A run that is killed goes on where it was; `bench/oneshot_storm.py` is the long storm."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from foveate import Foveate
from foveate.models import Ask
from foveate.session.documents import RUN
from foveate.testing.scripted import Behaviour, CallsTool, Says, ScriptedModel
from oneshot_storm import storm
from support.chats import scripted_store
from support.runs import BUDGET_TOKENS, MODEL, ended, events_of_run, iteration_asked

ITERATIONS = 3
QUICK = {"synchronous": "normal"}


def test_a_run_that_is_killed_ends_like_one_that_was_not(tmp_path: Path) -> None:
    # Enough iterations for a fast machine not to end before it is killed.
    done = storm(60, 2, tmp_path, seed=2, longest_seconds=0.3)
    assert (done.kills, done.iterations) == (2, 60)


class Crash(Exception):
    """Stands for a process that is gone: nothing after it happens."""


def reply(ask: Ask) -> Behaviour:
    number = iteration_asked(ask)
    is_answered = any(result.call_id == f"look-{number}" for message in ask.messages for result in message.tool_results)
    if number == ITERATIONS:
        return CallsTool("finish", {"summary": "It stands."}, id="f")
    if number % 3 == 0 and not is_answered:
        return CallsTool("get_turn", {"turn_id": "T-1"}, id=f"look-{number}")
    if number % 2 == 0:
        return CallsTool("update_tasks", {"added": [f"after {number}"]}, id=f"u-{number}")
    return Says(f"Worked on step {number}; {ask.messages[-1].text.count('[ ]')} tasks are open.")


async def left_behind(fov: Foveate) -> tuple[list[tuple[str, ...]], str, str]:
    session = await fov.open_session("run")
    turns = [tuple(message.text for message in turn.messages) for turn in await session.load_turns()]
    return turns, await session.documents.get("tasks"), await session.documents.get(RUN)


def test_a_crash_at_any_write_loses_and_doubles_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every write to the store is, in turn, the last one before a crash: done, or just not done."""

    async def alone() -> tuple[list[tuple[str, ...]], str, str]:
        async with scripted_store(tmp_path / "alone.db", ScriptedModel(reply, name=MODEL), store=QUICK) as fov:
            session = await fov.session("run", strategy="oneshot", budget_tokens=BUDGET_TOKENS)
            assert ended(await events_of_run(fov, session)).reason == "done"
            return await left_behind(fov)

    async def crashing(path: Path, at: int, *, is_done: bool) -> tuple[bool, tuple[list[tuple[str, ...]], str, str]]:
        crashed = False
        async with scripted_store(path, ScriptedModel(reply, name=MODEL), store=QUICK) as fov:
            session = await fov.session("run", strategy="oneshot", budget_tokens=BUDGET_TOKENS)
            writer = _Writer(fov, at, is_done=is_done)
            with monkeypatch.context() as patch:
                writer.stand_in(patch)
                try:
                    await events_of_run(fov, session)
                except Crash:
                    crashed = True
        async with scripted_store(path, ScriptedModel(reply, name=MODEL), store=QUICK) as fov:
            session = await fov.session("run")
            assert ended(await events_of_run(fov, session)).reason == "done"
            return crashed, await left_behind(fov)

    async def every_write() -> int:
        expected = await alone()
        for at in range(1, 200):
            for is_done in (True, False):
                path = tmp_path / f"{at}-{is_done}.db"
                crashed, found = await crashing(path, at, is_done=is_done)
                assert found == expected, f"after a crash at write {at}"
            if not crashed:
                return at
        raise AssertionError("the run has no end")

    assert asyncio.run(every_write()) > 2 * ITERATIONS


class _Writer:
    """Counts what a run writes, and crashes at one of the writes."""

    def __init__(self, fov: Foveate, at: int, *, is_done: bool) -> None:
        self._store = fov._store  # the one place where all writes go through
        self._at = at
        self._is_done = is_done
        self._count = 0

    def stand_in(self, patch: pytest.MonkeyPatch) -> None:
        append, keep = self._store.append, self._store.artefacts.keep_document

        async def appending(*arguments: object, **named: object) -> object:
            return await self._written(partial(append, **named), arguments)  # type: ignore[arg-type]

        async def keeping(*arguments: object) -> object:
            return await self._written(keep, arguments)

        patch.setattr(self._store, "append", appending)
        patch.setattr(self._store.artefacts, "keep_document", keeping)

    async def _written(self, write: object, arguments: tuple[object, ...]) -> object:
        self._count += 1
        if self._count == self._at and not self._is_done:
            raise Crash
        result = await write(*arguments)  # type: ignore[operator]
        if self._count == self._at:
            raise Crash
        return result
