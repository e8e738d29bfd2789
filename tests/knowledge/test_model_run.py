"""Runs that ask a model: each turn is read once, within limits, and no answer is paid for twice."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from foveate.client import Foveate
from foveate.knowledge.run import LearnProgress, learn
from foveate.models import Ask
from foveate.testing.scripted import Behaviour, Fails, Says, Script, ScriptedModel
from support.engine import settings
from support.knowledge import SHOP
from support.learning import lesson, said
from support.refining import MODEL, scripted_store

REPORT = (
    "The nightly backup of db-{0} failed with BackupError because the import held the lock. Moving it to 04:{0} in "
    "ops/cron/db-{0}.toml resolved the failure."
)
PADDING = " ".join(
    f"Host h{7 * number} wrote {number * 31} lines about disk d{number}, which is fine." for number in range(38)
)
READ = r"Moving it to 04:(\d+) in"
TURNS = (11, 12, 13)
Work = Callable[[Foveate, ScriptedModel], Awaitable[object]]


@pytest.fixture(autouse=True)
def _without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.cluster", None)


async def tell(fov: Foveate, *numbers: int) -> None:
    """Record a turn for each number, about as large as a chunk."""
    session = await fov.session("a", channel="shop")
    for number in numbers:
        await session.record(
            [
                {"role": "user", "content": f"What happened to db-{number}?"},
                {"role": "assistant", "content": f"{REPORT.format(number)}\n{PADDING}"},
            ],
            at=f"2026-01-01T{number}:00:00Z",
        )


def answer(ask: Ask) -> Behaviour:
    """A report of the first turn of a chunk."""
    numbers = re.findall(READ, ask.messages[1].text)
    return Says(said(lessons=[lesson(REPORT.format(numbers[0]), [1])] if numbers else []))


def in_model_store(path: Path, work: Work, script: Script | ScriptedModel = answer, **knowledge: object) -> object:
    async def run() -> object:
        given = settings(
            knowledge={"model": MODEL, "chunk_tokens": 1_000, **knowledge},
            models={"prices": {MODEL: {"input": 10.0, "output": 0.0}}, "max_retries": 0, "backoff_seconds": 0.0},
        )
        async with scripted_store(path / "chat.db", script, given) as (fov, model):
            return await work(fov, model)

    return asyncio.run(run())


async def texts(fov: Foveate) -> list[str]:
    rows = await fov.store.knowledge.list_items("", scopes=[str(SHOP)])
    return sorted(row.text for row in rows if row.maker == MODEL)


def numbers_read(model: ScriptedModel) -> list[str]:
    return [number for ask in model.asks for number in re.findall(READ, ask.messages[1].text)]


def test_a_model_reads_each_turn_once_and_unchanged_input_takes_no_call(tmp_path: Path) -> None:
    async def work(fov: Foveate, model: ScriptedModel) -> None:
        await tell(fov, *TURNS)
        (preview,) = (await learn(fov, dry_run=True)).scopes
        assert preview.usage
        assert (preview.usage.calls, model.asks) == (3, [])
        assert 0.02 < preview.usage.usd <= preview.usage.most_usd
        (report,) = (await learn(fov, SHOP)).scopes
        assert report.usage
        assert (report.usage.calls, report.usage.problem) == (3, "")
        assert await texts(fov) == [REPORT.format(number) for number in TURNS]
        (again,) = (await learn(fov, SHOP)).scopes
        assert (again.outcome, len(model.asks)) == ("unchanged", 3)
        await tell(fov, 14)
        (more,) = (await learn(fov, SHOP)).scopes
        assert more.usage
        assert more.usage.calls == 1
        assert numbers_read(model) == ["11", "12", "13", "14"]
        assert len(await texts(fov)) == 4

    in_model_store(tmp_path, work)


def test_a_limit_reached_midway_keeps_what_there_is_and_the_next_run_reads_the_rest(tmp_path: Path) -> None:
    async def first(fov: Foveate, model: ScriptedModel) -> None:
        await tell(fov, *TURNS)
        (report,) = (await learn(fov, SHOP)).scopes
        assert report.usage
        assert (report.outcome, report.usage.calls) == ("learned", 1)
        assert "knowledge.run_usd is 0.025" in report.usage.problem
        assert await texts(fov) == [REPORT.format(11)]

    async def second(fov: Foveate, model: ScriptedModel) -> None:
        (report,) = (await learn(fov, SHOP)).scopes
        assert report.usage
        assert (report.usage.calls, report.usage.problem) == (2, "")
        assert numbers_read(model) == ["12", "13"]
        assert await texts(fov) == [REPORT.format(number) for number in TURNS]

    in_model_store(tmp_path, first, run_usd=0.025)
    in_model_store(tmp_path, second)


def test_the_limit_of_a_day_holds_over_all_runs(tmp_path: Path) -> None:
    async def work(fov: Foveate, model: ScriptedModel) -> None:
        await tell(fov, 11)
        await learn(fov, SHOP)
        await tell(fov, 12)
        (report,) = (await learn(fov, SHOP)).scopes
        assert report.usage
        assert "knowledge.daily_usd is 0.025" in report.usage.problem
        assert len(model.asks) == 1

    in_model_store(tmp_path, work, daily_usd=0.025)


class Killed(Exception):
    """The end of a process."""


def test_a_run_killed_between_calls_pays_for_no_answer_twice(tmp_path: Path) -> None:
    points = [(f"model-{number}", stage) for number in (1, 2, 3) for stage in ("begin", "kept")]

    async def work(fov: Foveate, model: ScriptedModel) -> None:
        await tell(fov, *TURNS)
        for point in points:

            def kill(progress: LearnProgress, point: tuple[str, str] = point) -> None:
                if (progress.step, progress.stage) == point:
                    raise Killed

            for _ in range(2):
                with pytest.raises(Killed):
                    await learn(fov, SHOP, progress=kill)
                assert await fov.store.knowledge.list_items("") == []
        (report,) = (await learn(fov, SHOP)).scopes
        assert report.usage
        assert (report.usage.calls, len(model.asks)) == (3, 3)
        assert await texts(fov) == [REPORT.format(number) for number in TURNS]

    in_model_store(tmp_path, work)


def test_an_interrupted_run_whose_input_changed_keeps_the_answers_to_what_did_not(tmp_path: Path) -> None:
    async def work(fov: Foveate, model: ScriptedModel) -> None:
        def kill(progress: LearnProgress) -> None:
            if (progress.step, progress.stage) == ("model-3", "begin"):
                raise Killed

        await tell(fov, *TURNS)
        with pytest.raises(Killed):
            await learn(fov, SHOP, progress=kill)
        await tell(fov, 14)
        (report,) = (await learn(fov, SHOP)).scopes
        assert report.usage
        assert (report.usage.calls, numbers_read(model)) == (4, ["11", "12", "13", "14"])
        assert await texts(fov) == [REPORT.format(number) for number in (*TURNS, 14)]

    in_model_store(tmp_path, work)


def test_runs_before_the_clock_was_set_back_are_not_the_last_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(fov: Foveate, model: ScriptedModel) -> None:
        await tell(fov, 11)
        with monkeypatch.context() as ahead:
            real = time.time_ns
            ahead.setattr(time, "time_ns", lambda: real() + 400 * 86_400 * 10**9)
            await learn(fov, SHOP)
        await tell(fov, 12)
        await learn(fov, SHOP)
        (again,) = (await learn(fov, SHOP)).scopes
        assert (again.outcome, numbers_read(model)) == ("unchanged", ["11", "12"])

    in_model_store(tmp_path, work)


def test_rules_learn_although_a_model_fails_and_a_chunk_that_fails_again_is_skipped(tmp_path: Path) -> None:
    async def work(fov: Foveate, model: ScriptedModel) -> None:
        session = await fov.session("rules", channel="shop")
        await session.record([{"role": "user", "content": "Never use tabs in Python files."}], at="2026-01-02")
        await tell(fov, *TURNS)
        (report,) = (await learn(fov, SHOP)).scopes
        assert report.usage
        assert report.usage.problem
        rows = await fov.store.knowledge.list_items("", scopes=[str(SHOP)])
        assert any("tabs" in row.text for row in rows)
        assert await texts(fov) == [REPORT.format(11)]
        (skipped,) = (await learn(fov, SHOP)).scopes
        assert skipped.usage
        assert skipped.usage.problem
        assert await texts(fov) == [REPORT.format(11), REPORT.format(13)]
        (after,) = (await learn(fov, SHOP)).scopes
        assert after.usage
        assert (after.usage.calls, after.usage.problem) == (0, "")
        assert (await learn(fov, SHOP)).scopes[0].outcome == "unchanged"

    def fails_at_12(ask: Ask) -> Behaviour:
        return Fails("server") if "Moving it to 04:12" in ask.messages[1].text else answer(ask)

    in_model_store(tmp_path, work, fails_at_12)


def test_an_empty_answer_after_many_overwrites_nothing(tmp_path: Path) -> None:
    async def first(fov: Foveate, _: ScriptedModel) -> None:
        await tell(fov, *TURNS)
        await learn(fov, SHOP)

    async def second(fov: Foveate, _: ScriptedModel) -> None:
        before = await texts(fov)
        await tell(fov, 14)
        (report,) = (await learn(fov, SHOP)).scopes
        assert report.usage
        assert report.usage.nothing == 1
        assert await texts(fov) == before != []

    in_model_store(tmp_path, first)
    in_model_store(tmp_path, second, Says(said()))


def test_a_batch_is_submitted_once_however_often_its_run_is_killed(tmp_path: Path) -> None:
    points = [("batch", "kept"), *((f"model-{number}", stage) for number in (1, 2, 3) for stage in ("begin", "kept"))]
    submitted: list[str] = []

    async def killed(fov: Foveate, model: ScriptedModel) -> None:
        if not submitted:
            await tell(fov, *TURNS)
        point = points.pop(0)

        def kill(progress: LearnProgress) -> None:
            if (progress.step, progress.stage) == point:
                raise Killed

        with pytest.raises(Killed):
            await learn(fov, SHOP, progress=kill)
        submitted.extend(model.batches)

    async def ended(fov: Foveate, model: ScriptedModel) -> None:
        (report,) = (await learn(fov, SHOP)).scopes
        assert report.usage
        assert (report.usage.calls, report.usage.problem, model.batches) == (3, "", [])
        assert await texts(fov) == [REPORT.format(number) for number in TURNS]
        assert [(row.purpose, row.calls) for row in await fov.costs()] == [("learn", 3)]

    while points:
        in_model_store(tmp_path, killed, ScriptedModel(answer, name=MODEL, batch_polls=0), batch=True)
    in_model_store(tmp_path, ended, ScriptedModel(answer, name=MODEL, batch_polls=0), batch=True)
    assert submitted == ["batch-1:1,2,3"]


def test_a_batch_has_as_many_turns_as_the_limit_of_a_run_allows(tmp_path: Path) -> None:
    async def work(fov: Foveate, model: ScriptedModel) -> None:
        await tell(fov, *TURNS)
        (report,) = (await learn(fov, SHOP)).scopes
        assert report.usage
        assert (report.usage.calls, model.batches) == (2, ["batch-1:1,2"])
        assert "knowledge.run_usd" in report.usage.problem
        await learn(fov, SHOP)
        assert await texts(fov) == [REPORT.format(number) for number in TURNS]
        assert model.batches == ["batch-1:1,2", "batch-2:1"]

    in_model_store(tmp_path, work, ScriptedModel(answer, name=MODEL, batch_polls=0), batch=True, run_usd=0.02)
