from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from foveate.client import Foveate
from foveate.errors import SettingsError, StoreBusy
from foveate.knowledge import schedule as module
from foveate.knowledge.report import LearnReport
from foveate.knowledge.schedule import CronTimes, QuietLearner, Scheduler, read_schedule, scheduled
from foveate.knowledge.settings import KnowledgeSettings
from foveate.store import SessionRow
from support.engine import opened, settings
from support.knowledge import in_store, record
from support.stores.knowledge import run as new_run


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("cron", "zone", "after", "due"),
    [
        ("on", "UTC", "2026-01-01T03:00", "2026-01-01T15:00"),
        ("on", "UTC", "2026-01-01T15:00", "2026-01-02T03:00"),
        ("0 6 * * fri-sun", "UTC", "2026-01-03T06:00", "2026-01-04T06:00"),
        ("*/20 9-10 * * *", "UTC", "2026-01-01T10:40", "2026-01-02T09:00"),
        ("30 4 1,15 * 5", "UTC", "2026-01-02T05:00", "2026-01-09T04:30"),  # a Friday, or the 1st or 15th
        ("30 4 1,15 * 5", "UTC", "2026-01-09T05:00", "2026-01-15T04:30"),
        ("0 0 * feb mon-wed", "UTC", "2026-01-01T00:00", "2026-02-02T00:00"),
        ("0 0 * * 7", "UTC", "2026-01-01T00:00", "2026-01-04T00:00"),
        ("0 0 29 2 *", "UTC", "2026-01-01T00:00", "2028-02-29T00:00"),
        ("@weekly", "UTC", "2026-01-01T00:00", "2026-01-04T00:00"),
        ("0 3 * * *", "Europe/Berlin", "2026-01-01T00:00", "2026-01-01T02:00"),
        # The clocks skip 02:30 on March 29, and repeat it on October 25.
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", "2026-03-29T01:30"),
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", "2026-10-25T00:30"),
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T00:30", "2026-10-26T01:30"),
    ],
)
def test_the_next_time_of_a_cron_text(cron: str, zone: str, after: str, due: str) -> None:
    assert CronTimes.parse(cron, zone).after(at(after)) == at(due)


@pytest.mark.parametrize(
    ("cron", "zone", "said"),
    [
        ("daily", "UTC", "is not a cron expression"),
        ("0 3 * *", "UTC", "is not a cron expression"),
        ("60 * * * *", "UTC", "'60' is not a minute from 0 to 59"),
        ("* 5-3 * * *", "UTC", "'5-3' is not a hour"),
        ("*/0 * * * *", "UTC", "'*/0' is not a minute"),
        ("* * x * *", "UTC", "'x' is not a day of the month"),
        ("0 0 31 2 *", "UTC", "never occurs"),
        ("on", "Mars/Olympus", "'Mars/Olympus' is not known here"),
        ("on", "../../etc/passwd", "is not known here"),
    ],
)
def test_what_can_not_be_read_is_an_error_that_names_the_key(cron: str, zone: str, said: str) -> None:
    with pytest.raises(SettingsError, match="knowledge") as error:
        read_schedule(KnowledgeSettings(schedule=cron, time_zone=zone))
    assert said in str(error.value)


def test_learning_is_on_by_default_twice_a_day_and_can_be_turned_off() -> None:
    assert read_schedule(KnowledgeSettings()) == CronTimes.parse("0 3,15 * * *")
    assert read_schedule(KnowledgeSettings(schedule="off")) is read_schedule(KnowledgeSettings(schedule="")) is None


@in_store
async def test_what_was_stated_is_learned_once_its_session_is_quiet_and_without_a_model(fov: Foveate) -> None:
    await record(fov, "a", "Never deploy on a Friday.")
    (row,) = await fov.store.list_sessions()
    said = row.updated_us / 1e6
    moments = iter([said + 60, said + 301, said + 302])
    learner = QuietLearner(fov, now=lambda: next(moments))
    assert [await learner.learn_once() for _ in range(2)] == [False, False]
    assert [item.text for item in await fov.knowledge.list(kind="lesson")] == ["Never deploy on a Friday."]
    assert len(await fov.store.knowledge.list_runs("")) == 1
    assert await learner.learn_once() is False
    assert len(await fov.store.knowledge.list_runs("")) == 1


@in_store
async def test_a_long_history_is_learned_in_several_short_runs(fov: Foveate) -> None:
    await record(fov, "a", *(f"Never touch the table {name}." for name in ("orders", "items", "users")))
    learner = QuietLearner(fov, now=time.time)
    module.QUIET_TURNS, before = 2, module.QUIET_TURNS
    try:
        assert [await learner.learn_once() for _ in range(3)] == [True, False, False]
    finally:
        module.QUIET_TURNS = before
    assert len(await fov.knowledge.list(kind="lesson")) == 3


class Clock:
    """A clock that passes while somebody sleeps, up to an end."""

    def __init__(self, now: str, end: str) -> None:
        self.now = at(now).timestamp()
        self._end = at(end).timestamp()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)
        self.now += max(seconds, 600)
        if self.now > self._end:
            raise asyncio.CancelledError


def runs_of(
    path: Path, monkeypatch: pytest.MonkeyPatch, now: str, end: str, *, delay: float = 0.0, **knowledge: object
) -> list[str]:
    """When runs begin between two moments, in a store whose only turn is of 2026-01-01 00:00."""
    begun: list[str] = []
    clock = Clock(now, end)

    async def learn(_: Foveate) -> LearnReport:
        begun.append(datetime.fromtimestamp(clock.now, UTC).strftime("%d %H:%M"))
        return LearnReport(())

    async def run() -> None:
        given = settings(knowledge={"schedule": "on", "jitter_minutes": 0, **knowledge})
        async with opened(path / "chat.db", given) as fov:
            await record(fov, "a", "hello")
            times = read_schedule(fov.settings.knowledge)
            assert times
            scheduler = Scheduler(fov, times, now=lambda: clock.now, sleep=clock.sleep, delay=lambda: delay)
            monkeypatch.setattr(scheduler, "_last_run", last_run)
            with pytest.raises(asyncio.CancelledError):
                await scheduler.run()

    async def last_run() -> float:
        return at("2026-01-01T00:00").timestamp()

    monkeypatch.setattr(module, "learn", learn)
    asyncio.run(run())
    return begun


def test_runs_begin_at_their_times_and_later_by_the_delay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert runs_of(tmp_path, monkeypatch, "2026-01-01T00:00", "2026-01-02T12:00") == [
        "01 03:00",
        "01 15:00",
        "02 03:00",
    ]
    late = runs_of(tmp_path, monkeypatch, "2026-01-01T00:00", "2026-01-01T12:00", delay=0.5, jitter_minutes=120)
    assert late == ["01 04:00"]


def test_runs_missed_for_days_become_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert runs_of(tmp_path, monkeypatch, "2026-01-09T09:30", "2026-01-09T20:00") == ["09 09:30", "09 15:00"]


def test_a_clock_set_back_does_not_put_the_next_run_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert runs_of(tmp_path, monkeypatch, "2025-06-01T00:00", "2025-06-01T12:00") == ["01 03:00"]


def test_a_run_waits_until_nobody_talks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    busy = runs_of(
        tmp_path, monkeypatch, "2026-01-01T00:00", "2026-01-01T12:00", schedule="10 0 * * *", idle_minutes=30
    )
    assert busy == ["01 00:30"]


def test_a_session_from_the_future_does_not_hide_that_somebody_talks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def add(path: Path) -> None:
        async with opened(path, settings()) as fov:
            await (await fov.session("b")).record([{"role": "user", "content": "hi"}], at="2099-01-01T00:00:00Z")

    asyncio.run(add(tmp_path / "chat.db"))
    busy = runs_of(
        tmp_path, monkeypatch, "2026-01-01T00:00", "2026-01-01T12:00", schedule="10 0 * * *", idle_minutes=30
    )
    assert busy == ["01 00:30"]


def test_a_store_that_can_not_be_read_for_a_while_does_not_end_the_schedule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[float] = []
    clock = Clock("2026-01-09T00:00", "2026-01-09T12:00")

    async def learn(_: Foveate) -> LearnReport:
        begun.append(clock.now)
        return LearnReport(())

    async def run() -> None:
        given = settings(knowledge={"schedule": "on", "jitter_minutes": 0, "idle_minutes": 1})
        async with opened(tmp_path / "chat.db", given) as fov:
            await record(fov, "a", "hello")
            rows: list[SessionRow] = await fov.store.list_sessions()
            failures = iter((True, False, True))

            async def down() -> list[SessionRow]:
                if next(failures, False):
                    raise StoreBusy("chat.db", "it restarts")
                return rows

            monkeypatch.setattr(fov.store, "list_sessions", down)
            with pytest.raises(asyncio.CancelledError):
                await Scheduler(fov, CronTimes.parse("on"), now=lambda: clock.now, sleep=clock.sleep).run()

    monkeypatch.setattr(module, "learn", learn)
    asyncio.run(run())
    assert len(begun) == 1


def test_a_failed_run_does_not_end_the_schedule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    async def fail(_: Foveate) -> LearnReport:
        calls.append("asked")
        raise ValueError("broken")

    clock = Clock("2026-01-09T00:00", "2026-01-10T00:00")

    async def run() -> None:
        async with opened(tmp_path / "chat.db", settings(knowledge={"schedule": "on", "jitter_minutes": 0})) as fov:
            await record(fov, "a", "hello")
            times = CronTimes.parse("on")
            with pytest.raises(asyncio.CancelledError):
                await Scheduler(fov, times, now=lambda: clock.now, sleep=clock.sleep).run()

    monkeypatch.setattr(module, "learn", fail)
    asyncio.run(run())
    assert len(calls) == 2


def test_a_schedule_learns_while_its_block_runs_and_ends_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = asyncio.Event()
    is_over: list[bool] = []

    async def learn(_: Foveate) -> LearnReport:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            is_over.append(True)
        return LearnReport(())

    async def long_ago(_: Scheduler) -> float:
        return 0.0

    async def run() -> None:
        async with opened(tmp_path / "chat.db", settings(knowledge={"schedule": "on", "jitter_minutes": 0})) as fov:
            async with scheduled(fov):
                await begun.wait()
            assert is_over

    monkeypatch.setattr(module, "learn", learn)
    monkeypatch.setattr(Scheduler, "_last_run", long_ago)
    asyncio.run(run())


@in_store
async def test_the_time_of_the_last_run_survives_a_restart(fov: Foveate) -> None:
    scheduler = Scheduler(fov, CronTimes.parse("on"), now=lambda: 5.0)
    assert await scheduler._last_run() == 5.0
    await record(fov, "a", "hello")
    (row,) = await fov.store.list_sessions()
    assert await scheduler._last_run() == row.created_us / 1e6
    await fov.store.knowledge.begin_run(new_run())
    (run,) = await fov.store.knowledge.list_runs(None)
    assert await scheduler._last_run() == run.started_us / 1e6
