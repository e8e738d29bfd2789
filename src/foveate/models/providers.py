"""Every provider that was asked lately, with its limits. A new process takes over what others noted of the last hour:
who fails again and again is left alone over restarts too, and the requests of the last minute count, whoever made them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from foveate.errors import FoveateError
from foveate.models._clock import Clock
from foveate.models._limits import UNTOLD, Breaker, BreakerState, ProviderLimits, Rates, Slots
from foveate.settings import ModelsSettings
from foveate.store.calls import CallRow, Calls

REMEMBERED_SECONDS = 3_600.0
MAX_REMEMBERED_CALLS = 2_000

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ProviderState:
    """How a provider stands, for people and programs that look."""

    provider: str
    breaker: BreakerState
    failures: int
    """In a row."""
    retry_after_seconds: float
    """0 unless it is left alone, or asked for a pause."""
    running: int
    """Calls of this process."""
    requests_last_minute: int
    tokens_last_minute: int
    last_problem: str


class Providers:
    """Shared by all calls of a process."""

    def __init__(self, settings: ModelsSettings, calls: Calls, clock: Clock) -> None:
        self._settings = settings
        self._calls = calls
        self._clock = clock
        self._limits: dict[str, ProviderLimits] = {}
        self._remembering = asyncio.Lock()
        self._has_remembered = False

    async def limits(self, provider: str) -> ProviderLimits:
        """One and the same for all calls of a provider."""
        await self._remember()
        return self._of(provider)

    async def states(self) -> list[ProviderState]:
        """Everyone who was asked, here or lately by another process."""
        await self._remember()
        now = self._clock.monotonic()
        return [
            ProviderState(
                limits.provider,
                limits.breaker.state,
                limits.breaker.failures,
                limits.wait_seconds(now),
                limits.slots.running,
                limits.rates.requests(now),
                limits.rates.tokens(now),
                limits.last_problem,
            )
            for limits in self._limits.values()
        ]

    async def _remember(self) -> None:
        async with self._remembering:
            if self._has_remembered:
                return
            now_us = int(self._clock.now() * 1_000_000)
            since_us = now_us - int(REMEMBERED_SECONDS * 1_000_000)
            try:
                newest = await self._calls.newest(since_us, limit=MAX_REMEMBERED_CALLS)
            except FoveateError as error:  # they are for caution; what can't be read will be told by whoever needs it
                _log.warning("the calls of the last hour can't be read: %s", error)
                return
            self._has_remembered = True
        rows = [row for row in newest if row.at_us <= now_us]  # later ones are of a clock that was set back
        for provider in dict.fromkeys(row.provider for row in rows if row.provider):
            self._replay([row for row in rows if row.provider == provider], self._of(provider))

    def _replay(self, rows: Sequence[CallRow], limits: ProviderLimits) -> None:
        """What calls did to the limits of their process they do to these."""
        zero = self._clock.monotonic() - self._clock.now()
        for row in rows:
            limits.rates.take(zero + row.at_us / 1_000_000, row.input_tokens + row.output_tokens)
        for row in sorted(rows, key=lambda row: row.at_us + row.latency_us):
            if row.outcome in UNTOLD:
                continue
            began = zero + row.at_us / 1_000_000
            if limits.breaker.wait_seconds(began) <= 0:
                limits.breaker.begin()
            limits.note(began + row.latency_us / 1_000_000, row.outcome)

    def _of(self, provider: str) -> ProviderLimits:
        settings = self._settings
        if provider not in self._limits:
            self._limits[provider] = ProviderLimits(
                provider,
                Breaker(settings.breaker_failures, settings.breaker_seconds),
                Rates(settings.requests_per_minute, settings.tokens_per_minute),
                Slots(settings.concurrency),
            )
        return self._limits[provider]
