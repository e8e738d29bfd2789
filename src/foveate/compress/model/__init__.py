"""Renditions written by a model: the request for one turn, and the check of the answer.

Pure, like every compressor: no call is made here. `assign` writes the request, `judge` reads the answer; the caller
calls the model in between, at most twice for an assignment: the second time with the missing facts.

    messages ─► model_source: the turn, shortened if it must be ─► model_prompts: envelope, schema ─► Assignment
    Answer ─► model_answers: JSON ─► model_checks, guard ─► our marks around its parts ─► Judged
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from foveate.compress.guard import Shares
from foveate.compress.local import RETRY_SHARE, compressed_share
from foveate.compress.model.answer import Fields, Ruling, read_answer, rule_on, rule_on_passages
from foveate.compress.model.checks import SourceWords, read_original
from foveate.compress.model.request import (
    NAMES,
    answer_tokens,
    asked_limits,
    excerpt,
    find_passages,
    follow_up,
    request,
    schema,
    source_of,
    source_text,
    system_prompt,
)
from foveate.compress.tiny import TINY_MARGIN
from foveate.models import Answer, Ask, Purpose
from foveate.models.names import models_for
from foveate.models.settings import ModelsSettings
from foveate.renditions import TINY_TOKENS, Count, Level, Refusal
from foveate.text import turn_text
from foveate.turn import Message, Text

PROMPT_VERSION = 1
"""Stored with every rendition; changes with any word of the prompts."""
WORTH_TOKENS = 64
"""A turn of fewer tokens is not worth a call: the local renditions have nearly all of its words."""
MAX_OF_SOURCE = 0.5
"""Maximum share of C in what the model was shown, if a turn was shortened."""
AGAIN_SOURCE_TOKENS = 2_000
"""Maximum tokens of a source that a follow-up repeats, so that a provider's cache matches; a larger one is reduced to
the lines with what was missing."""

__all__ = ["PROMPT_VERSION", "Assignment", "Group", "Judged", "assign", "groups", "is_worth_asking", "judge"]

_PURPOSES: Mapping[Level, Purpose] = {"S": "smooth", "C": "compress", "T": "tiny"}
_BELOW: Mapping[Level, Level] = {"S": "C", "C": "T"}


@dataclass(frozen=True, slots=True)
class Group:
    """Levels that one call makes together."""

    levels: tuple[Level, ...]
    purpose: Purpose
    models: tuple[str, ...]
    """The model to call, then its fallbacks."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The request to a model for one turn; can be pickled."""

    levels: tuple[Level, ...]
    ask: Ask
    nonce: str
    is_second: bool = False
    rooms: Mapping[Level, int] = field(default_factory=dict)
    """Maximum tokens of each level; a longer answer is rejected."""


@dataclass(frozen=True, slots=True)
class AnswerReport:
    """The parts of an answer that the guard accepts."""

    texts: Mapping[Level, str]
    refusals: tuple[Refusal, ...] = ()
    again: Assignment | None = None
    """The follow-up request for the rejected levels, which names what was missing."""


def groups(settings: ModelsSettings) -> tuple[Group, ...]:
    """Return the calls that make a turn's renditions, in order of dependency; empty if no model is configured."""
    found = [
        Group((level,), purpose, models)
        for level, purpose in _PURPOSES.items()
        if (models := models_for(purpose, settings))
    ]
    joined = next((group for group in found if group.purpose == "compress"), None)
    if settings.mode != "together" or joined is None:
        return tuple(found)
    with_it = [group for group in found if group.models[0] == joined.models[0]]
    others = tuple(group for group in found if group not in with_it)
    return (replace(joined, levels=tuple(level for group in with_it for level in group.levels)), *others)


def is_worth_asking(messages: Sequence[Message], count: Count, levels: Sequence[Level] = ("C", "T")) -> bool:
    """Return whether a model could do better than rules: not with a few words, nor for S without any long passage."""
    if set(levels) == {"S"}:
        return bool(find_passages(messages, count))
    return count(turn_text(tuple(messages))) >= WORTH_TOKENS


def assign(
    group: Group,
    turn: int,  # noqa: ARG001 - a model that knew the number could write it
    messages: Sequence[Message],
    count: Count,
    *,
    nonce: str,
    settings: ModelsSettings,
    source: str | None = None,
    tiny_tokens: int = TINY_TOKENS,
) -> Assignment:
    """Write the request for one turn. `source` is the level above if levels are chained; otherwise the original is
    used."""
    tiny = tiny_tokens - TINY_MARGIN
    raw_tokens = count(turn_text(tuple(messages)))
    fits = raw_tokens <= settings.max_source_tokens
    passages = find_passages(messages, count) if "S" in group.levels and fits else ()
    levels = tuple(level for level in group.levels if level != "S" or passages)
    if source is None:
        source = source_text(messages, settings.max_source_tokens, count, passages=passages)
    sent_tokens = count(source)
    most = round(raw_tokens * compressed_share(raw_tokens))
    asked: dict[Level, int] = {"C": most if fits else min(most, round(sent_tokens * MAX_OF_SOURCE)), "T": tiny}
    rooms: dict[Level, int] = {"C": round(asked["C"] * RETRY_SHARE), "T": tiny, "S": raw_tokens}
    limits = asked_limits(levels, asked, source, sent_tokens)
    first = (
        Message("system", (Text(system_prompt(levels)),)),
        Message("user", (Text(request(source, limits, nonce=nonce)),)),
    )
    kept = {level: rooms[level] for level in levels}
    smooth_tokens = sum(count(passage.text) for passage in passages)
    limit = answer_tokens(kept, smooth_tokens)
    ask = Ask.shaped(group.purpose, first, schema(levels), max_output_tokens=limit, count=count)
    return Assignment(levels, ask, nonce, rooms=kept)


def judge(
    assignment: Assignment,
    answer: Answer,
    messages: Sequence[Message],
    count: Count,
    *,
    above: Mapping[Level, int],
    shares: Shares | None = None,
) -> AnswerReport:
    """Return the accepted parts of the answer. `above` has, for each level, the tokens of the next higher level in
    use."""
    fields = read_answer(answer, assignment.levels)
    texts: dict[Level, str] = {}
    rulings: dict[Level, Ruling] = {level: Ruling(reason=reason) for level, reason in fields.problems.items()}
    if len(fields.problems) < len(assignment.levels):
        original = read_original(messages)
        sizes = dict(above)
        for level in assignment.levels:
            if level in fields.problems:
                continue
            room = min(assignment.rooms.get(level, sizes[level]), sizes[level])
            ruling = _rule(level, fields, messages, original, count, room=room, nonce=assignment.nonce, shares=shares)
            if ruling.reason:
                rulings[level] = ruling
                continue
            texts[level] = ruling.text
            if level in _BELOW:  # an accepted level is the limit of the next one
                sizes[_BELOW[level]] = count(ruling.text)
    refusals = tuple(
        Refusal(level, ruling.reason, ruling.kept_share, ruling.lost, ruling.text) for level, ruling in rulings.items()
    )
    return AnswerReport(texts, refusals, _again(assignment, answer, rulings, messages, count))


def _rule(
    level: Level,
    fields: Fields,
    messages: Sequence[Message],
    original: SourceWords,
    count: Count,
    *,
    room: int,
    nonce: str,
    shares: Shares | None,
) -> Ruling:
    if level == "S":
        return rule_on_passages(fields.smoothed or {}, messages, original, count, room=room, nonce=nonce)
    return rule_on(level, fields.said[level], original, count, room=room, nonce=nonce, shares=shares)


def _again(
    assignment: Assignment,
    answer: Answer,
    rulings: Mapping[Level, Ruling],
    messages: Sequence[Message],
    count: Count,
) -> Assignment | None:
    """Continue the conversation with the answer and its problems; an unreadable answer is not sent back."""
    if assignment.is_second or not rulings or answer.finish == "refused":
        return None
    levels = tuple(level for level in assignment.levels if level in rulings)
    refused = [f"{NAMES[level]}: {rulings[level].complaint}" for level in levels]
    complaint = follow_up(refused, levels, nonce=assignment.nonce)
    *before, asked = assignment.ask.messages
    is_readable = any(ruling.text for ruling in rulings.values())
    if is_readable and count(answer.text) <= assignment.ask.max_output_tokens:
        missing = [word for ruling in rulings.values() for word in ruling.missing]
        asked = _with_less(asked, missing, assignment.nonce, count)
        said = Message("assistant", (Text(answer.text),))
        conversation = (*before, asked, said, Message("user", (Text(complaint),)))
    else:
        conversation = (*before, Message("user", (Text(f"{asked.text}\n\n{complaint}"),)))
    rooms = {level: assignment.rooms[level] for level in levels if level in assignment.rooms}
    smooth_tokens = sum(count(passage.text) for passage in find_passages(messages, count)) if "S" in levels else 0
    limit = min(assignment.ask.max_output_tokens, answer_tokens(rooms, smooth_tokens))
    ask = Ask.shaped(assignment.ask.purpose, conversation, schema(levels), max_output_tokens=limit, count=count)
    return Assignment(levels, ask, assignment.nonce, is_second=True, rooms=rooms)


def _with_less(asked: Message, missing: Sequence[str], nonce: str, count: Count) -> Message:
    source = source_of(asked.text, nonce)
    if count(source) <= AGAIN_SOURCE_TOKENS:
        return asked
    shown = excerpt(source, missing, AGAIN_SOURCE_TOKENS, count)
    return Message("user", (Text(asked.text.replace(source, shown, 1)),))
