"""Limits of one provider: a breaker, rates and slots, computed from times that are passed in.

closed ──(failures in a row)──► open ──(after its seconds, one call)──► trying ──(it failed)──► open
   ▲                                                                              │
   └───────────────────────────────(it answered)──────────────────────────────────┘
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from foveate.errors import FoveateError, ModelFailed, ModelHeldBack, ModelUnavailable
from foveate.events import Event, EventBus, EventKind
from foveate.models import Purpose
from foveate.models.settings import ModelsSettings
from foveate.store.operations import Calls
from foveate.store.rows import OK, RUNNING, UNFIT, CallRow
from foveate.turn import Json, turn_id

MINUTE_SECONDS = 60.0
TRIAL_SECONDS = 1.0
"""Delay while another call tests whether the provider has recovered."""
GRACE_SECONDS = 0.05
"""Tolerance at the end of a limit: a timer may wake up slightly early."""
MAX_PAUSE_SECONDS = 86_400.0
"""Upper limit of a pause that a provider asks for."""

PROVIDER_FAULTS = frozenset({"busy", "server", "network", "timeout", "stalled", "broken-off"})
"""Outcomes that indicate a fault of the provider, not of one request or answer."""
ANSWERED = frozenset({OK, UNFIT, "refused"})
UNTOLD = frozenset({RUNNING, "cancelled", "error"})
"""Outcomes that are not counted: the call did not finish."""

BreakerState = Literal["closed", "open", "trying"]


@dataclass(slots=True)
class Breaker:
    """Pauses a provider that fails repeatedly."""

    max_failures: int
    open_seconds: float
    failures: int = 0
    """Consecutive failures."""
    _open_until: float | None = None
    _is_trying: bool = False

    @property
    def state(self) -> BreakerState:
        if self._open_until is None:
            return "closed"
        return "trying" if self._is_trying else "open"

    def wait_seconds(self, now: float) -> float:
        """Return the remaining pause; 0 if a call may be made."""
        if self._open_until is None:
            return 0.0
        return TRIAL_SECONDS if self._is_trying else max(0.0, self._open_until - now)

    def begin(self) -> bool:
        """Register a call; return True if it is the test call."""
        is_trial = self._open_until is not None
        self._is_trying = self._is_trying or is_trial
        return is_trial

    def succeed(self) -> None:
        self.failures = 0
        self._open_until = None
        self._is_trying = False

    def fail(self, now: float) -> None:
        """Count a failure; open after enough of them. A failure while it is open does not extend the pause."""
        self.failures += 1
        if self._open_until is None and self.failures < self.max_failures:
            return
        if self._open_until is None or self._is_trying:
            self._open_until = now + self.open_seconds
        self._is_trying = False

    def abandon(self) -> None:
        """Register that the test call ended without a result; another may test."""
        self._is_trying = False


@dataclass(slots=True, eq=False)
class Taken:
    """A request's share of the minute."""

    at: float
    tokens: int


@dataclass(slots=True)
class Rates:
    """Requests and tokens of the last minute. A request larger than a minute's tokens runs alone."""

    requests_per_minute: int | None
    tokens_per_minute: int | None
    _taken: deque[Taken] = field(default_factory=deque)

    def wait_seconds(self, now: float, tokens: int) -> float:
        """Return the time until a request of this size fits both rates; 0 if it fits now."""
        self._forget(now)
        return max(self._until_requests(now), self._until_tokens(now, tokens))

    def take(self, now: float, tokens: int) -> Taken:
        taken = Taken(now, tokens)
        self._taken.append(taken)
        return taken

    def give_back(self, taken: Taken) -> None:
        """Return the share of a request that was not made."""
        if taken in self._taken:
            self._taken.remove(taken)

    def requests(self, now: float) -> int:
        self._forget(now)
        return len(self._taken)

    def tokens(self, now: float) -> int:
        self._forget(now)
        return sum(taken.tokens for taken in self._taken)

    def _until_requests(self, now: float) -> float:
        if self.requests_per_minute is None or len(self._taken) < self.requests_per_minute:
            return 0.0
        return self._taken[len(self._taken) - self.requests_per_minute].at + MINUTE_SECONDS - now

    def _until_tokens(self, now: float, tokens: int) -> float:
        if self.tokens_per_minute is None:
            return 0.0
        used, until = sum(taken.tokens for taken in self._taken), 0.0
        for taken in self._taken:
            if used + tokens <= self.tokens_per_minute:
                break
            used -= taken.tokens
            until = taken.at + MINUTE_SECONDS - now
        return until

    def _forget(self, now: float) -> None:
        while self._taken and self._taken[0].at + MINUTE_SECONDS <= now:
            self._taken.popleft()


class Slots:
    """Limit of concurrent calls. Of several slots the last is reserved for urgent calls, which also skip the queue: an
    interactive call does not wait for background work."""

    def __init__(self, limit: int) -> None:
        self.running = 0
        self._limit = limit
        self._patient_limit = max(1, limit - 1)
        self._patient_running = 0
        self._urgent: deque[asyncio.Future[None]] = deque()
        self._patient: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def taken(self, *, is_urgent: bool) -> AsyncIterator[None]:
        await self._take(is_urgent=is_urgent)
        try:
            yield
        finally:
            self._release(is_urgent=is_urgent)

    async def _take(self, *, is_urgent: bool) -> None:
        queue = self._urgent if is_urgent else self._patient
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(place)
        self._grant()
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._release(is_urgent=is_urgent)  # granted and cancelled at once
            elif place in queue:
                queue.remove(place)
            raise

    def _release(self, *, is_urgent: bool) -> None:
        self.running -= 1
        self._patient_running -= not is_urgent
        self._grant()

    def _grant(self) -> None:
        while self.running < self._limit and self._urgent:
            self._start(self._urgent)
        while self.running < self._limit and self._patient_running < self._patient_limit and self._patient:
            self._patient_running += self._start(self._patient)

    def _start(self, queue: deque[asyncio.Future[None]]) -> bool:
        place = queue.popleft()
        if place.done():
            return False  # cancelled while waiting
        place.set_result(None)
        self.running += 1
        return True


@dataclass(frozen=True, slots=True)
class Held:
    """The reason why a call is blocked now."""

    reason: Literal["breaker", "rate"]
    wait_seconds: float
    problem: str


@dataclass(slots=True)
class ProviderLimits:
    """All limits of one provider."""

    provider: str
    breaker: Breaker
    rates: Rates
    slots: Slots
    last_problem: str = ""
    paused_until: float = -math.inf
    """End of the pause that the provider requested."""

    def pause(self, now: float, seconds: float) -> None:
        if seconds > 0:  # false for a NaN
            self.paused_until = max(self.paused_until, now + min(seconds, MAX_PAUSE_SECONDS))

    def note(self, now: float, outcome: str, problem: str = "") -> None:
        """Update the provider's state with the outcome of a call."""
        if outcome in PROVIDER_FAULTS:
            self.breaker.fail(now)
        else:
            self.breaker.succeed()
        self.last_problem = "" if outcome in ANSWERED else problem or outcome

    def held(self, now: float, tokens: int, *, is_check: bool = False) -> Held | None:
        """Return what blocks a call of this size now; the breaker does not block a test call."""
        breaker = 0.0 if is_check else self.breaker.wait_seconds(now)
        if breaker > GRACE_SECONDS:
            problem = f"{self.provider} failed {self.breaker.failures} times in a row ({self.last_problem})"
            return Held("breaker", breaker, f"{problem}; paused for {breaker:.0f} s")
        paused = self.paused_until - now
        if paused > GRACE_SECONDS:
            return Held("rate", paused, f"{self.provider} requested a pause of {paused:.0f} s")
        rate = self.rates.wait_seconds(now, tokens)
        if rate > 0:
            return Held("rate", rate, f"the calls per minute that settings allow for {self.provider} are used up")
        return None

    def wait_seconds(self, now: float) -> float:
        """Return the remaining pause in seconds; 0 if it can be called."""
        return max(0.0, self.breaker.wait_seconds(now), self.paused_until - now)


REMEMBERED_SECONDS = 3_600.0
MAX_REMEMBERED_CALLS = 2_000

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ProviderState:
    """The state of a provider, for display."""

    provider: str
    breaker: BreakerState
    failures: int
    """Consecutive failures."""
    retry_after_seconds: float
    """Remaining pause; 0 if the provider can be called."""
    running: int
    """Calls in progress in this process."""
    requests_last_minute: int
    tokens_last_minute: int
    last_problem: str


class Providers:
    """The limits of all providers, shared by all calls of a process."""

    def __init__(self, settings: ModelsSettings, calls: Calls, clock: Clock) -> None:
        self._settings = settings
        self._calls = calls
        self._clock = clock
        self._limits: dict[str, ProviderLimits] = {}
        self._remembering = asyncio.Lock()
        self._has_remembered = False

    async def limits(self, provider: str) -> ProviderLimits:
        """Return the limits that all calls of a provider share."""
        await self._remember()
        return self._of(provider)

    async def states(self) -> list[ProviderState]:
        """List the providers that were called here, or recently by another process."""
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
            except FoveateError as error:  # limits are a precaution; a damaged store is reported elsewhere
                _log.warning("the calls of the last hour can't be read: %s", error)
                return
            self._has_remembered = True
        rows = [row for row in newest if row.at_us <= now_us]  # later ones are from before the clock was set back
        for provider in dict.fromkeys(row.provider for row in rows if row.provider):
            self._replay([row for row in rows if row.provider == provider], self._of(provider))

    def _replay(self, rows: Sequence[CallRow], limits: ProviderLimits) -> None:
        """Apply the calls of other processes to these limits."""
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


@dataclass(frozen=True, slots=True)
class About:
    """The purpose of a call."""

    purpose: Purpose
    session_id: str | None
    turn: int | None


class Bulletin:
    def __init__(self, events: EventBus, clock: Clock) -> None:
        self._events = events
        self._clock = clock
        self._held: dict[str, set[str]] = {}
        """The reasons already reported, by provider."""
        self._capped_day_us: int | None = None

    def failed(self, about: About, provider: str, error: ModelFailed | ModelUnavailable) -> None:
        data: dict[str, Json] = {
            "model": error.model,
            "provider": provider,
            "reason": error.reason,
            "problem": error.problem,
        }
        self._publish("model-failed", about, data)

    def held_back(self, about: About, provider: str, error: ModelHeldBack) -> None:
        reasons = self._held.setdefault(provider, set())
        if error.reason not in reasons:
            reasons.add(error.reason)
            self._publish_held(about, error)

    def capped(self, about: About, day_us: int, error: ModelHeldBack) -> None:
        """Publish once a day: a smaller call may still fit, so the cap lasts until midnight."""
        if self._capped_day_us != day_us:
            self._capped_day_us = day_us
            self._publish_held(about, error)

    def answered(self, about: About, provider: str, day_us: int) -> None:
        """Clear the reported reasons of a provider that answered."""
        reasons = self._held.pop(provider, set())
        if self._capped_day_us is not None and self._capped_day_us != day_us:
            self._capped_day_us = None
            reasons.add("cap")
        if reasons:
            self._publish("model-recovered", about, {"provider": provider, "reasons": sorted(reasons)})

    def _publish_held(self, about: About, error: ModelHeldBack) -> None:
        data: dict[str, Json] = {
            "model": error.model,
            "reason": error.reason,
            "problem": error.problem,
            "retry_after_seconds": error.retry_after_seconds,
        }
        self._publish("model-held-back", about, data)

    def _publish(self, kind: EventKind, about: About, data: dict[str, Json]) -> None:
        if self._events.is_watched:
            at = datetime.fromtimestamp(self._clock.now(), UTC)
            turn = None if about.turn is None else turn_id(about.turn)
            self._events.publish(Event(kind, about.session_id or "", at, turn, {**data, "purpose": about.purpose}))


@dataclass(frozen=True, slots=True)
class Clock:
    now: Callable[[], float] = time.time
    """Unix time, which determines the day of the cap."""
    monotonic: Callable[[], float] = time.monotonic
    """For durations."""
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    chance: Callable[[], float] = random.random
    """Random number from 0 to 1."""
