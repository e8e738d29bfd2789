"""The model queue: turns, eras and artefacts that rules have made get better texts from a model, in the background.

No request waits for it. Due times, leases and counts are in the store, so a restart resumes the work, and
nothing exceeds its limit. A job that fails keeps the rules' result and is retried later, up to its limit
of calls; one held back by a cap, a rate or a breaker waits until that allows it.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Sequence
from contextlib import aclosing, suppress
from contextvars import Context
from functools import partial

from foveate import telemetry
from foveate.cache import BoundedCache
from foveate.compress.local import LocalCompressor
from foveate.compress.model import PROMPT_VERSION, groups
from foveate.errors import ModelFailed, ModelHeldBack, ModelUnavailable, SessionNotFound
from foveate.events import EventBus
from foveate.models.caller import Caller
from foveate.models.names import models_for
from foveate.renditions import Level
from foveate.settings import Settings
from foveate.store import Store
from foveate.store.leases import Lease
from foveate.store.rows import RedoRequest
from foveate.worker.artefacts import artefact_jobs
from foveate.worker.eras import era_jobs
from foveate.worker.jobs import Job, QueueContext, RollUpJob, Setback
from foveate.worker.pool import Pool
from foveate.worker.turns import Parts, TurnJob

START_SECONDS = 0.5
"""Startup delay: a program that ends sooner, such as a command that records, calls no models."""
LATER = 10
"""A failed attempt is retried after `backoff_seconds` times this factor."""
LATER_GROWTH = 6
"""Growth of the delay per call: the six calls of a turn outlast two hours without a provider."""
MAX_LATER_SECONDS = 6 * 3600.0
"""Maximum delay. When a model answers again after an outage, all waiting turns become due."""
LEAST_JITTER = 0.5
OUTAGE_FAILURES = 3
"""Consecutive failures that count as an outage; a single turn that always fails does not make the others due."""
MAX_PARTS = 256
LEAST_HOLD_SECONDS = 0.2
UNAVAILABLE_SECONDS = 3600.0
"""Pause if a key, a package or a name is missing; a restart and `settle` retry at once."""
LOOK_SECONDS = 2.0
"""Interval for checking a turn that another process has leased."""
MAX_WAIT_SECONDS = 300.0
"""Maximum interval between two checks of the queue."""
POLL_SECONDS = 0.05
PAUSE_SECONDS = 5.0
ABOUT_THE_JOB = ("too-long", "refused")
"""Reasons to give up only this job."""

Progress = Callable[[int], object]
Feed = Callable[[str], AsyncGenerator[Job, None]]
"""Yields jobs, whose turns are claimed with this owner."""

_log = logging.getLogger(__name__)


def _clock_us() -> int:
    return time.time_ns() // 1000


class Refiner:
    """Calls models for due work: several turns at a time, roll-ups one by one. It starts at the first wake-up."""

    def __init__(
        self,
        store: Store,
        events: EventBus,
        settings: Settings,
        *,
        pool: Pool,
        caller: Caller,
        now_us: Callable[[], int] = _clock_us,
    ) -> None:
        self._store = store
        self._due = store.derived.due
        self._settings = settings.models
        self._lease_seconds = settings.compress.lease_seconds
        self._context = QueueContext(store, events, pool, caller, settings.models, settings.compress)
        self._groups = groups(settings.models)
        self._roll_up = next(iter(models_for("roll-up", settings.models)), None)
        self._now_us = now_us
        self._woken = asyncio.Event()
        self._has_roll_ups = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._roll_ups: dict[str, bool] = {}
        """The sessions that were woken, and whether their roll-ups were not checked since."""
        self._unavailable_until: dict[str, float] = {}
        """By model, on the monotonic clock."""
        self._warned: set[str] = set()
        self._parts: Parts = BoundedCache(MAX_PARTS)
        self._failures: Counter[str] = Counter()
        """Consecutive failed jobs, by model."""
        self._closed = False

    @property
    def asked(self) -> tuple[tuple[Level, ...], ...]:
        """The levels of each call for a turn; empty if no model is configured."""
        return tuple(group.levels for group in self._groups)

    @property
    def waiting(self) -> tuple[str, ...]:
        """The sessions whose eras and artefacts are queued or in progress."""
        return tuple(self._roll_ups)

    def wake(self, session_id: str) -> None:
        """Check for due turns, eras and artefacts of a session."""
        self.look()
        self.wake_roll_ups(session_id)

    def look(self) -> None:
        """Check for due turns that another process recorded."""
        if not self._closed and self._groups:
            self._woken.set()
            self._start("turns", self._endless, self._settings.concurrency)

    def wake_roll_ups(self, session_id: str) -> None:
        """Check for due eras and artefacts of a session."""
        if not self._closed and self._roll_up:
            self._roll_ups[session_id] = True
            self._has_roll_ups.set()
            self._start("roll-ups", self._endless_roll_ups, 1)

    def _start(self, lane: str, feed: Feed, width: int) -> None:
        if lane not in self._tasks:
            self._tasks[lane] = asyncio.create_task(self._run(feed, width), context=Context())

    async def settle(self, session_ids: Sequence[str] | None = None, progress: Progress | None = None) -> None:
        """Process the turns that are due now, without those postponed until later."""
        if not self._groups:
            return
        self._unavailable_until.pop(self._turn_model, None)
        moment_us = self._now_us()
        while self._is_available(self._turn_model):
            feed = partial(self._finite, session_ids, moment_us)
            await self._work(feed, self._settings.concurrency, progress)
            if not await self._due_sessions(session_ids, moment_us):
                return
            await asyncio.sleep(POLL_SECONDS)  # another task or process has leased the rest

    async def settle_roll_ups(self, session_ids: Iterable[str]) -> None:
        """Ask for the sessions' eras and artefacts that no model was asked for; a setback ends the jobs of its kind in
        a session."""
        if not self._roll_up:
            return
        self._unavailable_until.pop(self._roll_up, None)
        left = list(session_ids)
        while left:
            await self._work(lambda _: self._finite_roll_ups(left), 1)
            if left:
                await asyncio.sleep(POLL_SECONDS)

    async def want_again(self, session_id: str) -> int:
        """Queue again turns made by older compressors, turns that are marked, and turns made by rules although a model
        is configured."""
        model_version = PROMPT_VERSION if self._groups else None
        request = RedoRequest(local_version=LocalCompressor().version, model_version=model_version)
        return await self._due.want_again(session_id, request, self._now_us())

    async def close(self) -> None:
        self._closed = True
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _run(self, feed: Feed, width: int) -> None:
        await asyncio.sleep(START_SECONDS)
        while True:
            try:
                await self._work(feed, width)
            except Exception:  # noqa: BLE001 - the worker's boundary: a fault must not stop later work
                _log.warning("calling models in the background failed; it is retried later", exc_info=True)
                await asyncio.sleep(PAUSE_SECONDS)

    async def _work(self, feed: Feed, width: int, progress: Progress | None = None) -> None:
        """Take jobs from the feed, up to `width` at a time, until it ends."""
        taking = asyncio.Lock()

        async def work() -> None:
            while True:
                async with taking:
                    job = await anext(jobs, None)
                if job is None:
                    return
                await self._do(job)
                if progress:
                    progress(1)

        # Held until the last task has ended, not only the feed.
        lease = Lease(self._store.leases, "session", self._lease_seconds)
        async with lease, aclosing(feed(lease.owner)) as jobs, asyncio.TaskGroup() as tasks:
            for _ in range(width):
                tasks.create_task(work())

    async def _finite(self, session_ids: Sequence[str] | None, moment_us: int, owner: str) -> AsyncGenerator[Job, None]:
        """Yield the turns that were due at a moment and are not leased by another process."""
        is_found = True
        while is_found and self._is_available(self._turn_model):
            is_found = False
            for session_id in await self._due_sessions(session_ids, moment_us):
                async with aclosing(self._claimed(session_id, moment_us, owner)) as claimed:
                    async for job in claimed:
                        is_found = True
                        yield job

    async def _endless(self, owner: str) -> AsyncGenerator[Job, None]:
        """Yield the turns that are due; wait while there are none."""
        while True:
            self._woken.clear()
            is_found = False
            async with aclosing(self._finite(None, self._now_us(), owner)) as jobs:
                async for job in jobs:
                    is_found = True
                    yield job
            if not is_found:
                with suppress(TimeoutError):
                    async with asyncio.timeout(await self._seconds_to_next()):
                        await self._woken.wait()

    async def _claimed(self, session_id: str, moment_us: int, owner: str) -> AsyncGenerator[TurnJob, None]:
        """Yield a few turns of one session, so that other sessions are not blocked; release those not started."""
        try:
            claims = await self._due.claim(
                session_id,
                owner=owner,
                limit=self._settings.concurrency,
                lease_seconds=self._lease_seconds,
                max_calls=self._settings.max_calls_per_turn,
                now_us=moment_us,
            )
        except SessionNotFound:
            return  # deleted in the meantime
        taken = 0
        try:
            for due in claims:
                if not self._is_available(self._turn_model):
                    return
                taken += 1
                yield TurnJob(self._context, self._groups, due, self._parts)
        finally:
            for due in claims[taken:]:
                await asyncio.shield(TurnJob(self._context, self._groups, due, self._parts).give_back(due.due_us))

    async def _finite_roll_ups(self, session_ids: list[str]) -> AsyncGenerator[RollUpJob, None]:
        """Yield the eras and artefacts of sessions; sessions leased by another process stay in the list."""
        for session_id in list(session_ids):
            try:
                async with self._roll_up_lease(session_id) as lease:
                    if not lease.is_held:
                        continue
                    async with aclosing(self._session_roll_ups(session_id)) as jobs:
                        async for job in jobs:
                            yield job
            except SessionNotFound:
                pass  # deleted in the meantime
            session_ids.remove(session_id)

    def _roll_up_lease(self, session_id: str) -> Lease:
        return Lease(self._store.leases, "session", self._lease_seconds, job=(session_id, "roll-ups"))

    async def _endless_roll_ups(self, _owner: str) -> AsyncGenerator[Job, None]:
        """Yield the eras and artefacts of the sessions that were woken; wait while there are none."""
        while True:
            await self._has_roll_ups.wait()
            self._has_roll_ups.clear()
            left = list(self._roll_ups)
            self._roll_ups = dict.fromkeys(left, False)
            async with aclosing(self._finite_roll_ups(left)) as jobs:
                async for job in jobs:
                    yield job
            self._roll_ups = {name: is_new for name, is_new in self._roll_ups.items() if is_new or name in left}
            if left:
                await asyncio.sleep(LOOK_SECONDS)
                self._has_roll_ups.set()

    async def _session_roll_ups(self, session_id: str) -> AsyncGenerator[RollUpJob, None]:
        """Yield one job after another, each done before the next is taken. A postponed job ends its kind."""
        session = await self._store.get_session(session_id)
        for find in (era_jobs, artefact_jobs):
            async with aclosing(find(self._context, session)) as jobs:
                async for job in jobs:
                    if not self._is_available(job.model):
                        return
                    yield job
                    if job.is_waiting:
                        break

    async def _due_sessions(self, session_ids: Collection[str] | None, moment_us: int) -> list[str]:
        return [
            session_id
            for session_id, due_us in await self._due.sessions()
            if due_us <= moment_us and (session_ids is None or session_id in session_ids)
        ]

    async def _seconds_to_next(self) -> float:
        if not self._is_available(self._turn_model):
            return MAX_WAIT_SECONDS
        moments = [due_us for _, due_us in await self._due.sessions()]
        seconds = (min(moments, default=2**62) - self._now_us()) / 1_000_000
        return min(MAX_WAIT_SECONDS, seconds) if seconds > 0 else LOOK_SECONDS

    @property
    def _turn_model(self) -> str:
        return self._groups[0].models[0]

    def _is_available(self, model: str) -> bool:
        return time.monotonic() >= self._unavailable_until.get(model, 0.0)

    async def _do(self, job: Job) -> None:
        """Run one job and handle any outcome."""
        try:
            with telemetry.span("foveate.refine", is_root=True) as span:
                span.set({telemetry.SESSION: job.session_id})
                setback = await job.run()
            if setback:
                await self._set_back(job, setback)
            elif job.was_answered and self._failures.pop(job.model, 0) >= OUTAGE_FAILURES:
                await self._due.hurry(self._now_us())
        except SessionNotFound:
            return  # deleted in the meantime
        except Exception:  # noqa: BLE001 - the worker's boundary: one job's fault must not stop the rest
            _log.warning("%s of %s could not be processed by a model", job.about, job.session_id, exc_info=True)
            await job.abandon()

    async def _set_back(self, job: Job, setback: Setback) -> None:
        """Decide when the job is retried, if ever."""
        error, seconds = setback.error, self._later_seconds(job)
        if isinstance(error, ModelHeldBack) and error.reason != "calls":
            await job.hold(self._moment_us(max(error.retry_after_seconds, LEAST_HOLD_SECONDS)))
            return
        is_final = setback.is_final
        if isinstance(error, ModelUnavailable) and error.reason in ABOUT_THE_JOB:
            is_final = True
        elif isinstance(error, ModelUnavailable):
            if str(error) not in self._warned:
                self._warned.add(str(error))
                _log.warning("%s; turns are compressed without it", error)
            if not is_final:
                self._unavailable_until[job.model] = time.monotonic() + UNAVAILABLE_SECONDS
                seconds = 0.0
        elif error:
            self._failures[job.model] += 1
            asked_for = error.retry_after_seconds if isinstance(error, ModelFailed) else None
            seconds = max(seconds, asked_for or 0.0)
        is_over = is_final or job.calls >= self._settings.max_calls_per_turn
        await job.put_off(setback.problem, None if is_over else self._moment_us(seconds))

    def _moment_us(self, seconds: float) -> int:
        return self._now_us() + int(seconds * 1_000_000)

    def _later_seconds(self, job: Job) -> float:
        seconds = longest_wait_seconds(job.calls, self._settings.backoff_seconds)
        return seconds * random.uniform(LEAST_JITTER, 1)  # noqa: S311 - jitter


def longest_wait_seconds(calls: int, backoff_seconds: float) -> float:
    """Return the maximum delay before a turn is retried, by the calls made for it."""
    return float(min(backoff_seconds * LATER * LATER_GROWTH ** max(0, calls - 1), MAX_LATER_SECONDS))
