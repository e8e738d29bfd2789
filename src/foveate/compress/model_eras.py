"""Roll-ups by a model: it chooses and words the clauses of an era, and each is checked against the turn it is from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from foveate.compress import Count, Unit
from foveate.compress.eras import roll_up
from foveate.compress.facts import Facts, base_weight, find_facts
from foveate.compress.guard import CLAIMS, Source
from foveate.compress.inline import escape_inline, marked, one_line, unescape_inline
from foveate.compress.model_answers import load_object
from foveate.compress.model_checks import Original, made_up, visible, wrong_in
from foveate.compress.model_limits import OTHER_TOKENIZERS, SHAPE_TOKENS
from foveate.compress.model_prompts import prompt_file, request
from foveate.models import Answer, Ask
from foveate.settings import ModelsSettings
from foveate.text import compact_json
from foveate.turn import Json, Message, Text

CLAUSE_TOKENS = 48
"""No clause of an era is longer."""
TYPICAL_TOKENS = 20
MAX_CLAUSES = 64
CLAUSE_SHAPE_TOKENS = 24
"""Keys and braces around a clause."""
PASSING_SHARE = 0.6
"""If fewer of the clauses pass, the era that rules made stands."""
COVERED_SHARE = 0.6
"""So does it if the model's era has less of the weighted facts, compared with it."""
MESSAGE_TOKENS = 4

_CLAUSE: Mapping[str, Json] = {
    "type": "object",
    "properties": {
        "turn": {"type": "integer"},
        "speaker": {"type": "string", "enum": ["user", "assistant"]},
        "text": {"type": "string"},
    },
    "required": ["turn", "speaker", "text"],
    "additionalProperties": False,
}
SCHEMA: Mapping[str, Json] = {
    "type": "object",
    "properties": {"clauses": {"type": "array", "items": _CLAUSE}},
    "required": ["clauses"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class EraAssignment:
    """What a model is asked to make of a range of turns; can be pickled."""

    ask: Ask
    nonce: str
    max_tokens: int


@dataclass(frozen=True, slots=True)
class EraJudged:
    """The units of an era, best first; none, and the reason, if what rules made stands."""

    units: tuple[Unit, ...] = ()
    reason: str = ""
    refused: int = 0


def assign_era(
    units: Sequence[Unit], max_tokens: int, count: Count, *, nonce: str, settings: ModelsSettings
) -> EraAssignment | None:
    """The request for a range of turns; None if all of its units fit anyway."""
    lines: list[str] = []
    left = settings.max_source_tokens
    for unit in units:
        line = f"{unit.turn} {_speaker(unit)}: {_words(unit)}"
        left -= count(line) + 1
        if left < 0:
            break
        lines.append(line)
    if sum(count(unit.text) for unit in units) <= max_tokens:
        return None
    clauses = min(MAX_CLAUSES, max(1, max_tokens // TYPICAL_TOKENS))
    messages = (
        Message("system", (Text(prompt_file("era")),)),
        Message("user", (Text(request("\n".join(sorted(lines, key=_turn)), f"{clauses} clauses", nonce=nonce)),)),
    )
    texts = [*(message.text for message in messages), compact_json(SCHEMA)]
    ask = Ask(
        purpose="roll-up",
        messages=messages,
        schema=SCHEMA,
        max_output_tokens=math.ceil(max_tokens * OTHER_TOKENIZERS) + CLAUSE_SHAPE_TOKENS * clauses + SHAPE_TOKENS,
        temperature=0.0,
        input_tokens=sum(count(text) + MESSAGE_TOKENS for text in texts),
    )
    return EraAssignment(ask, nonce, max_tokens)


def _turn(line: str) -> int:
    return int(line.partition(" ")[0])


def _speaker(unit: Unit) -> str:
    return "user" if not unit.text.startswith("[") else "assistant"


def _words(unit: Unit) -> str:
    """A unit without its mark, as it was said."""
    said = unit.text.partition("] ")[2] if unit.text.startswith("[") else unit.text
    return unescape_inline(said)


def judge_era(assignment: EraAssignment, answer: Answer, units: Sequence[Unit], count: Count) -> EraJudged:
    """The clauses that may stand, if they are enough to tell of the range as well as rules do."""
    loaded, problem = load_object(answer)
    clauses = loaded.get("clauses") if loaded is not None else None
    if problem or not isinstance(clauses, list):
        return EraJudged(reason=problem or '"clauses" is missing, or not as the schema has it')
    by_turn: dict[int, list[Unit]] = {}
    for unit in units:
        by_turn.setdefault(unit.turn, []).append(unit)
    judged = [_judge_clause(clause, by_turn, assignment.nonce, count) for clause in clauses[: 2 * MAX_CLAUSES]]
    passed = list({unit.text: unit for unit in judged if unit}.values())
    refused = len(judged) - len(passed)
    if len(passed) < PASSING_SHARE * len(judged) or not passed:
        return EraJudged(reason=f"{refused} of {len(judged)} clauses were refused", refused=refused)
    kept = _fitting(passed, assignment.max_tokens, count)
    local = roll_up(units, assignment.max_tokens, count)
    if _weight(kept) < COVERED_SHARE * _weight(local):
        return EraJudged(reason="it has too few of the facts that rules keep", refused=refused)
    return EraJudged(tuple(kept), refused=refused)


def _judge_clause(clause: object, by_turn: Mapping[int, Sequence[Unit]], nonce: str, count: Count) -> Unit | None:
    """A clause as a unit, if its turn and its speaker say so."""
    found = clause if isinstance(clause, dict) else {}
    turn, speaker, text = found.get("turn"), found.get("speaker"), found.get("text")
    if type(turn) is not int or speaker not in ("user", "assistant") or not isinstance(text, str):
        return None
    said = one_line(visible(text)).rstrip(".;, ")
    own = [unit for unit in by_turn.get(turn, ()) if speaker == "assistant" or _speaker(unit) == "user"]
    if not said or not own or count(said) > CLAUSE_TOKENS:
        return None
    words = [_words(unit) for unit in own]
    known: Facts = find_facts("\n".join(words)) | {key: base_weight(key) for unit in own for key in unit.facts}
    facts, forms = find_facts(said), {key[2:] for key in known}
    source = Source(known, words)
    is_wrong = (
        any(key[0] in CLAIMS and key[2:] not in forms for key in facts)
        or wrong_in(said, Original("\n".join(words), source, 0, known), nonce)
        or made_up(said, known)
        or source.turned_round(said)
    )
    kept = frozenset(key for key in facts if key[2:] in forms)
    worth = round(sum(map(base_weight, sorted(kept))), 3)
    return Unit(turn, marked(speaker, escape_inline(said)), worth, kept) if worth > 0 and not is_wrong else None


def _fitting(units: Iterable[Unit], max_tokens: int, count: Count) -> list[Unit]:
    kept: list[Unit] = []
    left = max_tokens
    for unit in units:
        left -= count(unit.text) + 1
        if left < 0:
            break
        kept.append(unit)
    return kept


def _weight(units: Iterable[Unit]) -> float:
    return sum(base_weight(key) for key in sorted({key for unit in units for key in unit.facts}))
