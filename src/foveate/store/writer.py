"""Group commit: one thread owns the writing connection, and writes that wait together share one fsync.

A job is a function of the connection. Jobs run one after another inside one transaction; none is answered
before the commit. If one raises, the transaction is rolled back, that job alone fails, and the rest run again.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from foveate.errors import StoreClosed

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Job:
    run: Callable[[sqlite3.Connection], Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    result: object = None
    error: BaseException | None = None

    def settle(self) -> None:
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class Writer:
    """The writing thread. `connect` is called in it, `guarded` wraps whatever touches the database."""

    def __init__(
        self,
        location: str,
        connect: Callable[[], sqlite3.Connection],
        guarded: Callable[[], AbstractContextManager[None]],
        group_limit: int,
    ) -> None:
        self.commits = 0
        self._location = location
        self._connect = connect
        self._guarded = guarded
        self._group_limit = group_limit
        self._queue: queue.SimpleQueue[list[_Job] | None] = queue.SimpleQueue()
        self._waiting: dict[int, list[_Job]] = {}
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="foveate-writer", daemon=True)
        self._thread.start()

    async def submit(self, run: Callable[[sqlite3.Connection], T]) -> T:
        """Run a job in a transaction; returns once it is durable."""
        if self._closed:
            raise self._gone()
        loop = asyncio.get_running_loop()
        job = _Job(run, loop, loop.create_future())
        # What one turn of the loop submits is handed over together, so that it shares a commit.
        waiting = self._waiting.get(id(loop))
        if waiting is None:
            waiting = self._waiting[id(loop)] = []
            loop.call_soon(self._hand_over, id(loop))
        waiting.append(job)
        result: T = await job.future
        return result

    def close(self) -> None:
        """Finish what is queued, close the connection, and end the thread."""
        self._closed = True
        for key in list(self._waiting):
            self._hand_over(key)
        self._queue.put(None)
        self._thread.join()
        late: list[_Job] = []
        self._collect(late)
        for job in late:
            job.error = self._gone()
        _settle(late)

    def _hand_over(self, key: int) -> None:
        jobs = self._waiting.pop(key, None)
        if jobs:
            self._queue.put(jobs)

    def _gone(self) -> StoreClosed:
        return StoreClosed(self._location, "the store is closed; open it again")

    def _work(self) -> None:
        connection: sqlite3.Connection | None = None
        while True:
            group = self._queue.get()
            if group is None:
                break
            ending = self._collect(group)
            try:
                connection = connection or self._connect()
                self._commit(connection, group)
            except Exception as error:  # noqa: BLE001 - the thread must outlive any fault; each job is told of it
                for failed in group:
                    failed.error = failed.error or error
            _settle(group)
            if ending:
                break
        if connection is not None:
            connection.close()

    def _collect(self, group: list[_Job]) -> bool:
        """Take what else is waiting; True if that includes the word to stop."""
        while len(group) < self._group_limit:
            try:
                jobs = self._queue.get_nowait()
            except queue.Empty:
                return False
            if jobs is None:
                return True
            group += jobs
        return False

    def _commit(self, connection: sqlite3.Connection, group: list[_Job]) -> None:
        pending = group
        while pending:
            failed = self._try(connection, pending)
            if failed is None:
                return
            pending = [job for job in pending if job is not failed]

    def _try(self, connection: sqlite3.Connection, jobs: list[_Job]) -> _Job | None:
        """Run all jobs and commit; or roll back and return the job that failed by itself."""
        with self._guarded():
            connection.execute("BEGIN IMMEDIATE")
            try:
                for job in jobs:
                    try:
                        job.result = job.run(connection)
                    except Exception as error:
                        if isinstance(error, sqlite3.Error) and not isinstance(error, sqlite3.IntegrityError):
                            raise  # the database's trouble, not this job's: nobody in the group is served
                        job.error = error
                        connection.execute("ROLLBACK")
                        return job
                connection.execute("COMMIT")
                self.commits += 1
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        return None


def _settle(group: Iterable[_Job]) -> None:
    """Answer all jobs of a loop with one wake-up."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
    for job in group:
        by_loop.setdefault(job.loop, []).append(job)
    for loop, jobs in by_loop.items():
        with suppress(RuntimeError):  # the loop was closed meanwhile, and with it everyone who waited
            loop.call_soon_threadsafe(_settle_in_loop, jobs)


def _settle_in_loop(jobs: list[_Job]) -> None:
    for job in jobs:
        job.settle()
