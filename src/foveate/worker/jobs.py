"""Jobs of the model queue: write a request, weigh the answer, store the result. The queue schedules retries.

The three kinds are turns, eras and artefacts. Calls are counted in the store, so a restart does not reset them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar

from foveate.compress.settings import CompressSettings
from foveate.errors import ModelError
from foveate.events import Event, EventBus, EventKind
from foveate.models import Answer, Ask
from foveate.models.caller import Caller
from foveate.models.names import models_for
from foveate.models.prompts import load_overrides
from foveate.models.settings import ModelsSettings
from foveate.store import SessionRow, Store
from foveate.turn import Json
from foveate.worker.pool import Pool

NONCE_BYTES = 8


@dataclass(frozen=True, slots=True)
class Setback:
    """The reason why a job got no result."""

    problem: str
    error: ModelError | None = None
    """None if an answer was rejected."""
    is_final: bool = False
    """True if another attempt would not help."""


@dataclass(frozen=True, slots=True)
class QueueContext:
    """Resources shared by all jobs."""

    store: Store
    events: EventBus
    pool: Pool
    caller: Caller
    settings: ModelsSettings
    compress: CompressSettings

    async def prompts(self) -> dict[str, str]:
        """Return the current overrides of built-in prompts."""
        return await load_overrides(self.store)

    def publish(self, kind: EventKind, session_id: str, turn: str | None, data: dict[str, Json]) -> None:
        self.events.publish(Event(kind, session_id, datetime.now(UTC), turn, data))


class Job(ABC):
    """A request to a model."""

    was_answered = False
    """True if a model was asked, and everything it should make was accepted."""

    def __init__(self, context: QueueContext, session_id: str, about: str, model: str, calls: int = 0) -> None:
        self.context = context
        self.session_id = session_id
        self.about = about
        self.model = model
        self.calls = calls
        """Calls made for it, including earlier attempts."""
        self._due = context.store.derived.due

    @abstractmethod
    async def run(self) -> Setback | None:
        """Ask the model, judge the answer and store the result."""

    @abstractmethod
    async def hold(self, until_us: int) -> None:
        """Postpone the job because a limit allows no calls before a time."""

    @abstractmethod
    async def put_off(self, problem: str, due_us: int | None) -> None:
        """Keep the rules' result and retry at `due_us`; None: never."""

    @abstractmethod
    async def abandon(self) -> None:
        """Give up after an unexpected fault."""


class RollUpJob(Job):
    """An era or artefact made by rules. A model is asked once; the request is noted before, so that no process pays
    again.

    The note is removed if the job is postponed. Failed calls are counted for all jobs of a kind in a session.
    """

    kind: ClassVar[str]

    is_waiting = False
    """True if it was postponed, with the later jobs of its kind."""

    def __init__(self, context: QueueContext, session: SessionRow, about: str) -> None:
        self.session = session
        self.models = models_for("roll-up", context.settings)
        super().__init__(context, session.id, about, self.models[0])

    @abstractmethod
    async def request(self) -> Ask | None:
        """Write the request; None if it is not worth asking."""

    @abstractmethod
    async def keep(self, answer: Answer) -> bool:
        """Store what is accepted; return False if that is too little."""

    @abstractmethod
    async def note(self, *, is_asked: bool) -> None: ...

    async def run(self) -> Setback | None:
        ask = await self.request()
        await self.note(is_asked=True)
        if not ask:
            return None
        self.context.publish("llm-summarizing", self.session_id, None, {"model": self.model, "for": self.kind})
        self.calls = failed = await self._due.requested(self.session_id, "failures", self.kind)
        allowed = max(1, self.context.settings.max_calls_per_turn - failed)
        try:
            answered = await self.context.caller.ask(ask, self.models, session_id=self.session_id, max_calls=allowed)
        except ModelError as error:
            self.calls += error.calls
            return Setback(error.problem, error)
        self.was_answered = True
        if failed:
            await self._note_failures(0)
        if not await self.keep(answered.answer):
            await self.context.caller.mark_unfit(answered)
        return None

    async def hold(self, until_us: int) -> None:
        await self.put_off("", until_us if self.calls < self.context.settings.max_calls_per_turn else None)

    async def put_off(self, problem: str, due_us: int | None) -> None:  # noqa: ARG002 - events name turns only
        self.is_waiting = due_us is not None
        await self._note_failures(self.calls if self.is_waiting else 0)
        if self.is_waiting:
            await self.note(is_asked=False)

    async def abandon(self) -> None:
        await self.put_off("", None)

    async def _note_failures(self, calls: int) -> None:
        await self._due.note_requested(self.session_id, "failures", self.kind, calls)
