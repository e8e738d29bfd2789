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
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from foveate.history.late_writes import LateWrites
from foveate.models.names import models_for
from foveate.plan import AgentStatus
from foveate.strategy import Strategy

if TYPE_CHECKING:
    from foveate.session.shared import SharedParts

LEASE_SECONDS = 120
STATE = "agent:lease"
"""The name of the state in the store."""
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
        self._writes = LateWrites()

    async def status(self, strategy: Strategy) -> AgentStatus:
        """Whether the agent may start now, is running, or leaves the next compression to the strategy."""
        if not self._models or not strategy.agent or not self._shared.settings.compress.enabled:
            return "none"
        return _read(await self._stored()).status

    async def start(self, strategy: Strategy, window_tokens: int) -> None:
        """Run it in the background, unless it runs already, in this process or in another."""
        owner = secrets.token_hex(8)
        if await self.status(strategy) == "ready":
            await self._writes.write(lambda: self._change(lambda state: state.status == "ready", self._lease(owner)))
        if _read(await self._stored()).owner == owner:
            self._shared.worker.beside(self._run(strategy.agent, window_tokens, owner))

    async def compressed(self) -> None:
        """The strategy has compressed by itself: the next trigger is the agent's again."""
        if self._models and _read(await self._stored()).is_off:
            await self._writes.write(lambda: self._change(lambda state: state.is_off, _AgentState()))

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
            await self._writes.write(lambda: self._change(lambda state: state.owner == owner, self._lease(owner)))

    def _lease(self, owner: str) -> _AgentState:
        return _AgentState(owner, _now_us() + LEASE_SECONDS * 1_000_000)

    async def _stored(self) -> bytes | None:
        return await self._store.artefacts.state(self._session_id, STATE)

    async def _change(self, applies: Callable[[_AgentState], bool], new: _AgentState) -> None:
        """Replace the state where `applies` holds, unless another process replaces it at the same moment."""
        stored = await self._stored()
        if applies(_read(stored)):
            await self._store.artefacts.replace_state(self._session_id, STATE, stored, msgspec.json.encode(new))


def _read(stored: bytes | None) -> _AgentState:
    return msgspec.json.decode(stored, type=_AgentState) if stored else _AgentState()


def _now_us() -> int:
    return time.time_ns() // 1_000
