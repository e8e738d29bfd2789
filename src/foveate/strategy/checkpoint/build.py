"""Makes checkpoints of turns: the assistant's work as a summary, decisions, files changed and next steps.

The user's words are not part of a checkpoint; they are shown next to it verbatim. A checkpoint of any level is made
from the original turns. Its key decisions are chosen regardless of the level, so they survive ageing; its architecture
decisions have room of their own, verbatim.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from foveate.compress.choose import MIN_LEFT_TOKENS, Choice, best_first, best_that_fit
from foveate.compress.cues import estimate_tokens
from foveate.compress.eras import era_text, roll_up
from foveate.compress.facts import Facts, find_facts
from foveate.compress.guard import GuardSource, Pair, check
from foveate.compress.marks import cut_line, escape_inline, one_line
from foveate.compress.model.clauses import clauses_schema, words_of
from foveate.compress.model.request import closed_object
from foveate.compress.rank import cut_clause
from foveate.compress.reader import Candidate, read_turn
from foveate.models.prompts import prompt_text
from foveate.plan import Artefact
from foveate.renditions import Count, Unit
from foveate.strategy.build import Material, SourceTurn, made_of
from foveate.strategy.checkpoint.extract import (
    MAX_FOUND,
    Find,
    Finds,
    GoalWords,
    distinct,
    find_all,
    found_before,
    is_contract,
    pack_finds,
    read_goals,
)
from foveate.strategy.checkpoint.state import ARCHITECTURE_KIND, COMPACT
from foveate.strategy.clause_summary import ClauseWording, JudgedClauses
from foveate.turn import Json, turn_id

ARCHITECTURE, CONTRACTS = "Architecture decisions (verbatim):", "Contracts (verbatim):"
LEVEL_NAMES = {1: "Compact", 2: "Moderate", 3: "Detailed"}
DECISION_SHARE = 0.40
"""Share of a compact checkpoint for key decisions, so that they fit at every level."""
MAX_DECISION_SHARE = 0.55
"""Maximum share of key decisions in a checkpoint whose turns are smaller than a compact checkpoint."""
FILES_SHARE, STEPS_SHARE = 0.12, 0.15
"""Shares of a checkpoint of any level for files changed and for next steps; a compact one has no next steps."""
MAX_DECISION_TOKENS = 60
MAX_STEP_TOKENS = 40
MAX_CLAUSE_TOKENS = 48
SHORT_TOKENS = 24
"""Size that an architecture decision is cut to if there is no room for all of it."""
FADING, AGAIN = 0.93, 0.3
"""Factors for each further clause of a turn, and for a fact that is already covered."""
REGIONS = 12
MAX_CANDIDATES = 12_000
"""Limit of the clauses of all turns that are compared with each other; those of each turn with the most weight."""
MIN_TURN_CANDIDATES = 8
MAX_LISTED = 8
"""Limit of the decisions, and of the next steps, that a model is asked for."""
_ENDINGS = ".;, "

Summarise = Callable[[int, frozenset[str]], "Summary"]
"""Summarises within the tokens; clauses that the checkpoint lists anyway are not repeated."""
STRUCTURED_TIER, RICH_TIER = 4, 5
"""Tiers from which a checkpoint has contracts and open tasks as fields of their own, and metadata."""
METADATA_SHARE = 0.1
"""Share of a checkpoint for test runs and owners."""
_HEADER = re.compile(
    r"\A(?:[@#]\w|(?:export |public |private |abstract |static |async |default )*"
    r"(?:class|interface|struct|enum|trait|impl|def|fn|func|function|import|from|package|module|namespace|return)\b)"
)
_LOG = re.compile(
    r"\A\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\A\[?\d\d:\d\d:\d\d|\A\W?(?:INFO|DEBUG|TRACE|WARN(?:ING)?|NOTICE)\b\W?[ :]"
)
_FAILURE = re.compile(r"(?i)error|exception|fatal|critical|fail|panic|denied|refused|timed? ?out")
"""Declarations of code, and log lines: they name things, but say nothing about the work."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Clauses that fit the tokens, and their sources."""

    text: str
    pairs: tuple[Pair, ...] = ()


@dataclass(frozen=True, slots=True)
class _Rooms:
    """Maximum tokens of the parts of a checkpoint."""

    level: int
    body: int
    """Everything except the architecture decisions."""
    summary: int
    decisions: int
    architecture: int
    tier: int


@dataclass(frozen=True, slots=True)
class _Said:
    """A clause that a summary may include."""

    turn: int
    candidate: Candidate
    factor: float


@dataclass(frozen=True, slots=True)
class _Listed:
    """Lines of a checkpoint's list, and the number of those without enough room."""

    lines: tuple[str, ...]
    kept: tuple[str, ...] = ()
    shortened: int = 0
    contracts: tuple[str, ...] = ()
    """Of architecture decisions: the lines that are contracts, if they are a field of their own."""


def make_checkpoint(material: Material) -> Artefact:
    """Make a checkpoint from the messages of its turns."""
    goals = read_goals(material.goals)
    said, facts = _read(material.turns, goals)
    finds = find_all(material.turns)
    # Decisions that a model once named survive ageing too.
    finds.added = found_before(material.made.values(), material.wanted.first, material.wanted.last).added
    _inherit(finds, material)

    def summarise(tokens: int, listed: frozenset[str]) -> Summary:
        return _summary([one for one in said if one.candidate.text not in listed], tokens, material.count)

    return _made(material, finds, goals, summarise, facts)


def make_architecture(material: Material) -> Artefact:
    """Make the artefact of all architecture decisions of compressed turns, verbatim, for a session without checkpoints.

    Decisions of earlier turns are taken from the artefact before this one. The text is empty if there are none.
    """
    wanted = material.wanted
    finds = find_all(material.turns)
    _inherit(finds, material)
    listed = _architecture(finds.architecture, wanted.tokens, material.count)
    lines = _preserved(listed)
    data: dict[str, Json] = {
        "architecture": list(listed.kept),
        "architecture_shortened": listed.shortened,
        "found": pack_finds(Finds(architecture=finds.architecture)),
    }
    text = "\n".join(lines)
    return made_of(wanted, text, {**data, "preserved_tokens": material.count(text) if text else 0})


def _inherit(finds: Finds, material: Material) -> None:
    """Add the architecture decisions of all earlier turns, if this artefact ends with the preserved list."""
    wanted = material.wanted
    if wanted.kind == ARCHITECTURE_KIND or wanted.data.get("architecture_tokens"):
        before = found_before(material.made.values(), 1, wanted.first - 1)
        finds.architecture = distinct([*before.architecture, *finds.architecture])[-MAX_FOUND:]


def make_merged(material: Material) -> Artefact:
    """Make a checkpoint of very many turns: from the best clauses of each, and the finds of earlier artefacts."""
    goals = read_goals(material.goals)
    units = [_weighed(unit, goals) for turn in material.turns for unit in turn.units if unit.text.startswith("[")]

    def summarise(tokens: int, _listed: frozenset[str]) -> Summary:
        return Summary(era_text(roll_up(units, tokens, material.count), tokens, material.count))

    wanted = material.wanted
    finds = found_before(material.made.values(), wanted.first, wanted.last)
    _inherit(finds, material)
    return _made(material, finds, goals, summarise, _facts(units))


def _facts(units: Sequence[Unit]) -> Facts:
    facts: Facts = {}
    for unit in units:
        facts |= dict.fromkeys(unit.facts, unit.worth)
    return facts


def _weighed(unit: Unit, goals: GoalWords) -> Unit:
    return Unit(unit.turn, unit.text, unit.worth * goals.weigh(unit.facts), unit.facts)


def _made(material: Material, finds: Finds, goals: GoalWords, summarise: Summarise, facts: Facts) -> Artefact:
    count, rooms = material.count, _rooms(material)
    decisions = _decisions(finds, goals, rooms.decisions, count)
    is_structured, is_rich = rooms.tier >= STRUCTURED_TIER, rooms.tier >= RICH_TIER
    architecture = _architecture(finds.architecture, rooms.architecture, count, is_structured=is_structured)
    paths = [f"{path} ({_digest(finds, path)})" for path in finds.files] if is_rich else finds.files
    files = _files([path.removesuffix(" ()") for path in paths], int(rooms.body * FILES_SHARE), count)
    has_steps = is_structured or rooms.level != COMPACT
    steps = _steps(finds.next_steps, int(rooms.body * STEPS_SHARE) if has_steps else 0, count)
    lists = _section("Key decisions:", decisions.lines)
    lists += [f"Files modified: {files}"] if files else []
    lists += _metadata(finds, int(rooms.body * METADATA_SHARE), count) if is_rich else []
    lists += _section("Open tasks:" if is_structured else "Next steps:", steps.lines)
    heading = (
        f"{LEVEL_NAMES.get(rooms.level, 'Compact')} checkpoint of what the assistant said and did{_span(material)}."
    )
    listed = frozenset((*decisions.kept, *architecture.kept, *steps.kept))
    body, summary = _body(heading, lists, lambda tokens: summarise(tokens, listed), rooms, material)
    text = "\n".join([body, *_preserved(architecture)])
    verdict = check(
        "T",
        GuardSource(facts, ()),
        text,
        tokens=count(text),
        above_tokens=material.wanted.tokens,
        pairs=summary.pairs,
    )
    data: dict[str, Json] = {
        "level": rooms.level,
        "summary": summary.text,
        "decisions": list(decisions.kept),
        "files": finds.files[-MAX_STEP_TOKENS:],
        "next_steps": list(steps.kept),
        "architecture": list(architecture.kept),
        "architecture_shortened": architecture.shortened,
        "contracts": [text for text in architecture.kept if is_contract(text)],
        "digests": {path: digest for path in finds.files if (digest := finds.metadata.digests.get(path))},
        "tests": dict(finds.metadata.tests),
        "owners": list(finds.metadata.owners),
        "kept_share": round(verdict.kept_share, 3),
        "preserved_tokens": count(text) - count(body) if architecture.lines else 0,
        "found": pack_finds(finds),
    }
    if not verdict.ok:
        data["refused"] = verdict.reason
    if count(text) > material.wanted.tokens:
        text, data["preserved_tokens"] = body, 0
    return made_of(material.wanted, text, data)


def _rooms(material: Material) -> _Rooms:
    data = material.wanted.data

    def number(key: str, otherwise: int) -> int:
        value = data.get(key, otherwise)
        return value if isinstance(value, int) else otherwise

    architecture = min(number("architecture_tokens", 0), material.wanted.tokens)
    body = material.wanted.tokens - architecture
    return _Rooms(
        level=number("level", COMPACT),
        body=body,
        summary=number("summary_tokens", body),
        decisions=int(min(number("compact_tokens", body) * DECISION_SHARE, body * MAX_DECISION_SHARE)),
        architecture=architecture,
        tier=number("tier", 0),
    )


def _span(material: Material) -> str:
    messages = material.wanted.data.get("messages")
    if isinstance(messages, list | tuple) and len(messages) == 2:  # noqa: PLR2004 - the first and the last
        return f", messages {messages[0]} to {messages[1]}"
    return ""


def _body(
    heading: str, lists: Sequence[str], summarise: Callable[[int], Summary], rooms: _Rooms, material: Material
) -> tuple[str, Summary]:
    """Write heading, summary and lists within their room; if there is too little, the last lines of the lists are
    dropped."""
    count, shown = material.count, list(lists)
    while True:
        room = min(rooms.summary, rooms.body - count("\n".join([heading, "", *shown])) - 1)
        if room >= min(rooms.body // 4, MAX_CLAUSE_TOKENS) or not shown:
            break
        shown.pop()
    summary = summarise(room) if room >= MIN_LEFT_TOKENS else Summary("")
    body = "\n".join([heading, *([summary.text] if summary.text else []), *shown])
    if count(body) <= rooms.body:
        return body, summary
    return cut_line(one_line(body), rooms.body, count), Summary("")


def _section(heading: str, lines: Sequence[str]) -> list[str]:
    return [heading, *lines] if lines else []


def _line(find: Find, text: str) -> str:
    return f"- {turn_id(find.turn)} {escape_inline(one_line(text))}"


def _decisions(finds: Finds, goals: GoalWords, room: int, count: Count) -> _Listed:
    """Choose the most informative decisions, in order, the same at every level; then those of a model if there is
    room."""
    found = [*finds.decisions, *finds.added]
    choices = []
    for find in finds.decisions:
        facts = find_facts(find.text)
        factor = goals.weigh(facts)
        weights = tuple((key, weight * factor) for key, weight in facts.items())
        choices.append(Choice(find.turn, estimate_tokens(find.text), weights))
    left = room - count("Key decisions:")
    lines: dict[int, str] = {}
    for place in [*best_first(choices, fading=FADING, again=AGAIN), *range(len(choices), len(found))]:
        line = cut_line(_line(found[place], found[place].text), MAX_DECISION_TOKENS, count)
        tokens = count(line) + 1
        if tokens <= left:
            lines[place] = line
            left -= tokens
    kept = sorted(lines)
    return _Listed(tuple(lines[place] for place in kept), tuple(found[place].text for place in kept))


def _preserved(listed: _Listed) -> list[str]:
    contracts = set(listed.contracts)
    others = [line for line in listed.lines if line not in contracts]
    return _section(ARCHITECTURE, others) + _section(CONTRACTS, listed.contracts)


def _digest(finds: Finds, path: str) -> str:
    digest = finds.metadata.digests.get(path)
    return f"sha256 {digest}" if digest else ""


def _metadata(finds: Finds, room: int, count: Count) -> list[str]:
    """Return the lines of the newest test runs and the owners, as far as they fit."""
    runs = [f"{command}: {outcome}" for command, outcome in finds.metadata.tests.items()]
    lines: list[str] = []
    for heading, parts in (("Tests", runs), ("Owners", finds.metadata.owners)):
        written = [f"{heading}: {escape_inline(one_line('; '.join(parts[first:])))}" for first in range(len(parts))]
        fitting = (line for line in written if count("\n".join([*lines, line])) <= room)
        lines += [line for line in (next(fitting, ""),) if line]
    return lines


def _architecture(finds: Sequence[Find], room: int, count: Count, *, is_structured: bool = False) -> _Listed:
    """Return all of them verbatim if they fit; else the newest, the others shortened, with a note."""
    listed = _fitting(finds, room - (count(CONTRACTS) + 1 if is_structured else 0), count)
    if not is_structured:
        return listed
    return replace(listed, contracts=tuple(filter(is_contract, listed.lines)))


def _fitting(finds: Sequence[Find], room: int, count: Count) -> _Listed:
    lines = [_line(find, find.text) for find in finds]
    heading = count(ARCHITECTURE) + 1
    sizes = [count(line) + 1 for line in lines]
    if sum(sizes) + heading <= room:
        return _Listed(tuple(lines), tuple(find.text for find in finds))
    note = "- ({} older ones shortened, {} left out: get_turn shows them)"
    left = room - heading - count(note.format(999, 999)) - 1
    shown: list[str] = []
    kept: list[str] = []
    whole = True
    for find, line, size in zip(reversed(finds), reversed(lines), reversed(sizes), strict=True):
        whole = whole and size <= left - SHORT_TOKENS
        shorter = line if whole else cut_line(_line(find, cut_clause(find.text, SHORT_TOKENS)), SHORT_TOKENS, count)
        tokens = count(shorter) + 1
        if tokens > left:
            break
        left -= tokens
        shown.insert(0, shorter)
        if whole:
            kept.insert(0, find.text)
    if not shown:
        return _Listed((), (), len(finds))
    said = note.format(len(shown) - len(kept), len(finds) - len(shown))
    return _Listed((said, *shown), tuple(kept), len(finds) - len(kept))


def _files(paths: Sequence[str], room: int, count: Count) -> str:
    """List the files, the last changed first, as many as fit."""
    shown: list[str] = []
    for path in reversed(paths):
        more = len(paths) - len(shown) - 1
        line = ", ".join([*shown, escape_inline(one_line(path))]) + (f" and {more} more" if more else "")
        if count(f"Files modified: {line}") > room:
            break
        shown.append(escape_inline(one_line(path)))
    left = len(paths) - len(shown)
    return ", ".join(shown) + (f" and {left} more" if left and shown else "")


def _steps(finds: Sequence[Find], room: int, count: Count) -> _Listed:
    left = room - count("Next steps:")
    lines: list[str] = []
    kept: list[str] = []
    for find in reversed(finds):
        line = cut_line(_line(find, cut_clause(find.text, MAX_STEP_TOKENS)), MAX_STEP_TOKENS, count)
        left -= count(line) + 1
        if left < 0:
            break
        lines.insert(0, line)
        kept.insert(0, find.text)
    return _Listed(tuple(lines), tuple(kept))


def _read(turns: Sequence[SourceTurn], goals: GoalWords) -> tuple[list[_Said], Facts]:
    """Read the clauses of all turns except the user's, and the largest weight of each fact."""
    most = max(MIN_TURN_CANDIDATES, MAX_CANDIDATES // max(1, len(turns)))
    said: list[_Said] = []
    facts: Facts = {}
    for turn in turns:
        read = read_turn(turn.messages).candidates
        own = [one for one in read if one.speaker != "user" and one.facts and not _is_filler(one)]
        if len(own) > most:
            own = sorted(sorted(own, key=lambda one: (-one.worth, one.place))[:most], key=lambda one: one.place)
        for candidate in own:
            factor = candidate.factor * goals.weigh(candidate.facts)
            said.append(_Said(turn.number, candidate, factor))
            for key, weight in candidate.facts.items():
                facts[key] = max(facts.get(key, 0.0), weight * factor)
    return said, facts


def _is_filler(candidate: Candidate) -> bool:
    """Return whether a clause is a declaration of code, or a log line that names no error."""
    if (candidate.kind == "code" or candidate.speaker == "tool") and _HEADER.match(candidate.text):
        return True
    return _LOG.match(candidate.text) is not None and not _FAILURE.search(candidate.text)


def _summary(said: Sequence[_Said], room: int, count: Count) -> Summary:
    """Choose the most informative clauses, in order; a clause keeps its negation and condition, or all its words."""
    sample = "; ".join(one.candidate.text for one in said[:: max(1, len(said) // 40)])
    scale = max(0.5, count(sample) / max(1, estimate_tokens(sample)))
    first = said[0].turn if said else 0
    span = max(1, (said[-1].turn if said else 0) - first + 1)
    choices = [
        Choice(
            one.turn,
            min(MAX_CLAUSE_TOKENS, one.candidate.tokens) * scale,
            tuple((key, weight * one.factor) for key, weight in one.candidate.facts.items()),
            (one.turn - first) * REGIONS // span,
        )
        for one in said
    ]
    chosen = best_that_fit(choices, room, fading=FADING, again=AGAIN)
    texts = {place: _short(said[place].candidate, scale) for place in chosen}
    shown = Counter(said[place].turn for place in chosen)
    line = count(f"{turn_id(first)} [assistant]\n")
    while chosen:
        text = _lines([(said[place], texts[place]) for place in sorted(chosen)])
        over = float(count(text) - room)
        if over <= 0:
            pairs = tuple(Pair(said[place].candidate.text, texts[place]) for place in sorted(chosen))
            return Summary(text, pairs)
        while over > 0 and chosen:
            place = chosen.pop()
            turn = said[place].turn
            shown[turn] -= 1
            over -= estimate_tokens(texts[place]) * scale + (0 if shown[turn] else line)
    return Summary("")


def _short(candidate: Candidate, scale: float) -> str:
    text = candidate.text
    short = text if candidate.is_whole else cut_clause(text, MAX_CLAUSE_TOKENS / scale)
    pair = Pair(text, short)
    is_safe = check("T", GuardSource({}, ()), short or "…", tokens=0, above_tokens=1, pairs=(pair,)).ok
    return (short if is_safe and short else text).rstrip(_ENDINGS)


def _lines(said: Sequence[tuple[_Said, str]]) -> str:
    """Write a line for each turn, with each speaker named once: `T-12 [assistant] …; … [tool] …`."""
    lines: list[str] = []
    turn, who = 0, ""
    for one, text in said:
        candidate = one.candidate
        clean = escape_inline(one_line(text))
        if one.turn != turn:
            lines.append(f"{turn_id(one.turn)} [{candidate.who}] {clean}")
        elif candidate.who != who:
            lines[-1] += f" [{candidate.who}] {clean}"
        else:
            lines[-1] += f"; {clean}"
        turn, who = one.turn, candidate.who
    return "\n".join(lines)


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
        """Return the notes without the user's words, which a checkpoint does not contain."""
        return [unit for unit in super().notes(material) if unit.text.startswith("[")]

    def room(self, material: Material) -> int:
        """Return the room without the part reserved for architecture decisions, which has no clauses."""
        return _rooms(material).body

    def put_together(self, judged: JudgedClauses, material: Material, before: Artefact) -> Artefact:
        """Replace the summary and next steps of rules by the model's, and add its decisions. What rules found in the
        turns is kept."""
        decisions, next_steps = (self._finds(judged, name) for name in ("decisions", "next_steps"))
        finds = found_before([before], material.wanted.first, material.wanted.last)
        known = {find.text for find in (*finds.decisions, *finds.architecture, *finds.added)}
        finds.added += [find for find in decisions if find.text not in known]
        finds.next_steps = next_steps or finds.next_steps

        def summarise(tokens: int, _listed: frozenset[str]) -> Summary:
            return Summary(era_text(judged.kept, tokens, material.count))

        return _made(material, finds, read_goals(material.goals), summarise, _facts(judged.notes))

    def _finds(self, judged: JudgedClauses, name: str) -> list[Find]:
        units = judged.judge.passed(judged.answer.get(name), self.speaker).units
        return [Find(unit.turn, words_of(unit)) for unit in units[:MAX_LISTED]]


WORDING = CheckpointWording()
