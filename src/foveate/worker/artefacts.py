"""Artefacts of a strategy: made from turns by rules at once, and worded by a model if one is configured for roll-ups.

If a maker fails, a simpler artefact is made. A model is asked once for each displayed artefact.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from foveate.compress.eras import era_text
from foveate.context.costs import content_tokens, counting
from foveate.context.cut import cut_text
from foveate.errors import contained
from foveate.models import Answer, Ask
from foveate.models.prompts import overridden
from foveate.models.settings import ModelsSettings
from foveate.plan import Artefact, ArtefactSpec
from foveate.renditions import without_recalled
from foveate.store import MessageRow, SessionRow, bodies
from foveate.store.codec import restore_message
from foveate.store.rows import ArtefactRow
from foveate.strategy import Strategy, load
from foveate.strategy.build import ArtefactAssignment, ArtefactKind, Material, SourceTurn, made_of, short_texts
from foveate.tokens import Counter, EncodingName, exact_counter
from foveate.worker.jobs import NONCE_BYTES, QueueContext, RollUpJob
from foveate.worker.renditions import unpack_units

MAX_READ_TURNS = 400
"""Above this number of turns their units are read instead of their messages."""
FALLBACK_TOKENS = 200
"""Token limit of the fallback for an artefact that could not be made."""

_log = logging.getLogger(__name__)


def make_all(strategy: Strategy, materials: Sequence[Material], counter: Counter) -> list[Artefact]:
    """Make all requested artefacts, with their sizes as shown."""
    return [counted(_make(strategy, material), counter) for material in materials]


def cutter(counter: Counter) -> Any:
    """Return `Material.cut` for texts of artefacts."""
    count = counting("A", counter)
    return lambda text, max_tokens: cut_text(text, max_tokens, count, count(text))


def _make(strategy: Strategy, material: Material) -> Artefact:
    spec = material.wanted
    with contained(_log, "making the artefact %s of kind %s failed", spec.name, spec.kind):
        made = strategy.make(material)
        return replace(made, name=spec.name, kind=spec.kind, first=spec.first, last=spec.last)
    return _fallback(material)


def _fallback(material: Material) -> Artefact:
    """Make an artefact of the most informative clauses; empty for short messages, which are then shown in full."""
    units = [unit for turn in material.turns for unit in turn.units]
    return made_of(material.wanted, era_text(units, material.wanted.tokens or FALLBACK_TOKENS, material.count))


def counted(made: Artefact, counter: Counter) -> Artefact:
    """Return the artefact with its sizes as shown."""
    sizes = {place: content_tokens(text, "M", counter) for place, text in short_texts(made).items()}
    return replace(made, tokens=content_tokens(made.text, "A", counter) if made.text else 0, sizes=sizes)


def pack_made(made: Artefact) -> ArtefactRow:
    sizes = {str(place): tokens for place, tokens in made.sizes.items()}
    data = bodies.squeeze({"text": made.text, "sizes": sizes, "data": made.data})
    return ArtefactRow(made.name, made.kind, made.first, made.last, made.tokens, data)


def unpack_made(row: ArtefactRow) -> Artefact:
    kept: Any = bodies.expand(row.data)
    sizes: Mapping[int, int] = {int(place): tokens for place, tokens in kept["sizes"].items()}
    return Artefact(
        row.name, row.kind, row.first_turn, row.last_turn, row.tokens, kept["text"], sizes=sizes, data=kept["data"]
    )


def pack_wants(specs: Sequence[ArtefactSpec]) -> bytes:
    return bodies.squeeze([asdict(spec) for spec in specs])


def unpack_wants(data: bytes) -> list[ArtefactSpec]:
    kept: Any = bodies.expand(data)
    return [ArtefactSpec(**spec) for spec in kept]


@dataclass(frozen=True, slots=True)
class Basis:
    """A stored artefact and its sources; can be pickled."""

    spec: ArtefactSpec
    before: ArtefactRow
    rows: Sequence[MessageRow]
    units: Mapping[int, bytes]
    """Packed units by turn."""
    goals: Sequence[bytes]
    encoding: EncodingName
    strategy: str
    """The strategy that owns the artefact."""

    @property
    def kind(self) -> ArtefactKind:
        return load(self.strategy).artefacts[self.spec.kind]

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
        return Material(self.spec, turns, counting("A", counter), cutter(counter), goals=goals)


def write_artefact_request(
    basis: Basis, nonce: str, settings: ModelsSettings, prompts: Mapping[str, str] | None = None
) -> ArtefactAssignment | None:
    with overridden(prompts):
        return basis.kind.load_wording().request(basis.material(), nonce=nonce, settings=settings)


def weigh_artefact(assignment: ArtefactAssignment, answer: Answer, basis: Basis) -> ArtefactRow | None:
    """Return the artefact with the accepted wording; None if it is unchanged."""
    with contained(_log, "an answer of %s could not be judged", answer.message.model):
        judged = basis.kind.load_wording().judge(assignment, answer, basis.material(), unpack_made(basis.before))
        if judged.made is not None:
            return pack_made(counted(judged.made, exact_counter(basis.encoding)))
        _log.info("%s keeps the rules' text: %s", basis.spec.name, judged.reason)
    return None


class ArtefactJob(RollUpJob):
    """A model's wording of one artefact."""

    kind = "artefacts"

    def __init__(self, context: QueueContext, session: SessionRow, spec: ArtefactSpec, before: ArtefactRow) -> None:
        super().__init__(context, session, f"artefact {spec.name}")
        self.spec, self.before = spec, before
        self._basis: Basis | None = None
        self._assignment: ArtefactAssignment | None = None

    async def request(self) -> Ask | None:
        self._basis = await self._read()
        job = (self._basis, secrets.token_hex(NONCE_BYTES), self.context.settings, await self.context.prompts())
        (self._assignment,) = await self.context.pool.run(write_artefact_request, [job])
        return self._assignment.ask if self._assignment else None

    async def keep(self, answer: Answer) -> bool:
        (made,) = await self.context.pool.run(weigh_artefact, [(self._assignment, answer, self._basis)])
        if made:
            artefacts = self.context.store.artefacts
            await artefacts.replace_made(self.session_id, self.session.strategy, self.before, made)
        return bool(made)

    async def note(self, *, is_asked: bool) -> None:
        name = _request_name(self.session, self.spec)
        await self._due.note_requested(self.session_id, "artefact", name, int(is_asked))

    async def _read(self) -> Basis:
        store, session, spec = self.context.store, self.session, self.spec
        first, last = max(1, spec.first), spec.last
        kind = load(session.strategy).artefacts[spec.kind]
        is_read = kind.reads_messages and last - first < MAX_READ_TURNS
        rows = await store.read(session.id, first, last) if is_read else []
        units = {row.turn: row.units for row in await store.derived.renditions(session.id, first, last)}
        goals = [row.data for row in await store.artefacts.goals(session.id)]
        return Basis(spec, self.before, rows, units, goals, session.encoding, session.strategy)


async def artefact_jobs(context: QueueContext, session: SessionRow) -> AsyncGenerator[ArtefactJob, None]:
    """Yield the displayed artefacts that no model was asked for, newest first."""
    store = context.store
    packed = await store.derived.offer(session.id, session.strategy)
    if packed is None:
        return
    specs = sorted(unpack_wants(packed), key=lambda spec: -spec.last)
    requested = store.derived.due.requested
    unasked = [one for one in specs if not await requested(session.id, "artefact", _request_name(session, one))]
    if not unasked:
        return
    rows = {row.name: row for row in await store.artefacts.made(session.id, session.strategy)}
    settled = await store.derived.settled(session.id)
    for spec in unasked:
        # An artefact is requested once all its turns have units; an open turn has none.
        if spec.last <= settled and spec.name in rows:
            yield ArtefactJob(context, session, spec, rows[spec.name])


def _request_name(session: SessionRow, spec: ArtefactSpec) -> str:
    """Return a unique name per artefact, so that no process overwrites another's note."""
    return f"{session.strategy}:{spec.name}"
