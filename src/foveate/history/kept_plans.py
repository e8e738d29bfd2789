"""Plans and states that strategies keep between contexts, in the store and in memory.

A kept plan is stored with its texts, and raw turns by number, so that the next context repeats it byte for byte.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from foveate.context.assemble import BlockText
from foveate.context.context import PlanReport
from foveate.history.late_writes import LateWrites
from foveate.history.texts import is_from_log
from foveate.plan import Band, Block, KeptPlan, LevelChange, Plan, State
from foveate.store import Store, bodies
from foveate.store.rows import Origin
from foveate.strategy.gradient.few_changes import CHANGED_SHARE
from foveate.turn import Json

_STATE_FIELDS = ("last_turn", "last_step", "made_at", "used_at", "churn", "trigger_turn")
"""Fields of a plan that are stored among the state: programs of an earlier version read them there."""

MANY_CHANGES = "the budget made {:.0%} of the tokens change their level, more than a fifth"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Kept:
    """The state of a strategy, and its plan if it keeps one."""

    state: State
    plan: KeptPlan | None = None

    def pack(self) -> bytes:
        if self.plan is None:
            return bodies.squeeze(dict(self.state))
        plan = asdict(self.plan)
        moved = {"base_tokens": plan.pop("framed_tokens"), **{name: plan.pop(name) for name in _STATE_FIELDS}}
        return bodies.squeeze({**plan, "state": {**self.state, **moved}, "own": dict(self.state)})


NOTHING = Kept({})


@dataclass(slots=True)
class _Cell:
    """A value in use, and the value that the store has."""

    stored: bytes | None
    packed: bytes | None
    """The packed value in use; it is not saved yet if it differs from `stored`."""
    value: Kept
    saved_at: float = -math.inf
    """When this process saved `stored` (`time.perf_counter`)."""

    def is_current(self, stored: bytes | None, read_at: float) -> bool:
        """Return whether to use this value if another read found `stored` in the store: it is the same, or outdated."""
        return stored == self.stored or read_at < self.saved_at

    def note_saved(self, packed: bytes) -> None:
        """Set the value that the store has now."""
        self.stored, self.saved_at = packed, time.perf_counter()


class KeptPlans:
    """The plans and states of one session's strategies. A value that could not be saved is used from memory."""

    def __init__(self, store: Store, session_id: str, writes: LateWrites) -> None:
        self._store = store
        self._session_id = session_id
        self._writes = writes
        self._plans: dict[str, _Cell] = {}
        self._states: dict[str, _Cell] = {}
        self._origin: Origin | None = None

    def forget(self, origin: Origin) -> None:
        """Drop all values from memory, after turns were removed; values of another origin are not kept from now on."""
        self._plans.clear()
        self._states.clear()
        self._origin = origin

    def state(self, name: str, stored: bytes | None, read_at: float) -> State:
        """Return the state in use: the stored one, which was read at `read_at`, unless memory has a newer one."""
        cell = self._states.get(name)
        if cell is None or not cell.is_current(stored, read_at):
            cell = self._states[name] = _Cell(stored, stored, NOTHING if stored is None else Kept(_expanded(stored)))
        return cell.value.state

    def is_state_saved(self, name: str) -> bool:
        """Return whether the store has the state in use."""
        cell = self._states.get(name)
        return cell is None or cell.packed == cell.stored

    async def keep_state(self, name: str, state: State, origin: Origin | None = None) -> None:
        """Save a state and use it, unless a newer one came into use while it was saved.

        Nothing is saved if turns were removed since `origin` was read.
        """
        packed, before = bodies.squeeze(dict(state)), self._states.get(name)
        await self._store.artefacts.keep_state(self._session_id, name, packed, origin)
        if origin != self._origin and origin is not None:
            return
        cell = self._states.get(name)
        if cell is None or cell is before or cell.packed == cell.stored:
            cell = self._states[name] = _Cell(packed, packed, Kept(state))
        cell.note_saved(packed)

    def use_state(self, name: str, stored: bytes | None, state: State) -> None:
        """Use a state that could not be saved, until the store has a different one."""
        self._states[name] = _Cell(stored, bodies.squeeze(dict(state)), Kept(state))

    async def plan(self, name: str, stored: bytes | None, read_at: float) -> Kept:
        """Return the plan in use. If it could not be saved, try again, unless the store has a different one now."""
        cell = self._plans.get(name)
        if cell is None or not cell.is_current(stored, read_at):
            cell = self._plans[name] = _Cell(stored, stored, self._unpacked(name, stored))
        elif cell.packed != cell.stored:
            await self._save_plan(name, cell)
        return cell.value

    async def keep_plan(self, name: str, value: Kept, origin: Origin) -> None:
        """Use a plan and save it, unless turns were removed since `origin` was read."""
        if origin != self._origin:
            return
        before = self._plans.get(name)
        cell = self._plans[name] = _Cell(before.stored if before else None, value.pack(), value)
        await self._save_plan(name, cell)

    async def _save_plan(self, name: str, cell: _Cell) -> None:
        packed, origin = cell.packed, self._origin
        assert packed is not None, "a plan that is not saved has a value"

        async def save() -> None:
            await self._store.derived.keep_plan(self._session_id, name, packed, origin)
            if current := self._plans.get(name):  # a newer plan, if the write took long
                current.note_saved(packed)

        await self._writes.write(f"plan {name} of {self._session_id}", save)

    def _unpacked(self, name: str, stored: bytes | None) -> Kept:
        try:
            return NOTHING if stored is None else unpack_plan(stored)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            _log.warning(
                "the stored plan %s of %s can't be read by this version; a new one is made: %s",
                name,
                self._session_id,
                error,
            )
            return NOTHING


async def stored_state(store: Store, session_id: str, strategy: str) -> State:
    """Read the state of a session's strategy from the store."""
    packed = await store.artefacts.state(session_id, strategy)
    return {} if packed is None else _expanded(packed)


def unpack_plan(data: bytes) -> Kept:
    """Unpack a plan that this version or an earlier one stored."""
    plan: Any = bodies.expand(data)
    state = plan.pop("state")
    plan |= {"framed_tokens": state.pop("base_tokens")}
    plan |= {name: state.pop(name) for name in _STATE_FIELDS if name in state}
    own = plan.pop("own", state)
    kept = KeptPlan(
        **{
            **plan,
            "rows": tuple(Block(**{**row, "sizes": tuple(row.get("sizes", ()))}) for row in plan["rows"]),
            "texts": tuple(plan["texts"]),
            "tokens": tuple(plan["tokens"]),
            "bands": tuple(Band(**band) for band in plan["bands"]),
            "changes": tuple(LevelChange(**change) for change in plan.get("changes", ())),
        }
    )
    return Kept(own, kept)


def written_plan(plan: Plan, blocks: Sequence[BlockText], old: KeptPlan | None, *, now: float, turn: int) -> KeptPlan:
    """Return a new plan with its written blocks, to be kept; `turn` is the newest turn."""
    assert plan.reach, "a plan to be kept has a reach"
    assert plan.cause, "a new plan has a cause"
    texts = tuple(None if is_from_log(block.row) else block.text for block in blocks)
    last_turn, last_step = plan.reach
    return KeptPlan(
        rows=tuple(block.row for block in blocks),
        tokens=tuple(block.tokens for block in blocks),
        texts=texts,
        framed_tokens=sum(block.framed_tokens for block in blocks),
        last_turn=last_turn,
        last_step=last_step,
        cause=plan.cause,
        bands=plan.bands,
        made_at=now,
        used_at=now,
        trigger_turn=turn,
        churn=_churn(old, plan.rows),
        raw_tokens=plan.raw_tokens,
        changes=tuple(_changes(old, plan.rows)) if old else (),
    )


def report_of(kept: KeptPlan, plan: Plan) -> PlanReport:
    """Report how the levels of a kept plan were chosen."""
    by_age = not any(row.levels for row in kept.rows)
    is_much = by_age and kept.cause == "interval" and kept.churn > CHANGED_SHARE
    notes: dict[str, Json] = {"changes": MANY_CHANGES.format(kept.churn)} if is_much else {}
    return PlanReport(
        kept.bands,
        kept.cause,
        not plan.is_kept,
        kept.last_turn,
        kept.changes,
        notes={**plan.notes, **notes},
        tokens=sum(kept.tokens),
        raw_tokens=kept.raw_tokens,
        changed_share=kept.churn,
        made_at=datetime.fromtimestamp(kept.made_at, UTC),
        trigger_turn=kept.trigger_turn or kept.last_turn,
    )


def _churn(old: KeptPlan | None, rows: Sequence[Block]) -> float:
    """Return the share of tokens of turns that the old plan showed at a different level, or step by step."""
    total = sum(row.tokens for row in rows)
    if old is None or not total:
        return 0.0
    old_steps = {(row.first, row.first_step, row.last_step, row.level) for row in old.rows}
    same = sum(
        row.tokens
        for row in rows
        if row.first_step and (row.level == "R" or (row.first, row.first_step, row.last_step, row.level) in old_steps)
    )
    shares = (
        row.tokens * _common(was, row) / (row.last - row.first + 1)
        for was, row in _overlaps(old, rows)
        if was.level == row.level
    )
    return max(0.0, 1 - (same + sum(shares)) / total)


def _changes(old: KeptPlan, rows: Sequence[Block]) -> Iterator[LevelChange]:
    """Yield the ranges of turns whose level changes."""
    held: LevelChange | None = None
    for was, row in _overlaps(old, rows):
        if was.level == row.level:
            continue
        change = LevelChange(max(was.first, row.first), min(was.last, row.last), was.level, row.level)
        if held and (held.last + 1, held.before, held.after) == (change.first, change.before, change.after):
            held = replace(held, last=change.last)
            continue
        if held:
            yield held
        held = change
    if held:
        yield held


def _overlaps(old: KeptPlan, rows: Sequence[Block]) -> Iterator[tuple[Block, Block]]:
    """Yield each part of the old plan with one level and each part of the new rows that show the same whole turns;
    turns appended to the old plan were raw."""
    appended = Block(old.last_turn + 1, rows[-1].last if rows else 0, "R", 0)
    before = [span for row in (*old.rows, appended) if not row.first_step for span in row.spans()]
    start = 0
    for row in (span for planned in rows if not planned.first_step for span in planned.spans()):
        while start < len(before) and before[start].last < row.first:
            start += 1
        index = start
        while index < len(before) and before[index].first <= row.last:
            yield before[index], row
            index += 1


def _common(one: Block, other: Block) -> int:
    """Return the number of turns that two blocks have in common."""
    return min(one.last, other.last) - max(one.first, other.first) + 1


def _expanded(data: bytes) -> Mapping[str, Any]:
    found: Any = bodies.expand(data)
    return dict(found)
