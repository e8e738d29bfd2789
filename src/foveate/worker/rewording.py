"""Checkpoints and summaries that a strategy shows, worded by a model where one is named for roll-ups.

Rules make them at once; which of them are shown is kept, and each of these is asked for once, newest first. What a
model can't have stays as it is, for good.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from foveate.context.costs import counting
from foveate.events import EventBus
from foveate.models import Answer
from foveate.models.caller import Caller
from foveate.models.settings import ModelsSettings
from foveate.plan import ArtefactSpec
from foveate.renditions import without_recalled
from foveate.store import MessageRow, SessionRow, Store, bodies
from foveate.store.codec import restore_message
from foveate.store.rows import ArtefactRow
from foveate.strategy import load
from foveate.strategy.build import ArtefactAssignment, ArtefactKind, Material, SourceTurn
from foveate.tokens import EncodingName, exact_counter
from foveate.worker.artefacts import counted, cutter, pack_made, unpack_made
from foveate.worker.attempt import NONCE_BYTES
from foveate.worker.pool import Pool
from foveate.worker.renditions import unpack_units
from foveate.worker.rounds import Rounds

MAX_READ_TURNS = 400
"""Of more turns than this their units are read, not their messages."""
MAX_SEEN = 256
"""Sessions of which it is remembered that all was asked for."""

_log = logging.getLogger(__name__)


def asked_name(strategy: str, artefact: str) -> str:
    """The name of the request for an artefact. One each, so that no process undoes another's."""
    return f"{strategy}:{artefact}"


def pack_wants(wants: Sequence[ArtefactSpec]) -> bytes:
    return bodies.squeeze([asdict(wanted) for wanted in wants])


def unpack_wants(data: bytes) -> list[ArtefactSpec]:
    kept: Any = bodies.expand(data)
    return [ArtefactSpec(**wanted) for wanted in kept]


@dataclass(frozen=True, slots=True)
class Basis:
    """An artefact as it is kept, and what it was made of; can be pickled."""

    wanted: ArtefactSpec
    before: ArtefactRow
    rows: Sequence[MessageRow]
    units: Mapping[int, bytes]
    """Packed, by turn."""
    goals: Sequence[bytes]
    encoding: EncodingName
    strategy: str
    """Whose artefact it is."""

    @property
    def kind(self) -> ArtefactKind:
        return load(self.strategy).artefacts[self.wanted.kind]

    def material(self) -> Material:
        counter = exact_counter(self.encoding)
        messages: dict[int, list[MessageRow]] = {}
        for row in self.rows:
            if row.body is not None:
                messages.setdefault(row.turn, []).append(row)
        turns = [
            SourceTurn(
                turn,
                tuple(without_recalled([restore_message(row) for row in messages.get(turn, ())])),
                unpack_units(self.units[turn]) if turn in self.units else (),
                "",
            )
            for turn in sorted({*messages, *self.units})
        ]
        goals: Any = [bodies.expand(goal) for goal in self.goals]
        return Material(self.wanted, turns, counting("A", counter), cutter(counter), goals=goals)


def write_artefact_request(basis: Basis, nonce: str, settings: ModelsSettings) -> ArtefactAssignment | None:
    return basis.kind.load_wording().request(basis.material(), nonce=nonce, settings=settings)


def weigh_artefact(assignment: ArtefactAssignment, answer: Answer, basis: Basis) -> ArtefactRow | None:
    """The artefact as it may stand; None if it stays as it was."""
    try:
        judged = basis.kind.load_wording().judge(assignment, answer, basis.material(), unpack_made(basis.before))
    except Exception:  # noqa: BLE001 - the worker's boundary: whatever a model says must not stop the rest
        _log.warning("an answer of %s could not be judged", answer.message.model, exc_info=True)
        return None
    if judged.made is None:
        _log.info("%s stays as it was: %s", basis.wanted.name, judged.reason)
        return None
    return pack_made(counted(judged.made, exact_counter(basis.encoding)))


class Rewording:
    """Asks a model once for each artefact that is shown."""

    def __init__(self, store: Store, settings: ModelsSettings, *, pool: Pool, caller: Caller, events: EventBus) -> None:
        self._store = store
        self._settings = settings
        self._pool = pool
        self._seen: dict[str, bytes] = {}
        self.rounds = Rounds(settings, caller, self._reword_all, store=store, name="artefacts", events=events)

    async def _reword_all(self, session_id: str) -> None:
        session = await self._store.get_session(session_id)
        derived = self._store.derived
        packed = await derived.offer(session_id, session.strategy)
        if packed is None or self._seen.get(session_id) == packed:
            return
        asked = [wanted for wanted in unpack_wants(packed) if not await self._is_asked(session, wanted)]
        rows = {row.name: row for row in await self._store.artefacts.made(session_id, session.strategy)}
        settled = await derived.settled(session_id)
        # What has no units yet, as an open turn, is asked for when it has.
        ready = [wanted for wanted in asked if wanted.last <= settled and wanted.name in rows]
        for wanted in sorted(ready, key=lambda wanted: -wanted.last):
            await self._reword(session, wanted, rows[wanted.name])
        if len(ready) == len(asked):
            if len(self._seen) >= MAX_SEEN:
                del self._seen[next(iter(self._seen))]
            self._seen[session_id] = packed

    async def _is_asked(self, session: SessionRow, wanted: ArtefactSpec) -> bool:
        return bool(
            await self._store.derived.due.requested(session.id, "artefact", asked_name(session.strategy, wanted.name))
        )

    async def _reword(self, session: SessionRow, wanted: ArtefactSpec, before: ArtefactRow) -> None:
        basis = await self._basis(session, wanted, before)
        nonce = secrets.token_hex(NONCE_BYTES)
        (assignment,) = await self._pool.run(write_artefact_request, [(basis, nonce, self._settings)])

        async def note(is_asked: bool) -> None:
            name = asked_name(session.strategy, wanted.name)
            await self._store.derived.due.note_requested(session.id, "artefact", name, int(is_asked))

        if not assignment:
            await note(True)
            return
        answered = await self.rounds.ask(session.id, assignment.ask, note)
        if answered is None:
            return
        (made,) = await self._pool.run(weigh_artefact, [(assignment, answered.answer, basis)])
        if made:
            await self._store.artefacts.replace_made(session.id, session.strategy, before, made)
        else:
            await self.rounds.mark_unfit(answered)

    async def _basis(self, session: SessionRow, wanted: ArtefactSpec, before: ArtefactRow) -> Basis:
        first, last = max(1, wanted.first), wanted.last
        kind = load(session.strategy).artefacts[wanted.kind]
        is_read = kind.reads_messages and last - first < MAX_READ_TURNS
        rows = await self._store.read(session.id, first, last) if is_read else []
        units = {row.turn: row.units for row in await self._store.derived.renditions(session.id, first, last)}
        goals = [row.data for row in await self._store.artefacts.goals(session.id)]
        return Basis(wanted, before, rows, units, goals, session.encoding, session.strategy)
