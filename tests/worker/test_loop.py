"""The background worker on real files: what is lacking gets made, once, whoever else works on it."""

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

import foveate
from bulk import load
from foveate import Foveate, Message
from foveate.compress.local import LocalCompressor
from foveate.errors import LevelNotReady
from foveate.events import Event, EventBus
from foveate.models.caller import Caller
from foveate.renditions import HISTORY_TOOLS, Count, Level, Renditions, without_recalled
from foveate.store import open_store
from foveate.store.queue import MAX_ATTEMPTS
from foveate.tokens import O200K
from foveate.turn import Text
from foveate.worker.loop import DEADLY, Worker
from foveate.worker.renditions import make_rendition
from support.engine import assistant, settings, talk, tool_step, user, with_store
from support.patience import PATIENCE_SECONDS, until, wait_until
from support.postgres import count_rows


async def until_made(session: foveate.Session, turn: int, level: Level = "T") -> str:
    """The turn's text, waiting for the background to make it."""
    found: list[str] = []

    async def is_made() -> bool:
        with suppress(LevelNotReady):
            found.append((await session.get_turn(turn, level, format="plain")).content)
        return bool(found)

    await until(is_made)
    return found[0]


def counted(path: Path, table: str = "renditions") -> int:
    return count_rows(path, table)


async def until_begun(path: Path) -> None:
    """Wait until the background works on a turn."""
    await asyncio.to_thread(wait_until, lambda: counted(path, "leases"))


def test_renditions_of_closed_turns_appear_by_themselves(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        await talk(session, 3)
        assert "2" in await until_made(session, 2)
        with pytest.raises(LevelNotReady):
            await session.get_turn(3, "T")

    asyncio.run(with_store(tmp_path / "chat.db", job))


@pytest.mark.databases
def test_settle_finishes_everything_the_open_turn_included(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        await talk(session, 40)
        made: list[int] = []
        await fov.settle(progress=made.append)
        assert [content.available_levels for content in await session.get_turns(1, 40, "T")] == [
            ("R", "S", "C", "T")
        ] * 40
        assert sum(made) <= 40

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_nothing_is_made_while_compression_is_off_and_settle_makes_it_then(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"

    async def job(fov: Foveate) -> None:
        await talk(await fov.session("s"), 5)
        assert len(asyncio.all_tasks()) == 1, "no worker runs"
        assert counted(path) == 0
        await fov.settle()
        assert counted(path) == 5

    asyncio.run(with_store(path, job, settings(compress={"enabled": False, "processes": 0})))


@pytest.mark.databases
def test_an_open_turn_that_has_grown_is_made_anew(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        await session.record([user("Ask."), *tool_step(1, "one")])
        await fov.settle()
        await session.record([*tool_step(2, "two"), *tool_step(3, "kumquat")])
        assert "kumquat" in await until_made(session, 1, "S")
        await session.record([assistant("Only a little more: papaya.")])
        with pytest.raises(LevelNotReady):
            await session.get_turn(1, "S")
        await fov.settle()
        assert "papaya" in (await session.get_turn(1, "S")).content

    asyncio.run(with_store(tmp_path / "chat.db", job))


@pytest.mark.databases
def test_a_restart_finishes_what_was_left(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"

    async def record(fov: Foveate) -> None:
        await talk(await fov.session("s"), 20)

    async def finish(fov: Foveate) -> None:
        await (await fov.session("s")).record([user("Hello again.")])
        await until_made(await fov.session("s"), 20)

    asyncio.run(with_store(path, record, settings(compress={"enabled": False})))
    assert counted(path) == 0
    asyncio.run(with_store(path, finish))
    assert counted(path) == 20


def test_several_stores_on_one_file_never_double_a_rendition(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"

    async def run() -> None:
        async with foveate.open(path, settings=settings(compress={"enabled": False})) as fov:
            await talk(await fov.session("s"), 150)
        stores = [
            await foveate.open(path, settings=settings(compress={"processes": 0, "batch_turns": 3})) for _ in "123"
        ]
        await asyncio.gather(*(fov.settle() for fov in stores))
        for fov in stores:
            await fov.close()

    asyncio.run(run())
    assert counted(path) == 150
    assert counted(path, "eras") == 4
    assert counted(path, "leases") == 0


SETTLER = """
import sys, foveate.sync
with foveate.sync.open(sys.argv[1]) as fov:
    fov.settle()
"""


def test_several_processes_on_one_file_never_double_a_rendition(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"

    async def record(fov: Foveate) -> None:
        await talk(await fov.session("s"), 60)

    asyncio.run(with_store(path, record, settings(compress={"enabled": False})))
    running = [subprocess.Popen([sys.executable, "-c", SETTLER, str(path)]) for _ in range(2)]
    assert [process.wait(timeout=PATIENCE_SECONDS) for process in running] == [0, 0]
    assert counted(path) == 60
    assert counted(path, "leases") == 0


class Failing(LocalCompressor):
    """Fails on turns that say so."""

    def compress(self, turn: int, messages: Sequence[Message], count: Count) -> Renditions:
        if any("boom" in message.text for message in messages):
            raise RuntimeError("boom")
        return super().compress(turn, messages, count)


def test_a_compressor_that_raises_leaves_a_marked_fallback(caplog: pytest.LogCaptureFixture) -> None:
    failed = make_rendition(
        Failing(), 1, [Message("user", (Text(text),)) for text in ("boom, and port 8443", "more " * 200)], O200K
    )
    assert not failed.is_complete
    assert failed.tiny_tokens <= 52
    assert "8443" in failed.tiny
    assert make_rendition(Failing(), 1, [Message("user", (Text("fine"),))], O200K).is_complete
    assert "compressor failed" in caplog.text


def test_a_damaged_message_stops_neither_its_session_nor_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "chat.db"

    async def damage(fov: Foveate) -> None:
        await talk(await fov.session("damaged"), 3)

    async def job(fov: Foveate) -> None:
        await (await fov.session("damaged")).record([user("wakes the worker")])
        healthy = await fov.session("healthy")
        await talk(healthy, 3)
        await until_made(healthy, 2)
        await until_made(await fov.session("damaged"), 3)

    asyncio.run(with_store(path, damage, settings(compress={"enabled": False})))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE bodies SET data = x'00' WHERE message = 2")
        connection.commit()
    asyncio.run(with_store(path, job))
    assert "does not match its hash" in caplog.text


def test_each_finished_turn_is_told(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        told: list[Event] = []
        with fov.subscribe(told.append, ["compressed"]) as subscription:
            await talk(await fov.session("s"), 4)
            await fov.settle()
            subscription.drain()
        assert sorted(str(event.turn_id) for event in told) == ["T-1", "T-2", "T-3", "T-4"]

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_eras_are_made_of_32_turns_and_of_1024(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"

    async def run() -> None:
        await load(path, 1_056)
        async with foveate.open(path, settings=settings()) as fov:
            await fov.settle(session_id="bulk")
        store = await open_store(str(path), settings().store)
        try:
            assert [await store.derived.next_era("bulk", level) for level in (1, 2, 3)] == [33, 1, 0]
        finally:
            await store.close()

    asyncio.run(run())


@pytest.mark.databases
def test_a_fork_shares_renditions_and_eras_and_makes_only_its_own(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"

    async def job(fov: Foveate) -> None:
        parent = await fov.session("parent")
        await talk(parent, 70)
        await fov.settle()
        assert (counted(path), counted(path, "eras")) == (70, 2)
        fork = await parent.fork("fork", 66)
        assert (await fork.get_turn(66, "T")).content == (await parent.get_turn(66, "T")).content
        await talk(fork, 31, first=67)
        await fov.settle()
        assert (counted(path), counted(path, "eras")) == (101, 3)

    asyncio.run(with_store(path, job))


def test_a_fork_of_a_fork_never_takes_a_rendition_of_a_turn_it_does_not_have(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        parent = await fov.session("parent")
        await talk(parent, 4)
        await parent.record([user("SECRET five"), assistant("of the parent")])
        fork = await parent.fork("fork")
        await parent.record([assistant("and more")])
        await fov.settle()
        other = await fork.fork("other", 2)
        await talk(other, 3, first=3)
        await fov.settle()
        assert "SECRET" not in (await other.get_turn(5, "S")).content
        assert "SECRET" in (await fork.get_turn(5, "S")).content

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_closed_worker_is_not_woken_again(tmp_path: Path) -> None:
    async def run() -> None:
        store = await open_store(str(tmp_path / "chat.db"), settings().store)
        events = EventBus(10)
        worker = Worker(store, events, settings(), Caller(settings().models, store.calls, events))
        await worker.close()
        worker.wake("s")
        assert len(asyncio.all_tasks()) == 1
        await store.close()

    asyncio.run(run())


def test_closing_ends_though_the_session_at_work_was_deleted(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        await talk(session, 60, words=300)
        await until_begun(tmp_path / "chat.db")
        await fov.delete_session("s")

    asyncio.run(asyncio.wait_for(with_store(tmp_path / "chat.db", job), PATIENCE_SECONDS))


BY_MCP = ["mcp__foveate__search_history", "mcp_foveate_get_turn", "foveate_get_context", "foveate.list_sessions"]


@pytest.mark.parametrize("name", [*sorted(HISTORY_TOOLS), *BY_MCP])
def test_what_a_history_tool_answered_is_left_out(name: str) -> None:
    messages = [user("Look it up."), *tool_step(1, "RECALLED", name=name), *tool_step(2, "NEW")]
    kept = without_recalled(messages)
    texts = [part.text for message in kept for result in message.tool_results for part in result.content]  # type: ignore[union-attr]
    assert texts == ["NEW"]
    assert [len(message.tool_calls) for message in kept] == [0, 1, 0, 1, 0]


@pytest.mark.parametrize("name", ["mcp__other__search_history", "search", "mcp__foveate__pin", "notfoveate_get_turn"])
def test_what_another_tool_answered_is_kept(name: str) -> None:
    kept = without_recalled([user("Look it up."), *tool_step(1, "FOUND", name=name)])
    assert [bool(result.content) for message in kept for result in message.tool_results] == [True]


def test_the_newest_turn_gets_its_levels_once_it_has_been_quiet(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        await session.record([user("Which port?"), assistant("8443.")])
        assert await until_made(session, 1)

    asyncio.run(with_store(tmp_path / "chat.db", job, settings(compress={"quiet_seconds": 0.05})))


def test_a_session_has_one_timer_however_many_messages_it_gets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def job(fov: Foveate) -> None:
        loop = asyncio.get_running_loop()
        call_at, timers = loop.call_at, list[object]()

        def noted(when: float, callback: Callable[..., object], *args: Any, **options: Any) -> asyncio.TimerHandle:
            timers.extend([callback] if getattr(callback, "__name__", "") == "_quieten" else [])
            return call_at(when, callback, *args, **options)

        monkeypatch.setattr(loop, "call_at", noted)
        session = await fov.session("s")
        for number in range(20):
            await session.record([user(f"message {number}")])
        assert len(timers) == 1

    asyncio.run(with_store(tmp_path / "chat.db", job, settings(compress={"quiet_seconds": 3_600})))


def test_a_program_that_records_and_closes_again_and_again_gets_its_turns_compressed(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"

    async def job(fov: Foveate) -> None:
        await talk(await fov.session("s"), 1)

    for turns in range(1, 4):
        asyncio.run(with_store(path, job, settings(compress={"close_seconds": 30})))
        assert counted(path) == turns


def test_what_another_program_left_is_done_at_the_end_of_the_next(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"

    async def leave(fov: Foveate) -> None:
        await talk(await fov.session("old"), 6)

    async def job(fov: Foveate) -> None:
        await talk(await fov.session("new"), 1)

    asyncio.run(with_store(path, leave, settings(compress={"enabled": False})))
    asyncio.run(with_store(path, job, settings(compress={"close_seconds": 30})))
    assert counted(path) == 7


def test_what_another_program_left_is_done_when_a_store_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foveate.worker.loop.RESUME_SECONDS", 0.0)

    async def leave(fov: Foveate) -> None:
        await talk(await fov.session("old"), 6)

    async def job(fov: Foveate) -> None:
        await until_made(await fov.session("old"), 5)

    asyncio.run(with_store(tmp_path / "chat.db", leave, settings(compress={"enabled": False})))
    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_session_of_large_turns_takes_turns_with_the_others(tmp_path: Path) -> None:
    order: list[str] = []
    recorded: list[int] = []

    async def job(fov: Foveate) -> None:
        events = fov.subscribe(lambda event: order.append(event.session_id), ["compressed", "compression-failed"])
        large, small = await fov.session("large"), await fov.session("small")
        for _ in range(6):
            await large.record([user("port " * 60_000), assistant("Done.")])
        await talk(small, 3)
        assert events.drain(PATIENCE_SECONDS)
        recorded.append(len(order))
        await until_made(small, 2)
        await until_made(large, 5)
        assert events.drain(PATIENCE_SECONDS)

    asyncio.run(with_store(tmp_path / "chat.db", job))
    assert order.index("small") < order.index("large", order.index("small"))
    # From when the small session had something to do.
    assert order[recorded[0] : order.index("small")].count("large") <= 2


def test_a_session_that_closes_while_a_turn_is_compressed_ends_at_once(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        await session.record([user("warm")])
        await fov.settle()
        for _ in range(3):
            await session.record([user("Port 8443 never answers. " * 40_000), assistant("Done.")])
        await until_begun(path)

    path = tmp_path / "chat.db"
    asyncio.run(with_store(path, job, settings(compress={"processes": 1, "close_seconds": 0.1})))
    assert counted(path) == 1, "the job is killed, not waited for"


def test_a_worker_without_a_session_of_its_own_finishes_what_others_record(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"

    async def run() -> None:
        stop = asyncio.Event()
        async with foveate.open(path, settings=settings()) as worker:
            watching = asyncio.create_task(worker.run_worker(is_stopping=stop.is_set))
            off = settings(compress={"enabled": False, "processes": 0})
            async with foveate.open(path, settings=off) as fov:
                session = await fov.session("s")
                await talk(session, 3)
                assert "2" in await until_made(session, 2)
                assert "3" in await until_made(session, 3)  # the open turn, once it has been quiet
            stop.set()
            await watching
            state = await worker.queue_state()
        assert (state.sessions, state.leased, state.parked) == (0, 0, 0)

    asyncio.run(run())


@pytest.mark.databases
def test_the_queue_is_empty_once_the_process_that_recorded_has_compressed_everything(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        async def is_empty() -> bool:
            return (await fov.queue_state()).sessions == 0

        session = await fov.session("s")
        for first in (1, 4):  # what is recorded later is work again
            await talk(session, 3, first=first)
            assert (await fov.queue_state()).sessions == 1
            await until(is_empty)
        assert [content.available_levels for content in await session.get_turns(1, 6, "T")] == [
            ("R", "S", "C", "T")
        ] * 6

    asyncio.run(with_store(tmp_path / "chat.db", job, settings(compress={"quiet_seconds": 0.2})))


def test_a_finished_session_stays_in_the_queue_if_something_was_recorded_meanwhile(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        await talk(session, 1)
        before = await fov.store.get_session("s")
        finished = fov.store.derived.due.note_finished
        await talk(session, 1, first=2)
        await finished("s", last_turn=before.last_turn, last_position=before.last_position)
        assert (await fov.queue_state()).sessions == 1
        now = await fov.store.get_session("s")
        await finished("s", last_turn=now.last_turn, last_position=now.last_position)
        assert (await fov.queue_state()).sessions == 0

    asyncio.run(with_store(tmp_path / "chat.db", job, settings(compress={"enabled": False, "processes": 0})))


def test_a_drained_worker_leaves_nothing_to_do(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"

    async def run() -> None:
        async with foveate.open(path, settings=settings(compress={"enabled": False, "processes": 0})) as fov:
            for name in ("a", "b"):
                await talk(await fov.session(name), 2)
            await fov.run_worker(drain=True)

    asyncio.run(run())
    assert counted(path) == 4


def test_a_turn_that_its_workers_did_not_survive_is_parked_with_a_coarse_rendition(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"

    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        await talk(session, 2)
        store = fov._store
        for _ in range(MAX_ATTEMPTS):
            await store.derived.claim("s", owner="dead", limit=1, lease_seconds=0, include_open=False)
        await fov.settle()
        stats = await session.stats()
        assert (stats.pending, stats.fallbacks) == (0, 1)
        (parked,) = (await fov.queue_state()).parked_turns
        assert (parked.session_id, parked.turn, parked.reason) == ("s", 1, DEADLY)
        await fov.compress_again()
        await fov.settle()
        assert (await fov.queue_state()).parked == 0

    asyncio.run(with_store(path, job, settings(compress={"enabled": False, "processes": 0})))


def test_a_session_with_a_long_queue_does_not_delay_the_newest_turn_of_another(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"

    async def run() -> None:
        compress = {"enabled": False, "processes": 0, "batch_turns": 4}
        async with foveate.open(path, settings=settings(compress=compress)) as fov:
            long = await fov.session("long")
            await long.record([message for turn in range(60) for message in (user(f"Ask {turn}."), assistant("Yes."))])
            order: list[str] = []
            with fov.subscribe(lambda event: order.append(event.session_id or ""), ["compressed"]) as subscription:
                await talk(await fov.session("short"), 2)
                await fov.run_worker(drain=True)
                subscription.drain()
        assert order.index("short") <= 4
        assert order.count("long") == 60

    asyncio.run(run())
