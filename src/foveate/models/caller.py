"""Every call of a model goes through here, so that none is in the way, none is repeated for ever, and each is billed.

    ask ──► cap, rates, breaker, concurrency ──► model, with a time-out ──► account
                 │ held back                          │ failed: back off and retry, then the next fallback
                 ▼                                    ▼
            ModelHeldBack, at once               ModelFailed, after at most (1 + max_retries) calls a model
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from foveate.events import EventBus
from foveate.models import Answer, Ask, Model
from foveate.settings import ModelsSettings
from foveate.store.calls import Calls

Load = Callable[[str, ModelsSettings], Model]
"""Makes the model that a name leads to; raises `ModelUnavailable` if it can't be."""


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer, and the calls it took."""

    answer: Answer
    calls: int
    nano_usd: int


@dataclass(frozen=True, slots=True)
class ProviderState:
    """How a provider stands, for people and programs that look."""

    provider: str
    breaker: Literal["closed", "open", "trying"]
    failures: int
    """In a row."""
    retry_after_seconds: float
    """0 unless it is being left alone."""
    running: int
    requests_last_minute: int
    tokens_last_minute: int
    last_problem: str


class Caller:
    """Shared by all sessions of an open store."""

    def __init__(self, settings: ModelsSettings, calls: Calls, events: EventBus, *, load: Load | None = None) -> None:
        raise NotImplementedError

    async def ask(
        self,
        ask: Ask,
        models: Sequence[str],
        *,
        session_id: str | None = None,
        turn: int | None = None,
        max_calls: int | None = None,
    ) -> Answered:
        """The first usable answer. The error otherwise says with `calls` how many calls were made in vain."""
        raise NotImplementedError

    def stream(self, ask: Ask, models: Sequence[str], *, session_id: str | None = None) -> AsyncIterator[str | Answer]:
        """Like `ask`, piece by piece; once a piece was given out, a failure is final."""
        raise NotImplementedError

    def states(self) -> list[ProviderState]:
        raise NotImplementedError

    async def spent_today_usd(self) -> float:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError
