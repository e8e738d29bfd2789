"""Checkpoints worded by a model. Files changed and decisions that rules found in the turns stay, whatever it says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from foveate.compress.model.clauses import clauses_schema, words_of
from foveate.compress.model.request import closed_object
from foveate.models.prompts import prompt_text
from foveate.plan import Artefact
from foveate.renditions import Unit
from foveate.strategy.build import Material
from foveate.strategy.checkpoint.build import ModelWording, body_tokens, reword_checkpoint
from foveate.strategy.checkpoint.extract import Find
from foveate.strategy.clause_summary import ClauseWording, JudgedClauses
from foveate.turn import Json

MAX_LISTED = 8
"""Decisions, and next steps, that a model is asked for."""


class CheckpointWording(ClauseWording):
    """A summary of the assistant's work, its decisions and next steps."""

    schema: ClassVar[Mapping[str, Json]] = closed_object(
        {name: clauses_schema() for name in ("summary", "decisions", "next_steps")}
    )
    clauses_key = "summary"
    speaker = "assistant"
    extra_clauses = 2 * MAX_LISTED
    extra_request = f", {MAX_LISTED} decisions and {MAX_LISTED} next steps"

    @property
    def prompt(self) -> str:
        return prompt_text("summary/checkpoint").strip()

    def notes(self, material: Material) -> list[Unit]:
        """A checkpoint has none of the user's words."""
        return [unit for unit in super().notes(material) if unit.text.startswith("[")]

    def room(self, material: Material) -> int:
        """The room reserved for architecture decisions holds no clauses."""
        return body_tokens(material)

    def put_together(self, judged: JudgedClauses, material: Material, before: Artefact) -> Artefact:
        named = [
            _finds(judged.judge.passed(judged.answer.get(name), self.speaker).units)
            for name in ("decisions", "next_steps")
        ]
        return reword_checkpoint(material, before, ModelWording(judged.notes, judged.kept, *named))


def _finds(units: Sequence[Unit]) -> list[Find]:
    return [Find(unit.turn, words_of(unit)) for unit in units[:MAX_LISTED]]


WORDING = CheckpointWording()
