"""Makes one plan of the checkpoint strategy: from the turns since the last plan, the resulting rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from foveate.plan import (
    Artefact,
    ArtefactSpec,
    Block,
    Ledger,
    Plan,
    PlanEvent,
    ShownLevel,
    Snapshot,
    State,
    TurnSizes,
)
from foveate.strategy.checkpoint.blocks import CheckpointLayout, checkpoint_rows, newest_rows, user_rows
from foveate.strategy.checkpoint.state import DETAILED, CheckpointEntry, CheckpointState, preserved_tokens
from foveate.strategy.checkpoint.triggers import MIN_CHECKPOINT_TOKENS, TINY_SHARE, CheckpointFlow, Compression, sized
from foveate.strategy.gradient.planner import MIN_HISTORY_TOKENS
from foveate.strategy.layout import TINY_TOKENS, bands_of, compact_rows, rolled_rows, stub_row
from foveate.turn import Json, turn_id

if TYPE_CHECKING:
    from foveate.strategy.checkpoint import Checkpoint as Settings

MAX_TRIES = 4
"""Limit of the plans, each with less room, until the artefacts fit; then the smallest possible plan is used."""
MAX_CATCH_UP_TURNS = 20_000
"""In a longer history that was never planned, all but this many newest turns become one checkpoint at once."""
_LEVELS: tuple[ShownLevel, ...] = ("A", "U", "R", "S", "C", "T", "E")


@dataclass(frozen=True, slots=True)
class _Tried:
    """A flow with its layout."""

    flow: CheckpointFlow
    layout: CheckpointLayout
    wants: tuple[ArtefactSpec, ...]


class CheckpointPlanner:
    """Makes one plan."""

    def __init__(self, settings: Settings, snapshot: Snapshot, state: State, ledger: Ledger) -> None:
        self.settings = settings
        self.snapshot = snapshot
        self.state = state
        self.ledger = ledger
        self.budget = ledger.room_tokens
        self.overheads = snapshot.overheads
        self.opened = self._opened()
        # The prompt and Foveate's own additions are taken from the rest; `budget_tokens` is what they leave.
        usable = int(ledger.budget_tokens * settings.usable) - self.opened.given_tokens
        self.room = min(self.budget, max(usable, MIN_HISTORY_TOKENS))
        """Maximum tokens of the history."""
        self.items = self._read()

    def plan(self) -> tuple[Plan, State]:
        state = self.opened
        last = self.snapshot.last_turn
        if not last or self.room < MIN_HISTORY_TOKENS:
            return self._smallest()
        room = self.room
        for _ in range(MAX_TRIES):
            tried = self._try(state, room)
            over = tried.layout.tokens - self.room
            if over <= 0 and any(row.last == last and row.level != "A" for row in tried.layout.rows[-1:]):
                return self._planned(tried)
            room -= max(over, self.room // 10)
            if room < MIN_HISTORY_TOKENS:
                break
        return self._smallest()

    def _read(self) -> list[TurnSizes]:
        """Read the items, newest first, as far back as the room could show them."""
        items: list[TurnSizes] = []
        least = 0
        for item in self.snapshot.newest():
            items.append(item)
            tiny = TINY_TOKENS if item.tiny is None else min(item.tiny, TINY_TOKENS)
            least += max(1, self.overheads.line + min(tiny, item.raw)) if not item.step else 0
            if least > self.budget:
                break
        return items

    def _opened(self) -> CheckpointState:
        """Return the stored state; a preview keeps the session's tier."""
        ledger, stored = self.ledger, self.state
        nominal, given = ledger.asked_tokens or ledger.budget_tokens, ledger.given_tokens
        if not stored:
            return CheckpointState(nominal, self.settings.tier(nominal), given_tokens=given)
        state = CheckpointState.from_json(stored)
        # A context for display has no system prompt and no tools: those of the newest context count.
        state = replace(state, given_tokens=max(given, state.given_tokens) if ledger.is_display else given)
        if state.nominal_tokens == nominal or ledger.is_preview:
            return state
        return replace(state, nominal_tokens=nominal, tier=self.settings.tier(nominal))

    def _try(self, state: CheckpointState, room: int) -> _Tried:
        flow = CheckpointFlow(self.settings, state, room, self.overheads)
        last = self.snapshot.last_turn
        if skipped := self._skipped_through(state):
            flow.state = self._skipped(state, skipped, room)
        tinies = {item.turn: item.tiny for item in self.items if not item.step}
        infos = self.snapshot.infos(flow.state.tiny_through + 1, last)
        turns = [sized(info, min(TINY_TOKENS, tinies.get(info.turn) or TINY_TOKENS)) for info in infos]
        flow.begin([turn for turn in turns if turn.turn <= flow.state.through])
        for turn in turns:
            if turn.turn > flow.state.through:
                flow.add(turn)
        if turns:
            flow.state = replace(flow.state, seen_turn=last, seen_tokens=turns[-1].raw)
        wants = self._wanted(flow)
        flow.state = self._with_sizes(flow.state, wants)
        architecture = flow.state.architecture_wanted
        needed = (*wants.values(), *([architecture] if architecture else ()))
        # The preserved list is made from the finds of the artefacts before it, so these are made first.
        before = tuple(one for one in needed[:-1] if one.name not in self.snapshot.made)
        return _Tried(flow, self._lay_out(flow, wants), before or needed)

    def _skipped_through(self, state: CheckpointState) -> int:
        """Return the last of the turns that are too many to process one by one; 0 if there are none."""
        last = self.snapshot.last_turn
        return last - MAX_CATCH_UP_TURNS if last - state.through > MAX_CATCH_UP_TURNS else 0

    def _skipped(self, state: CheckpointState, through: int, room: int) -> CheckpointState:
        """Roll over the turns up to this one at once: they are too many to process one by one."""
        limit = self.settings.checkpoint_limit(state.tier)
        kept = state.checkpoints if len(state.checkpoints) < limit else ()
        oldest = next(iter(state.checkpoints[len(kept) :]), None)
        text = max(MIN_CHECKPOINT_TOKENS, min(self.settings.compact_tokens, room // 8) - self.overheads.range)
        new = CheckpointEntry(
            id=f"cp-{state.created + 1}",
            level=DETAILED,
            first=oldest.first if oldest else state.through + 1,
            last=through,
            first_message=oldest.first_message if oldest else state.messages + 1,
            last_message=state.messages + through - state.through,
            original_tokens=self.settings.detailed_tokens * 2,
            text_tokens=text,
            tokens=text + self.overheads.range,
        )
        return replace(
            state,
            checkpoints=(*kept, new) if limit else (),
            through=through,
            tiny_through=through,
            tiny_tokens=int(room * TINY_SHARE),
            messages=new.last_message,
            compressions=state.compressions + 1,
            rollovers=state.rollovers + 1,
            created=state.created + 1,
        )

    def _wanted(self, flow: CheckpointFlow) -> dict[str, ArtefactSpec]:
        """Return the request of each checkpoint by its id; the newest one ends with the preserved list."""
        settings, state = self.settings, flow.state
        limit = 0 if state.architecture_wanted else state.architecture_limit or flow.architecture_tokens
        newest = state.checkpoints[-1:]
        return {
            one.id: one.wanted(
                tier=state.tier,
                summary_tokens=settings.summary_max_tokens,
                compact_tokens=settings.compact_tokens,
                architecture_tokens=limit if one in newest else 0,
            )
            for one in state.checkpoints
        }

    def _with_sizes(self, state: CheckpointState, wants: Mapping[str, ArtefactSpec]) -> CheckpointState:
        """Set the real size of existing artefacts, and the limit of those that do not exist yet."""
        tag = self.overheads.range
        made: Mapping[str, Artefact] = self.snapshot.made
        found = [made.get(wants[checkpoint.id].name) for checkpoint in state.checkpoints]
        kept = [
            replace(checkpoint, tokens=one.tokens - preserved_tokens(one) + tag) if one else checkpoint
            for checkpoint, one in zip(state.checkpoints, found, strict=True)
        ]
        listed = state.architecture_wanted
        own = made.get(listed.name) if listed else found[-1] if found else None
        if own is None:
            tokens = state.architecture_tokens if listed or found else 0
        else:
            tokens = preserved_tokens(own) + (tag if listed and own.text else 0)
        return replace(state, checkpoints=tuple(kept), architecture_tokens=tokens)

    def _lay_out(self, flow: CheckpointFlow, wants: Mapping[str, ArtefactSpec]) -> CheckpointLayout:
        state, overheads = flow.state, self.overheads
        rolled = [item for item in self.items if item.turn <= state.tiny_through]
        rows = checkpoint_rows(state, {name: wanted.name for name, wanted in wants.items()})
        listed = state.architecture_wanted
        if rows and not listed:
            rows[-1] = replace(rows[-1], tokens=rows[-1].tokens + state.architecture_tokens)
        if listed and state.architecture_tokens:
            first = int(str(listed.data["first"]))
            rows.append(Block(first, state.through, "A", state.architecture_tokens, artefact=listed.name))
        room = max(state.tiny_tokens, stub_row(1, 1, overheads).tokens)
        rows += rolled_rows(self.snapshot, rolled, state.tiny_through, room, overheads)
        rows += user_rows(flow.users, overheads)
        sizes = {item.turn: item.raw for item in self.items if not item.step}
        for turn in flow.fresh[:-1]:
            rows.append(Block(turn.turn, turn.turn, "R", sizes.get(turn.turn, turn.raw) + overheads.tag))
        left = self.room - sum(row.tokens for row in rows)
        newest = [item for item in self.items if flow.fresh and item.turn == flow.fresh[-1].turn]
        if left <= 0 or not newest:
            return CheckpointLayout(tuple(rows))
        last = newest_rows(newest, flow.fresh[-1], left, overheads)
        return CheckpointLayout((*rows, *last.rows), last.is_lowered)

    def _planned(self, tried: _Tried) -> tuple[Plan, State]:
        flow, rows = tried.flow, tried.layout.rows
        reporter = PlanReporter(flow, self.settings, self.snapshot.model, self.ledger)
        missing = any(wanted.name not in self.snapshot.made for wanted in tried.wants)
        plan = Plan(
            rows,
            bands_of(rows, dict.fromkeys(_LEVELS, 0.0)),
            tried.layout.tokens,
            self.budget,
            wants=tried.wants,
            events=() if missing else reporter.events(),
            notes=reporter.notes(tried.layout),
        )
        return plan, flow.state.as_json()

    def _smallest(self) -> tuple[Plan, State]:
        """Plan the newest turn as far as it fits, and name all others; no state is kept."""
        rows: Sequence[Block] = compact_rows(self.snapshot, self.room, self.overheads)
        tokens = sum(row.tokens for row in rows)
        bands = bands_of(rows, dict.fromkeys(_LEVELS, 0.0))
        flow = CheckpointFlow(self.settings, self.opened, self.room, self.overheads)
        notes = PlanReporter(flow, self.settings, self.snapshot.model, self.ledger).status(tokens)
        if rows:
            notes["message"] = (
                f"{self.room} tokens are too few for checkpoints; the newest turn is shown as far as it fits"
            )
        return Plan(tuple(rows), bands, tokens, self.budget, notes=notes), self.state


MAX_REPORTED = 64
"""Limit of the compressions of one plan that are reported; an imported history has more."""
TIER_NAMES = ("minimal", "basic", "standard", "structured", "rich")
_CAUSES = {"compressed": "threshold", "squeezed": "room", "reduced": "rollover", "rolled over": "rollover"}


@dataclass(frozen=True, slots=True)
class PlanReporter:
    """Reports the result of a plan; all tokens are the model's own."""

    flow: CheckpointFlow
    settings: Settings
    model: str | None
    ledger: Ledger

    def events(self) -> tuple[PlanEvent, ...]:
        """Return the events of the newest compressions."""
        return tuple(event for compression in self.flow.done[-MAX_REPORTED:] for event in self._events(compression))

    def status(self, used_tokens: int) -> dict[str, Json]:
        """Return the use of the budget, the tier and the reliability."""
        state = self.flow.state
        trust = self.settings.reliability(self.model, state.as_json())
        return {
            "tier": state.tier,
            "tier_name": TIER_NAMES[state.tier - 1],
            "compressions": state.compressions,
            "reliability": round(trust.score, 4),
            "reliability_level": trust.level,
            "model_factor": trust.factor.value,
            "model_factor_assumed": trust.factor.is_assumed,
            "used_tokens": self._scaled(used_tokens),
            **self._budget(state),
        }

    def notes(self, layout: CheckpointLayout) -> dict[str, Json]:
        state = self.flow.state
        names = {(row.first, row.last): row.artefact for row in layout.rows if row.level == "A"}
        notes: dict[str, Json] = {
            **self.status(self.flow.used),
            "checkpoints": [
                {**self._described(checkpoint), "artefact": names.get((checkpoint.first, checkpoint.last), "")}
                for checkpoint in state.checkpoints
            ],
        }
        if state.rollovers:
            notes |= {"rollovers": state.rollovers, "tiny_through": turn_id(state.tiny_through)}
        if state.rollovers or state.architecture_from:
            notes["message"] = rolled_over(state)
        eras = [row.last for row in layout.rows if row.level == "E" and not row.first_step]
        if eras:
            notes["eras_through"] = turn_id(eras[-1])
        if layout.is_lowered:
            notes["newest"] = "the newest turn exceeds the remaining room and is shown in part"
        return notes

    def _events(self, compression: Compression) -> Iterator[PlanEvent]:
        turn = compression.turn
        # The last compression left the current checkpoints, whose real sizes are known.
        state = self.flow.state if compression is self.flow.done[-1] else compression.state
        reached: dict[str, Json] = {
            "used_tokens": self._scaled(compression.used_tokens),
            "trigger_tokens": self._scaled(compression.trigger_tokens),
            "available_tokens": self._scaled(compression.available_tokens),
        }
        cause = _CAUSES[compression.kind]
        yield PlanEvent("context-threshold-reached", reached, turn)
        yield PlanEvent("compression-triggered", {"cause": cause}, turn)
        if compression.new:
            new = next((one for one in state.checkpoints if one.id == compression.new.id), compression.new)
            yield PlanEvent("checkpoint-created", self._described(new), turn)
        if compression.aged or compression.merged:
            aged: dict[str, Json] = {"aged": list(compression.aged), "merged": list(compression.merged)}
            yield PlanEvent("checkpoints-aged", aged, turn)
        yield PlanEvent("budget-recalculated", self._budget(state), turn)
        done: dict[str, Json] = {"cause": cause, "compressions": state.compressions}
        if compression.kind in ("rolled over", "reduced"):
            done |= {"rolled_over": True, "message": rolled_over(state)}
            done |= {"tiny_through": turn_id(state.tiny_through)} if state.tiny_through else {}
        yield PlanEvent("compressed", done, turn)

    def _budget(self, state: CheckpointState) -> dict[str, Json]:
        """Return what is available now, and when the next compression is due."""
        available = max(0, self.flow.room - state.reserved_tokens(self.flow.overheads.range))
        trigger = int(available * (self.settings.trigger if self.settings.enabled else 1.0))
        return {
            "available_tokens": self._scaled(available),
            "trigger_tokens": self._scaled(trigger),
            "checkpoint_tokens": self._scaled(state.checkpoint_tokens),
            "preserved_tokens": self._scaled(state.architecture_tokens),
        }

    def _described(self, checkpoint: CheckpointEntry) -> dict[str, Json]:
        return {
            "id": checkpoint.id,
            "level": checkpoint.level,
            **_range(checkpoint),
            "messages": f"{checkpoint.first_message}-{checkpoint.last_message}",
            "original_tokens": self._scaled(checkpoint.original_tokens),
            "current_tokens": self._scaled(checkpoint.tokens),
            "compression_count": checkpoint.count,
        }

    def _scaled(self, tokens: int) -> int:
        """Convert from tokens of the session's encoding, which plans count in, to the model's own."""
        asked, nominal = self.ledger.asked_tokens, self.ledger.budget_tokens
        return round(tokens * asked / nominal) if asked and nominal else tokens


def _range(checkpoint: CheckpointEntry) -> dict[str, Json]:
    return {"first": turn_id(checkpoint.first), "last": turn_id(checkpoint.last)}


def rolled_over(state: CheckpointState) -> str:
    """Return the message of a rollover."""
    if not state.tiny_through:
        return (
            "there are no checkpoints at this context size, so the session rolled over to a snapshot: up to "
            f"{turn_id(state.through)} only the user's words are shown; get_turn returns the rest"
        )
    last = turn_id(state.tiny_through)
    return (
        "the uncompressed parts no longer fit, so the session rolled over to a snapshot: "
        f"up to {last} each turn is one line, or part of an era; get_turn returns the full text"
    )
