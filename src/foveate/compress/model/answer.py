"""Reads a model's answer: one JSON object of the schema, or the reason why it is rejected."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from foveate.compress.clauses import cut_text
from foveate.compress.facts import find_facts
from foveate.compress.guard import GuardSource, Shares, check
from foveate.compress.marks import escape_inline, marked, one_line
from foveate.compress.model.checks import SourceWords, made_up, said_by_another, visible, wrong_in
from foveate.compress.model.request import NAMES, SPEAKERS, find_passages, with_passages
from foveate.compress.smooth import smooth_messages
from foveate.models import Answer
from foveate.renditions import Count, Level
from foveate.turn import Message
from foveate.words.grammar import unfence_json

MAX_ANSWER_CHARS = 400_000
"""Limit of the characters of an answer that are read."""
TRUNCATED = "the answer was cut off at its output limit; say less"
FILTERED = "the provider's filter stopped the answer"

_TOOLS_NOTE = re.compile(r"(?<!\s)\s*\{\d+ tools? called\}")


@dataclass(frozen=True, slots=True)
class LevelAnswer:
    """A C or T in its two parts."""

    user: str
    assistant: str

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(part for part in (self.user, self.assistant) if part)


@dataclass(frozen=True, slots=True)
class Fields:
    """An answer by levels; `problems` has the problem of each missing one."""

    said: Mapping[Level, LevelAnswer]
    smoothed: Mapping[int, str] | None
    """Texts by the number of their passage."""
    problems: Mapping[Level, str]


def read_answer(answer: Answer, levels: Sequence[Level]) -> Fields:
    """Read the parts of an answer for each level. Keys that were not requested are ignored."""
    loaded, problem = load_object(answer)
    if loaded is None:
        return Fields({}, None, dict.fromkeys(levels, problem))
    said: dict[Level, LevelAnswer] = {}
    smoothed: Mapping[int, str] | None = None
    problems: dict[Level, str] = {}
    for level in levels:
        value = loaded.get(NAMES[level])
        found = _read_passages(value) if level == "S" else _read_said(value)
        if isinstance(found, LevelAnswer):
            said[level] = found
        elif found is not None:
            smoothed = found
        else:
            problems[level] = f'"{NAMES[level]}" is missing, or not as the schema has it'
    return Fields(said, smoothed, problems)


def load_object(answer: Answer) -> tuple[dict[str, object] | None, str]:
    """Read an answer's JSON object, in a code fence or not; or return the problem."""
    text = answer.text
    problem = ""
    if answer.finish == "refused":
        problem = FILTERED
    elif answer.finish == "length":
        problem = TRUNCATED
    elif not text.strip():
        problem = "the answer is empty"
    elif len(text) > MAX_ANSWER_CHARS:
        problem = "the answer is far too long"
    if problem:
        return None, problem
    try:
        loaded = json.loads(unfence_json(text))
    except (ValueError, RecursionError):
        return None, "the answer is not one JSON object alone"
    return (loaded, "") if isinstance(loaded, dict) else (None, "the answer is no JSON object")


def _read_said(value: object) -> LevelAnswer | None:
    if not isinstance(value, dict):
        return None
    parts = [value.get(speaker) for speaker in SPEAKERS]
    if not all(isinstance(part, str) for part in parts):
        return None
    return LevelAnswer(*(_tidy(str(part)) for part in parts))


def _read_passages(value: object) -> dict[int, str] | None:
    if not isinstance(value, list):
        return None
    texts: dict[int, str] = {}
    for item in value:
        number, text = (item.get("passage"), item.get("text")) if isinstance(item, dict) else (None, None)
        if not isinstance(number, int) or isinstance(number, bool) or not isinstance(text, str) or number in texts:
            return None
        texts[number] = visible(text).strip()
    return texts


def _tidy(text: str) -> str:
    """Remove blank lines, and a count of tools, which Foveate adds itself."""
    lines = (" ".join(line.split()) for line in _TOOLS_NOTE.sub("", visible(text)).split("\n"))
    return "\n".join(line for line in lines if line)


MAX_NAMED = 12
"""Limit of the missing facts that are named to a model."""
PASSING_SHARE = 0.5
"""Minimum share of a turn's passages that must pass; otherwise the S made by rules is kept."""

_EXACT = "i#@/unqe"
"""Kinds of facts that are named first, since they can be copied."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """A level's text if it passes; else the reason for the rejection."""

    text: str = ""
    reason: str = ""
    kept_share: float = 0.0
    lost: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """Lost facts as the turn spells them."""

    @property
    def complaint(self) -> str:
        """The reason and the missing facts, for the model."""
        return f"{self.reason}. Missing: {' | '.join(self.missing)}" if self.missing else self.reason


def rule_on(
    level: Level,
    said: LevelAnswer,
    original: SourceWords,
    count: Count,
    *,
    room: int,
    nonce: str,
    shares: Shares | None,
) -> Ruling:
    """Check C or T: its parts are joined if both pass and fit their room."""
    text = _together(level, said, original.tool_calls)
    if level == "T" and count(text) > room:
        text = _together(level, said, 0)
    bare, tokens = "\n".join(said.parts), count(text)
    reason = wrong_in(bare, original, nonce) or _wrong_speaker(said, original)
    if not reason and tokens > room:
        reason = f"it takes {tokens} tokens, more than the {room} it may"
    if reason:
        return Ruling(text, reason)
    verdict = check(
        level,
        original.source,
        bare,
        tokens=tokens,
        above_tokens=room,
        shares=shares,
        written_by_model=True,
    )
    missing = () if verdict.ok else spelled(verdict.lost, original.text)
    return Ruling(text, verdict.reason, verdict.kept_share, verdict.lost, missing)


def _together(level: Level, said: LevelAnswer, tool_calls: int) -> str:
    """Join the parts after Foveate's marks; anything that looks like a mark inside them is escaped."""
    user, assistant = (escape_inline(part) for part in (said.user, said.assistant))
    parts = [part for part in (user, marked("assistant", assistant) if assistant else "") if part]
    if level != "T":
        return "\n".join(parts)
    note = f" {{{tool_calls} tool{'s' if tool_calls > 1 else ''} called}}" if tool_calls else ""
    return one_line(" ".join(parts)) + note if parts else ""


def _wrong_speaker(said: LevelAnswer, original: SourceWords) -> str:
    if said.user and not original.has_user:
        return 'it has words for "user", who said nothing'
    alien = said_by_another(said.user, original.user)
    if alien:
        return f'"user" has what the user did not say: {alien[:120]}'
    invented = made_up(said.assistant, original.source.facts)
    return f"it says what the turn does not: {invented[:120]}" if invented else ""


def rule_on_passages(
    texts: Mapping[int, str],
    messages: Sequence[Message],
    original: SourceWords,
    count: Count,
    *,
    room: int,
    nonce: str,
) -> Ruling:
    """Check S: each passage is compared with its own words; one that fails keeps the rules' text, and so do all
    others."""
    passages = find_passages(messages, count)
    kept: list[str | None] = []
    worst = Ruling()
    for number, passage in enumerate(passages, 1):
        text = texts.get(number, "")
        own = replace(original, text=passage.text)
        source = GuardSource(find_facts(passage.text), [clause.text for clause in cut_text(passage.text)])
        verdict = check("S", source, text, tokens=count(text), above_tokens=count(passage.text), written_by_model=True)
        reason = wrong_in(text, own, nonce) or verdict.reason
        kept.append(None if reason else text)
        if reason and not worst.reason:
            said = f"passage {number}: {reason}"
            worst = Ruling(text, said, verdict.kept_share, verdict.lost, spelled(verdict.lost, passage.text))
    passed = sum(text is not None for text in kept)
    if not passages or passed < PASSING_SHARE * len(passages):
        return worst if worst.reason else Ruling(reason="there is nothing to smooth")
    smoothed = smooth_messages(with_passages(messages, passages, kept), cut=False)
    if count(smoothed) > room:
        return Ruling(smoothed, f"it takes {count(smoothed)} tokens, more than the {room} it may")
    return Ruling(smoothed)


def spelled(lost: Sequence[str], text: str) -> tuple[str, ...]:
    """Return lost facts as the text spells them, those that can be copied first."""
    ranked = sorted(lost, key=lambda key: key[0] not in _EXACT)
    found: list[str] = []
    for key in ranked:
        if key[0] in "-?":  # a negation or condition is named with its word, if that is lost
            continue
        number = re.match(r"[-+~$€£]?\d[\d.,]*", key[2:]) if key[0] == "#" else None
        unit = r"(?:\s?\w+)?" if number and number.end() < len(key) - 2 else ""
        pattern = rf"{re.escape(number[0])}(?!\w){unit}" if number else rf"{re.escape(key[2:])}[\w/.-]*"
        match = re.search(rf"(?<!\w){pattern}", text, re.IGNORECASE)
        word = one_line(match[0]).rstrip(".,;:") if match else ""
        if word and not any(word in other for other in found):
            found.append(word)
        if len(found) == MAX_NAMED:
            break
    return tuple(found)
