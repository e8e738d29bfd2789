"""A process that does background work says so while it runs, idle or not."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

import foveate
from foveate import sync
from foveate.agents.heartbeat import beating
from foveate.settings import Settings, load_settings
from foveate.store.rows import WorkerBeat
from support.command_line import Shell, command
from support.patience import PATIENCE_SECONDS, until, wait_until


def _settings(lease_seconds: float) -> Settings:
    return load_settings(overrides={"compress": {"lease_seconds": lease_seconds, "processes": 0}})


def test_a_process_is_listed_while_it_runs_and_no_longer(tmp_path: Path) -> None:
    async def run() -> None:
        async with foveate.open(tmp_path / "a.db") as fov:
            async with beating(fov, "serve", compresses=False):
                await until(lambda: _running(fov, 1))
                (found,) = (await fov.queue_state()).workers
                assert (found.kind, found.host, found.pid) == ("serve", socket.gethostname(), os.getpid())
                assert (found.version, found.compresses) == (foveate.__version__, False)
                assert 0 <= found.seen_seconds <= found.running_seconds + 0.001
            assert await _running(fov, 0)

    asyncio.run(run())


async def _running(fov: foveate.Foveate, count: int) -> bool:
    return len((await fov.queue_state(limit=0)).workers) == count


def test_a_heartbeat_outlives_its_duration_while_its_process_runs(tmp_path: Path) -> None:
    async def run() -> None:
        async with foveate.open(tmp_path / "a.db", settings=_settings(0.3)) as fov, beating(fov, "worker"):

            async def is_renewed() -> bool:
                return any(worker.running_seconds > 1 for worker in (await fov.queue_state(limit=0)).workers)

            await until(is_renewed)  # an entry that is not renewed is listed for the duration of 0.3 seconds

    asyncio.run(run())


@pytest.mark.parametrize("place", ["file", "server"])
def test_the_heartbeat_of_a_dead_process_expires_and_the_next_one_removes_it(
    place: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    location = str(tmp_path / "a.db") if place == "file" else str(request.getfixturevalue("postgres_url"))
    dead = WorkerBeat(id="dead", kind="worker", host="h", pid=1, version="0", compresses=True)
    other = WorkerBeat(id="other", kind="worker", host="h", pid=2, version="0", compresses=True)

    async def run() -> None:
        async with foveate.open(location) as fov:
            await fov.store.workers.beat(dead, 0.0)
            assert await _running(fov, 0)
            await fov.store.workers.beat(other, 60.0)
            assert [worker.pid for worker in (await fov.queue_state()).workers] == [2]
            await fov.store.workers.end("dead")
            await fov.store.workers.end("other")
            assert await _running(fov, 0)

    asyncio.run(run())


def test_a_store_that_can_not_be_written_does_not_end_the_work(tmp_path: Path) -> None:
    async def run() -> None:
        async with foveate.open(tmp_path / "a.db") as fov:
            (tmp_path / "a.db").unlink()
            async with beating(fov, "worker"):
                await asyncio.sleep(0.05)

    asyncio.run(run())


@contextmanager
def started(environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A worker, which ends with the test, whatever failed."""
    with subprocess.Popen(command("worker"), env=environment, stdout=subprocess.DEVNULL) as worker:
        try:
            yield worker
        finally:
            worker.kill()


def test_the_status_counts_an_idle_worker_and_not_a_killed_one(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db", width=200)
    with sync.open(shell.db) as fov:
        fov.session("s")
    environment = shell.environment(FOVEATE_COMPRESS__PROCESSES="0", FOVEATE_COMPRESS__LEASE_SECONDS="2")
    assert "0 workers on this machine" in shell("worker", "--alive", code=1)
    with started(environment) as worker:
        wait_until(lambda: shell.json("worker", "--status")["workers"])
        shown = shell("worker", "--status")
        assert "Workers running      1" in shown
        assert f"worker {socket.gethostname()}:{worker.pid} {foveate.__version__}, for " in shown
        assert "1 worker on this machine" in shell("worker", "--alive")
        worker.kill()
        worker.wait()
        wait_until(lambda: not shell.json("worker", "--status")["workers"])


def test_a_terminated_worker_is_no_longer_listed(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db")
    environment = shell.environment(FOVEATE_COMPRESS__PROCESSES="0")
    with started(environment) as worker:
        wait_until(lambda: shell.db.exists() and shell.json("worker", "--status")["workers"])
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE_SECONDS) == 0
        assert shell.json("worker", "--status")["workers"] == []


def test_a_service_exits_with_2_where_a_restart_can_not_help(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db")
    for service in ("worker", "serve"):
        assert shell.really(service, FOVEATE_COMPRESS__PROCESSES="many").returncode == 2
    assert shell.really("serve", "--host", "0.0.0.0").returncode == 2
    for service in ("worker", "serve"):
        assert shell.really(service, "--db", str(tmp_path / "none" / "chat.db")).returncode == 1
