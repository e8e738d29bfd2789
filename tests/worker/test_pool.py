"""Where compression runs: a process beside the program, or a thread where that one is gone."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from foveate import Foveate
from foveate.store import MessageRow
from foveate.worker.pool import Job, Pool
from foveate.worker.renditions import make_local
from support.engine import settings, talk, with_store


def job(turn: int = 1, text: str = "The port is 8443.") -> Job:
    body = json.dumps({"format": "openai", "data": {"role": "user", "content": text}}).encode()
    return turn, [MessageRow(turn, 1, "user", "message", 5, 0, 0, body)], "o200k_base"


def children() -> list[int]:
    """Of every thread: the one that starts a process is its parent."""
    return [int(pid) for file in Path("/proc/self/task").glob("*/children") for pid in file.read_text().split()]


def test_a_process_makes_the_same_as_a_thread() -> None:
    async def run() -> None:
        inside, beside = Pool(0), Pool(1)
        jobs = [job(turn, f"Turn {turn} sets port {8000 + turn}.") for turn in range(1, 6)]
        try:
            assert await inside.run(make_local, jobs) == await beside.run(make_local, jobs)
        finally:
            inside.close()
            beside.close()

    asyncio.run(run())


def test_the_process_is_used_again_and_ends_with_the_pool() -> None:
    async def run() -> None:
        pool = Pool(1)
        before = set(children())
        await pool.run(make_local, [job()])
        first = set(children()) - before
        await pool.run(make_local, [job()])
        assert set(children()) - before == first
        assert len(first) == 1
        pool.close()
        assert set(children()) == before

    asyncio.run(run())


def test_a_killed_process_loses_nothing_and_is_replaced(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        pool = Pool(1)
        before = set(children())
        await pool.run(make_local, [job()])
        (process,) = set(children()) - before
        os.kill(process, signal.SIGKILL)
        assert [made.turn for made in await pool.run(make_local, [job(7), job(8)])] == [7, 8]
        assert "compressing in this process" in caplog.text
        assert [made.turn for made in await pool.run(make_local, [job(9)])] == [9]
        pool.close()

    asyncio.run(run())


def test_a_process_that_cannot_be_started_is_done_without(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")

    async def run() -> None:
        pool = Pool(1)
        assert [made.turn for made in await pool.run(make_local, [job(3)])] == [3]
        pool.close()

    asyncio.run(run())
    assert "another can't be used" in caplog.text


def test_a_store_compresses_in_its_process(tmp_path: Path) -> None:
    async def settled(fov: Foveate) -> None:
        before = set(children())
        session = await fov.session("s")
        await talk(session, 20)
        await fov.settle()
        assert len(set(children()) - before) == 1
        assert len(await session.get_turns(1, 20, "T")) == 20

    asyncio.run(with_store(tmp_path / "chat.db", settled, settings(compress={"processes": 1})))
