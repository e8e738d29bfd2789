"""A strategy of a third party that uses everything a strategy may declare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from foveate.compress.eras import era_text
from foveate.context.tags import Section
from foveate.models import Answer, Ask
from foveate.models.settings import ModelsSettings
from foveate.plan import Artefact, ArtefactSpec, Block, Overheads, Plan, PlanEvent, Story
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

    keeps_story: ClassVar[bool] = True
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

    def plan(self, story: Story, budget_tokens: int, overheads: Overheads) -> Plan:
        room = min(self.note_tokens, budget_tokens // 4)
        plan = Standard().plan(story, budget_tokens - room - overheads.range, overheads)
        oldest = plan.rows[0] if plan.rows else None
        is_dropped = oldest is not None and oldest.level == "E" and not oldest.first_step
        needed = oldest.last if oldest and is_dropped else 0
        kept = int(str(story.state.get("folded", 0)))
        is_growing = story.frame.is_one_off or needed > kept
        folded = min(needed + self.folded_ahead, story.last_turn - 1) if is_growing else kept
        if not folded or room < self.note_tokens or needed == story.last_turn:
            return plan
        wanted = ArtefactSpec(f"note-{folded}-{room}", "note", 1, folded, tokens=room)
        note = Block(1, folded, "A", overheads.range + room, artefact=wanted.name)
        rows = (note, *(row for row in plan.rows if row.first > folded))
        state: dict[str, Json] = {"folded": folded}
        events = (PlanEvent("note-grown", {"last": folded}),) if is_growing else ()
        tokens = sum(row.tokens for row in rows)
        return Plan(rows, plan.bands, tokens, budget_tokens, (wanted,), state, events, {"folded": folded})
