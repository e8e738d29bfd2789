"""Runs the functions of a connection: one writing thread with group commit, a few reading threads.

A job is a function of a connection. Writes that wait together run one after another in one transaction and share one
fsync; none returns before the commit. If one raises, the transaction is rolled back, that job alone fails, and the rest
run again.
"""

from __future__ import annotations

import asyncio
import functools
import operator
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Concatenate, ParamSpec, TypeVar

from foveate.errors import StoreClosed, contained
from foveate.store import (
    FORKED,
    access,
    agents,
    artefacts,
    cabinet,
    calls,
    clients,
    derived,
    knowledge,
    lineage,
    log,
    passages,
    pictures,
    prompts,
    queue,
)
from foveate.store.agent_rows import NewAgent
from foveate.store.cabinet_rows import NewContent
from foveate.store.check import check_database
from foveate.store.index_reader import IndexReader
from foveate.store.rows import DueTurn, Finding, PruneReport, SessionWork
from foveate.store.settings import StoreSettings
from foveate.store.sql import NO_LOCKS, Connection, Dialect, Locks, Retries, Undone, Values, retried

P = ParamSpec("P")
T = TypeVar("T")
Job = Callable[[Connection], T]


@dataclass(slots=True, eq=False)
class _Write:
    run: Job[Any]
    locks: Locks = NO_LOCKS
    loop: asyncio.AbstractEventLoop | None = None
    future: asyncio.Future[Any] | None = None
    """None for repairs, which nobody waits for."""
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
    """The threads of an open database. `read` and `write` are the only ways to a connection."""

    def __init__(self, dialect: Dialect, settings: StoreSettings) -> None:
        self.location = dialect.location
        self.commits = 0
        """Commits so far, each with one fsync; concurrent writes share them."""
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
        """Run a job in a write transaction with these locks; returns once it is durable."""
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
        """Wait until another process signals work, or for this time."""
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
            connection.take_repairs()  # of a try that had no effect
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
            with contained() as outcome:  # the thread outlives any fault; each waiting call raises it
                connection = connection or self._dialect.connect(read_only=False)
                self._commit(connection, group)
            for write in group:
                write.error = write.error or outcome.error
            _settle(group)
        if connection is not None:
            connection.close()

    def _collect(self, group: list[_Write]) -> bool:
        """Add what else is queued; True if that includes the signal to stop."""
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
                if is_shared:  # what another write deferred may have failed
                    is_shared, rejected.write.error = False, None
                    continue
                pending = [write for write in pending if write is not rejected.write]
            except Undone as undone:
                connection.take_repairs()
                retries.wait(undone)

    def _run_all(self, connection: Connection, writes: Sequence[_Write], *, is_shared: bool) -> None:
        """Run writes one after another; shared, what one of them defers may run with the next one."""
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
    """A database in whose transactions a tenant's rows are all there is."""

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
        """It belongs to the owner."""

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
        with suppress(RuntimeError):  # the loop was closed meanwhile, and with it everyone who waited
            loop.call_soon_threadsafe(_settle_in_loop, writes)


def _settle_in_loop(writes: list[_Write]) -> None:
    for write in writes:
        write.settle()


class _Part:
    """A part of a store: its methods are functions of a connection, run by the database."""

    def __init__(self, database: Database | TenantDatabase) -> None:
        self._database = database


def _reads(job: Callable[Concatenate[Connection, P], T]) -> Callable[Concatenate[_Part, P], Coroutine[Any, Any, T]]:
    """A method that runs a function of a connection in a read transaction."""

    @functools.wraps(job)
    async def method(self: _Part, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._database.read(lambda connection: job(connection, *args, **kwargs))

    return method


def _writes(
    job: Callable[Concatenate[Connection, P], T], locks: Callable[..., Locks]
) -> Callable[Concatenate[_Part, P], Coroutine[Any, Any, T]]:
    """A method that runs a function of a connection in a write transaction, with the locks that its arguments tell."""

    @functools.wraps(job)
    async def method(self: _Part, /, *args: P.args, **kwargs: P.kwargs) -> T:
        wanted = locks(*args, **kwargs)
        return await self._database.write(lambda connection: job(connection, *args, **kwargs), wanted)

    return method


def _of(*names: str) -> Callable[..., Locks]:
    """These areas, whatever the arguments are."""
    locks = Locks(names=frozenset(names))
    return lambda *_, **__: locks


def _in_session(*names: str) -> Callable[..., Locks]:
    """The session whose id is the first argument, and these areas."""
    areas = Locks(names=frozenset(names))
    return lambda session_id, *_, **__: areas | Locks(frozenset((session_id,)))


def _of_due(due: DueTurn | SessionWork, *_: object, **__: object) -> Locks:
    return Locks(frozenset((due.session_id,)))


def _of_fork(session: object, parent_id: str, turn: int) -> Locks:  # noqa: ARG001 - the arguments of `fork_session`
    return Locks(frozenset((parent_id,)))


def _of_spawn(session: object, agent: NewAgent, **_: object) -> Locks:  # noqa: ARG001
    parents = frozenset() if agent.parent_session_id is None else frozenset((agent.parent_session_id,))
    return Locks(parents, frozenset(("agents",)))


def _of_content(new: NewContent, **_: object) -> Locks:
    sessions = frozenset() if new.session_id is None else frozenset((new.session_id,))
    return Locks(sessions, frozenset(("cabinet",)))


class _DueQueue(_Part):
    sessions = _reads(queue.sessions)
    claim = _writes(queue.claim, _in_session())
    lease_roll_ups = _writes(queue.lease_roll_ups, _in_session())
    reserve = _writes(queue.reserve, _of_due)
    refine = _writes(derived.refine, _of_due)
    postpone = _writes(queue.postpone, _of_due)
    hold = _writes(queue.hold, _in_session())
    hurry = _writes(queue.hurry, _of())
    renew = _writes(queue.renew, _of())
    release = _writes(queue.release, _of())
    want_again = _writes(queue.want_again, _in_session())
    requested = _reads(queue.requested)
    note_requested = _writes(queue.note_requested, _in_session())
    take_sessions = _writes(queue.take_sessions, _of())
    put_back = _writes(queue.put_back, _of_due)
    state = _reads(queue.state)

    async def wait_for_work(self, seconds: float) -> None:
        await self._database.wait_for_signal(seconds)


class _Derived(_Part):
    def __init__(self, database: Database | TenantDatabase) -> None:
        super().__init__(database)
        self.due = _DueQueue(database)

    unsettled = _reads(derived.unsettled)
    claim = _writes(derived.claim, _in_session())
    add_renditions = _writes(derived.add_renditions, _in_session("passages"))
    release = _writes(derived.release, _in_session())
    sizes_of = _reads(derived.sizes_of)
    counts = _reads(derived.counts)
    renditions = _reads(derived.renditions)
    tinies = _reads(derived.tinies)
    add_eras = _writes(derived.add_eras, _in_session())
    eras = _reads(derived.eras)
    era_tokens = _reads(derived.era_tokens)
    next_era = _reads(derived.next_era)
    settled = _reads(derived.settled)
    plan = _reads(derived.plan)
    keep_plan = _writes(derived.keep_plan, _in_session())
    offer = _reads(derived.offer)
    keep_offer = _writes(derived.keep_offer, _in_session())
    recalled = _reads(derived.recalled)
    keep_recalled = _writes(derived.keep_recalled, _in_session())
    pruned = _reads(derived.pruned)
    backlog = _reads(derived.backlog)


class _Artefacts(_Part):
    mark = _reads(artefacts.mark)
    made = _reads(artefacts.made)
    keep_made = _writes(artefacts.keep_made, _in_session())
    replace_made = _writes(artefacts.replace_made, _in_session())
    state = _reads(artefacts.state)
    keep_state = _writes(artefacts.keep_state, _in_session())
    replace_state = _writes(artefacts.replace_state, _in_session())
    board = _reads(artefacts.board)
    keep_board = _writes(artefacts.keep_board, _in_session())
    goals = _reads(artefacts.goals)
    add_goal = _writes(artefacts.add_goal, _in_session())
    update_goal = _writes(artefacts.update_goal, _in_session())
    documents = _reads(artefacts.documents)
    keep_document = _writes(artefacts.keep_document, _in_session())


class _Passages(_Part):
    async def read(self, job: Callable[[IndexReader], T]) -> T:
        return await self._database.read(lambda connection: job(IndexReader(connection)))

    look = _reads(passages.look)
    rows = _reads(passages.rows)
    postings = _reads(passages.postings)
    nearest = _reads(passages.nearest)
    among = _reads(passages.among)
    texts = _reads(passages.texts)
    add = _writes(passages.add, _in_session("passages"))
    lacking = _reads(passages.lacking)
    note_made = _writes(passages.note_made, _in_session())
    want = _writes(passages.want, _in_session())
    unindexed = _reads(passages.unindexed)
    state = _reads(passages.state)
    check = _writes(passages.check, _of("passages"))
    clear = _writes(passages.clear, _of("passages"))


class _Calls(_Part):
    add = _writes(calls.add, _of())
    reserve = _writes(calls.reserve, _of("agents", "calls"))
    settle = _writes(calls.settle, _of())
    mark_unfit = _writes(calls.mark_unfit, _of())
    newest = _reads(calls.newest)
    spent = _reads(calls.spent)
    costs = _reads(calls.costs)


class _Access(_Part):
    add = _writes(access.add, _of())
    list_all = _reads(access.list_all)
    find = _reads(access.find)
    revoke = _writes(access.revoke, _of())
    exist = _reads(access.exist)


class _Clients(_Part):
    find = _reads(clients.find)
    locate = _reads(clients.locate)
    find_tails = _reads(clients.find_tails)
    family = _reads(clients.family)
    add_response = _writes(clients.add_response, _in_session())
    get_response = _reads(clients.get_response)
    delete_response = _writes(clients.delete_response, _of())


class _Cabinet(_Part):
    file = _writes(cabinet.file, _of_content)
    find = _reads(cabinet.find)
    list_keys = _reads(cabinet.list_keys)
    read = _reads(cabinet.read)
    renew = _writes(cabinet.renew, _of("cabinet"))
    expired = _reads(cabinet.expired)
    remove_expired = _writes(cabinet.remove_expired, _of("cabinet"))
    references = _reads(cabinet.references)
    of_turns = _reads(cabinet.of_turns)


class _Prompts(_Part):
    add = _writes(prompts.add, _of("prompts"))
    newest = _reads(prompts.newest)
    history = _reads(prompts.history)


class _Agents(_Part):
    spawn = _writes(agents.spawn, _of_spawn)
    get = _reads(agents.get)
    of_session = _reads(agents.of_session)
    list_agents = _reads(agents.list_agents)
    totals = _reads(agents.totals)
    is_free = _reads(agents.is_free)
    claim = _writes(agents.claim, _of("agents"))
    renew = _writes(agents.renew, _of("agents"))
    held = _reads(agents.held)
    release = _writes(agents.release, _of("agents"))
    check_claim = _reads(agents.check_claim)
    finish = _writes(agents.finish, _of("agents"))
    park = _writes(agents.park, _of("agents"))
    resume = _writes(agents.resume, _of("agents"))
    cancel = _writes(agents.cancel, _of("agents"))
    mark_read = _writes(agents.mark_read, _of("agents"))


class _Knowledge(_Part):
    add = _writes(knowledge.add, _of("knowledge"))
    list_items = _reads(knowledge.list_items)
    mark = _reads(knowledge.mark)
    versions = _reads(knowledge.versions)
    count_uses = _writes(knowledge.count_uses, _of("knowledge"))
    turn_topics = _reads(knowledge.turn_topics)
    begin_run = _writes(knowledge.begin_run, _of("knowledge"))
    get_run = _reads(knowledge.get_run)
    list_runs = _reads(knowledge.list_runs)
    renew_run = _writes(knowledge.renew_run, _of("knowledge"))
    release_run = _writes(knowledge.release_run, _of("knowledge"))
    keep_step = _writes(knowledge.keep_step, _of("knowledge"))
    steps = _reads(knowledge.steps)
    finish_run = _writes(knowledge.finish_run, _of("knowledge"))
    fail_run = _writes(knowledge.fail_run, _of("knowledge"))


class _Pictures(_Part):
    add = _writes(pictures.add, _in_session())
    list_pictures = _reads(pictures.list_pictures)


class DatabaseStore(_Part):
    """See `foveate.store.protocol.Store`."""

    def __init__(self, dialect: Dialect, database: Database | TenantDatabase) -> None:
        super().__init__(database)
        self.location = dialect.location
        self.derived = _Derived(self._database)
        self.passages = _Passages(self._database)
        self.artefacts = _Artefacts(self._database)
        self.calls = _Calls(self._database)
        self.access = _Access(self._database)
        self.clients = _Clients(self._database)
        self.agents = _Agents(self._database)
        self.cabinet = _Cabinet(self._database)
        self.prompts = _Prompts(self._database)
        self.knowledge = _Knowledge(self._database)
        self.pictures = _Pictures(self._database)
        self._dialect = dialect

    @classmethod
    async def open(cls, dialect: Dialect, prepare: Callable[[], None], settings: StoreSettings) -> DatabaseStore:
        """`prepare` creates the database or brings it to the current schema."""
        await asyncio.to_thread(prepare)
        return cls(dialect, Database(dialect, settings))

    def for_tenant(self, tenant: str) -> DatabaseStore:
        database = self._database.database if isinstance(self._database, TenantDatabase) else self._database
        return DatabaseStore(self._dialect, TenantDatabase(database, tenant))

    @property
    def commits(self) -> int:
        return self._database.commits

    create_session = _writes(log.create_session, _of())
    fork_session = _writes(log.fork_session, _of_fork)
    get_session = _reads(lineage.get_session)
    list_sessions = _reads(log.list_sessions)
    update_session = _writes(log.update_session, _in_session())
    delete_session = _writes(agents.delete_session, _in_session("agents", "cabinet", "knowledge"))
    append = _writes(log.append, _in_session())
    read = _reads(log.read)
    turns = _reads(log.turns)
    outlines = _reads(log.outlines)
    keys = _reads(log.keys)
    sizes = _reads(log.sizes)
    raw_tokens = _reads(log.raw_tokens)
    add_pin = _writes(log.add_pin, _in_session())
    list_pins = _reads(log.list_pins)
    remove_pin = _writes(log.remove_pin, _in_session())

    async def prune(self, session_id: str, *, before_us: int, dry_run: bool) -> PruneReport:
        def job(connection: Connection) -> PruneReport:
            return log.prune(connection, session_id, before_us=before_us, dry_run=dry_run)

        if dry_run:
            return await self._database.read(job)
        return await self._database.write(job, _in_session("cabinet", "knowledge")(session_id))

    async def describe(self) -> dict[str, str]:
        return await self._database.read(self._dialect.describe)

    async def check(self) -> AsyncIterator[Finding]:
        findings = check_database(self._dialect)
        while (finding := await self._database.run(next, findings, None)) is not None:
            yield finding

    async def close(self) -> None:
        await self._database.close()
