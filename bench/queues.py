"""Job queues on PostgreSQL beside each other: the store's own rows, Procrastinate, PgQueuer.

    pip install procrastinate pgqueuer
    python bench/queues.py                     # 2,000 jobs, then 400 with workers killed every two seconds

A job stores one row and, in the second part, first waits as for a model. The libraries' tasks store their row
themselves, as a program would; our workers store it with the end of the lease. Afterwards every job must have its row:
rows that are missing are lost jobs, rows beyond the first are doubled ones. Jobs of killed workers count as dead after
three seconds without a heartbeat in all queues.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import random
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

import procrastinate
import psycopg
from pgqueuer import PgQueuer
from pgqueuer.db import PsycopgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from chaos import DURABLE
from foveate.store import Store, open_store
from foveate.store.rows import Claim
from foveate.store.settings import StoreSettings
from support.postgres import LocalServer
from support.stores import draft, new_session
from support.stores.derived import rendition

WORKERS = 2
BATCH = 20
DEAD_SECONDS = 3.0
KILL_SECONDS = 2.0
WAIT_SECONDS = 0.5
LIMIT_SECONDS = 150.0
SESSIONS = 20
RESULTS = "CREATE TABLE IF NOT EXISTS results (job BIGINT NOT NULL)"
ADD_RESULT = "INSERT INTO results (job) VALUES (%s)"
COUNT_RESULTS = "SELECT count(DISTINCT job), count(*) FROM results"
COUNT_OWN = "SELECT count(DISTINCT (session, turn)), count(*) FROM renditions"


async def fill_own(url: str, jobs: int) -> None:
    store = await open_store(url, StoreSettings())
    for number in range(SESSIONS):
        name = uuid.uuid4().hex
        await store.create_session(new_session(name))
        await store.append(name, [draft(f"{turn}") for turn in range(number, jobs, SESSIONS)])
    await store.close()


async def work_own(url: str, seconds: float) -> None:
    store, owner = await open_store(url, StoreSettings(readers=2)), uuid.uuid4().hex
    due = store.derived.due
    while True:
        taken = await due.take_sessions(limit=2, lease_seconds=DEAD_SECONDS)
        for work in taken:
            claims = await store.derived.claim(
                work.session_id, owner=owner, limit=BATCH, lease_seconds=DEAD_SECONDS, include_open=True
            )
            await _finish(store, work.session_id, claims, owner, seconds)
            is_left = work.session_id in await store.derived.unsettled()
            await due.put_back(work, (0.0 if claims else DEAD_SECONDS) if is_left else None)
        if not taken:
            await due.wait_for_work(0.1)


async def _finish(store: Store, session_id: str, claims: list[Claim], owner: str, seconds: float) -> None:
    if claims:
        await asyncio.sleep(seconds)
        made = [rendition(claim.turn, messages=claim.messages) for claim in claims]
        await store.derived.add_renditions(session_id, made, owner=owner)


def procrastinate_app(url: str, note: Callable[[int], Awaitable[None]]) -> tuple[procrastinate.App, Any]:
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))
    return app, app.task(name="note")(note)


async def fill_procrastinate(url: str, jobs: int) -> None:
    app, task = procrastinate_app(url, _unused)
    async with app.open_async():
        if not await app.check_connection_async():
            await app.schema_manager.apply_schema_async()
        await task.batch_defer_async(*({"job": job} for job in range(jobs)))


async def work_procrastinate(url: str, seconds: float) -> None:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:

        async def note(job: int) -> None:
            await asyncio.sleep(seconds)
            await connection.execute(ADD_RESULT, [job])

        app, _ = procrastinate_app(url, note)
        async with app.open_async():
            await app.run_worker_async(
                concurrency=BATCH,
                install_signal_handlers=False,
                fetch_job_polling_interval=0.1,
                update_heartbeat_interval=DEAD_SECONDS / 3,
                stalled_worker_timeout=DEAD_SECONDS,
            )


async def rescue_procrastinate(url: str) -> None:
    """What its documentation has a periodic task do."""
    app, _ = procrastinate_app(url, _unused)
    async with app.open_async():
        while True:
            for job in await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=DEAD_SECONDS):
                await app.job_manager.retry_job(job)
            await asyncio.sleep(1)


async def _unused(job: int) -> None:
    raise AssertionError(job)


async def fill_pgqueuer(url: str, jobs: int) -> None:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        queries = Queries(PsycopgDriver(connection))
        if not await queries.has_table("pgqueuer"):
            await queries.install()
        await queries.enqueue(["note"] * jobs, [str(job).encode() for job in range(jobs)], [0] * jobs)


async def work_pgqueuer(url: str, seconds: float) -> None:
    async with (
        await psycopg.AsyncConnection.connect(url, autocommit=True) as own,
        await psycopg.AsyncConnection.connect(url, autocommit=True) as connection,
    ):
        queue = PgQueuer(PsycopgDriver(connection))

        async def note(job: Job) -> None:
            await asyncio.sleep(seconds)
            await own.execute(ADD_RESULT, [int(job.payload or b"0")])

        queue.entrypoint("note")(note)
        await queue.run(
            batch_size=BATCH,
            max_concurrent_tasks=2 * BATCH,
            dequeue_timeout=timedelta(seconds=0.5),
            heartbeat_timeout=timedelta(seconds=DEAD_SECONDS),
        )


QUEUES: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any] | None, str]] = {
    "own rows": (fill_own, work_own, None, COUNT_OWN),
    "procrastinate": (fill_procrastinate, work_procrastinate, rescue_procrastinate, COUNT_RESULTS),
    "pgqueuer": (fill_pgqueuer, work_pgqueuer, None, COUNT_RESULTS),
}
CONTEXT = multiprocessing.get_context("forkserver")


def run(job: Callable[..., Awaitable[None]], *arguments: object) -> None:
    asyncio.run(job(*arguments))  # type: ignore[arg-type]


def start(job: Callable[..., Any], *arguments: object) -> Any:
    process = CONTEXT.Process(target=run, args=(job, *arguments), daemon=True)
    process.start()
    return process


def finish(url: str, name: str, jobs: int, seconds: float, *, is_killed: bool) -> dict[str, float]:
    """Run the jobs of a queue with some workers; those of the second part are killed one after another."""
    fill, work, rescue, counted = QUEUES[name]
    run(fill, url, jobs)
    processes = [start(work, url, seconds) for _ in range(WORKERS)]
    others = [start(rescue, url)] if rescue else []
    chance, kills, began = random.Random(1), 0, time.perf_counter()
    first, done, rows, killed = 0.0, 0, 0, began
    with psycopg.connect(url, autocommit=True) as connection:
        while (now := time.perf_counter()) - began < LIMIT_SECONDS and done < jobs:
            done, rows = connection.execute(counted).fetchone() or (0, 0)
            first = first or (now if done else 0.0)
            if is_killed and first and now - killed > KILL_SECONDS:
                place = chance.randrange(WORKERS)
                processes[place].kill()
                processes[place].join()
                processes[place] = start(work, url, seconds)
                kills, killed = kills + 1, now
            time.sleep(0.05)
        taken = time.perf_counter() - (first or began)
        time.sleep(2 * DEAD_SECONDS if is_killed else 0)  # what a dead worker had may run again
        done, rows = connection.execute(counted).fetchone() or (0, 0)
    for process in [*processes, *others]:
        process.kill()
        process.join()
    return {"jobs/s": done / taken, "kills": kills, "lost": jobs - done, "doubled": rows - done}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2_000)
    parser.add_argument("--killed", type=int, default=400)
    given = parser.parse_args()
    CONTEXT.set_forkserver_preload(["queues"])
    with tempfile.TemporaryDirectory() as folder:
        server = LocalServer(Path(folder) / "postgres", DURABLE)
        try:
            for name in QUEUES:
                for part, jobs, seconds in (("rate", given.jobs, 0.0), ("kills", given.killed, WAIT_SECONDS)):
                    database = f"{name.split()[0]}_{part}"
                    server.execute(f"CREATE DATABASE {database} TEMPLATE template0 LOCALE 'C' ENCODING 'UTF8'")
                    server.execute(RESULTS, database)
                    found = finish(server.url(database), name, jobs, seconds, is_killed=part == "kills")
                    print(json.dumps({"queue": name, "part": part, "jobs": jobs, **found}), flush=True)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
