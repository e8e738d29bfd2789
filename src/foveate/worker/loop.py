"""The background worker: makes missing renditions of turns, and eras of ranges of turns.

No state is lost with the process: the queue is derived from the store, each turn is leased while it is processed,
and storing the same renditions twice changes nothing. After a crash a later worker repeats the work in progress.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from contextvars import Context
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec

from foveate import telemetry
from foveate.compress.worth import load_worth
from foveate.errors import Damaged, SessionNotFound, StoreError, contained
from foveate.events import Event, EventBus, EventKind
from foveate.models.caller import Caller
from foveate.recall.embed import STATIC
from foveate.settings import Settings
from foveate.store import MessageRow, SessionRow, Store
from foveate.store.leases import Lease
from foveate.store.queue import MAX_ATTEMPTS
from foveate.store.rows import ERA_FANOUT, Claim, EraRow, NewRendition, SessionWork
from foveate.tokens import session_counter
from foveate.turn import Json, turn_id
from foveate.worker.eras import make_era, read_units
from foveate.worker.index import Indexer
from foveate.worker.pool import Pool
from foveate.worker.refine import Refiner
from foveate.worker.renditions import make_coarse, make_local

RESUME_SECONDS = 0.5
"""Delay before work of earlier processes is resumed; a short command ends before."""
BATCH_TOKENS = 100_000
"""Turns with more tokens in total are compressed in several batches, alternating with other sessions."""
ERA_BATCH = 64
"""Eras made between two checks of the clock."""
GATHER_SECONDS = 0.1
"""Delay after a wake-up to collect more work: a burst of turns is claimed and stored in few commits."""
LANES = 4
"""Sessions processed at the same time for each process: while one waits for the store, another one is compressed. With
64 busy clients, one lane made 17 turns a second, four made 45."""
POLL_SECONDS = 0.02
WATCH_SECONDS = 1.0
"""Maximum interval between polls of an idle worker."""
WATCH_SESSIONS = 8
"""Sessions taken at a time; after each batch a session goes to the end of the queue."""
PAUSE_SECONDS = 0.5
DEADLY = f"{MAX_ATTEMPTS} workers ended while they compressed it; it got a coarse rendition instead"
MAX_FAILURES = 8
"""Maximum exponent of the pause after a session's failures, which doubles with each one."""

Progress = Callable[[int], object]
"""Called with the number of turns just finished."""

_log = logging.getLogger(__name__)


class Worker:
    """Runs in a task of the event loop that first woke it; CPU work runs in the pool."""

    def __init__(self, store: Store, events: EventBus, settings: Settings, caller: Caller) -> None:
        self._store = store
        self._events = events
        self._settings = settings.compress
        if settings.compress.worth_model:
            load_worth(settings.compress.worth_model)  # an unusable file is reported here, not by each turn
        self._embeddings = settings.recall.embeddings
        self._pool = Pool(settings.compress.processes)
        self._indexer = Indexer(store, settings, pool=self._pool, caller=caller)
        self._refiner = Refiner(store, events, settings, pool=self._pool, caller=caller)
        self._sessions: dict[str, None] = {}
        """Sessions to process, in order: after each batch a session goes to the end."""
        self._quiet: dict[str, float] = {}
        """Sessions whose newest turn may still grow, and when it counts as finished."""
        self._timers: dict[str, asyncio.TimerHandle] = {}
        """A timer for each of them, which is restarted if it fires too early."""
        self._recorded: dict[str, None] = {}
        """Sessions with new messages since the store was opened."""
        self._with_open: set[str] = set()
        """Sessions whose newest turn has been quiet long enough."""
        self._woken = asyncio.Event()
        self._lanes: list[asyncio.Task[None]] = []
        self._in_progress: set[str] = set()
        self._failures: dict[str, int] = {}
        self._closed = False
        self._closing = asyncio.Event()
        self._idle = asyncio.Event()
        self._resumed: asyncio.Task[None] | None = None
        self._beside: set[asyncio.Task[object]] = set()

    def beside(self, work: Coroutine[Any, Any, object]) -> asyncio.Task[object]:
        """Start background work that `settle` waits for and `close` ends."""
        task = asyncio.create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._beside.discard(task)
        if not task.cancelled() and task.exception():
            _log.warning("background work failed; it is repeated when a context needs it", exc_info=task.exception())

    def wake(self, session_id: str) -> None:
        """Schedule a session with new messages: soon, and again once its newest turn has been quiet."""
        if not self._settings.enabled or self._closed:
            return
        self._recorded[session_id] = None
        loop = asyncio.get_running_loop()
        self._quiet[session_id] = loop.time() + self._settings.quiet_seconds
        if session_id not in self._timers:
            self._timers[session_id] = loop.call_at(self._quiet[session_id], self._quieten, session_id)
        self._queue(session_id)

    def resume(self) -> None:
        """Schedule the unfinished work of earlier processes."""
        if self._settings.enabled and self._resumed is None:
            self._resumed = asyncio.create_task(self._resume())

    async def _resume(self) -> None:
        await asyncio.sleep(RESUME_SECONDS)
        for session_id in await self._unfinished():
            self._queue(session_id)

    def _quieten(self, session_id: str) -> None:
        loop, finished = asyncio.get_running_loop(), self._quiet[session_id]
        if loop.time() < finished:
            self._timers[session_id] = loop.call_at(finished, self._quieten, session_id)
            return
        del self._quiet[session_id], self._timers[session_id]
        self._with_open.add(session_id)
        self._queue(session_id)

    def _queue(self, session_id: str) -> None:
        self._sessions.setdefault(session_id)
        self._idle.clear()
        self._woken.set()
        if not self._lanes:
            # Lanes outlive the request that starts them, whose id events would have.
            lanes = range(LANES * self._pool.width)
            self._lanes = [asyncio.create_task(self._run(), context=Context()) for _ in lanes]

    async def watch(self, is_stopping: Callable[[], bool] | None = None, *, drain: bool = False) -> None:
        """Process what any process records in the store, until stopped or, with `drain`, until nothing is left."""
        due = self._store.derived.due
        while not (is_stopping and is_stopping()):
            with contained(_log, "work can't be taken from the queue; retrying") as outcome:
                taken = await due.take_sessions(limit=WATCH_SESSIONS, lease_seconds=self._settings.lease_seconds)
                async with asyncio.TaskGroup() as lanes:  # none is left behind when another one fails
                    for work in taken:
                        lanes.create_task(self._attend(work, include_open=drain or not work.is_new))
                self._refiner.look()
                if not taken and drain and not (await due.state(limit=0)).sessions:
                    await self.settle()
                    return
                if not taken:
                    await due.wait_for_work(WATCH_SECONDS)
            if outcome.error:
                await asyncio.sleep(PAUSE_SECONDS)

    async def _attend(self, work: SessionWork, *, include_open: bool) -> None:
        """Process one batch of a session taken from the store's queue; the open turn once it has been quiet."""
        seconds = await self._advance(work.session_id, include_open=include_open, with_models=True)
        if seconds is None and not include_open:
            seconds = self._settings.quiet_seconds
        await self._store.derived.due.put_back(work, seconds)

    def reword(self, session_id: str) -> None:
        """Schedule wording by a model of a session's displayed artefacts."""
        if self._settings.enabled and not self._closed:
            self._refiner.wake_roll_ups(session_id)

    async def compress(self, session_id: str) -> None:
        """Compress all turns of a session but the open one, unless compression is off."""
        while self._settings.enabled:
            if await self._work(session_id, include_open=False):
                continue
            if (await self._store.derived.backlog(session_id)).pending <= 1:
                return
            await asyncio.sleep(POLL_SECONDS)  # another worker has leased the rest

    async def finish(self, session_id: str, progress: Progress | None = None) -> None:
        """Make everything that a session lacks now, including its open turn, except for work that needs a provider's
        model."""
        while True:
            while await self._work(session_id, include_open=True, progress=progress):
                pass
            if not (await self._store.derived.backlog(session_id)).pending:
                break
            await asyncio.sleep(POLL_SECONDS)  # another worker has leased the rest
        if self._embeddings == STATIC:
            await self._indexer.finish(session_id, progress)
        await self._make_eras(session_id)

    async def settle(self, session_ids: Sequence[str] | None = None, progress: Progress | None = None) -> None:
        """Finish all missing work, and call models for everything due."""
        unfinished = session_ids if session_ids is not None else await self._unfinished()
        for session_id in unfinished:
            await self.finish(session_id, progress)
            if self._embeddings != STATIC:
                await self._indexer.finish(session_id, progress)
        await self._refiner.settle(session_ids, progress)
        await asyncio.gather(*self._beside, return_exceptions=True)
        waiting = self._refiner.waiting if session_ids is None else ()
        await self._refiner.settle_roll_ups(dict.fromkeys([*unfinished, *waiting]))

    async def _unfinished(self) -> list[str]:
        """List the sessions with missing work."""
        return list(dict.fromkeys([*await self._store.derived.unsettled(), *await self._store.passages.unindexed()]))

    async def want_again(self, session_id: str) -> int:
        """Queue again the turns that can be improved; return their number."""
        found = await self._refiner.want_again(session_id)
        self.wake(session_id)
        return found

    async def close(self) -> None:
        """End the background work. Recorded turns are compressed within `close_seconds`."""
        self._closed = True
        if self._resumed:
            self._resumed.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.close_seconds):
                await self._drain()
        running = [*self._beside, *self._lanes]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self._refiner.close()
        await asyncio.to_thread(self._pool.close)

    async def _drain(self) -> None:
        """Process the whole queue, including newest turns and unfinished work of earlier processes."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._quiet.clear()
        if not self._recorded or not self._settings.close_seconds:
            return
        self._closing.set()
        for session_id in dict.fromkeys([*self._recorded, *await self._unfinished()]):
            self._with_open.add(session_id)
            self._queue(session_id)
        await self._idle.wait()

    async def _run(self) -> None:
        """Process the queue, beside the other lanes; a session is in one lane at a time."""
        while True:
            await self._woken.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(GATHER_SECONDS):
                    await self._closing.wait()
            self._woken.clear()
            while session_id := next((each for each in self._sessions if each not in self._in_progress), None):
                del self._sessions[session_id]
                self._in_progress.add(session_id)
                try:
                    await self._process(session_id)
                finally:
                    self._in_progress.remove(session_id)
            if not self._sessions and not self._in_progress:
                self._idle.set()

    async def _process(self, session_id: str) -> None:
        """Process one batch of a session, and put it back into the queue while something is left."""
        include_open = session_id in self._with_open
        # Unfinished work of an earlier process uses rules only; models wait until the session continues.
        with_models = session_id in self._recorded
        session = await self._known(session_id) if include_open else None
        seconds = await self._advance(session_id, include_open=include_open, with_models=with_models)
        if seconds is None and include_open:
            self._with_open.discard(session_id)
            if session is not None:  # the queue, which other processes read, ends with it too
                with contained(_log, "a finished session stays in the queue"):
                    await self._store.derived.due.note_finished(
                        session_id, last_turn=session.last_turn, last_position=session.last_position
                    )
        elif seconds:
            asyncio.get_running_loop().call_later(seconds, self._retry, session_id)
        elif seconds is not None:
            self._sessions.setdefault(session_id)

    async def _known(self, session_id: str) -> SessionRow | None:
        """Return a session as it is stored; None if it was deleted or can't be read now."""
        with suppress(StoreError, SessionNotFound):
            return await self._store.get_session(session_id)
        return None

    async def _advance(self, session_id: str, *, include_open: bool, with_models: bool) -> float | None:
        """Process one batch of a session, or once none is left its index, eras and roll-ups.

        Return the delay until the next batch: 0 after a batch, with other sessions first; a longer pause after each
        failure; None if nothing is left.
        """
        try:
            if await self._work(session_id, include_open=include_open):
                return 0.0
            is_indexed = await self._indexer.finish(session_id)
            await self._make_eras(session_id)
            if with_models:
                self._refiner.wake(session_id)
            if is_indexed:
                self._failures.pop(session_id, None)
                return None
        except SessionNotFound:
            return None  # deleted in the meantime
        except Damaged as error:
            _log.warning("background compression of %s is retried later: %s", session_id, error)
        except Exception:  # noqa: BLE001 - the worker's boundary: one session's fault must not stop the rest
            _log.warning("background compression of %s failed; it is retried later", session_id, exc_info=True)
        return self._pause_seconds(session_id)

    def _pause_seconds(self, session_id: str) -> float:
        failures = self._failures[session_id] = min(self._failures.get(session_id, 0) + 1, MAX_FAILURES)
        return float(PAUSE_SECONDS * 2**failures * random.uniform(0.5, 1))  # noqa: S311 - jitter

    def _retry(self, session_id: str) -> None:
        if not self._closed:
            self._queue(session_id)

    async def _work(self, session_id: str, *, include_open: bool, progress: Progress | None = None) -> bool:
        """Claim a batch for each process, make its renditions and store them; return False if nothing was left to
        claim.

        If the turns are large in total, only the first are processed; the rest is released.
        """
        settings, batch_turns = self._settings, self._settings.batch_turns * self._pool.width
        async with Lease(self._store.leases, "session", settings.lease_seconds) as lease:
            claim = partial(
                self._store.derived.claim,
                session_id,
                owner=lease.owner,
                lease_seconds=settings.lease_seconds,
                include_open=include_open,
            )
            claims = await claim(limit=batch_turns)
            if not claims:
                lease.settle()
                return False
            session = await self._store.get_session(session_id)
            some = await self._light(session_id, claims)
            if len(some) < len(claims):
                await self._store.leases.release("session", lease.owner)
                claims = await claim(limit=len(some))
            with telemetry.span("foveate.compress", is_root=True) as span:
                span.set({telemetry.SESSION: session_id, "foveate.turns": len(claims)})
                rows = await self._store.read(session_id, claims[0].turn, claims[-1].turn) if claims else []
                batches = [claims[start :: self._pool.width] for start in range(self._pool.width)]
                making = (self._make(session, batch, rows, lease.owner) for batch in batches if batch)
                made = await asyncio.gather(*making)
            if sum(made) == len(claims):
                lease.settle()  # the results are stored
            if progress:
                progress(sum(made))
        return True

    async def _light(self, session_id: str, claims: Sequence[Claim]) -> Sequence[Claim]:
        """Return the first claimed turns whose total size is within the limit; at least one."""
        sizes = await self._store.turns(session_id, claims[0].turn, claims[-1].turn)
        tokens = {row.turn: row.tokens for row in sizes}
        left = BATCH_TOKENS
        for place, claim in enumerate(claims):
            left -= tokens.get(claim.turn, 0)
            if left < 0 and place:
                return claims[:place]
        return claims

    async def _make(self, session: SessionRow, claims: Sequence[Claim], rows: Sequence[MessageRow], owner: str) -> int:
        """Make and store the renditions of claimed turns; return their number."""
        by_turn: dict[int, list[MessageRow]] = {claim.turn: [] for claim in claims}
        for row in rows:
            if row.turn in by_turn:
                by_turn[row.turn].append(row)
        call_levels, now_us = self._refiner.asked, time.time_ns() // 1000
        limit = session_counter(session.model, session.encoding).base_within(self._settings.tiny_tokens)
        settings = msgspec.structs.replace(self._settings, tiny_tokens=limit)
        jobs = [
            (turn, found[: claim.messages], session.encoding, call_levels, now_us, self._embeddings, settings)
            for claim, (turn, found) in zip(claims, by_turn.items(), strict=True)
            if all(row.body is not None for row in found)  # otherwise it was pruned in the meantime
        ]
        # A turn that killed its workers is not retried.
        deadly = {claim.turn for claim in claims if claim.attempts > MAX_ATTEMPTS}
        coarse = [replace(make_coarse(*job), parked=DEADLY) for job in jobs if job[0] in deadly]
        usual = [job for job in jobs if job[0] not in deadly]
        limit_seconds = self._settings.turn_seconds
        made = [*coarse, *await self._pool.run(make_local, usual, instead=make_coarse, limit_seconds=limit_seconds)]
        stored = set(await self._store.derived.add_renditions(session.id, made, owner=owner))
        for rendition in made:
            if rendition.turn in stored:
                self._announce(session.id, rendition)
        return len(made)

    def _announce(self, session_id: str, rendition: NewRendition) -> None:
        kind: EventKind = "compressed" if rendition.is_complete else "compression-failed"
        data: dict[str, Json] = {
            "S": rendition.smoothed_tokens,
            "C": rendition.compressed_tokens,
            "T": rendition.tiny_tokens,
            "maker": rendition.maker,
        }
        self._events.publish(Event(kind, session_id, datetime.now(UTC), turn_id(rendition.turn), data))

    async def _make_eras(self, session_id: str) -> None:
        """Make the missing eras of every complete block of turns, then of every block of eras."""
        derived = self._store.derived
        session = await self._store.get_session(session_id)
        origin = await self._store.origin(session_id)
        settled = await derived.settled(session_id)
        level = 1
        while settled // ERA_FANOUT**level:
            place = await derived.next_era(session_id, level)
            total = settled // ERA_FANOUT**level
            while place < total:
                end = min(place + ERA_BATCH, total)
                known = {index for index, _ in await derived.era_tokens(session_id, level, place, end - 1)}
                missing = [index for index in range(place, end) if index not in known]
                made = [await self._make_era(session, level, index) for index in missing]
                await derived.add_eras(session_id, made, origin)
                place = end
            level += 1

    async def _make_era(self, session: SessionRow, level: int, place: int) -> EraRow:
        packed = await read_units(self._store, session.id, level, place)
        return await asyncio.to_thread(make_era, level, place, packed, session.encoding)
