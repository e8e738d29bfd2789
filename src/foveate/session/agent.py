"""The agent of a strategy, such as the hybrid's compression agent, started in the background at the trigger.

    over the trigger ──► agent runs, contexts go on unchanged ──► target reached: wait for the next trigger
                                                             └──► else: the strategy compresses by itself

A context never waits for it. If the history fills its window meanwhile, the strategy compresses by itself as well.
"""

from __future__ import annotations

import asyncio
import importlib
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import Struct

from foveate.models.names import models_for
from foveate.plan import AgentStatus, PlanEvent
from foveate.store.snapshot import AGENT_STATE
from foveate.strategy import Strategy
from foveate.turn import Json

if TYPE_CHECKING:
    from foveate.session.shared import SharedParts

LEASE_SECONDS = 120
AgentRun = Callable[["SharedParts", str, Sequence[str], int], Awaitable[bool]]
"""What `Strategy.agent` names: shared parts, stored id of the session, models, and tokens of the window."""


class _AgentState(Struct, frozen=True):
    """What the store has of a session's agent, for all processes."""

    owner: str = ""
    until_us: int = 0
    """While it runs, its owner extends this; a process that ended without a word loses the agent then."""
    is_off: bool = False
    """It did not reach its target: the next compression is the strategy's."""

    @property
    def status(self) -> AgentStatus:
        return "none" if self.is_off else "running" if self.until_us > _now_us() else "ready"


class TriggerAgent:
    """The agent of one session. All handles of the session share its status, in every process."""

    def __init__(self, shared: SharedParts, session_id: str) -> None:
        self._shared = shared
        self._store = shared.store
        self._session_id = session_id
        self._models = models_for("shrink", shared.settings.models)
        self._writes = shared.writes

    def status(self, strategy: Strategy, stored: bytes | None) -> AgentStatus:
        """Whether the agent may start now, is running, or leaves the next compression to the strategy."""
        if not self._models or not strategy.agent or not self._shared.settings.compress.enabled:
            return "none"
        return _read(stored).status

    async def follow(self, strategy: Strategy, notes: Mapping[str, Json], events: Sequence[PlanEvent]) -> None:
        """Start the agent if the plan says that it is due; note that the strategy has compressed by itself."""
        if any(happened.kind == "compression-triggered" for happened in events):
            await self._compressed()
        if notes.get("agent") == "due":
            await self._start(strategy, cast("int", notes["window_tokens"]))

    async def _start(self, strategy: Strategy, window_tokens: int) -> None:
        """Run it in the background, unless it runs already, in this process or in another."""
        owner = secrets.token_hex(8)
        if self.status(strategy, await self._stored()) == "ready":
            await self._write(lambda: self._change(lambda state: state.status == "ready", self._lease(owner)))
        if _read(await self._stored()).owner == owner:
            self._shared.worker.beside(self._run(strategy.agent, window_tokens, owner))

    async def _compressed(self) -> None:
        """The strategy has compressed by itself: the next trigger is the agent's again."""
        if self._models and _read(await self._stored()).is_off:
            await self._write(lambda: self._change(lambda state: state.is_off, _AgentState()))

    async def _run(self, place: str, window_tokens: int, owner: str) -> None:
        module, _, name = place.partition(":")
        run: AgentRun = getattr(importlib.import_module(module), name)
        ended = _AgentState(is_off=True)
        held = asyncio.create_task(self._hold(owner))
        try:
            ended = _AgentState(is_off=not await run(self._shared, self._session_id, self._models, window_tokens))
        except asyncio.CancelledError:
            ended = _AgentState()  # the next program starts it again
            raise
        finally:
            held.cancel()
            await asyncio.shield(self._change(lambda state: state.owner == owner, ended))

    async def _hold(self, owner: str) -> None:
        """Extend the lease for as long as the agent runs."""
        while True:
            await asyncio.sleep(LEASE_SECONDS / 3)
            await self._write(lambda: self._change(lambda state: state.owner == owner, self._lease(owner)))

    def _lease(self, owner: str) -> _AgentState:
        return _AgentState(owner, _now_us() + LEASE_SECONDS * 1_000_000)

    async def _write(self, job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        await self._writes.write(f"agent of {self._session_id}", job)

    async def _stored(self) -> bytes | None:
        return await self._store.artefacts.state(self._session_id, AGENT_STATE)

    async def _change(self, applies: Callable[[_AgentState], bool], new: _AgentState) -> None:
        """Replace the state where `applies` holds, unless another process replaces it at the same moment."""
        stored = await self._stored()
        if applies(_read(stored)):
            await self._store.artefacts.replace_state(self._session_id, AGENT_STATE, stored, msgspec.json.encode(new))


def _read(stored: bytes | None) -> _AgentState:
    return msgspec.json.decode(stored, type=_AgentState) if stored else _AgentState()


def _now_us() -> int:
    return time.time_ns() // 1_000
