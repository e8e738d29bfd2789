"""Where compression runs: a process beside the program, or a thread where that one is gone."""

import asyncio
import json
import os
import signal
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from foveate import Foveate
from foveate.store import MessageRow
from foveate.store.rows import NewRendition
from foveate.worker.pool import Job, Pool, PoolClosed
from foveate.worker.process import JOBS, JobError, job_function, job_name, pack_call, unpack_call
from foveate.worker.renditions import make_local
from foveate.worker.turns import SourceTurnRows
from support.engine import settings, talk, with_store


def job(turn: int = 1, text: str = "The port is 8443.") -> Job:
    body = json.dumps({"format": "openai", "data": {"role": "user", "content": text}}).encode()
    return turn, [MessageRow(turn, 1, "user", "message", 5, 0, 0, body)], "o200k_base"


def children() -> list[int]:
    """The processes that this one has started."""
    found: list[int] = []
    for file in Path("/proc/self/task").glob("*/children"):
        with suppress(FileNotFoundError):  # the thread has ended meanwhile
            found += map(int, file.read_text().split())
    return found


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
        assert "simpler" not in caplog.text
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
    assert "no child process can be started" in caplog.text


def coarse(turn: int, *_: object) -> NewRendition:
    (made,) = [make_local(turn, job(turn)[1], "o200k_base")]
    return replace(made, tiny="coarse")


def test_a_job_that_takes_too_long_is_done_in_a_simpler_way_and_the_next_one_as_always() -> None:
    async def run() -> None:
        pool = Pool(1)
        await pool.run(make_local, [job()])
        (late,) = await pool.run(make_local, [job(2, "words " * 200_000)], instead=coarse, limit_seconds=0.0)
        (next_one,) = await pool.run(make_local, [job(3)], instead=coarse, limit_seconds=60)
        assert (late.turn, late.tiny) == (2, "coarse")
        assert (next_one.turn, next_one.is_complete) == (3, True)
        pool.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("CPU_SECONDS = {'make-renditions': 0.01}", "more than 20 seconds of CPU"),
        ("MAX_MEMORY_BYTES = 1 << 20", "make-renditions failed; a fallback is used"),
    ],
)
def test_a_job_that_takes_too_much_cpu_time_or_memory_is_done_in_a_simpler_way(
    limit: str, said: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    code = f"import sys; sys.path = {sys.path!r}; import foveate.worker.process as p; p.{limit}; p.main()"
    monkeypatch.setattr("foveate.worker.pool.module_command", lambda _: [sys.executable, "-c", code])

    async def run() -> None:
        pool = Pool(1)
        (made,) = await pool.run(make_local, [job(2, "words " * 100_000)], instead=coarse)
        assert (made.turn, made.tiny) == (2, "coarse")
        pool.close()

    asyncio.run(run())
    assert said in caplog.text


def test_an_error_in_a_job_is_raised_here_and_the_process_goes_on() -> None:
    async def run() -> None:
        pool = Pool(1)
        before = set(children())
        with pytest.raises(JobError, match="Error"):
            await pool.run(make_local, [(1, [None], "o200k_base")])
        first = set(children()) - before
        assert [made.turn for made in await pool.run(make_local, [job(2)])] == [2]
        assert set(children()) - before == first
        pool.close()

    asyncio.run(run())


def test_a_pool_that_is_closed_while_a_job_runs_ends_it() -> None:
    async def run() -> None:
        pool = Pool(1)
        await pool.run(make_local, [job()])
        running = asyncio.ensure_future(pool.run(make_local, [job(turn, "Port 8443. " * 5_000) for turn in range(99)]))
        await asyncio.sleep(0)
        await asyncio.to_thread(pool.close)
        with pytest.raises((PoolClosed, asyncio.CancelledError)):
            await running

    asyncio.run(run())


def test_the_processes_run_nothing_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pickle", "json", "struct", "msgspec", "tiktoken", "foveate", "sitecustomize", "usercustomize"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", str(tmp_path), os.environ.get("PYTHONPATH", "")]))

    async def run() -> None:
        pool = Pool(1)
        assert [made.turn for made in await pool.run(make_local, [job(3)])] == [3]
        pool.close()

    asyncio.run(run())
    assert not (tmp_path / "run").exists()


def test_no_other_code_can_be_named_on_the_pipe() -> None:
    with pytest.raises(KeyError):
        unpack_call(msgspec.msgpack.encode(["os:system", []]))
    with pytest.raises(KeyError):
        unpack_call(msgspec.msgpack.encode(["make-renditions", [["subprocess.Popen", "true"]]]))


@pytest.mark.parametrize("name", JOBS)
def test_each_job_is_found_by_its_function_and_its_types_are_known(name: str) -> None:
    assert job_name(job_function(name)) == name
    assert unpack_call(pack_call(name, [None])) == (name, [None])


def test_values_cross_the_pipe_as_they_are() -> None:
    turn, rows, encoding = job(text="a lone \ud800 surrogate")
    values = [{"a": (1, [2.5, None]), "b": frozenset({"x"})}, 10**5_000, "\udc80", SourceTurnRows(turn, rows, encoding)]
    assert unpack_call(pack_call("weigh-answer", values)) == ("weigh-answer", values)


def test_a_store_compresses_in_its_process(tmp_path: Path) -> None:
    async def settled(fov: Foveate) -> None:
        before = set(children())
        session = await fov.session("s")
        await talk(session, 20)
        await fov.settle()
        assert len(set(children()) - before) == 1
        assert len(await session.get_turns(1, 20, "T")) == 20

    asyncio.run(with_store(tmp_path / "chat.db", settled, settings(compress={"processes": 1})))
