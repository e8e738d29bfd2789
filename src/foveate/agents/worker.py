"""The worker: claims agents from the store and executes several at a time.

    claim ──► execute ──► store the result ──► publish
      ▲          │ heartbeat: the lease is renewed; an agent that was cancelled or taken away is stopped
      └──────────┘

Any number of workers can run on one store. One that is killed loses its leases, and another resumes its agents.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

import msgspec

from foveate.agents.execution import AgentOutcome, execute
from foveate.agents.suspension import Suspension
from foveate.client import Foveate
from foveate.errors import AgentNotFound, ClaimLost, FoveateError, contained
from foveate.store.agents import ENDED_STATES, AgentRow, ClaimRequest
from foveate.store.leases import Lease

_log = logging.getLogger(__name__)


@asynccontextmanager
async def working(fov: Foveate, *, tree: str | None = None) -> AsyncIterator[AgentWorker]:
    """Run a worker during the block: for all agents, or for those of a tree."""
    worker = AgentWorker(fov)
    task = asyncio.create_task(worker.run(tree=tree))
    try:
        yield worker
    finally:
        worker.stop()
        await task


class AgentWorker:
    """Runs agents of a store."""

    def __init__(self, fov: Foveate, *, concurrency: int | None = None) -> None:
        self._fov = fov
        self._agents = fov.agents
        self._rows = fov.agents.rows
        self._leases = fov.store.leases
        self._settings = fov.settings.agents
        self._concurrency = concurrency or self._settings.concurrency
        self.owner = uuid.uuid4().hex
        """The name of this worker in the store."""
        self._running: dict[str, asyncio.Task[None]] = {}
        """Running tasks by the owner of their lease."""
        self._interruptible: dict[str, asyncio.Task[None]] = {}
        """Running tasks that can be interrupted: their result is not being stored or published."""
        self._stopping = asyncio.Event()
        self._until: str | None = None
        self.ended = 0
        """Number of agents that ended here."""

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def stop(self) -> None:
        """End the loop. Agents in progress are queued again."""
        self._stopping.set()

    async def run(self, *, tree: str | None = None, until: str | None = None, drain: bool = False) -> None:
        """Run agents until `stop`: all, or those of a `tree`. With `until`, run this agent and those below it until it
        has ended or waits for a person; with `drain`, until none is queued or running."""
        self._until = until
        try:
            while not self._stopping.is_set():
                with contained(_log, "agents can't be claimed; the worker tries again"):
                    await self._claim(tree)
                if until is not None and await self._is_over(until):
                    return
                if drain and not self._running and not await self._is_busy(tree):
                    return
                await self._pause()
        finally:
            interrupted = dict(self._interruptible)
            for task in interrupted.values():
                task.cancel()
            await asyncio.gather(*self._running.values(), return_exceptions=True)
            for owner in interrupted:  # a task that had not begun has released nothing
                await self._leases.release("agent", owner)

    async def _claim(self, tree: str | None) -> None:
        free = self._concurrency - len(self._running)
        if free <= 0 or not await self._rows.is_free(tree, self._until):
            return
        wanted = ClaimRequest(
            owner=self.owner,
            limit=free,
            lease_seconds=self._settings.lease_seconds,
            max_attempts=self._settings.max_attempts,
            tree=tree,
            top=self._until,
        )
        for row in await self._rows.claim(wanted):
            await self._publish(row)
            if row.state == "lost":
                continue
            task = asyncio.create_task(self._work(row))
            self._running[row.owner] = self._interruptible[row.owner] = task
            task.add_done_callback(lambda _, owner=row.owner: self._forget(owner))  # type: ignore[misc]

    def _forget(self, owner: str) -> None:
        self._running.pop(owner, None)
        self._interruptible.pop(owner, None)

    async def _pause(self) -> None:
        """Wait until an agent ends here, the worker is stopped, or the next poll is due."""
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait(
                [stopping, *self._running.values()],
                timeout=self._settings.poll_seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            stopping.cancel()

    async def _work(self, row: AgentRow) -> None:
        """Execute an agent, store its result, then publish it. A cancelled agent, or one taken by another worker, is
        stopped."""
        lease = Lease(
            self._leases,
            "agent",
            self._settings.lease_seconds,
            owner=row.owner,
            lost=ClaimLost(row.id),
            look_seconds=self._settings.poll_seconds,
        )
        with contained(_log, "the end of agent %s can't be stored", row.id), suppress(ClaimLost):
            async with lease:
                end = await self._execute(row)
                # From here on the task is not interrupted: a row that has ended is held by nobody, and its end is
                # not published yet.
                lease.settle()
                self._interruptible.pop(row.owner, None)
                await self._publish(await end())

    async def _execute(self, row: AgentRow) -> Callable[[], Awaitable[AgentRow]]:
        """Execute an agent; return a function that stores its result, or that it waits."""
        with contained(_log, "agent %s failed", row.id) as failure:
            try:
                outcome = await execute(self._fov, self._rows, row, self._agents.limits)
            except Suspension as suspension:
                waits = msgspec.json.encode(suspension.waits).decode()
                return partial(self._rows.park, row, waits, suspension.children, suspension.until_us)
            except FoveateError as error:
                return partial(self._rows.finish, row, "failed", problem=str(error))
            return partial(self._finish, row, outcome)
        problem = f"it failed unexpectedly: {type(failure.raised).__name__}: {failure.raised}"
        return partial(self._rows.finish, row, "failed", problem=problem)

    async def _finish(self, row: AgentRow, outcome: AgentOutcome) -> AgentRow:
        done = await self._rows.finish(row, outcome.state, result=outcome.result, problem=outcome.problem)
        self.ended += 1
        return done

    async def _publish(self, row: AgentRow) -> None:
        """Publish the end of an agent. The board omits an agent that is waited for here: its result is read anyway."""
        if row.id == self._until:
            self._agents.announce(row)
        else:
            await self._agents.tell(row)

    async def _is_over(self, agent_id: str) -> bool:
        try:
            row = await self._rows.get(agent_id)
        except AgentNotFound:
            return True
        waits_for_person = row.state == "waiting" and '"for":"agents"' not in row.waits
        return row.state in ENDED_STATES or waits_for_person

    async def _is_busy(self, tree: str | None) -> bool:
        for state in ("queued", "running"):
            if await self._rows.list_agents(state=state, tree=tree, limit=1):
                return True
        return False
