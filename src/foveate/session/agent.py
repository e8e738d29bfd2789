"""The agent of a strategy, such as the hybrid's compression agent, started in the background at the trigger.

    over the trigger ──► agent runs, contexts go on unchanged ──► target reached: wait for the next trigger
                                                             └──► else: the strategy compresses by itself

A context never waits for it. If the history fills its window meanwhile, the strategy compresses by itself as well.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from foveate.models.names import models_for
from foveate.plan import AgentStatus
from foveate.strategy import Strategy

if TYPE_CHECKING:
    from foveate.session.shared import SharedParts

AgentRun = Callable[["SharedParts", str, Sequence[str], int], Awaitable[bool]]
"""What `Strategy.agent` names: shared parts, stored id of the session, models, and tokens of the window."""


class TriggerAgent:
    """The agent of one session. All handles of the session share its status."""

    def __init__(self, shared: SharedParts, session_id: str) -> None:
        self._shared = shared
        self._session_id = session_id
        self._models = models_for("shrink", shared.settings.models)

    def status(self, strategy: Strategy) -> AgentStatus:
        """Whether the agent may start now, is running, or leaves the next compression to the strategy."""
        if not self._models or not strategy.agent or not self._shared.settings.compress.enabled:
            return "none"
        return self._shared.agents.get(self._session_id, "ready")

    def start(self, strategy: Strategy, window_tokens: int) -> None:
        """Run it in the background, unless it runs already."""
        if self.status(strategy) == "ready":
            self._shared.agents[self._session_id] = "running"
            self._shared.worker.beside(self._run(strategy.agent, window_tokens))

    def compressed(self) -> None:
        """The strategy has compressed by itself: the next trigger is the agent's again."""
        if self._shared.agents.get(self._session_id) == "none":
            del self._shared.agents[self._session_id]

    async def _run(self, place: str, window_tokens: int) -> None:
        module, _, name = place.partition(":")
        run: AgentRun = getattr(importlib.import_module(module), name)
        is_done = False
        try:
            is_done = await run(self._shared, self._session_id, self._models, window_tokens)
        finally:
            self._shared.agents.pop(self._session_id, None)
            if not is_done:
                self._shared.agents[self._session_id] = "none"
