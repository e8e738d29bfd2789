"""Summaries worded by a model as clauses of the turns: the request, and the checks of the answer.

Each strategy derives its own wording from `ClauseWording` and assembles the artefact from what passes. If too little of
an answer passes, the artefact made by rules is kept.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from foveate.compress.eras import roll_up
from foveate.compress.guard import GuardSource, check
from foveate.compress.marks import cut_line, escape_inline, marked, one_line
from foveate.compress.model.answer import load_object
from foveate.compress.model.clauses import (
    CLAUSE_SHAPE_TOKENS,
    COVERED_SHARE,
    ClauseJudge,
    asked_clauses,
    fitting,
    note_line,
    weight,
    words_of,
)
from foveate.compress.model.request import OTHER_TOKENIZERS, SHAPE_TOKENS, request
from foveate.compress.reader import read_turn
from foveate.models import Answer, Ask
from foveate.models.settings import ModelsSettings
from foveate.plan import Artefact
from foveate.renditions import Count, Unit
from foveate.strategy.build import ArtefactAssignment, Material, SourceTurn, WordingReport
from foveate.strategy.checkpoint.extract import goal_lines
from foveate.turn import Json, Message, Text

MAX_NOTES = 6_000
"""Limit of the clauses of all turns that are compared with each other; those of each turn with the most weight."""
MIN_TURN_NOTES = 8
MAX_NOTE_CHARS = 400
GOAL_TOKENS = 200
"""Maximum tokens of one goal's text in a request."""
MAX_GOALS = 8
"""Maximum number of goals in a request."""


class ClauseWording(ABC):
    """Requests clauses of the turns and keeps those whose facts the turns contain."""

    schema: ClassVar[Mapping[str, Json]]
    """JSON schema of the answer."""
    clauses_key: ClassVar[str]
    """The key of the clauses in the answer."""
    speaker: ClassVar[str] = ""
    """The assumed speaker of a clause that names none."""
    extra_clauses: ClassVar[int] = 0
    """Number of clauses requested in addition to those of the summary."""
    extra_request: ClassVar[str] = ""
    """Description of the extra clauses in the request."""

    @property
    @abstractmethod
    def prompt(self) -> str:
        """The system prompt."""

    @abstractmethod
    def put_together(self, judged: JudgedClauses, material: Material, before: Artefact) -> Artefact:
        """Assemble the artefact from the clauses that passed and what rules found."""

    def notes(self, material: Material) -> list[Unit]:
        """Return the clauses of the turns."""
        most = max(MIN_TURN_NOTES, MAX_NOTES // max(1, len(material.turns)))
        return [unit for turn in material.turns for unit in _notes(turn, most)]

    def room(self, material: Material) -> int:
        """Return the tokens for clauses in the artefact."""
        return material.wanted.tokens

    def request(self, material: Material, *, nonce: str, settings: ModelsSettings) -> ArtefactAssignment | None:
        wanted, count, room = material.wanted, material.count, self.room(material)
        notes = self.notes(material)
        if sum(count(unit.text) + 1 for unit in notes) <= room:
            return None
        clauses = asked_clauses(room)
        goals = [cut_line(line, GOAL_TOKENS, count) for line in goal_lines(material.goals)[:MAX_GOALS]]
        lines = _lines(notes, settings.max_source_tokens - sum(map(count, goals)), count)
        asked = request("\n".join([*goals, *lines]), f"{clauses} clauses{self.extra_request}", nonce=nonce)
        shape_tokens = CLAUSE_SHAPE_TOKENS * (clauses + self.extra_clauses) + SHAPE_TOKENS
        limit = math.ceil(wanted.tokens * OTHER_TOKENIZERS) + shape_tokens
        messages = (Message("system", (Text(self.prompt),)), Message("user", (Text(asked),)))
        ask = Ask.shaped("roll-up", messages, self.schema, max_output_tokens=limit, count=count)
        return ArtefactAssignment(ask, nonce)

    def judge(
        self, assignment: ArtefactAssignment, answer: Answer, material: Material, before: Artefact
    ) -> WordingReport:
        loaded, problem = load_object(answer)
        if loaded is None:
            return WordingReport(reason=problem)
        wanted, count, room = material.wanted, material.count, self.room(material)
        notes = self.notes(material)
        judge = ClauseJudge(notes, assignment.nonce, count)
        passed = judge.passed(loaded.get(self.clauses_key), self.speaker)
        if not passed.is_enough:
            total = passed.refused + len(passed.units)
            return WordingReport(reason=f"{passed.refused} of {total} clauses were rejected")
        kept = fitting(passed.units, room, count)
        if weight(kept) < COVERED_SHARE * weight(roll_up(notes, room, count)):
            return WordingReport(reason="it has too few of the facts that rules keep")
        said = "\n".join(map(words_of, kept))
        known = GuardSource({key: unit.worth for unit in notes for key in unit.facts}, ())
        verdict = check("T", known, said, tokens=count(said), above_tokens=room, pairs=(), written_by_model=True)
        if not verdict.ok:
            return WordingReport(reason=verdict.reason)
        made = self.put_together(JudgedClauses(notes, kept, loaded, judge, assignment.nonce), material, before)
        if not made.text or count(made.text) > wanted.tokens:
            return WordingReport(reason="it does not fit")
        return WordingReport(replace(made, data={**made.data, "model": answer.message.model or ""}))


@dataclass(frozen=True, slots=True)
class JudgedClauses:
    """An answer whose clauses passed."""

    notes: Sequence[Unit]
    kept: Sequence[Unit]
    answer: Mapping[str, Any]
    """The whole answer."""
    judge: ClauseJudge
    nonce: str


def _notes(turn: SourceTurn, most: int) -> Sequence[Unit]:
    if not turn.messages:
        return turn.units[:most]
    found = [one for one in read_turn(turn.messages).candidates if one.facts]
    if len(found) > most:
        found = sorted(sorted(found, key=lambda one: (-one.worth, one.place))[:most], key=lambda one: one.place)
    return [
        Unit(
            turn.number,
            one_line(marked(one.who, escape_inline(f"{one.label}{one.text}"[:MAX_NOTE_CHARS]))),
            round(one.worth, 3),
            frozenset(one.facts),
        )
        for one in found
    ]


def _lines(notes: Sequence[Unit], max_tokens: int, count: Count) -> list[str]:
    """Return the notes in order; if there are too many for a request, the most informative ones."""
    shown: list[tuple[int, str]] = []
    left = max_tokens
    for unit in roll_up(notes, max_tokens, count):
        line = note_line(unit)
        left -= count(line) + 1
        if left < 0:
            break
        shown.append((unit.turn, line))
    return [line for _, line in sorted(shown, key=lambda pair: pair[0])]
