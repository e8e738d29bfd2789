"""Ranges of turns become eras: by rules at once, and by a model, where one is named for it, in its own time."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from itertools import count

from foveate.compress.eras import era_text, roll_up
from foveate.compress.model.eras import EraAssignment, assign_era, judge_era
from foveate.context.costs import content_tokens
from foveate.events import EventBus
from foveate.models import Answer
from foveate.models.caller import Caller
from foveate.models.settings import ModelsSettings
from foveate.renditions import Unit
from foveate.store import SessionRow, Store
from foveate.store.rows import ERA_FANOUT, EraRow
from foveate.tokens import EncodingName, exact_counter
from foveate.worker.attempt import NONCE_BYTES
from foveate.worker.pool import Pool
from foveate.worker.renditions import pack_units, unpack_units
from foveate.worker.rounds import Rounds

ERA_TOKENS = 640
"""As much of an era as is kept; it is shown at any size up to this."""


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
    """Asks a model once for each era that rules have made. What it can't have stays as it is, for good."""

    def __init__(self, store: Store, settings: ModelsSettings, *, pool: Pool, caller: Caller, events: EventBus) -> None:
        self._store = store
        self._settings = settings
        self._pool = pool
        self.rounds = Rounds(settings, caller, self._ask_for_all, store=store, name="eras", events=events)

    async def _ask_for_all(self, session_id: str) -> None:
        session = await self._store.get_session(session_id)
        for level in count(1):
            end = await self._store.derived.next_era(session_id, level)
            if not end:
                return
            # What ends before a fork is the ancestor's.
            first = (session.fork_turn - 1) // ERA_FANOUT**level if session.parent is not None else 0
            asked = await self._store.derived.due.requested(session_id, "era", str(level))
            for place in range(max(first, asked), end):
                await self._refine(session, level, place)

    async def _refine(self, session: SessionRow, level: int, place: int) -> None:
        packed = await read_units(self._store, session.id, level, place)
        nonce = secrets.token_hex(NONCE_BYTES)
        (assignment,) = await self._pool.run(write_era_request, [(packed, session.encoding, nonce, self._settings)])

        async def note(is_asked: bool) -> None:
            reached = place + 1 if is_asked else place
            await self._store.derived.due.note_requested(session.id, "era", str(level), reached)

        if not assignment:
            await note(True)
            return
        answered = await self.rounds.ask(session.id, assignment.ask, note)
        if answered is None:
            return
        (units,) = await self._pool.run(weigh_era, [(assignment, answered.answer, packed, session.encoding)])
        if units:
            era = _row(level, place, unpack_units(units), session.encoding)
            await self._store.derived.add_eras(session.id, [era])
        else:
            await self.rounds.mark_unfit(answered)
