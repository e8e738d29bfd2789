"""Ranges of turns become eras: by rules at once, and by a model, where one is named for it, in its own time."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from typing import Any

from foveate.background.attempt import NONCE_BYTES
from foveate.background.making import pack_units, unpack_units
from foveate.background.pool import Pool
from foveate.compress import Unit
from foveate.compress.eras import era_text, roll_up
from foveate.compress.model_eras import EraAssignment, assign_era, judge_era
from foveate.context.costs import content_tokens
from foveate.errors import ModelError, ModelFailed, SessionNotFound
from foveate.models import Answer
from foveate.models.caller import Caller
from foveate.models.names import models_for
from foveate.settings import ModelsSettings
from foveate.store import SessionRow, Store, bodies
from foveate.store.derived import ERA_FANOUT, EraRow
from foveate.tokens import EncodingName, exact_counter

ERA_TOKENS = 640
"""As much of an era as is kept; it is shown at any size up to this."""
ASKED = "roll-up"
"""The keepsake that says up to where a model was asked for the eras of each level."""

_log = logging.getLogger(__name__)


async def read_units(store: Store, session_id: str, level: int, place: int) -> list[bytes]:
    """What an era is made of: the units of its turns, or of the eras below."""
    first, last = place * ERA_FANOUT, (place + 1) * ERA_FANOUT - 1
    if level == 1:
        return [row.units for row in await store.derived.renditions(session_id, first + 1, last + 1)]
    return [era.units for era in await store.derived.eras(session_id, level - 1, first, last)]


def make_era(level: int, place: int, packed: Sequence[bytes], encoding: EncodingName) -> EraRow:
    """By rules."""
    units = roll_up(_unpacked(packed), ERA_TOKENS, exact_counter(encoding).base)
    return _row(level, place, units, encoding)


def write_era_request(
    packed: Sequence[bytes], encoding: EncodingName, nonce: str, settings: ModelsSettings
) -> EraAssignment | None:
    return assign_era(_unpacked(packed), ERA_TOKENS, exact_counter(encoding).base, nonce=nonce, settings=settings)


def weigh_era(
    assignment: EraAssignment, answer: Answer, packed: Sequence[bytes], encoding: EncodingName
) -> bytes | None:
    """The units of an era, if enough of the answer passes."""
    judged = judge_era(assignment, answer, _unpacked(packed), exact_counter(encoding).base)
    return pack_units(judged.units) if judged.units else None


def _unpacked(packed: Sequence[bytes]) -> list[Unit]:
    return [unit for data in packed for unit in unpack_units(data)]


def _row(level: int, place: int, units: Sequence[Unit], encoding: EncodingName) -> EraRow:
    counter = exact_counter(encoding)
    text = era_text(tuple(units), ERA_TOKENS, counter.base)
    return EraRow(level, place, content_tokens(text, "E", counter), pack_units(units))


class EraRefiner:
    """Asks a model once for each era that rules have made. What it can't have stays as it is, for good.

    How far it came is noted before a call, so that no era is paid for by one process after another.
    """

    def __init__(self, store: Store, settings: ModelsSettings, *, pool: Pool, caller: Caller) -> None:
        self._store = store
        self._settings = settings
        self._models = models_for("roll-up", settings)
        self._pool = pool
        self._caller = caller
        self._sessions: dict[str, None] = {}
        self._task: asyncio.Task[None] | None = None
        self._working = asyncio.Lock()

    def wake(self, session_id: str) -> None:
        """A session may have new eras."""
        if not self._models:
            return
        self._sessions[session_id] = None
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def settle(self, session_id: str) -> None:
        """Ask for every era that was not asked for yet; ends early when a model can't be asked now."""
        if self._models:
            with suppress(ModelError):
                await self._work(session_id)

    async def close(self) -> None:
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while self._sessions:
            session_id = next(iter(self._sessions))
            del self._sessions[session_id]
            try:
                await self._work(session_id)
            except (ModelError, SessionNotFound):
                continue  # when the session has its next era, it is asked for this one too
            except Exception:  # noqa: BLE001 - the worker's boundary: one session's fault must not stop the rest
                _log.warning("the eras of %s can't be given to a model", session_id, exc_info=True)

    async def _work(self, session_id: str) -> None:
        async with self._working:  # the background and `settle` must not ask for the same
            await self._ask_for_all(session_id)

    async def _ask_for_all(self, session_id: str) -> None:
        session = await self._store.get_session(session_id)
        asked = await self._asked(session_id)
        for level in count(1):
            end = await self._store.derived.next_era(session_id, level)
            if not end:
                return
            # What ends before a fork is the ancestor's.
            first = (session.fork_turn - 1) // ERA_FANOUT**level if session.parent is not None else 0
            for place in range(max(first, asked.get(level, 0)), end):
                await self._refine(session, level, place, asked)

    async def _refine(self, session: SessionRow, level: int, place: int, asked: dict[int, int]) -> None:
        packed = await read_units(self._store, session.id, level, place)
        nonce = secrets.token_hex(NONCE_BYTES)
        (assignment,) = await self._pool.run(write_era_request, [(packed, session.encoding, nonce, self._settings)])
        await self._note(session.id, {**asked, level: place + 1})
        if assignment:
            try:
                answered = await self._caller.ask(
                    assignment.ask,
                    self._models,
                    session_id=session.id,
                    max_calls=self._settings.max_calls_per_turn,
                )
                job = (assignment, answered.answer, packed, session.encoding)
                (units,) = await self._pool.run(weigh_era, [job])
                if units:
                    era = _row(level, place, unpack_units(units), session.encoding)
                    await self._store.derived.add_eras(session.id, [era])
            except ModelFailed:
                pass  # it was asked as often as it may be
            except ModelError as error:
                if not error.calls:
                    await self._note(session.id, asked)
                raise
        asked[level] = place + 1

    async def _asked(self, session_id: str) -> dict[int, int]:
        packed = await self._store.derived.kept(session_id, ASKED)
        kept: Any = bodies.expand(packed) if packed else {}
        return {int(level): place for level, place in kept.items()}

    async def _note(self, session_id: str, asked: dict[int, int]) -> None:
        data = bodies.squeeze({str(level): place for level, place in asked.items()})
        await self._store.derived.keep(session_id, ASKED, data)
