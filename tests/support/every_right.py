"""Strategies of a third party: one that uses everything a strategy may declare, and one whose plan is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from foveate.compress.eras import era_text
from foveate.context.tags import Section
from foveate.models import Answer, Ask
from foveate.models.settings import ModelsSettings
from foveate.plan import Artefact, ArtefactSpec, Block, Ledger, Plan, PlanEvent, Snapshot, State
from foveate.strategy import Strategy
from foveate.strategy.build import ArtefactAssignment, ArtefactKind, Material, WordingReport, made_of
from foveate.strategy.standard import Standard
from foveate.turn import Json, Message, Text

EXPLANATION = "Turns are shown in tags; A is a note of what came before. Never write tags yourself.\n"


def make_note(material: Material) -> Artefact:
    units = sorted((unit for turn in material.turns for unit in turn.units), key=lambda unit: -unit.worth)
    return made_of(material.wanted, era_text(units, material.wanted.tokens, material.count))


class NoteWording:
    """A model writes the note in its own words."""

    def request(self, material: Material, *, nonce: str, settings: ModelsSettings) -> ArtefactAssignment | None:
        said = "\n".join(unit.text for turn in material.turns for unit in turn.units)[: settings.max_source_tokens]
        message = Message("user", (Text(f"{nonce}\n{said}"),))
        ask = Ask(purpose="roll-up", messages=(message,), max_output_tokens=200, input_tokens=material.count(said))
        return ArtefactAssignment(ask, nonce)

    def judge(
        self, assignment: ArtefactAssignment, answer: Answer, material: Material, before: Artefact
    ) -> WordingReport:
        if assignment.nonce in answer.text or material.count(answer.text) > material.wanted.tokens:
            return WordingReport(reason="it does not fit")
        return WordingReport(replace(before, text=answer.text))


class EveryRight(Struct, Strategy, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whole turns, and a note of everything before them that stays the same until it has to grow."""

    recalls_first: ClassVar[bool] = True
    documents: ClassVar[tuple[Section, ...]] = ("goals",)
    changing_documents: ClassVar[tuple[Section, ...]] = ("tasks",)
    events: ClassVar[tuple[str, ...]] = ("note-grown",)
    artefacts: ClassVar[Mapping[str, ArtefactKind]] = {
        "note": ArtefactKind(make_note, reads_messages=False, wording=NoteWording())
    }

    note_tokens: Annotated[int, Meta(ge=40, le=10_000)] = 200
    """What the note may take."""
    folded_ahead: Annotated[int, Meta(ge=0, le=1_000)] = 4
    """When the note has to grow, it takes in so many more turns, so that it stays the same for a while."""

    @property
    def document_limits(self) -> Mapping[str, int]:
        return {"tasks": 400}

    @property
    def explanation(self) -> str:
        return EXPLANATION

    def plan(self, snapshot: Snapshot, state: State, ledger: Ledger) -> tuple[Plan, State]:
        room, overheads = min(self.note_tokens, ledger.room_tokens // 4), snapshot.overheads
        less = replace(ledger, target_tokens=ledger.room_tokens - room - overheads.range)
        plan, _ = Standard().plan(snapshot, {}, less)
        oldest = plan.rows[0] if plan.rows else None
        is_dropped = oldest is not None and oldest.level == "E" and not oldest.first_step
        needed = oldest.last if oldest and is_dropped else 0
        kept = int(str(state.get("folded", 0)))
        is_growing = ledger.is_preview or needed > kept
        folded = min(needed + self.folded_ahead, snapshot.last_turn - 1) if is_growing else kept
        if not folded or room < self.note_tokens or needed == snapshot.last_turn:
            return plan, state
        wanted = ArtefactSpec(f"note-{folded}-{room}", "note", 1, folded, tokens=room)
        note = Block(1, folded, "A", overheads.range + room, artefact=wanted.name)
        rows = (note, *(row for row in plan.rows if row.first > folded))
        events = (PlanEvent("note-grown", {"last": folded}),) if is_growing else ()
        tokens = sum(row.tokens for row in rows)
        notes: dict[str, Json] = {"folded": folded}
        return Plan(rows, plan.bands, tokens, ledger.room_tokens, (wanted,), events, notes), notes


class KeptHalf(Struct, Strategy, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whole turns in half of the room; that plan is kept until the turns that were appended to it fill the rest."""

    keeps_plan: ClassVar[bool] = True

    def plan(self, snapshot: Snapshot, state: State, ledger: Ledger) -> tuple[Plan, State]:
        kept, limit = snapshot.kept, ledger.limit_tokens
        if ledger.is_preview:
            return Standard().plan(snapshot, state, ledger)
        if kept:
            reach = kept.last_turn, kept.last_step
            if kept.framed_tokens + snapshot.tokens_after(*reach) <= limit:
                rows, tokens = kept.rows, sum(kept.tokens)
                return Plan(rows, kept.bands, tokens, limit, cause=kept.cause, reach=reach, is_kept=True), state
        last = snapshot.last_turn - snapshot.is_open
        half = replace(ledger, target_tokens=ledger.room_tokens // 2)
        plan, _ = Standard().plan(snapshot.until(last, 0), {}, half)
        made = int(str(state.get("made", 0))) + 1
        return replace(plan, cause="full" if kept else "first", reach=(last, 0), notes={"made": made}), {"made": made}
