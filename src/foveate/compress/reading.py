"""A turn read for compression: its clauses, who said each, what facts it has and how much they count."""

# ruff: noqa: RUF001 (punctuation of many languages)

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from foveate.compress import tools
from foveate.compress.facts import Facts, find_facts, find_names
from foveate.compress.lexicon import ERRORS, OUTCOMES, common_words
from foveate.compress.telegraph import bare, estimate_tokens, is_courtesy, is_meta, plain, telegraph
from foveate.compress.units import Clause, ClauseKind, cut_text
from foveate.turn import Attachment, Message, Opaque, Reasoning, Text, ToolCall, ToolResult

MAX_CANDIDATES = 6_000
"""Of a longer turn the clauses after this many are not looked at one by one, the last message excepted."""
MAX_LABEL_CHARS = 30

USER, FINAL, NARRATION, REASONING, TOOL, OUTPUT, OTHER = 1.3, 0.9, 0.45, 0.3, 0.6, 0.12, 0.5
"""How much a fact counts by who says it: the user, the assistant at last, the assistant while working, and so on."""
_BY_KIND: dict[ClauseKind, float] = {"prose": 1.0, "item": 0.95, "heading": 0.5, "code": 0.45, "row": 0.9}
COURTESY, META = 0.15, 0.5
FIRST_BOOST, OUTCOME_BOOST, CUE_BOOST = 1.5, 1.25, 1.2

_LABEL = re.compile(r"([^\W\d_][\w.'’-]*(?: [^\W\d_][\w.'’-]*)?): (?=\S)")


@dataclass(slots=True)
class Candidate:
    """A clause that a rendition may take."""

    place: int
    message: int
    speaker: str
    kind: ClauseKind
    text: str
    facts: Facts
    factor: float
    label: str
    """`Maria: ` where a message begins with its speaker's name."""
    short: str
    """The clause in telegraphic style."""
    short_tokens: int
    """About what that takes."""

    @property
    def who(self) -> str:
        """Whose mark stands before it: calls are the assistant's."""
        return "assistant" if self.speaker == "call" else self.speaker

    @property
    def worth(self) -> float:
        return self.factor * sum(self.facts.values())


@dataclass(slots=True)
class Reading:
    """What a turn says."""

    candidates: list[Candidate] = field(default_factory=list)
    tool_calls: int = 0
    facts: Facts = field(default_factory=dict)
    """The weight of each fact where it counts most."""

    @property
    def has_user(self) -> bool:
        return any(candidate.speaker == "user" for candidate in self.candidates)


def read_turn(messages: Sequence[Message]) -> Reading:
    """The clauses of a turn in order. Display-only messages say nothing to a model."""
    reading = Reading()
    shown = [message for message in messages if message.kind != "display"]
    results = {result.call_id: result for message in shown for result in message.tool_results if result.call_id}
    names = find_names("\n".join(message.text for message in shown if message.role in ("user", "assistant")))
    last = max((place for place, message in enumerate(shown) if _speaks(message)), default=-1)
    for place, message in enumerate(shown):
        if len(reading.candidates) >= MAX_CANDIDATES and place < last:
            reading.tool_calls += len(message.tool_calls)
            continue
        _read_message(reading, message, place=place, is_last=place == last, results=results, names=names)
    _boost(reading.candidates)
    for candidate in reading.candidates:
        for key, weight in candidate.facts.items():
            worth = weight * candidate.factor
            if worth > reading.facts.get(key, 0.0):
                reading.facts[key] = worth
    return reading


def _speaks(message: Message) -> bool:
    return message.role == "assistant" and bool(message.text.strip())


def _read_message(
    reading: Reading,
    message: Message,
    *,
    place: int,
    is_last: bool,
    results: dict[str | None, ToolResult],
    names: frozenset[str],
) -> None:
    speaker = _speaker(message)
    factor = _factor(message, is_last=is_last)

    def add(clause: Clause, speaker: str, factor: float, label: str = "") -> None:
        text = plain(clause.text) if clause.kind != "code" else clause.text
        short = text if clause.kind in ("code", "row") or speaker == "call" else telegraph(text)
        weight = factor * _BY_KIND[clause.kind] * (COURTESY if is_courtesy(text) else 1.0)
        weight *= META if speaker == "assistant" and is_meta(text) else 1.0
        reading.candidates.append(
            Candidate(
                place=len(reading.candidates),
                message=place,
                speaker=speaker,
                kind=clause.kind,
                text=text,
                facts=find_facts(text, names),
                factor=weight,
                label=label,
                short=short,
                short_tokens=estimate_tokens(short),
            )
        )

    for part in message.parts:
        match part:
            case Text(text):
                label, text = split_label(text) if speaker == "user" else ("", text)
                for clause in cut_text(text):
                    add(clause, speaker, factor, label)
            case Reasoning(text):
                for clause in cut_text(text):
                    add(clause, "reasoning", REASONING)
            case ToolCall():
                reading.tool_calls += 1
                result = results.get(part.id)
                add(Clause("item", tools.summarise_call(part, result)), "call", TOOL)
                for line in tools.key_lines(part, result):
                    add(Clause("code", line), "tool", OUTPUT)
            case ToolResult() if part.call_id is None:
                for line in _loose_lines(part):
                    add(Clause("code", line), "tool", OUTPUT)
            case Attachment() | Opaque():
                add(Clause("item", _stand_in(part)), speaker, factor)
            case _:
                pass


def _speaker(message: Message) -> str:
    if message.kind == "injection":
        return "injected"
    return {"developer": "system"}.get(message.role, message.role)


def _factor(message: Message, *, is_last: bool) -> float:
    if message.kind == "injection":
        return OTHER
    if message.role == "user":
        return USER
    if message.role == "assistant":
        return FINAL if is_last and not message.tool_calls else NARRATION
    return OUTPUT if message.role == "tool" else OTHER


def split_label(text: str) -> tuple[str, str]:
    """The name of who speaks, where chats put it before the words: `Maria: hello`."""
    match = _LABEL.match(text)
    if match is None or match.end() > MAX_LABEL_CHARS:
        return "", text
    ranks = common_words()
    words = match[1].split()
    if not all(word[0].isupper() and word.casefold() not in ranks for word in words):
        return "", text
    return match.group(), text[match.end() :]


def _loose_lines(result: ToolResult) -> Iterator[str]:
    """Lines of a result whose call is not known."""
    yield from tools.key_lines(ToolCall(result.name or "tool", {}), result)


def _stand_in(part: Attachment | Opaque) -> str:
    if isinstance(part, Opaque):
        return f"{{{part.format}}}"
    known = part.name or part.uri or part.file_id or part.media_type or ""
    return f"{{{part.media}: {known[:120]}}}" if known else f"{{{part.media}}}"


def _boost(candidates: list[Candidate]) -> None:
    """What was asked first and what came of it at last count more; so do decisions, errors and outcomes."""
    asked = [candidate for candidate in candidates if candidate.speaker == "user"]
    if asked:
        question = next((candidate for candidate in asked if candidate.text.endswith(("?", "？", "؟"))), None)
        for candidate in dict.fromkeys([asked[0].place, *([question.place] if question else [])]):
            candidates[candidate].factor *= FIRST_BOOST
    for candidate in candidates:
        if candidate.speaker == "assistant" and candidate.kind in ("prose", "item"):
            words = {bare(word) for word in candidate.text.split()}
            if words & OUTCOMES or words & ERRORS:
                candidate.factor *= CUE_BOOST
    final = [candidate for candidate in candidates if candidate.speaker == "assistant" and candidate.kind == "prose"]
    final = [candidate for candidate in final if candidate.message == final[-1].message]
    for candidate in {final[0].place, final[-1].place} if final else ():
        candidates[candidate].factor *= OUTCOME_BOOST
