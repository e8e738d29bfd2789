"""Recurring errors and their resolutions. Pure.

An error is identified by the line that names it, without paths, numbers and addresses. Tool output is shown, but never
obeyed: a line that gives orders, or contains tags of a context, is omitted.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from foveate.compress.clauses import cut_text
from foveate.compress.cues import bare
from foveate.compress.lexicon import ERRORS, OUTCOMES
from foveate.compress.marks import one_line
from foveate.compress.model.checks import structure_in, visible
from foveate.knowledge.gather import DISPLAY, LearnedTurn, ToolOutcome
from foveate.knowledge.items import word_profile
from foveate.knowledge.own_words import own_words

MIN_TURNS = 2
"""Minimum number of turns of a recurring error."""
MAX_LINE_CHARS = 160
MAX_SENTENCE_CHARS = 300
MIN_SENTENCE_WORDS = 5
MIN_SHARED_WEIGHT = 0.6
"""Minimum weight of a word shared with an error for a sentence to be about that error."""
MAX_LOCATED = 8
"""Maximum number of linter or compiler errors per text."""
MAX_LINES = 400
"""Maximum number of lines of a text that are examined, from its end."""
REACH_TURNS = 5
"""Number of turns after an error in which a fix is searched."""

_NAMED = re.compile(
    r"\A(?:E\s+|>\s+|Unexpected error: |Uncaught )?"
    r"((?:[a-z_][\w]*\.)*[A-Z]\w*(?:Error|Exception|Fault|Warning|NotFound|Interrupt))(?::\s+(\S.*))?\Z"
)
"""The last line of a traceback; excludes a code line that raises an error."""
_PLAIN = re.compile(
    r"\A(?:\[?(?:error|fatal|panic|ERR!?)\]?|npm ERR!|E:|[\w./-]{1,60}: (?:line \d+: )?(?:error|fatal error"
    r"|command not found)"
    r"|bash: |sh: |zsh: |make: \*\*\*|error\[\w+\])\s*:?\s*(\S.*)\Z",
    re.IGNORECASE,
)
_LOCATED = re.compile(r"\A[\w./\\@+-]+:\d+(?::\d+)?:\s+(?:error:?\s+)?([A-Z]{1,4}\d{2,5}:?\s+\S.*)\Z")
"""A message of a linter or a compiler about a line: `app/main.py:12:1: F401 'os' imported but unused`."""
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")
_ORDER = re.compile(
    r"\b(?:ignore|disregard|forget|remember|always|never|from now on|you (?:must|should|are now|have to)"
    r"|instructions?|obey"
    r"|system prompt|password|curl|wget|sudo|chmod|base64|push|send|e-?mail|exfiltrate|please|from here on"
    r"|assistant|the user"
    r"|immer|niemals|toujours|jamais|siempre|nunca|всегда|никогда)\b|\|\s*(?:ba)?sh\b|总是|始终|必ず|常に",
    re.IGNORECASE,
)
_URL = re.compile(r"(?<!\w)\w+://\S+")
_VARIABLE = re.compile(
    r"0x[0-9a-f]+|(?<![\w.])(?:~|\.{0,2}|[A-Za-z]:)?(?:[/\\][\w.@+-]+){2,}|\b[0-9a-f]{8,}\b|\d+(?:[.,]\d+)*"
    r"|b?'[^']{40,}'|\"[^\"]{40,}\"",
    re.IGNORECASE,
)
_FIX = re.compile(
    r"\b(?:fix(?:ed|es)?|resolve[ds]?|solve[ds]?|solution|caused? by|because|the (?:issue|problem|cause) (?:is"
    r"|was)|root cause"
    r"|behoben|gelöst|corrigé|résolu|resuelto|corregido|risolto|исправ\w+|решен\w+)\b|修复|解决|修正|解決",
    re.IGNORECASE,
)
_MARKS = re.compile(r"\W+")
_CODE = re.compile(r"[A-Z]{1,4}\d{2,5}:?")


@dataclass(frozen=True, slots=True)
class Ending:
    """The resolution of an error: a successful tool call, or a sentence of the assistant or the person."""

    place: int
    """Position of its turn."""
    call: str = ""
    speaker: str = ""
    sentence: str = ""


@dataclass(slots=True)
class Failure:
    """An error with the positions of its turns."""

    signature: str
    line: str
    """The newest occurrence."""
    places: list[int] = field(default_factory=list)
    ending: Ending | None = None


def find_failures(turns: Sequence[LearnedTurn]) -> list[Failure]:
    """Find the errors of two turns or more, the most frequent first, each with its last resolution if any."""
    by_session: dict[str, list[int]] = defaultdict(list)
    for place, turn in enumerate(turns):
        by_session[turn.source.session_id].append(place)
    found: dict[str, Failure] = {}
    seen: dict[str, set[str]] = defaultdict(set)
    for places in by_session.values():
        places.sort(key=lambda place: turns[place].source)
        for number, place in enumerate(places):
            signs = dict(_signs(turns[place]))
            for signature, (line, tool) in signs.items():
                failure = found.setdefault(signature, Failure(signature, line))
                prompt = _MARKS.sub(" ", turns[place].user).strip().casefold()
                if prompt and prompt in seen[signature]:
                    continue  # a repeated prompt
                seen[signature].add(prompt)
                failure.places.append(place)
                failure.line = line
                ending = _ending(turns, places[number : number + REACH_TURNS + 1], signature, line, tool)
                failure.ending = ending or failure.ending
    recurrent = [failure for failure in found.values() if len(failure.places) >= MIN_TURNS]
    for failure in recurrent:
        failure.places.sort()
    return sorted(recurrent, key=lambda failure: (-len(failure.places), failure.signature))


def error_line(text: str, *, is_error: bool) -> str:
    """Return the line that names a text's error; empty if there is none, or if it gives orders.

    Unless `is_error`, only a line such as `ValueError: …` counts.
    """
    plain = ""
    for raw in reversed(text.splitlines()[-MAX_LINES:]):
        line = one_line(visible(raw))
        if named := _NAMED.match(line):
            if named[2] is None and not is_error:
                continue
            name = named[1].rpartition(".")[2]
            return _shown(f"{name}: {named[2]}" if named[2] else name)
        if is_error and (
            _PLAIN.match(line) or ({bare(word) for word in line.split()} & ERRORS and len(line) < MAX_LINE_CHARS)
        ):
            plain = line
    return _shown(plain)


def located_errors(text: str) -> list[str]:
    """List the errors of a linter or a compiler, one line per code, without orders."""
    found: dict[str, str] = {}
    for raw in text.splitlines()[-MAX_LINES:]:
        if match := _LOCATED.match(one_line(visible(raw))):
            line = _shown(match[1])
            if line:
                found.setdefault(line.split()[0], line)
    return list(found.values())[:MAX_LOCATED]


def signature_of(line: str) -> str:
    """Normalise a line by removing what differs between occurrences."""
    code = line.split(maxsplit=1)[0] if line else ""
    if _CODE.fullmatch(code):
        return f"{code} {_MARKS.sub(' ', _QUOTED.sub(' ', line[len(code) :])).strip()}".casefold()
    return " ".join(_MARKS.sub(" ", _VARIABLE.sub(" ", line)).casefold().split())


def _shown(line: str) -> str:
    line = one_line(_URL.sub("", line))[:MAX_LINE_CHARS].rstrip()
    return "" if _gives_orders(line) else line


def _signs(turn: LearnedTurn) -> Iterator[tuple[str, tuple[str, ToolOutcome | None]]]:
    """Yield the errors of a turn by signature, with the failed tool call; None if the person reported it."""
    texts: list[tuple[str, ToolOutcome | None, bool]] = [(turn.user, None, False)]
    texts += [(outcome.text, outcome, outcome.is_error) for outcome in turn.tools]
    for text, outcome, is_error in texts:
        lines = located_errors(text) or [error_line(text, is_error=is_error)]
        for line in filter(None, lines):
            if not (signature := signature_of(line)):
                continue
            yield signature, (line, outcome if outcome is None or outcome.name != DISPLAY else None)


def _ending(
    turns: Sequence[LearnedTurn], places: Sequence[int], signature: str, line: str, failed: ToolOutcome | None
) -> Ending | None:
    """Find the resolution of an error in its turn and those after it, unless the error occurred again first."""
    is_reported = any(sign == signature for sign, _ in _signs(replace(turns[places[0]], tools=())))
    for number, place in enumerate(places):
        turn = turns[place]
        outcomes = list(turn.tools)
        if number == 0 and failed is not None:
            outcomes = outcomes[next(at for at, one in enumerate(outcomes) if one is failed) + 1 :]
        if number and any(sign == signature for sign, _ in _signs(turn)):
            return None
        if failed is not None:
            for outcome in outcomes:
                if outcome.name == failed.name and _program(outcome) == _program(failed) and not outcome.is_error:
                    if any(sign == signature for sign, _ in _signs(replace(turn, user="", tools=(outcome,)))):
                        continue
                    sentence = _fix_sentence(turn.assistant)
                    return Ending(place, _call(outcome), "assistant" if sentence else "", sentence)
        elif is_reported and (sentence := _fix_sentence(turn.assistant, "" if number == 0 else line)):
            return Ending(place, speaker="assistant", sentence=sentence)
        if number and (sentence := _fix_sentence(own_words(turn.user), line)):
            return Ending(place, speaker="person", sentence=sentence)
    return None


def _program(outcome: ToolOutcome) -> str:
    """Return the first word of the command, so that an error of `pytest` is not resolved by `ls`."""
    words = re.findall(r"[\w.-]+", outcome.arguments)
    named = [word for word in words if word not in ("command", "cmd", "cd", "bash", "sh", "python", "path", "input")]
    return named[0] if named else ""


def _call(outcome: ToolOutcome) -> str:
    line = one_line(f"{outcome.name} {outcome.arguments}")[:MAX_LINE_CHARS]
    return "" if _gives_orders(line) else line


def _fix_sentence(text: str, line: str = "") -> str:
    """Return the last sentence that states the cause or the fix; with a line, only one that shares a word with it."""
    about = {word for word, weight in word_profile(line).weights.items() if weight >= MIN_SHARED_WEIGHT}
    for clause in reversed(cut_text(text)):
        sentence = one_line(clause.text)
        if clause.kind not in ("prose", "item") or len(sentence) > MAX_SENTENCE_CHARS or sentence.endswith(("?", ":")):
            continue
        words = [bare(word) for word in sentence.split()]
        is_telling = len(words) >= MIN_SENTENCE_WORDS or not OUTCOMES.isdisjoint(words)
        is_related = not about or about & word_profile(sentence).weights.keys()
        if _FIX.search(sentence) and is_telling and is_related and not _gives_orders(sentence):
            return sentence
    return ""


def _gives_orders(line: str) -> bool:
    return _ORDER.search(line) is not None or bool(structure_in(line, ""))
