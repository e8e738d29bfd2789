"""The worker: claims agents from the store and executes them, a few at a time.

    claim ──► execute ──► store the result ──► publish
      ▲          │ heartbeat: the lease is renewed; an agent that was cancelled or taken away is stopped
      └──────────┘

Any number of workers can run on one store. One that is killed loses its leases, and another goes on with its agents.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import msgspec

from foveate.agents.execution import execute
from foveate.agents.suspension import Suspension
from foveate.client import Foveate
from foveate.errors import AgentNotFound, ClaimLost, FoveateError, contained
from foveate.store.agent_rows import ENDED_STATES, AgentRow, ClaimRequest

RENEWALS_PER_LEASE = 3
_log = logging.getLogger(__name__)


@asynccontextmanager
async def working(fov: Foveate, *, tree: str | None = None) -> AsyncIterator[AgentWorker]:
    """A worker that runs while the block does: for all agents, or for those of a tree."""
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
        self._settings = fov.settings.agents
        self._concurrency = concurrency or self._settings.concurrency
        self.owner = uuid.uuid4().hex
        """The name of this worker in the store."""
        self._running: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._interruptible: dict[tuple[str, int], asyncio.Task[None]] = {}
        """Those of the running tasks whose end is not being stored and told."""
        self._stopping = asyncio.Event()
        self._until: str | None = None
        self.ended = 0
        """Agents that ended here."""

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
        heart = asyncio.create_task(self._beat())
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
            heart.cancel()
            for task in self._interruptible.values():
                task.cancel()
            await asyncio.gather(heart, *self._running.values(), return_exceptions=True)
            await self._rows.release(self.owner)

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
            await self._tell(row)
            if row.state == "lost":
                continue
            key = (row.id, row.claims)
            task = asyncio.create_task(self._work(row))
            self._running[key] = self._interruptible[key] = task
            task.add_done_callback(lambda _, key=key: self._forget(key))  # type: ignore[misc]

    def _forget(self, key: tuple[str, int]) -> None:
        self._running.pop(key, None)
        self._interruptible.pop(key, None)

    async def _pause(self) -> None:
        """Until an agent ends here, the worker is stopped, or it is time to look again."""
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait(
                [stopping, *self._running.values()],
                timeout=self._settings.poll_seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            stopping.cancel()

    async def _beat(self) -> None:
        """Renew the leases, and stop what was cancelled or taken away."""
        lease_seconds = self._settings.lease_seconds
        renewed = time.monotonic()
        while True:
            await asyncio.sleep(min(self._settings.poll_seconds, lease_seconds / RENEWALS_PER_LEASE))
            if not self._running:
                renewed = time.monotonic()
                continue
            with contained(_log, "the leases of running agents can't be renewed"):
                if time.monotonic() - renewed >= lease_seconds / RENEWALS_PER_LEASE:
                    held = await self._rows.renew(self.owner, lease_seconds)
                    renewed = time.monotonic()
                else:
                    held = await self._rows.held(self.owner)
                for (agent_id, claims), task in list(self._interruptible.items()):
                    if held.get(agent_id) != claims:
                        task.cancel()

    async def _work(self, row: AgentRow) -> None:
        """Execute an agent, and store how it ended before that is published."""
        with contained(_log, "agent %s failed", row.id) as failure, suppress(ClaimLost):
            try:
                outcome = await execute(self._fov, self._rows, row, self._agents.limits)
            except Suspension as suspension:
                waits = msgspec.json.encode(suspension.waits).decode()
                self._settle(row)
                await self._tell(await self._rows.park(row, waits, suspension.children, suspension.until_us))
                return
            except ClaimLost:
                raise
            except FoveateError as error:
                self._settle(row)
                await self._tell(await self._rows.finish(row, "failed", problem=str(error)))
                return
            self._settle(row)
            done = await self._rows.finish(row, outcome.state, result=outcome.result, problem=outcome.problem)
            self.ended += 1
            await self._tell(done)
        if failure.error is not None:
            self._settle(row)
            problem = f"it failed unexpectedly: {type(failure.error).__name__}: {failure.error}"
            with contained(_log, "the failure of agent %s can't be stored", row.id), suppress(ClaimLost):
                await self._tell(await self._rows.finish(row, "failed", problem=problem))

    def _settle(self, row: AgentRow) -> None:
        """From here on the task is not interrupted: a row that has ended is held by nobody, and its end is still to be
        told."""
        self._interruptible.pop((row.id, row.claims), None)

    async def _tell(self, row: AgentRow) -> None:
        """Whoever waits for one agent here reads its result, so its board is not told."""
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
