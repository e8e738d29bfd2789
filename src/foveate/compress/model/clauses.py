"""Clauses worded by a model: the request, the schema, and the check of each against its turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from foveate.compress.facts import Facts, base_weight, find_facts
from foveate.compress.guard import CLAIMS, GuardSource
from foveate.compress.marks import escape_inline, marked, one_line, unescape_inline
from foveate.compress.model.checks import SourceWords, made_up, visible, wrong_in
from foveate.compress.model.request import closed_object
from foveate.renditions import Count, Unit
from foveate.turn import Json

CLAUSE_TOKENS = 48
"""Maximum tokens of a clause."""
TYPICAL_TOKENS = 20
MAX_CLAUSES = 64
CLAUSE_SHAPE_TOKENS = 24
"""Tokens of the keys and braces around a clause."""
PASSING_SHARE = 0.6
"""Minimum share of the clauses that must pass; otherwise the rules' result is kept."""
COVERED_SHARE = 0.6
"""Minimum share of the weighted facts, relative to the rules' choice; otherwise the rules' result is kept."""


def clauses_schema(speakers: Sequence[str] = ()) -> Json:
    """Return the schema of a list of clauses; the speaker is requested if there are several."""
    properties: dict[str, Json] = {"turn": {"type": "integer"}, "text": {"type": "string"}}
    if speakers:
        who: Json = {"type": "string", "enum": list(speakers)}
        properties = {"turn": properties["turn"], "speaker": who, "text": properties["text"]}
    return {"type": "array", "items": closed_object(properties)}


def asked_clauses(max_tokens: int) -> int:
    """Return the approximate number of clauses for a number of tokens."""
    return min(MAX_CLAUSES, max(1, max_tokens // TYPICAL_TOKENS))


def speaker_of(unit: Unit) -> str:
    return "user" if not unit.text.startswith("[") else "assistant"


def words_of(unit: Unit) -> str:
    """Return a unit's words without its mark, unescaped."""
    said = unit.text.partition("] ")[2] if unit.text.startswith("[") else unit.text
    return unescape_inline(said)


def note_line(unit: Unit) -> str:
    """Write the line that shows a unit to a model: `12 assistant: moved the backup to 04:10`."""
    return f"{unit.turn} {speaker_of(unit)}: {words_of(unit)}"


@dataclass(frozen=True, slots=True)
class _Said:
    """The words of one speaker in one turn, prepared for comparison."""

    known: Facts
    forms: frozenset[str]
    original: SourceWords


@dataclass(frozen=True, slots=True)
class ClauseVerdict:
    """The accepted clauses, in the order of the answer, and the number of rejected ones."""

    units: tuple[Unit, ...]
    refused: int

    @property
    def is_enough(self) -> bool:
        return bool(self.units) and len(self.units) >= PASSING_SHARE * (len(self.units) + self.refused)


class ClauseJudge:
    """Compares clauses with the turns that they name."""

    def __init__(self, units: Sequence[Unit], nonce: str, count: Count) -> None:
        self._nonce = nonce
        self._count = count
        self._by_turn: dict[int, list[Unit]] = {}
        for unit in units:
            self._by_turn.setdefault(unit.turn, []).append(unit)
        self._said: dict[tuple[int, str], _Said | None] = {}

    def passed(self, clauses: object, speaker: str = "") -> ClauseVerdict:
        """Return the clauses that their turns support; `speaker` is used for clauses that name none."""
        listed = clauses if isinstance(clauses, list) else []
        judged = [self._clause(clause, speaker) for clause in listed[: 2 * MAX_CLAUSES]]
        units = tuple({unit.text: unit for unit in judged if unit}.values())
        return ClauseVerdict(units, len(judged) - len(units))

    def _clause(self, clause: object, speaker: str) -> Unit | None:
        """Return a clause as a unit, if its turn and its speaker support it."""
        found: Mapping[str, object] = clause if isinstance(clause, dict) else {}
        turn, who, text = found.get("turn"), speaker or found.get("speaker"), found.get("text")
        if type(turn) is not int or who not in ("user", "assistant") or not isinstance(text, str):
            return None
        words = one_line(visible(text)).rstrip(".;, ")
        said = self._read(turn, str(who))
        if not words or not said or self._count(words) > CLAUSE_TOKENS:
            return None
        facts = find_facts(words)
        is_wrong = (
            any(key[0] in CLAIMS and key[2:] not in said.forms for key in facts)
            or wrong_in(words, said.original, self._nonce)
            or made_up(words, said.known)
            or said.original.source.turned_round(words)
        )
        kept = frozenset(key for key in facts if key[2:] in said.forms)
        worth = round(sum(map(base_weight, sorted(kept))), 3)
        return Unit(turn, marked(str(who), escape_inline(words)), worth, kept) if worth > 0 and not is_wrong else None

    def _read(self, turn: int, speaker: str) -> _Said | None:
        if (turn, speaker) not in self._said:
            units = self._by_turn.get(turn, ())
            own = [unit for unit in units if speaker == "assistant" or speaker_of(unit) == "user"]
            self._said[turn, speaker] = _read(own) if own else None
        return self._said[turn, speaker]


def _read(units: Sequence[Unit]) -> _Said:
    words = [words_of(unit) for unit in units]
    text = "\n".join(words)
    known: Facts = find_facts(text) | {key: base_weight(key) for unit in units for key in unit.facts}
    return _Said(known, frozenset(key[2:] for key in known), SourceWords(text, GuardSource(known, words), 0, known))


def fitting(units: Iterable[Unit], max_tokens: int, count: Count) -> list[Unit]:
    """Return the first of the units that fit the tokens."""
    kept: list[Unit] = []
    left = max_tokens
    for unit in units:
        left -= count(unit.text) + 1
        if left < 0:
            break
        kept.append(unit)
    return kept


def weight(units: Iterable[Unit]) -> float:
    """Return the total weight of the facts of some units, each counted once."""
    return sum(base_weight(key) for key in sorted({key for unit in units for key in unit.facts}))
