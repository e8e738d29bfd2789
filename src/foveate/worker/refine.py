"""The refiner: turns that have their renditions get better ones from a model, in their own time.

Nobody waits for it. The queue is what is due in the store, so a restart goes on where this ended; calls are counted
there before they are made, so no turn ever costs more than its limit. What can't be had stays as rules made it,
marked, and is tried again later; what is held back by a cap, a rate or a breaker waits until that says so.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import aclosing, suppress
from datetime import UTC, datetime

from foveate.cache import BoundedCache
from foveate.compress.local import LocalCompressor
from foveate.compress.model import PROMPT_VERSION, groups
from foveate.errors import ModelError, ModelFailed, ModelHeldBack, ModelUnavailable, SessionNotFound
from foveate.events import Event, EventBus, EventKind
from foveate.models.caller import Caller
from foveate.renditions import Level
from foveate.settings import Settings
from foveate.store import Store
from foveate.store.rows import DueTurn, PostponedTurn, RedoRequest
from foveate.turn import Json, turn_id
from foveate.worker.attempt import Attempt, AttemptState, Means, SourceTurnRows
from foveate.worker.pool import Pool

START_SECONDS = 0.5
"""A program that ends sooner, such as a command that records, leaves models alone."""
LATER = 10
"""An attempt that failed is repeated after so many times `backoff_seconds`."""
LATER_GROWTH = 6
"""Each call it took makes that so many times longer: the six calls of a turn outlast two hours without a provider."""
MAX_LATER_SECONDS = 6 * 3600.0
"""No attempt is put off for longer. When a model answers again after an outage, all that wait are due."""
LEAST_JITTER = 0.5
OUTAGE_FAILURES = 3
"""After so many failures in a row a provider was down; one turn that always fails is no reason to hurry the others."""
MAX_PARTS = 256
LEAST_HOLD_SECONDS = 0.2
UNAVAILABLE_SECONDS = 3600.0
"""How long nothing is asked when a key, a package or a name is missing; a restart and `settle` ask at once."""
LOOK_SECONDS = 2.0
"""How soon a turn that another process has in hand is looked at again."""
MAX_WAIT_SECONDS = 300.0
"""The queue is looked at this often, whatever it said before."""
POLL_SECONDS = 0.05
PAUSE_SECONDS = 5.0
BEATS = 3
"""A lease is renewed so many times before it would end."""
ABOUT_THE_TURN = ("too-long", "refused")
"""Reasons to give up one turn; the next may do."""
MAX_PROBLEM_CHARS = 300

Progress = Callable[[int], object]

_log = logging.getLogger(__name__)


def _clock_us() -> int:
    return time.time_ns() // 1000


class Refiner:
    """Asks models for the turns that are due, some at a time. It starts when it is first woken."""

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
        self._events = events
        self._settings = settings.models
        self._lease_seconds = settings.compress.lease_seconds
        self._means = Means(store, pool, caller, settings.models, groups(settings.models))
        self._now_us = now_us
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._unavailable_until = 0.0
        self._told: set[str] = set()
        self._parts: BoundedCache[int, AttemptState] = BoundedCache(MAX_PARTS)
        """What passed of turns that wait for the rest, by the rendition they have."""
        self._failures = 0
        """Attempts in a row that failed, of whatever turns."""
        self._closed = False

    @property
    def asked(self) -> tuple[tuple[Level, ...], ...]:
        """The levels of each call that a turn takes; none if no model is named."""
        return tuple(group.levels for group in self._means.groups)

    def wake(self) -> None:
        """Something may be due."""
        if self._closed or not self._means.groups:
            return
        self._woken.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def settle(self, session_ids: Sequence[str] | None = None, progress: Progress | None = None) -> None:
        """Work off what is due now, here; what was put off until later is left for then."""
        if not self._means.groups:
            return
        self._unavailable_until = 0.0
        moment_us = self._now_us()
        while not self._is_unavailable:
            owner = uuid.uuid4().hex
            await self._work(owner, self._finite(session_ids, moment_us, owner), progress)
            if not await self._due_sessions(session_ids, moment_us):
                return
            await asyncio.sleep(POLL_SECONDS)  # another task or process has the rest in hand

    async def want_again(self, session_id: str) -> int:
        """Have made again what older compressors made, what is marked, and what no model made though one could."""
        model_version = PROMPT_VERSION if self._means.groups else None
        wanted = RedoRequest(local_version=LocalCompressor().version, model_version=model_version)
        return await self._due.want_again(session_id, wanted, self._now_us())

    async def close(self) -> None:
        self._closed = True
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        await asyncio.sleep(START_SECONDS)
        while True:
            try:
                owner = uuid.uuid4().hex
                await self._work(owner, self._endless(owner))
            except Exception:  # noqa: BLE001 - the worker's boundary: a fault must not stop what comes later
                _log.warning("asking models in the background failed; it goes on later", exc_info=True)
                await asyncio.sleep(PAUSE_SECONDS)

    async def _work(self, owner: str, feed: AsyncGenerator[DueTurn, None], progress: Progress | None = None) -> None:
        """Take turns from the feed, some at a time, until it ends."""
        taking = asyncio.Lock()

        async def work() -> None:
            while True:
                async with taking:
                    due = await anext(feed, None)
                if due is None:
                    return
                await self._refine(due)
                if progress:
                    progress(1)

        # What is leased stays so until the last task has ended, and not only until the feed has.
        beat = _Beat(self._store, owner, self._lease_seconds)
        async with beat, aclosing(feed), asyncio.TaskGroup() as tasks:
            for _ in range(self._settings.concurrency):
                tasks.create_task(work())

    async def _finite(
        self, session_ids: Sequence[str] | None, moment_us: int, owner: str
    ) -> AsyncGenerator[DueTurn, None]:
        """What was due at a moment and nobody else has in hand."""
        while True:
            found = False
            for session_id in await self._due_sessions(session_ids, moment_us):
                async with aclosing(self._claimed(session_id, moment_us, owner)) as claimed:
                    async for due in claimed:
                        found = True
                        yield due
            if not found or self._is_unavailable:
                return

    async def _endless(self, owner: str) -> AsyncGenerator[DueTurn, None]:
        """What is due, forever; waits while nothing is."""
        while True:
            self._woken.clear()
            found = False
            now_us = self._now_us()
            for session_id in [] if self._is_unavailable else await self._due_sessions(None, now_us):
                async with aclosing(self._claimed(session_id, now_us, owner)) as claimed:
                    async for due in claimed:
                        found = True
                        yield due
            if not found:
                with suppress(TimeoutError):
                    async with asyncio.timeout(await self._seconds_to_next()):
                        await self._woken.wait()

    async def _claimed(self, session_id: str, moment_us: int, owner: str) -> AsyncGenerator[DueTurn, None]:
        """A few turns of one session, so that the others get theirs; those that nobody takes are given back."""
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
            return  # deleted meanwhile
        taken = 0
        try:
            for due in claims:
                if self._is_unavailable:
                    return
                taken += 1
                yield due
        finally:
            for due in claims[taken:]:
                await asyncio.shield(self._due.postpone(due, PostponedTurn(due_us=due.due_us, calls=due.calls)))

    async def _due_sessions(self, session_ids: Collection[str] | None, moment_us: int) -> list[str]:
        return [
            session_id
            for session_id, due_us in await self._due.sessions()
            if due_us <= moment_us and (session_ids is None or session_id in session_ids)
        ]

    async def _seconds_to_next(self) -> float:
        if self._is_unavailable:
            return MAX_WAIT_SECONDS
        moments = [due_us for _, due_us in await self._due.sessions()]
        seconds = (min(moments, default=2**62) - self._now_us()) / 1_000_000
        return min(MAX_WAIT_SECONDS, seconds) if seconds > 0 else LOOK_SECONDS

    @property
    def _is_unavailable(self) -> bool:
        return time.monotonic() < self._unavailable_until

    async def _refine(self, due: DueTurn) -> None:
        """One turn, to whatever end; its lease is given back with what came of it."""
        attempt: Attempt | None = None
        try:
            session = await self._store.get_session(due.session_id)
            rows = await self._store.read(due.session_id, due.turn, due.turn)
            if len(rows) != due.messages or any(row.body is None for row in rows):
                await self._due.postpone(due, PostponedTurn(due_us=None, calls=due.calls))  # pruned meanwhile
                return
            original = SourceTurnRows(due.turn, rows, session.encoding)
            before = self._parts.pop(due.rendition) or AttemptState()
            attempt = Attempt(self._means, due, original, sum(row.tokens for row in rows), parts=before)
            attempt.on_ask = lambda model: self._tell("llm-summarizing", due, {"model": model})
            await attempt.run()
            await self._conclude(attempt)
        except SessionNotFound:
            return  # deleted meanwhile
        except Exception:  # noqa: BLE001 - the worker's boundary: one turn's fault must not stop the rest
            _log.warning("%s of %s can't be given to a model", turn_id(due.turn), due.session_id, exc_info=True)
            calls = attempt.calls if attempt else due.calls
            await self._due.postpone(due, PostponedTurn(due_us=None, calls=calls, is_marked=True))

    async def _conclude(self, attempt: Attempt) -> None:
        due = attempt.due
        if not attempt.was_asked:
            await self._due.postpone(due, PostponedTurn(due_us=None, calls=due.calls))
        elif attempt.failed:
            await self._fail(attempt, min((error for _, error in attempt.failed), key=_finality))
        elif attempt.has_passed:
            await self._keep(attempt)
        else:
            # At temperature 0 the same model says the same again, and a turn costs what it is long.
            seconds = self._later_seconds(attempt) if attempt.is_garbled else None
            problem = "its answer could not be read" if attempt.is_garbled else "its answers did not pass the guard"
            await self._put_off(attempt, problem, seconds)

    async def _keep(self, attempt: Attempt) -> None:
        """What passed stands from now on; what was put off while no model answered is due."""
        made = attempt.refined()
        if await self._due.refine(attempt.due, made):
            self._tell("compressed", attempt.due, {"maker": made.maker, "calls": attempt.calls})
        if not attempt.failed:
            was_down, self._failures = self._failures >= OUTAGE_FAILURES, 0
            if was_down:
                await self._due.hurry(self._now_us())

    async def _hold(self, attempt: Attempt, error: ModelHeldBack) -> None:
        """Nothing is wrong with the turn: it and the session's others wait until the model may be asked again."""
        self._remember(attempt)
        seconds = max(error.retry_after_seconds, LEAST_HOLD_SECONDS)
        until_us = self._now_us() + int(seconds * 1_000_000)
        await self._due.postpone(attempt.due, PostponedTurn(due_us=until_us, calls=attempt.calls))
        with suppress(SessionNotFound):
            await self._due.hold(attempt.due.session_id, until_us)

    async def _fail(self, attempt: Attempt, error: ModelError) -> None:
        if isinstance(error, ModelHeldBack) and error.reason != "calls":
            await self._hold(attempt, error)
            return
        if isinstance(error, ModelUnavailable) and error.reason in ABOUT_THE_TURN:
            await self._put_off(attempt, error.problem, None)
            return
        if isinstance(error, ModelUnavailable):
            if str(error) not in self._told:
                self._told.add(str(error))
                _log.warning("%s; turns are compressed without it", error)
            if attempt.parts.passed:  # another model is there, and goes on with its part
                await self._put_off(attempt, error.problem, None)
                return
            self._unavailable_until = time.monotonic() + UNAVAILABLE_SECONDS
            await self._put_off(attempt, error.problem, 0.0)
            return
        self._failures += 1
        asked_for = error.retry_after_seconds if isinstance(error, ModelFailed) else None
        await self._put_off(attempt, error.problem, max(self._later_seconds(attempt), asked_for or 0.0))

    def _later_seconds(self, attempt: Attempt) -> float:
        seconds = longest_wait_seconds(attempt.calls, self._settings.backoff_seconds)
        return seconds * random.uniform(LEAST_JITTER, 1)  # noqa: S311 - jitter

    async def _put_off(self, attempt: Attempt, problem: str, seconds: float | None) -> None:
        """What rules made stands, and the turn is marked. It waits for another attempt, if it has calls left."""
        due = attempt.due
        is_over = seconds is None or attempt.calls >= self._settings.max_calls_per_turn
        due_us = None if is_over or seconds is None else self._now_us() + int(seconds * 1_000_000)
        if due_us is None and attempt.usable:
            await self._keep(attempt)
        else:
            self._remember(attempt)
            noted = PostponedTurn(due_us=due_us, calls=attempt.calls, refusals=attempt.refusals, is_marked=True)
            await self._due.postpone(due, noted)
        data: dict[str, Json] = {
            "model": attempt.parts.maker or self._means.groups[0].models[0],
            "problem": problem[:MAX_PROBLEM_CHARS],
            "calls": attempt.calls,
            "is_given_up": due_us is None,
        }
        self._tell("compression-failed", due, data)

    def _remember(self, attempt: Attempt) -> None:
        """What passed is not asked for again in the next attempt; after a restart it is."""
        if attempt.parts.passed:
            self._parts[attempt.due.rendition] = attempt.parts

    def _tell(self, kind: EventKind, due: DueTurn, data: dict[str, Json]) -> None:
        self._events.publish(Event(kind, due.session_id, datetime.now(UTC), turn_id(due.turn), data))


def longest_wait_seconds(calls: int, backoff_seconds: float) -> float:
    """Until a turn is tried again that took so many calls."""
    return float(min(backoff_seconds * LATER * LATER_GROWTH ** max(0, calls - 1), MAX_LATER_SECONDS))


def _finality(error: ModelError) -> int:
    """The lower, the more can be hoped for: what is held back comes by itself, what failed may pass another time."""
    if isinstance(error, ModelHeldBack):
        return 2 if error.reason == "calls" else 0
    return 1 if isinstance(error, ModelFailed) else 3


class _Beat:
    """While entered, whatever its owner has leased stays leased; afterwards, or soon after a crash, it is free."""

    def __init__(self, store: Store, owner: str, lease_seconds: float) -> None:
        self._due = store.derived.due
        self._owner = owner
        self._lease_seconds = lease_seconds
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def __aexit__(self, *_: object) -> None:
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.shield(self._due.release(self._owner))

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._lease_seconds / BEATS)
            await self._due.renew(self._owner, self._lease_seconds)
