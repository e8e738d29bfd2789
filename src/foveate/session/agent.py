"""Runs the agent of a strategy, such as the hybrid's compression agent, in the background when a plan triggers it.

    trigger ──► agent runs, contexts do not change ──► target reached: wait for the next trigger
                                                  └──► target missed: the strategy compresses without it

A context never waits for the agent. If the history fills its window meanwhile, the strategy compresses without it, too.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

import msgspec
from msgspec import Struct

from foveate.models.names import models_for
from foveate.plan import AgentStatus, PlanEvent
from foveate.store.leases import Lease
from foveate.store.snapshot import AGENT_STATE, SessionSnapshot
from foveate.strategy import Strategy
from foveate.turn import Json

if TYPE_CHECKING:
    from foveate.session.shared import SharedParts

LEASE_SECONDS = 120.0
"""Time after which the agent of a crashed process may be started again."""
AgentRun = Callable[["SharedParts", str, Sequence[str], int], Awaitable[bool]]
"""The function that `Strategy.agent` names. Arguments: shared parts, stored session id, models, tokens of the window.

Returns whether the target was reached."""


class _AgentState(Struct, frozen=True):
    """The stored state of a session's agent, for all processes."""

    is_off: bool = False
    """It missed its target: the strategy does the next compression."""


class TriggerAgent:
    """The agent of one session. All handles of the session share its status, in every process."""

    def __init__(self, shared: SharedParts, session_id: str) -> None:
        self._shared = shared
        self._store = shared.store
        self._session_id = session_id
        self._models = models_for("shrink", shared.settings.models)
        self._writes = shared.writes
        self._name = f"agent of {session_id}"

    def status(self, strategy: Strategy, snapshot: SessionSnapshot) -> AgentStatus:
        """Return whether the agent may start, is running, or leaves the next compression to the strategy."""
        if not self._models or not strategy.agent or not self._shared.settings.compress.enabled:
            return "none"
        if _read(snapshot.agent).is_off:
            return "none"
        return "running" if snapshot.is_agent_running else "ready"

    async def follow(self, strategy: Strategy, notes: Mapping[str, Json], events: Sequence[PlanEvent]) -> None:
        """Start the agent if a plan's notes request it; after a compression by the strategy, enable it again."""
        if any(event.kind == "compression-triggered" for event in events):
            await self._enable()
        if notes.get("agent") == "due":
            await self._start(strategy, cast("int", notes["window_tokens"]))

    async def _start(self, strategy: Strategy, window_tokens: int) -> None:
        """Run the agent in the background, unless it is running in any process."""
        lease = Lease(self._store.leases, "session", LEASE_SECONDS, job=(self._session_id, "shrink"))
        await self._writes.write(self._name, lease.acquire)
        if lease.is_held:
            self._shared.worker.beside(self._run(strategy.agent, window_tokens, lease))

    async def _enable(self) -> None:
        """Enable the agent for the next trigger, after the strategy has compressed."""
        if self._models:
            await self._writes.write(self._name, lambda: self._note(is_off=False))

    async def _run(self, path: str, window_tokens: int, lease: Lease) -> None:
        module, _, name = path.partition(":")
        run: AgentRun = getattr(importlib.import_module(module), name)
        async with lease:
            is_off = True
            try:
                is_off = not await run(self._shared, self._session_id, self._models, window_tokens)
            except asyncio.CancelledError:
                is_off = False  # the next process starts it again
                raise
            finally:
                if lease.is_held:
                    await asyncio.shield(self._note(is_off=is_off))

    async def _stored(self) -> bytes | None:
        return await self._store.artefacts.state(self._session_id, AGENT_STATE)

    async def _note(self, *, is_off: bool) -> None:
        """Store whether the agent is off, unless another process stores it at the same time."""
        stored = await self._stored()
        if _read(stored).is_off != is_off:
            new = msgspec.json.encode(_AgentState(is_off))
            await self._store.artefacts.replace_state(self._session_id, AGENT_STATE, stored, new)


def _read(stored: bytes | None) -> _AgentState:
    return msgspec.json.decode(stored, type=_AgentState) if stored else _AgentState()
