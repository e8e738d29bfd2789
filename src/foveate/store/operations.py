"""The store: its operations, each a function of a connection with its kind of transaction and its locks.

To add an operation, write a function whose first parameter is a connection and list it here with `_reads` or `_writes`.
It becomes a method with the same signature without the connection. Writes are durable before the call returns, or the
call fails and stores nothing.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from foveate.store import (
    access,
    agents,
    artefacts,
    cabinet,
    calls,
    clients,
    derived,
    erase,
    knowledge,
    leases,
    lineage,
    log,
    passages,
    pictures,
    prompts,
    queue,
    sent,
    workers,
)
from foveate.store import snapshot as snapshots
from foveate.store.agents import NewAgent
from foveate.store.cabinet import NewContent
from foveate.store.check import check_database
from foveate.store.database import Database, TenantDatabase
from foveate.store.rows import DueTurn, Finding, PruneReport, SessionWork
from foveate.store.sql import NO_LOCKS, Connection, Dialect, Locks

P = ParamSpec("P")
T = TypeVar("T")


class _Part:
    """A part of a store: its methods are functions of a connection, run by the database."""

    def __init__(self, database: Database | TenantDatabase) -> None:
        self._database = database


def _reads(job: Callable[Concatenate[Connection, P], T]) -> Callable[Concatenate[_Part, P], Coroutine[Any, Any, T]]:
    """Return a method that runs a function of a connection in a read transaction."""

    @functools.wraps(job)
    async def method(self: _Part, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._database.read(lambda connection: job(connection, *args, **kwargs))

    return method


def _writes(
    job: Callable[Concatenate[Connection, P], T], locks: Callable[..., Locks]
) -> Callable[Concatenate[_Part, P], Coroutine[Any, Any, T]]:
    """Return a method that runs a function of a connection in a write transaction, with locks by its arguments."""

    @functools.wraps(job)
    async def method(self: _Part, /, *args: P.args, **kwargs: P.kwargs) -> T:
        needed = locks(*args, **kwargs)
        return await self._database.write(lambda connection: job(connection, *args, **kwargs), needed)

    return method


def _of(*names: str) -> Callable[..., Locks]:
    """Lock these areas, whatever the arguments are."""
    locks = Locks(names=frozenset(names))
    return lambda *_, **__: locks


def _in_session(*names: str) -> Callable[..., Locks]:
    """Lock the session whose id is the first argument, and these areas."""
    areas = Locks(names=frozenset(names))
    return lambda session_id, *_, **__: areas | Locks(frozenset((session_id,)))


def _of_due(due: DueTurn | SessionWork, *_: object, **__: object) -> Locks:
    return Locks(frozenset((due.session_id,)))


def _of_lease(kind: leases.LeaseKind, *_: object) -> Locks:
    return {"session": NO_LOCKS, "agent": _of("agents")(), "run": _of("knowledge")()}[kind]


def _of_fork(session: object, parent_id: str, turn: int) -> Locks:  # noqa: ARG001 - the arguments of `fork_session`
    return Locks(frozenset((parent_id,)))


def _of_spawn(session: object, agent: NewAgent, **_: object) -> Locks:  # noqa: ARG001
    parents = frozenset() if agent.parent_session_id is None else frozenset((agent.parent_session_id,))
    return Locks(parents, frozenset(("agents",)))


def _of_erasure(session_id: str, *_: object, forks: Sequence[str] | None, **__: object) -> Locks:
    return Locks(frozenset((session_id, *(forks or ()))), frozenset(("agents", "cabinet", "knowledge", "passages")))


def _of_content(new: NewContent, **_: object) -> Locks:
    sessions = frozenset() if new.session_id is None else frozenset((new.session_id,))
    return Locks(sessions, frozenset(("cabinet",)))


class Leases(_Part):
    """Who works on turns, agents and learning runs, and until when."""

    take = _writes(leases.take, _in_session())
    is_taken = _reads(leases.is_taken)
    renew = _writes(leases.renew, _of_lease)
    is_held = _reads(leases.is_held)
    release = _writes(leases.release, _of_lease)


class DueQueue(_Part):
    """Work that is queued for workers and models. Open turns wait until they are closed; ancestors queue their own."""

    sessions = _reads(queue.sessions)
    claim = _writes(queue.claim, _in_session())
    reserve = _writes(queue.reserve, _of_due)
    refine = _writes(derived.refine, _of_due)
    postpone = _writes(queue.postpone, _of_due)
    hold = _writes(queue.hold, _in_session())
    hurry = _writes(queue.hurry, _of())
    want_again = _writes(queue.want_again, _in_session())
    requested = _reads(queue.requested)
    note_requested = _writes(queue.note_requested, _in_session())
    take_sessions = _writes(queue.take_sessions, _of())
    put_back = _writes(queue.put_back, _of_due)
    note_finished = _writes(queue.note_finished, _in_session())
    state = _reads(queue.state)

    async def wait_for_work(self, seconds: float) -> None:
        """Wait until something is recorded in any process, if the database signals it, or for this time."""
        await self._database.wait_for_signal(seconds)


class Derived(_Part):
    """Everything derived from the raw log: renditions, eras and plans."""

    def __init__(self, database: Database | TenantDatabase) -> None:
        super().__init__(database)
        self.due = DueQueue(database)

    unsettled = _reads(derived.unsettled)
    claim = _writes(derived.claim, _in_session())
    add_renditions = _writes(derived.add_renditions, _in_session("passages"))
    sizes_of = _reads(derived.sizes_of)
    counts = _reads(derived.counts)
    renditions = _reads(derived.renditions)
    renditions_by_rules = _reads(derived.renditions_by_rules)
    tinies = _reads(derived.tinies)
    texts = _reads(derived.texts)
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


class Artefacts(_Part):
    """Artefacts of strategies, their states, boards, and the user's goals and documents."""

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


class PassageIndex(_Part):
    """The search index."""

    async def read(self, job: Callable[[Connection], T]) -> T:
        """Run a function that reads the index, and the turns, sessions and items around it, in one read transaction on
        a reading thread. It may run again after a lost connection."""
        return await self._database.read(job)

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


class Calls(_Part):
    """Calls of models and their costs."""

    add = _writes(calls.add, _of())
    reserve = _writes(calls.reserve, _of("agents", "calls"))
    settle = _writes(calls.settle, _of())
    mark_unfit = _writes(calls.mark_unfit, _of())
    newest = _reads(calls.newest)
    spent = _reads(calls.spent)
    costs = _reads(calls.costs)
    spending = _reads(calls.spending)
    add_clients_calls = _writes(calls.add_clients_calls, _of())
    reserve_for_key = _writes(calls.reserve_for_key, _of("calls"))
    rebook_for_key = _writes(calls.rebook_for_key, _of("calls"))
    spent_by_key = _reads(calls.spent_by_key)
    prune_clients_calls = _writes(calls.prune_clients_calls, _of())


class Access(_Part):
    """Keys of the server."""

    add = _writes(access.add, _of())
    list_all = _reads(access.list_all)
    find = _reads(access.find)
    revoke = _writes(access.revoke, _of())
    set_budget = _writes(access.set_budget, _of())
    exist = _reads(access.exist)


class Clients(_Part):
    """Finds the histories that clients send in the log, by the keys of messages, answers and responses."""

    find = _reads(clients.find)
    locate = _reads(clients.locate)
    find_tails = _reads(clients.find_tails)
    family = _reads(clients.family)
    add_response = _writes(clients.add_response, _in_session())
    get_response = _reads(clients.get_response)
    delete_response = _writes(clients.delete_response, _of())


class CabinetKeys(_Part):
    """The file cabinet: contents, their keys, and the turns that refer to them.

    Without a tenant, `find`, `list_keys` and the operations for expired keys look at all tenants.
    """

    file = _writes(cabinet.file, _of_content)
    find = _reads(cabinet.find)
    list_keys = _reads(cabinet.list_keys)
    read = _reads(cabinet.read)
    renew = _writes(cabinet.renew, _of("cabinet"))
    expired = _reads(cabinet.expired)
    remove_expired = _writes(cabinet.remove_expired, _of("cabinet"))
    references = _reads(cabinet.references)
    of_turns = _reads(cabinet.of_turns)


class PromptRows(_Part):
    """Stored prompts by tenant, key and version."""

    add = _writes(prompts.add, _of("prompts"))
    newest = _reads(prompts.newest)
    history = _reads(prompts.history)


class AgentRows(_Part):
    """Agents, their states and the limits of their trees."""

    spawn = _writes(agents.spawn, _of_spawn)
    get = _reads(agents.get)
    of_session = _reads(agents.of_session)
    list_agents = _reads(agents.list_agents)
    totals = _reads(agents.totals)
    is_free = _reads(agents.is_free)
    claim = _writes(agents.claim, _of("agents"))
    check_claim = _reads(agents.check_claim)
    finish = _writes(agents.finish, _of("agents"))
    park = _writes(agents.park, _of("agents"))
    resume = _writes(agents.resume, _of("agents"))
    cancel = _writes(agents.cancel, _of("agents"))
    mark_read = _writes(agents.mark_read, _of("agents"))


class KnowledgeRows(_Part):
    """Knowledge learned from past conversations, topics of turns, and learning runs."""

    add = _writes(knowledge.add, _of("knowledge"))
    list_items = _reads(knowledge.list_items)
    mark = _reads(knowledge.mark)
    replaced = _reads(knowledge.replaced)
    versions = _reads(knowledge.versions)
    count_uses = _writes(knowledge.count_uses, _of("knowledge"))
    turn_topics = _reads(knowledge.turn_topics)
    begin_run = _writes(knowledge.begin_run, _of("knowledge"))
    get_run = _reads(knowledge.get_run)
    list_runs = _reads(knowledge.list_runs)
    keep_step = _writes(knowledge.keep_step, _of("knowledge"))
    steps = _reads(knowledge.steps)
    finish_run = _writes(knowledge.finish_run, _of("knowledge"))
    fail_run = _writes(knowledge.fail_run, _of("knowledge"))


class Erasures(_Part):
    """Erasure of turns and texts, and its audit."""

    def __init__(self, database: Database | TenantDatabase, dialect: Dialect) -> None:
        super().__init__(database)
        self._dialect = dialect

    survey = _reads(erase.survey)
    erase_turns = _writes(erase.erase_turns, _of_erasure)
    erase_text = _writes(erase.erase_text, _of_erasure)
    list_all = _reads(erase.erasures)
    note_swept = _writes(erase.note_swept, _of())

    async def sweep(self) -> str:
        """Overwrite what removed rows left in the database's file; return what is left to do, empty for nothing."""
        return await self._database.run(self._dialect.sweep)


class Pictures(_Part):
    """Pictures of a session's contexts, one for each change of its plan."""

    add = _writes(pictures.add, _in_session())
    list_pictures = _reads(pictures.list_pictures)


class SentRequests(_Part):
    """Requests as the gateway sent them."""

    add = _writes(sent.add, lambda requests, **_: Locks(frozenset(session_id for session_id, _ in requests)))
    list_sent = _reads(sent.list_sent)
    read_chain = _reads(sent.read_chain)
    find = _reads(sent.find)
    prune = _writes(sent.prune, _of())


class WorkerRows(_Part):
    """Heartbeats of processes that do background work; `derived.due.state` lists them."""

    beat = _writes(workers.beat, _of())
    end = _writes(workers.end, _of())


class Store(_Part):
    """An open store: its operations on sessions, turns and pins, and its other parts.

    It stores bodies without reading them and records the place of each message: `append` takes `Draft`s and returns
    `Place`s.
    """

    def __init__(self, dialect: Dialect, database: Database | TenantDatabase) -> None:
        super().__init__(database)
        self.location = dialect.location
        self.leases = Leases(self._database)
        self.derived = Derived(database)
        self.passages = PassageIndex(database)
        self.artefacts = Artefacts(database)
        self.calls = Calls(database)
        self.access = Access(database)
        self.clients = Clients(database)
        self.agents = AgentRows(database)
        self.cabinet = CabinetKeys(database)
        self.prompts = PromptRows(database)
        self.knowledge = KnowledgeRows(database)
        self.pictures = Pictures(database)
        self.erasures = Erasures(database, dialect)
        self.sent = SentRequests(database)
        self.workers = WorkerRows(database)
        self._dialect = dialect

    def for_tenant(self, tenant: str) -> Store:
        """Return the store for a tenant; the database hides the rows of others if it supports that."""
        database = self._database.database if isinstance(self._database, TenantDatabase) else self._database
        return Store(self._dialect, TenantDatabase(database, tenant))

    @property
    def commits(self) -> int:
        return self._database.commits

    create_session = _writes(log.create_session, _of())
    fork_session = _writes(log.fork_session, _of_fork)
    get_session = _reads(lineage.get_session)
    origin = _reads(lineage.origin_of)
    whole_turns = _reads(snapshots.whole_turns)
    snapshot = _reads(snapshots.take)
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
        """See `foveate.store.log.prune`; a dry run only reads."""

        def job(connection: Connection) -> PruneReport:
            return log.prune(connection, session_id, before_us=before_us, dry_run=dry_run)

        if dry_run:
            return await self._database.read(job)
        return await self._database.write(job, _in_session("cabinet", "knowledge")(session_id))

    async def describe(self) -> dict[str, str]:
        """Return facts about the database for its operator, by topic."""
        return await self._database.read(self._dialect.describe)

    async def check(self) -> AsyncIterator[Finding]:
        """Check the whole database; yield progress and problems."""
        findings = check_database(self._dialect)
        while (finding := await self._database.run(next, findings, None)) is not None:
            yield finding

    async def close(self) -> None:
        """Finish queued writes and close the connections; a tenant's store closes nothing."""
        await self._database.close()
