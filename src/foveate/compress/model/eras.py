"""Eras by a model: it chooses and words the clauses of an era, and each is checked against its turn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from foveate.compress.eras import roll_up
from foveate.compress.model.answer import load_object
from foveate.compress.model.clauses import (
    CLAUSE_SHAPE_TOKENS,
    COVERED_SHARE,
    ClauseJudge,
    asked_clauses,
    clauses_schema,
    fitting,
    note_line,
    weight,
)
from foveate.compress.model.request import OTHER_TOKENIZERS, SHAPE_TOKENS, SPEAKERS, closed_object, prompt_file, request
from foveate.models import Answer, Ask
from foveate.models.settings import ModelsSettings
from foveate.renditions import Count, Unit
from foveate.turn import Json, Message, Text

SCHEMA: Mapping[str, Json] = closed_object({"clauses": clauses_schema(SPEAKERS)})


@dataclass(frozen=True, slots=True)
class EraAssignment:
    """The request to a model for a range of turns; can be pickled."""

    ask: Ask
    nonce: str
    max_tokens: int


@dataclass(frozen=True, slots=True)
class EraReport:
    """The units of an era, best first; empty, with the reason, if the rules' result is kept."""

    units: tuple[Unit, ...] = ()
    reason: str = ""
    refused: int = 0


def assign_era(
    units: Sequence[Unit], max_tokens: int, count: Count, *, nonce: str, settings: ModelsSettings
) -> EraAssignment | None:
    """Write the request for a range of turns; None if all of its units fit anyway."""
    lines: list[str] = []
    left = settings.max_source_tokens
    for unit in units:
        line = note_line(unit)
        left -= count(line) + 1
        if left < 0:
            break
        lines.append(line)
    if sum(count(unit.text) for unit in units) <= max_tokens:
        return None
    clauses = asked_clauses(max_tokens)
    messages = (
        Message("system", (Text(prompt_file("era")),)),
        Message("user", (Text(request("\n".join(sorted(lines, key=_turn)), f"{clauses} clauses", nonce=nonce)),)),
    )
    limit = math.ceil(max_tokens * OTHER_TOKENIZERS) + CLAUSE_SHAPE_TOKENS * clauses + SHAPE_TOKENS
    ask = Ask.shaped("roll-up", messages, SCHEMA, max_output_tokens=limit, count=count)
    return EraAssignment(ask, nonce, max_tokens)


def _turn(line: str) -> int:
    return int(line.partition(" ")[0])


def judge_era(assignment: EraAssignment, answer: Answer, units: Sequence[Unit], count: Count) -> EraReport:
    """Return the accepted clauses, if they cover the range as well as the rules' result."""
    loaded, problem = load_object(answer)
    clauses = loaded.get("clauses") if loaded is not None else None
    if problem or not isinstance(clauses, list):
        return EraReport(reason=problem or '"clauses" is missing, or not as the schema has it')
    passed = ClauseJudge(units, assignment.nonce, count).passed(clauses)
    if not passed.is_enough:
        judged = passed.refused + len(passed.units)
        return EraReport(reason=f"{passed.refused} of {judged} clauses were rejected", refused=passed.refused)
    kept = fitting(passed.units, assignment.max_tokens, count)
    local = roll_up(units, assignment.max_tokens, count)
    if weight(kept) < COVERED_SHARE * weight(local):
        return EraReport(reason="it has too few of the facts that rules keep", refused=passed.refused)
    return EraReport(tuple(kept), refused=passed.refused)
