"""Finds what a checkpoint lists in addition to its summary: decisions, architecture decisions, files changed, next
steps.

All of it is found verbatim in the assistant's words and calls. Nothing here depends on how much of it a checkpoint can
show, so a checkpoint that ages or merges finds the same again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from foveate.compress.clauses import cut_text
from foveate.compress.exchange import read_exchange
from foveate.compress.facts import find_facts
from foveate.compress.tools import diffs
from foveate.plan import Artefact
from foveate.strategy.build import SourceTurn
from foveate.strategy.checkpoint.metadata import MAX_OWNERS, MAX_TESTS, Metadata, find_metadata
from foveate.turn import Json, Message, ToolCall

MAX_FOUND = 200
"""Limit of each kind; the newest are kept."""
MAX_FILES = 200
MAX_CLAUSE_CHARS = 400
"""A longer clause is not considered a decision."""
MIN_CLAUSE_WORDS = 3
LAST_TURNS = 3
"""Turns at the end of a checkpoint that are searched for next steps."""
MAX_STEPS = 8

_DECIDED = re.compile(
    r"\b(?:decided|decision (?:is|was)|agreed|chose|chosen|settled on|(?:going|go|went) with|opt(?:ed)? for"
    r"|we(?:'ll| will)(?: not)? (?:use|keep)|switch(?:ed|ing)? to"
    r"|(?:use[sd]?|switch(?:ed)?|keep|kept|pick(?:ed)?|take|took|with) [^.;]{1,80} (?:instead of|rather than)"
    r"|from now on|as a rule"
    r"|conclusion|the (?:fix|solution|approach|plan) is (?:to|an?|the|that)|root cause|approved|rejected|ruled out"
    r"|entschieden|beschlossen|vereinbart|décidé|choisi|convenu|decidido|elegido|acordado|решили|решено)\b"
    r"|决定|选择|決定|選択",
    re.IGNORECASE,
)
_RULE = re.compile(r"\b(?:must(?! be \w+ing\b)|will not|won't|not going to)\b", re.IGNORECASE)
"""Words of a rule. They make a decision only of a thing that they bind, not of who speaks or is spoken to."""
_NO_RULE = re.compile(
    r"\b(?:I|you|it|that|this|he|she|they|some|people)(?:'ll|'s|'m|'re)?(?: \w+){0,2} ?"
    r"\b(?:must|will not|won't|not going to)\b|\A\W*I\b",
    re.IGNORECASE,
)
_COURTESY = re.compile(
    r"\A\W*(?:understood|noted|got it|sure|okay|ok|alright|all right|of course|certainly|sorry|thanks|thank you)\b"
    r".*\bI(?:'ll|'m| will| won't| am)\b"
    r"|\A\W*(?:if|whether|should) (?:you|we|they)\b|\blet me know\b|\byou (?:could|can|may|might|would|should)\b"
    r"|\b(?:could|can|may|might|would|shall|should) (?:you|we|I)\b|\bI(?:'d| would)\b",
    re.IGNORECASE,
)
"""A promise to who is spoken to, a condition or an offer: none of them settles anything."""
_CHOICE = re.compile(
    r"\b(?:use[sd]?|using|built (?:on|with)|based on|written in|runs? on|backed by|stor(?:e|es|ed|ing)|return(?:s|ed)?"
    r"|accepts?|expects?|takes?|has|have|with|via|through|is|are|will|should|must|follow(?:s|ed|ing)?|adopt(?:s|ed)?"
    r"|implement(?:s|ed)?|structured|organi[sz]ed|split|verwende[nt]?|nutzt|utilise|usa|usar)\b|用|使用",
    re.IGNORECASE,
)
_PATTERN = (
    r"(?:design|architectur\w+|repository|factory|singleton|observer|adapter|strategy|decorator|visitor|saga|outbox"
    r"|pub/?sub)[- ]pattern|architecture\b|architektur\b|microservices?|monolith\w*|event[- ]driven|event[- ]sourc\w+"
    r"|cqrs|hexagonal|clean architecture|layered|mvc|mvvm|dependency injection|state machine|message queue|middleware"
)
TECHNOLOGIES = (
    r"postgres(?:ql)?|sqlite|mysql|mariadb|mongodb|redis|kafka|rabbitmq|elasticsearch|dynamodb|fastapi|flask|django|starlette"
    r"|express|nest\.?js|next\.?js|react|vue|svelte|angular|spring|rails|laravel|graphql|grpc|docker|kubernetes|terraform"
    r"|jwt|oauth2?|openid|websockets?|sqlalchemy|prisma|typescript|rust|golang|kotlin"
)
"""Names of databases, frameworks, protocols and languages; part of a pattern."""
_STACK = (
    r"tech(?:nology)? stack|stack|framework|runtime|orm|database|datenbank|cache layer|message broker"
    rf"|{TECHNOLOGIES}|python \d"
)
_CONTRACT = (
    r"endpoint|api contract|rest(?:ful)? api|request body|response body|payload|status code|http \d{3}|json schema"
    r"|openapi|webhook|rate limit|idempoten\w+|pagination|content[- ]type|authorization header|httponly"
)
_SCHEMA = (
    r"schema|primary key|foreign key|unique (?:index|constraint)|columns?|tables?|migration|index(?:ed)? on|not null"
    r"|one-to-many|many-to-many|enum (?:type|column)|jsonb"
)
_ARCHITECTURE = re.compile(rf"\b(?:{_PATTERN}|{_STACK}|{_CONTRACT}|{_SCHEMA})\b", re.IGNORECASE)
_CONTRACTS = re.compile(rf"\b(?:{_CONTRACT}|{_SCHEMA})\b", re.IGNORECASE)
_CONTRACT_LINE = re.compile(
    r"\b(?:GET|POST|PUT|PATCH|DELETE)\s+/[\w/{}:.*-]*|\b(?:CREATE|ALTER)\s+TABLE\s+\w+|\b(?:primary|foreign) key\b",
    re.IGNORECASE,
)
_REQUEST_LOG = re.compile(r"\b[1-5]\d\d\b.*\b\w+=\S")
"""A line of a log of requests, which names an endpoint but settles nothing."""
_NEXT = re.compile(
    r"\b(?:next(?: steps?)?|todo|to do|remaining|remains?|still (?:need|to|have|missing)|left to|follow[- ]up"
    r"|afterwards|then (?:i|we)(?:'ll| will)|i(?:'ll| will)|we(?:'ll| will)|let me|needs? to|should (?:now|next)"
    r"|als nächstes|noch (?:zu|offen)|ensuite|reste à|siguiente|falta)\b|下一步|次に",
    re.IGNORECASE,
)
_NEXT_HEADING = re.compile(r"\b(?:next steps?|todo|remaining|left to do|what's left|nächste schritte)\b", re.IGNORECASE)
_OPEN_BOX = re.compile(r"^\[ \]\s*")
_CHANGES = re.compile(r"write|edit|create|replace|insert|patch|delete|move|rename|save|append|applydiff")
_NO_CHANGES = re.compile(r"read|view|list|search|grep|todo|plan|message|comment|issue|branch|session|memory")
_LOOKS = frozenset({"view", "read", "open", "list"})
_PATCHES = ("patch", "diff", "input", "changes", "command", "cmd", "script")
_APPLIED = re.compile(r"^(?:> )?Applied edit to (\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Find:
    """A clause to be kept verbatim, and its turn."""

    turn: int
    text: str


@dataclass(slots=True)
class Finds:
    """Decisions, changed files and next steps of a range of turns."""

    decisions: list[Find] = field(default_factory=list)
    architecture: list[Find] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    """Changed files, the last changed last."""
    next_steps: list[Find] = field(default_factory=list)
    added: list[Find] = field(default_factory=list)
    """Decisions that only a model named; they are listed after the others."""
    metadata: Metadata = field(default_factory=Metadata)


def find_all(turns: Sequence[SourceTurn]) -> Finds:
    """Find the assistant's decisions, changed files and next steps in these turns, in order."""
    finds = Finds()
    changed: dict[str, None] = {}
    for turn in turns:
        for message in turn.messages:
            if message.role == "assistant" and message.kind == "message":
                _find_decisions(finds, turn.number, message.text)
            _move_to_end(changed, _changed_files(message))
    finds.files = list(changed)[-MAX_FILES:]
    spoken = [turn for turn in turns if _last_words(turn)]
    finds.next_steps = [step for turn in spoken[-LAST_TURNS:] for step in _next_steps(turn)][-MAX_STEPS:]
    finds.decisions = distinct(finds.decisions)[-MAX_FOUND:]
    finds.architecture = distinct(finds.architecture)[-MAX_FOUND:]
    finds.metadata = find_metadata(turns)
    return finds


def _move_to_end(paths: dict[str, None], changed: Iterable[str]) -> None:
    """Move changed paths to the end."""
    for path in changed:
        paths.pop(path, None)
        paths[path] = None


def is_architecture(text: str) -> bool:
    """Return whether a clause settles a pattern, a part of the stack, an API contract or a schema.

    One word of these kinds is enough in a decision; two are needed in a description.
    """
    if _CONTRACT_LINE.search(text):
        return True
    terms = {term.casefold() for term in _ARCHITECTURE.findall(text)}
    return bool(terms) and (is_decision(text) or (len(terms) > 1 and _CHOICE.search(text) is not None))


def is_contract(text: str) -> bool:
    """Return whether an architecture decision is an API contract or a schema."""
    return _CONTRACT_LINE.search(text) is not None or _CONTRACTS.search(text) is not None


def is_decision(text: str) -> bool:
    """Return whether a clause settles something: a choice that was made, or a rule for a thing."""
    if _COURTESY.search(text):
        return False
    return _DECIDED.search(text) is not None or (_RULE.search(text) is not None and not _NO_RULE.search(text))


def _find_decisions(finds: Finds, turn: int, text: str) -> None:
    for clause in cut_text(text):
        said = clause.text
        is_code = clause.kind == "code"
        if len(said) > MAX_CLAUSE_CHARS or len(said.split()) < MIN_CLAUSE_WORDS or said.endswith(("?", ":")):
            continue
        if _REQUEST_LOG.search(said):
            continue
        if _CONTRACT_LINE.search(said) if is_code else is_architecture(said):
            finds.architecture.append(Find(turn, said))
        elif not is_code and clause.kind != "heading" and is_decision(said):
            finds.decisions.append(Find(turn, said))


def _changed_files(message: Message) -> Iterator[str]:
    for call in message.tool_calls:
        yield from _changed_by(call)
    if message.role == "assistant" or message.kind == "injection":
        yield from (path for path in _APPLIED.findall(message.text))


def _changed_by(call: ToolCall) -> Iterator[str]:
    exchange = read_exchange(call, None)
    tool = exchange.tool.lower().replace("_", "").replace("-", "")
    for key in _PATCHES:
        given = exchange.arguments.get(key)
        if isinstance(given, str) and ("*** " in given or "diff --git" in given or "\n+++ " in given):
            yield from diffs.paths_of(given)
    if exchange.arguments.get("command") in _LOOKS or _NO_CHANGES.search(tool) or not _CHANGES.search(tool):
        return
    if exchange.path:
        yield exchange.path


def _last_words(turn: SourceTurn) -> str:
    return next(
        (message.text for message in reversed(turn.messages) if message.role == "assistant" and message.text.strip()),
        "",
    )


def _next_steps(turn: SourceTurn) -> Iterator[Find]:
    """Yield what the turn's last words leave to do: open boxes, a list under such a heading, clauses of that kind."""
    is_listed = False
    for clause in cut_text(_last_words(turn)):
        text = clause.text
        if clause.kind == "heading" or text.endswith(":"):
            is_listed = bool(_NEXT_HEADING.search(text))
            continue
        is_listed = is_listed and clause.kind == "item"
        open_box = _OPEN_BOX.match(text)
        if len(text) > MAX_CLAUSE_CHARS or clause.kind in ("code", "row"):
            continue
        if is_listed or open_box or (_NEXT.search(text) and not text.endswith("?")):
            yield Find(turn.number, _OPEN_BOX.sub("", text))


def distinct(finds: Sequence[Find]) -> list[Find]:
    """Drop finds with the same text, keeping the last."""
    last = {" ".join(find.text.casefold().split()): find for find in finds}
    kept = set(map(id, last.values()))
    return [find for find in finds if id(find) in kept]


def pack_finds(finds: Finds) -> Json:
    """Pack the finds for storage with a checkpoint; `found_before` reads them."""
    return {
        "decisions": [[find.turn, find.text] for find in finds.decisions],
        "architecture": [[find.turn, find.text] for find in finds.architecture],
        "files": finds.files,
        "next_steps": [[find.turn, find.text] for find in finds.next_steps],
        "added": [[find.turn, find.text] for find in finds.added],
        "digests": dict(finds.metadata.digests),
        "tests": dict(finds.metadata.tests),
        "owners": list(finds.metadata.owners),
    }


def found_before(made: Iterable[Artefact], first: int, last: int) -> Finds:
    """Return what earlier checkpoints of these turns found, in order; the next steps are those of the newest."""
    finds = Finds()
    changed: dict[str, None] = {}
    for one in sorted(made, key=lambda one: (one.first, one.last, one.name)):
        found = one.data.get("found")
        if one.first < first or one.last > last or not isinstance(found, Mapping):
            continue
        finds.decisions += _unpacked(found.get("decisions"))
        finds.architecture += _unpacked(found.get("architecture"))
        finds.next_steps = _unpacked(found.get("next_steps"))
        finds.added += _unpacked(found.get("added"))
        finds.metadata.digests |= _text_map(found.get("digests"))
        finds.metadata.tests |= _text_map(found.get("tests"))
        owners = found.get("owners")
        finds.metadata.owners += [str(one) for one in owners] if isinstance(owners, list | tuple) else []
        listed = found.get("files")
        _move_to_end(changed, (path for path in (listed if isinstance(listed, list) else ()) if isinstance(path, str)))
    finds.decisions = distinct(sorted(finds.decisions, key=lambda find: find.turn))[-MAX_FOUND:]
    finds.architecture = distinct(sorted(finds.architecture, key=lambda find: find.turn))[-MAX_FOUND:]
    finds.added = distinct(sorted(finds.added, key=lambda find: find.turn))[-MAX_FOUND:]
    finds.files = list(changed)[-MAX_FILES:]
    finds.metadata.tests = dict(list(finds.metadata.tests.items())[-MAX_TESTS:])
    finds.metadata.owners = list(dict.fromkeys(finds.metadata.owners))[-MAX_OWNERS:]
    return finds


def _text_map(stored: Json) -> dict[str, str]:
    return {key: str(value) for key, value in stored.items()} if isinstance(stored, Mapping) else {}


def _unpacked(listed: Json) -> list[Find]:
    """Unpack stored finds; invalid entries are skipped."""
    found: list[Find] = []
    for one in listed if isinstance(listed, Sequence) and not isinstance(listed, str) else ():
        match one:
            case [int(turn), str(text)]:
                found.append(Find(turn, text))
    return found


GOAL_BOOST, OFF_TOPIC = 1.8, 0.5
"""Factors for clauses that serve an active goal, and for all others if there are goals."""
STRONG = "i/nuq"
"""Kinds of facts of which one in common is enough: identifiers, paths, names, addresses, quotes."""
WORDS_IN_COMMON = 2
FINISHED = frozenset({"done", "dropped"})


@dataclass(slots=True)
class GoalWords:
    """The facts of active goals."""

    strong: set[str] = field(default_factory=set)
    words: set[str] = field(default_factory=set)

    def weigh(self, facts: Collection[str]) -> float:
        """Return the factor for something with these facts; 1 if there are no goals."""
        if not self.strong and not self.words:
            return 1.0
        forms = {key[2:] for key in facts}
        serves = not self.strong.isdisjoint(forms) or len(forms & self.words) >= WORDS_IN_COMMON
        return GOAL_BOOST if serves else OFF_TOPIC


def read_goals(goals: Sequence[Mapping[str, Json]]) -> GoalWords:
    """Read the facts of the goals that are not done yet."""
    words = GoalWords()
    for goal in goals:
        if goal.get("status") in FINISHED:
            continue
        for text in _texts(goal):
            for key in find_facts(text):
                (words.strong if key[0] in STRONG else words.words).add(key[2:])
                if key[0] == "/":
                    words.strong.add(key[2:].rpartition("/")[2])
    return words


def _texts(goal: Mapping[str, Json]) -> Iterator[str]:
    yield str(goal.get("title", ""))
    for key in ("steps", "decisions", "artifacts"):
        listed = goal.get(key)
        for one in listed if isinstance(listed, list | tuple) else ():
            yield _named(one)


def _named(one: Json) -> str:
    """Return the title of a step, the path of an artifact, the text of a decision."""
    return str(one.get("title") or one.get("path") or "") if isinstance(one, Mapping) else str(one)


def goal_lines(goals: Sequence[Mapping[str, Json]]) -> list[str]:
    """Return the lines that show a summariser the goals that are not done yet."""
    lines: list[str] = []
    for goal in goals:
        if goal.get("status") not in FINISHED:
            listed = {key: goal.get(key) for key in ("steps", "decisions", "artifacts")}
            parts = [
                f"{key}: {', '.join(map(_named, found))}"
                for key, found in listed.items()
                if isinstance(found, list | tuple) and found
            ]
            lines.append("; ".join([f"goal: {goal.get('title', '')}", *parts]))
    return [" ".join(line.split()) for line in lines]
