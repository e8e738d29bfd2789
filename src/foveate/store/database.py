"""Execution of jobs: one writing thread with group commit, a few reading threads."""

from __future__ import annotations

import asyncio
import functools
import operator
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from foveate.errors import StoreClosed, contained
from foveate.store.settings import StoreSettings
from foveate.store.sql import NO_LOCKS, Connection, Dialect, Locks, Retries, Undone, Values, retried

T = TypeVar("T")
Job = Callable[[Connection], T]

FORKED = "was opened by process {process}, whose threads do not exist in a forked process; open it again in this one"


@dataclass(slots=True, eq=False)
class _Write:
    run: Job[Any]
    locks: Locks = NO_LOCKS
    loop: asyncio.AbstractEventLoop | None = None
    future: asyncio.Future[Any] | None = None
    """None for repairs, whose result nobody awaits."""
    result: object = None
    error: BaseException | None = None

    def settle(self) -> None:
        if self.future is None or self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class _Rejected(Exception):
    def __init__(self, write: _Write) -> None:
        self.write = write


class Database:
    """The threads of an open database. `read` and `write` are the only access to a connection."""

    def __init__(self, dialect: Dialect, settings: StoreSettings) -> None:
        self.location = dialect.location
        self.commits = 0
        """Number of commits, each with one fsync; concurrent writes share them."""
        self._dialect = dialect
        self._group_limit = settings.group_limit
        self._lock_timeout_seconds = settings.lock_timeout_seconds
        self._closed = False
        self._process = os.getpid()
        self._queue: SimpleQueue[list[_Write] | None] = SimpleQueue()
        self._waiting: dict[int, list[_Write]] = {}
        self._readers = ThreadPoolExecutor(settings.readers, thread_name_prefix="foveate-reader")
        self._local = threading.local()
        self._connections: list[Connection] = []
        self._writer = threading.Thread(target=self._work, name="foveate-writer", daemon=True)
        self._writer.start()

    async def read(self, job: Job[T]) -> T:
        """Run a job in a read transaction, on a reading thread."""
        return await self.run(self._read, job)

    async def run(self, function: Callable[..., T], *arguments: object) -> T:
        """Run a function without a connection on a reading thread."""
        self._require_open()
        return await asyncio.get_running_loop().run_in_executor(self._readers, function, *arguments)

    async def write(self, job: Job[T], locks: Locks = NO_LOCKS) -> T:
        """Run a job in a write transaction with these locks; return once it is durable."""
        self._require_open()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        # Writes of one iteration of the loop are handed over together, so that they share a commit.
        waiting = self._waiting.get(id(loop))
        if waiting is None:
            waiting = self._waiting[id(loop)] = []
            loop.call_soon(self._hand_over, id(loop))
        waiting.append(_Write(job, locks, loop, future))
        return await future

    async def wait_for_signal(self, seconds: float) -> None:
        """Wait until another process signals work, or until the timeout."""
        self._require_open()
        await asyncio.to_thread(self._dialect.wait_for_signal, seconds)

    async def close(self) -> None:
        """Finish queued writes, then end the threads and close the connections."""
        if not self._closed and self._process == os.getpid():
            self._closed = True
            await asyncio.to_thread(self._close)

    def _require_open(self) -> None:
        if self._process != os.getpid():
            raise StoreClosed(self.location, FORKED.format(process=self._process))
        if self._closed:
            raise self._gone()

    def _gone(self) -> StoreClosed:
        return StoreClosed(self.location, "the store is closed; open it again")

    def _read(self, job: Job[T]) -> T:
        return retried(self._lock_timeout_seconds, lambda: self._read_once(job))

    def _read_once(self, job: Job[T]) -> T:
        with self._dialect.errors():
            if not hasattr(self._local, "connection"):
                self._local.connection = self._dialect.connect(read_only=True)
                self._connections.append(self._local.connection)
            connection: Connection = self._local.connection
            connection.take_repairs()  # of an attempt that had no effect
            with self._dialect.read(connection):
                result = job(connection)
            if repairs := connection.take_repairs():
                self._queue.put([_Write(lambda writer: _repair(writer, repairs))])
            return result

    def _close(self) -> None:
        for key in list(self._waiting):
            self._hand_over(key)
        self._queue.put(None)
        self._writer.join()
        late: list[_Write] = []
        self._collect(late)
        for write in late:
            write.error = self._gone()
        _settle(late)
        self._readers.shutdown()
        for connection in self._connections:
            connection.close()
        self._dialect.close()

    def _hand_over(self, key: int) -> None:
        writes = self._waiting.pop(key, None)
        if writes:
            self._queue.put(writes)

    def _work(self) -> None:
        connection: Connection | None = None
        is_ending = False
        while not is_ending and (group := self._queue.get()) is not None:
            is_ending = self._collect(group)
            with contained() as outcome:  # the thread survives any fault; each waiting call raises it
                connection = connection or self._dialect.connect(read_only=False)
                self._commit(connection, group)
            for write in group:
                write.error = write.error or outcome.error
            _settle(group)
        if connection is not None:
            connection.close()

    def _collect(self, group: list[_Write]) -> bool:
        """Add the other queued writes; return True if they include the stop signal."""
        while len(group) < self._group_limit:
            try:
                writes = self._queue.get_nowait()
            except Empty:
                return False
            if writes is None:
                return True
            group += writes
        return False

    def _commit(self, connection: Connection, group: list[_Write]) -> None:
        pending = group
        is_shared = len(group) > 1
        retries = Retries(self._lock_timeout_seconds)
        while pending:
            locks = functools.reduce(operator.or_, (write.locks for write in pending))
            try:
                with self._dialect.errors(), self._dialect.write(connection, locks):
                    self._run_all(connection, pending, is_shared=is_shared)
                self.commits += 1
                return
            except _Rejected as rejected:
                if is_shared:  # a deferred statement of another write may have failed
                    is_shared, rejected.write.error = False, None
                    continue
                pending = [write for write in pending if write is not rejected.write]
            except Undone as undone:
                connection.take_repairs()
                retries.wait(undone)

    def _run_all(self, connection: Connection, writes: Sequence[_Write], *, is_shared: bool) -> None:
        """Run writes one after another; if shared, statements that one of them defers may run with the next one."""
        for write in writes:
            try:
                connection.set_tenant("")
                write.result = write.run(connection)
                _repair(connection, connection.take_repairs())
                if not is_shared or write is writes[-1]:
                    connection.flush()
            except Exception as error:
                if self._dialect.is_fault(error):
                    raise  # the database failed, not this job: every write of the group fails
                write.error = error
                raise _Rejected(write) from error


class TenantDatabase:
    """A database whose transactions see only a tenant's rows."""

    def __init__(self, database: Database, tenant: str) -> None:
        self.database = database
        self._tenant = tenant

    @property
    def commits(self) -> int:
        return self.database.commits

    async def read(self, job: Job[T]) -> T:
        return await self.database.read(functools.partial(self._run, job))

    async def write(self, job: Job[T], locks: Locks = NO_LOCKS) -> T:
        return await self.database.write(functools.partial(self._run, job), locks)

    async def run(self, function: Callable[..., T], *arguments: object) -> T:
        return await self.database.run(function, *arguments)

    async def wait_for_signal(self, seconds: float) -> None:
        await self.database.wait_for_signal(seconds)

    async def close(self) -> None:
        """Do nothing: the owner closes the database."""

    def _run(self, job: Job[T], connection: Connection) -> T:
        connection.set_tenant(self._tenant)
        return job(connection)


def _repair(connection: Connection, repairs: Sequence[tuple[str, Values]]) -> None:
    for statement, values in repairs:
        connection.execute(statement, values)


def _settle(group: Iterable[_Write]) -> None:
    """Resolve all futures of a loop with one wake-up."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Write]] = {}
    for write in group:
        if write.loop is not None:
            by_loop.setdefault(write.loop, []).append(write)
    for loop, writes in by_loop.items():
        with suppress(RuntimeError):  # the loop was closed, so nobody waits any more
            loop.call_soon_threadsafe(_settle_in_loop, writes)


def _settle_in_loop(writes: list[_Write]) -> None:
    for write in writes:
        write.settle()
