"""Eras: made from ranges of turns by rules at once, and by a model, if one is configured, in the background."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from itertools import count

from foveate.compress.eras import era_text, roll_up, with_all_lines
from foveate.compress.model.eras import EraAssignment, assign_era, judge_era
from foveate.context.costs import content_tokens
from foveate.models import Answer, Ask
from foveate.models.prompts import overridden
from foveate.models.settings import ModelsSettings
from foveate.renditions import Unit
from foveate.store import SessionRow, Store
from foveate.store.rows import ERA_FANOUT, EraRow, Origin, era_turns
from foveate.tokens import EncodingName, exact_counter
from foveate.worker.jobs import NONCE_BYTES, QueueContext, RollUpJob
from foveate.worker.renditions import pack_units, unpack_units

ERA_TOKENS, HIGHER_ERA_TOKENS = 248, 2_560
"""Maximum stored size of an era of turns, about eleven lines, and of an era of eras: one of 1,024 turns has a line for
each eight of them. It is shown at any size up to this."""


async def read_units(store: Store, session_id: str, level: int, place: int) -> list[bytes]:
    """Read the sources of an era: the units of its turns, or of the eras below."""
    first, last = place * ERA_FANOUT, (place + 1) * ERA_FANOUT - 1
    if level == 1:
        return [row.units for row in await store.derived.renditions(session_id, first + 1, last + 1)]
    return [era.units for era in await store.derived.eras(session_id, level - 1, first, last)]


def make_era(level: int, place: int, packed: Sequence[bytes], encoding: EncodingName) -> EraRow:
    """Make an era by rules."""
    units = roll_up(_unpacked(packed), _most_tokens(level), exact_counter(encoding).base, turns=era_turns(level, place))
    return _row(level, place, units, encoding)


def write_era_request(
    packed: Sequence[bytes],
    encoding: EncodingName,
    nonce: str,
    settings: ModelsSettings,
    prompts: Mapping[str, str] | None = None,
) -> EraAssignment | None:
    with overridden(prompts):
        return assign_era(_unpacked(packed), ERA_TOKENS, exact_counter(encoding).base, nonce=nonce, settings=settings)


def weigh_era(
    assignment: EraAssignment, answer: Answer, packed: Sequence[bytes], encoding: EncodingName, turns: range
) -> bytes | None:
    """Return the units of an era, if enough of the answer is accepted; the rules' for turns that it leaves out."""
    units = _unpacked(packed)
    judged = judge_era(assignment, answer, units, exact_counter(encoding).base)
    return pack_units(with_all_lines(judged.units, units, turns)) if judged.units else None


def _most_tokens(level: int) -> int:
    return ERA_TOKENS if level == 1 else HIGHER_ERA_TOKENS


def _unpacked(packed: Sequence[bytes]) -> list[Unit]:
    return [unit for data in packed for unit in unpack_units(data)]


def _row(level: int, place: int, units: Sequence[Unit], encoding: EncodingName) -> EraRow:
    counter = exact_counter(encoding)
    text = era_text(tuple(units), _most_tokens(level), counter.base, turns=era_turns(level, place))
    return EraRow(level, place, content_tokens(text, "E", counter), pack_units(units))


class EraJob(RollUpJob):
    """A model's wording of one era."""

    kind = "eras"

    def __init__(self, context: QueueContext, session: SessionRow, level: int, place: int) -> None:
        super().__init__(context, session, f"era {place} of level {level}")
        self.level, self.place = level, place
        self._packed: list[bytes] = []
        self._origin: Origin | None = None
        self._assignment: EraAssignment | None = None

    async def request(self) -> Ask | None:
        self._origin = await self.context.store.origin(self.session_id)
        self._packed = await read_units(self.context.store, self.session_id, self.level, self.place)
        prompts = await self.context.prompts()
        job = (self._packed, self.session.encoding, secrets.token_hex(NONCE_BYTES), self.context.settings, prompts)
        (self._assignment,) = await self.context.pool.run(write_era_request, [job])
        return self._assignment.ask if self._assignment else None

    async def keep(self, answer: Answer) -> bool:
        turns = era_turns(self.level, self.place)
        job = (self._assignment, answer, self._packed, self.session.encoding, turns)
        (units,) = await self.context.pool.run(weigh_era, [job])
        if units:
            era = _row(self.level, self.place, unpack_units(units), self.session.encoding)
            await self.context.store.derived.add_eras(self.session_id, [era], self._origin)
        return bool(units)

    async def note(self, *, is_asked: bool) -> None:
        await self._due.note_requested(self.session_id, "era", str(self.level), self.place + int(is_asked))


async def era_jobs(context: QueueContext, session: SessionRow) -> AsyncGenerator[EraJob, None]:
    """Yield the eras of a session that no model was asked for, in order."""
    derived = context.store.derived
    for level in count(1):
        end = await derived.next_era(session.id, level)
        if not end:
            return
        # Eras that end before a fork belong to the ancestor.
        first = (session.fork_turn - 1) // ERA_FANOUT**level if session.parent is not None else 0
        asked = await derived.due.requested(session.id, "era", str(level))
        for place in range(max(first, asked), end):
            yield EraJob(context, session, level, place)
