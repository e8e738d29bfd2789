"""From session to session with what a model is to be asked once: in the background, or while someone waits for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime

from foveate.errors import ModelError, ModelFailed, SessionNotFound
from foveate.events import Event, EventBus
from foveate.models import Ask
from foveate.models.caller import Caller, CallReport
from foveate.models.names import models_for
from foveate.models.settings import ModelsSettings
from foveate.store import Store
from foveate.turn import Json

_log = logging.getLogger(__name__)

Work = Callable[[str], Awaitable[None]]
"""Asks for all that a session has to be asked for."""
Note = Callable[[bool], Awaitable[None]]
"""Keeps whether something was asked for."""


class Rounds:
    """One session at a time, and never the same one twice at once. Without a model for roll-ups there is no work."""

    def __init__(
        self, settings: ModelsSettings, caller: Caller, work: Work, *, store: Store, name: str, events: EventBus
    ) -> None:
        self._models = models_for("roll-up", settings)
        self._max_calls = settings.max_calls_per_turn
        self._caller = caller
        self._work = work
        self._sessions: dict[str, None] = {}
        self._now: str | None = None
        self._task: asyncio.Task[None] | None = None
        self._working = asyncio.Lock()
        self._due = store.derived.due
        self._name = name
        self._events = events

    @property
    def waiting(self) -> tuple[str, ...]:
        """The sessions that were woken and are not done yet."""
        return (*self._sessions, *((self._now,) if self._now else ()))

    def wake(self, session_id: str) -> None:
        """A session may have something new."""
        if not self._models:
            return
        self._sessions[session_id] = None
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def settle(self, session_id: str) -> None:
        """Ask for everything that was not asked for yet; ends early when a model can't be asked now."""
        if self._models:
            with suppress(ModelError, SessionNotFound):
                await self._worked(session_id)

    async def close(self) -> None:
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def ask(self, session_id: str, ask: Ask, note: Note) -> CallReport | None:
        """The answer; None if it failed as often as it may.

        That it was asked is noted before, so that nothing is paid for by one process after another; and taken back if
        nothing was sent, or if the provider failed and the calls are not used up: then it is asked for another time.
        """
        await note(True)
        data: dict[str, Json] = {"model": self._models[0], "for": self._name}
        self._events.publish(Event("llm-summarizing", session_id, datetime.now(UTC), None, data))
        before = await self._due.requested(session_id, "failures", self._name)
        calls_left = max(1, self._max_calls - before)
        try:
            answered = await self._caller.ask(ask, self._models, session_id=session_id, max_calls=calls_left)
        except ModelFailed as error:
            failed = before + error.calls
            is_over = failed >= self._max_calls
            await self._due.note_requested(session_id, "failures", self._name, 0 if is_over else failed)
            if is_over:
                return None
            await note(False)
            raise
        except ModelError as error:
            if not error.calls:
                await note(False)
            raise
        if before:
            await self._due.note_requested(session_id, "failures", self._name, 0)
        return answered

    async def mark_unfit(self, answered: CallReport) -> None:
        """Note that an answer did not pass."""
        await self._caller.mark_unfit(answered)

    async def _run(self) -> None:
        while self._sessions:
            self._now = next(iter(self._sessions))
            del self._sessions[self._now]
            try:
                await self._worked(self._now)
            except (ModelError, SessionNotFound):
                continue  # when the session has something new, it is asked for this too
            except Exception:  # noqa: BLE001 - the worker's boundary: one session's fault must not stop the rest
                _log.warning("the roll-ups of %s can't be given to a model", self._now, exc_info=True)
            finally:
                self._now = None

    async def _worked(self, session_id: str) -> None:
        async with self._working:  # the background and `settle` must not ask for the same
            await self._work(session_id)
