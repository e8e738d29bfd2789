"""Checkpoints and summaries of topics by a model: it words clauses, rules keep what they found and put it together.

Files changed, decisions and architecture decisions that rules found in the turns stay, whatever the model says; so
does the whole artefact, unless enough of the answer passes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from foveate.compress.eras import roll_up
from foveate.compress.facts import Facts, find_facts
from foveate.compress.guard import CLAIMS, GuardSource, check
from foveate.compress.marks import cut_line, escape_inline, marked, one_line
from foveate.compress.model.answer import load_object
from foveate.compress.model.checks import SourceWords, made_up, visible, wrong_in
from foveate.compress.model.clauses import (
    CLAUSE_SHAPE_TOKENS,
    COVERED_SHARE,
    ClauseJudge,
    asked_clauses,
    clauses_schema,
    fitting,
    note_line,
    weight,
    words_of,
)
from foveate.compress.model.eras import MESSAGE_TOKENS
from foveate.compress.model.request import OTHER_TOKENIZERS, SHAPE_TOKENS, SPEAKERS, closed_object, prompt_file, request
from foveate.compress.reader import read_turn
from foveate.models import Answer, Ask
from foveate.models.settings import ModelsSettings
from foveate.plan import Artefact
from foveate.renditions import Count, Unit
from foveate.strategy.build import Material, SourceTurn
from foveate.strategy.checkpoint.build import ModelWording, reword_checkpoint
from foveate.strategy.checkpoint.extract import Find, goal_lines
from foveate.strategy.topics.build import MAX_TITLE_CHARS, reword_topic
from foveate.text import compact_json
from foveate.turn import Json, Message, Text

CHECKPOINTS: Final = frozenset({"checkpoint", "checkpoints"})
"""Kinds of one shape; the others are topics, or several together."""
MAX_NOTES = 6_000
"""Clauses of all turns that are compared with each other; of each turn the weightiest."""
MIN_TURN_NOTES = 8
MAX_NOTE_CHARS = 400
GOAL_TOKENS = 200
"""What a model is shown of one goal,"""
MAX_GOALS = 8
"""of so many."""
MAX_LISTED = 8
"""Decisions, and next steps, that a model is asked for."""

_SCHEMAS: Mapping[bool, Mapping[str, Json]] = {
    True: closed_object({name: clauses_schema() for name in ("summary", "decisions", "next_steps")}),
    False: closed_object({"title": {"type": "string"}, "clauses": clauses_schema(SPEAKERS)}),
}


@dataclass(frozen=True, slots=True)
class ArtefactAssignment:
    """What a model is asked to make of the turns of an artefact; can be pickled."""

    ask: Ask
    nonce: str


@dataclass(frozen=True, slots=True)
class WordingReport:
    """An artefact as a model has worded it; or the reason why it stays as it was."""

    made: Artefact | None = None
    reason: str = ""


def assign_artefact(material: Material, *, nonce: str, settings: ModelsSettings) -> ArtefactAssignment | None:
    """The request; None if what rules made says it all anyway."""
    wanted, count = material.wanted, material.count
    notes = notes_of(material)
    if sum(count(unit.text) + 1 for unit in notes) <= wanted.tokens:
        return None
    is_checkpoint = wanted.kind in CHECKPOINTS
    clauses = asked_clauses(wanted.tokens)
    lists = f", {MAX_LISTED} decisions and {MAX_LISTED} next steps" if is_checkpoint else ""
    goals = [cut_line(line, GOAL_TOKENS, count) for line in goal_lines(material.goals)[:MAX_GOALS]]
    lines = _lines(notes, settings.max_source_tokens - sum(map(count, goals)), count)
    told = prompt_file("checkpoint" if is_checkpoint else "topic")
    asked = request("\n".join([*goals, *lines]), f"{clauses} clauses{lists}", nonce=nonce)
    schema = _SCHEMAS[is_checkpoint]
    most = clauses + (2 * MAX_LISTED if is_checkpoint else 0)
    ask = Ask(
        purpose="roll-up",
        messages=(Message("system", (Text(told),)), Message("user", (Text(asked),))),
        schema=schema,
        max_output_tokens=math.ceil(wanted.tokens * OTHER_TOKENIZERS) + CLAUSE_SHAPE_TOKENS * most + SHAPE_TOKENS,
        temperature=0.0,
        input_tokens=sum(count(text) + MESSAGE_TOKENS for text in (told, asked, compact_json(schema))),
    )
    return ArtefactAssignment(ask, nonce)


def judge_artefact(
    assignment: ArtefactAssignment, answer: Answer, material: Material, before: Artefact
) -> WordingReport:
    """The artefact with what passes of an answer, if that tells of the turns as well as what rules chose."""
    loaded, problem = load_object(answer)
    if loaded is None:
        return WordingReport(reason=problem)
    wanted, count = material.wanted, material.count
    is_checkpoint = wanted.kind in CHECKPOINTS
    notes = notes_of(material)
    judge = ClauseJudge(notes, assignment.nonce, count)
    passed = judge.passed(loaded.get("summary" if is_checkpoint else "clauses"), "assistant" if is_checkpoint else "")
    if not passed.is_enough:
        return WordingReport(reason=f"{passed.refused} of {passed.refused + len(passed.units)} clauses were refused")
    kept = fitting(passed.units, wanted.tokens, count)
    if weight(kept) < COVERED_SHARE * weight(roll_up(notes, wanted.tokens, count)):
        return WordingReport(reason="it has too few of the facts that rules keep")
    said = "\n".join(map(words_of, kept))
    known = GuardSource({key: unit.worth for unit in notes for key in unit.facts}, ())
    verdict = check("T", known, said, tokens=count(said), above_tokens=wanted.tokens, pairs=(), written_by_model=True)
    if not verdict.ok:
        return WordingReport(reason=verdict.reason)
    if is_checkpoint:
        named = [_finds(judge.passed(loaded.get(name), "assistant").units) for name in ("decisions", "next_steps")]
        made = reword_checkpoint(material, before, ModelWording(notes, kept, *named))
    else:
        title = _title(loaded.get("title"), notes, assignment.nonce) or str(before.data.get("title", ""))
        made = reword_topic(material, title, kept)
    if not made.text or count(made.text) > wanted.tokens:
        return WordingReport(reason="it does not fit")
    return WordingReport(replace(made, data={**made.data, "model": answer.message.model or ""}))


def notes_of(material: Material) -> list[Unit]:
    """What the turns say, clause by clause; a checkpoint has nothing of what the user said."""
    most = max(MIN_TURN_NOTES, MAX_NOTES // max(1, len(material.turns)))
    notes = [unit for turn in material.turns for unit in _notes(turn, most)]
    if material.wanted.kind in CHECKPOINTS:
        notes = [unit for unit in notes if unit.text.startswith("[")]
    return notes


def _notes(turn: SourceTurn, most: int) -> Sequence[Unit]:
    if not turn.messages:
        return turn.units[:most]
    told = [one for one in read_turn(turn.messages).candidates if one.facts]
    if len(told) > most:
        told = sorted(sorted(told, key=lambda one: (-one.worth, one.place))[:most], key=lambda one: one.place)
    return [
        Unit(
            turn.number,
            one_line(marked(one.who, escape_inline(f"{one.label}{one.text}"[:MAX_NOTE_CHARS]))),
            round(one.worth, 3),
            frozenset(one.facts),
        )
        for one in told
    ]


def _lines(notes: Sequence[Unit], max_tokens: int, count: Count) -> list[str]:
    """The notes in order; of more than a model may be shown those that tell most."""
    shown: list[tuple[int, str]] = []
    left = max_tokens
    for unit in roll_up(notes, max_tokens, count):
        line = note_line(unit)
        left -= count(line) + 1
        if left < 0:
            break
        shown.append((unit.turn, line))
    return [line for _, line in sorted(shown, key=lambda pair: pair[0])]


def _finds(units: Sequence[Unit]) -> list[Find]:
    return [Find(unit.turn, words_of(unit)) for unit in units[:MAX_LISTED]]


def _title(given: object, notes: Sequence[Unit], nonce: str) -> str:
    """A model's title, if it is in words of the notes; else nothing."""
    title = one_line(visible(given)).rstrip(".;, ") if isinstance(given, str) else ""
    if not title or len(title) > MAX_TITLE_CHARS:
        return ""
    words = [words_of(unit) for unit in notes]
    known: Facts = find_facts("\n".join(words))
    forms = {key[2:] for key in known}
    is_wrong = (
        any(key[0] in CLAIMS and key[2:] not in forms for key in find_facts(title))
        or wrong_in(title, SourceWords("\n".join(words), GuardSource(known, words), 0, known), nonce)
        or made_up(title, known)
    )
    return "" if is_wrong else title
