"""Knowledge found and worded by a model: the request for a chunk of turns, and the accepted parts of the answer.

    chunk ─► redacted, numbered, in an envelope ─► Ask ─► JSON ─► each item against its named turns ─► Proposed

Turn text is data: an item is accepted only if its named turns were shown and prove it (`foveate.knowledge.evidence`).
An answer without items means that nothing is worth keeping, which is counted and changes nothing.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from foveate.compress.marks import one_line
from foveate.compress.model.answer import load_object
from foveate.compress.model.checks import visible
from foveate.compress.model.request import closed_object, without_nonce
from foveate.knowledge.evidence import Evidence, is_rule
from foveate.knowledge.items import item_id, same_words
from foveate.knowledge.settings import KnowledgeSettings
from foveate.models import Answer, Ask
from foveate.models.prompts import fill, prompt_text
from foveate.recall.scopes import Scope
from foveate.secrets import redact
from foveate.store.knowledge import KnowledgeKind, KnowledgeSource, NewKnowledge
from foveate.tokens import count_tokens
from foveate.turn import Json, Message, Text, day_text

if TYPE_CHECKING:
    from foveate.knowledge.gather import Chunk, LearnedTurn

PROMPT_KEYS = ("learn", "request", "again", "topics")
PROMPT_VERSION = 2
"""Version of how requests are composed and answers are judged."""
LESSON_TOKENS = (200, 2_000)
REFERENCE_TOKENS = (500, 5_000)
"""Requested sizes. A larger text is rejected. A shorter lesson is accepted, since a rule may be one sentence; a shorter
reference is stored as a lesson."""
PROFILE_TOKENS = 200
MAX_TITLE_CHARS = 120
MAX_SUBJECT_CHARS = 80
MAX_ITEMS = 64
"""Maximum number of items of an answer that are judged."""
MAX_SOURCES = 100
MAX_KEYWORDS = 12
MAX_REJECTED_CHARS = 500
"""Characters of a rejected text that are kept for people to see."""
MAX_REASONS = 12
"""Maximum number of rejections listed for a model."""
KNOWN_TOKENS = 2_000
"""Maximum tokens of known items' titles shown with a chunk."""
SAME_ITEM = 0.9
"""Minimum share of common words for two items of an answer to count as one."""
TOPICS_PER_ITEM = 3
LEAST_CONFIDENCE, MOST_CONFIDENCE, CONFIDENCE_PER_SOURCE = 0.4, 0.9, 0.1
SHAPE_TOKENS = 16
"""Tokens that a provider's format adds to a message, and the mark of a turn to its text."""

TopicsOfTurns = Mapping[KnowledgeSource, Sequence[tuple[str, float]]]
"""Ids of topics with their weights, by turn."""
Found = Literal["lessons", "references", "profile"]
_KINDS: Mapping[Found, KnowledgeKind] = {"lessons": "lesson", "references": "reference", "profile": "profile"}
_MOST_TOKENS: Mapping[KnowledgeKind, int] = {
    "lesson": LESSON_TOKENS[1],
    "reference": REFERENCE_TOKENS[1],
    "profile": PROFILE_TOKENS,
}
_ADVICE = {"reference": "Create a reference: {subject}", "gap": "Not answered yet: {subject}"}
"""Texts of recommendations; the model only names the subject."""
_WORD = re.compile(r"[^\W_]+")


def _texts() -> Json:
    return {"type": "array", "items": {"type": "string"}}


def _numbers() -> Json:
    return {"type": "array", "items": {"type": "integer"}}


def _items(properties: Mapping[str, Json]) -> Json:
    return {"type": "array", "items": closed_object(properties)}


_ITEM: Mapping[str, Json] = {
    "title": {"type": "string"},
    "text": {"type": "string"},
    "turns": _numbers(),
    "keywords": _texts(),
    "technologies": _texts(),
    "weight": {"type": "number"},
}
_RECOMMENDATION: Mapping[str, Json] = {
    "action": {"type": "string", "enum": list(_ADVICE)},
    "subject": {"type": "string"},
    "turns": _numbers(),
}
SCHEMA: Mapping[str, Json] = closed_object(
    {**{name: _items(_ITEM) for name in _KINDS}, "recommendations": _items(_RECOMMENDATION)}
)
TOPICS_SCHEMA: Mapping[str, Json] = closed_object(
    {"topics": _items({"number": {"type": "integer"}, "label": {"type": "string"}})}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """A rejected item of an answer."""

    kind: str
    title: str
    reason: str
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """The result of one or more requests."""

    items: tuple[NewKnowledge, ...] = ()
    refused: tuple[Rejection, ...] = ()
    nothing: int = 0
    """Number of answers in which nothing was worth keeping."""
    calls: int = 0
    nano_usd: int = 0
    problem: str = ""
    """Why turns were not read; empty if all were."""
    is_capped: bool = False
    """True if a spending limit was reached: further requests would fail too."""

    def __add__(self, other: Proposed) -> Proposed:
        return Proposed(
            items=unique([*self.items, *other.items]),
            refused=(*self.refused, *other.refused),
            nothing=self.nothing + other.nothing,
            calls=self.calls + other.calls,
            nano_usd=self.nano_usd + other.nano_usd,
            problem=self.problem or other.problem,
            is_capped=self.is_capped or other.is_capped,
        )


@dataclass(frozen=True, slots=True)
class LearnAssignment:
    """A request for a chunk; number 1 is the first of its turns."""

    ask: Ask
    nonce: str
    turns: tuple[LearnedTurn, ...]
    is_second: bool = False


@dataclass(frozen=True, slots=True)
class LearnVerdict:
    """The accepted parts of an answer."""

    items: tuple[NewKnowledge, ...] = ()
    refused: tuple[Rejection, ...] = ()
    is_empty: bool = False
    """True if the answer stated that nothing is worth keeping."""
    again: LearnAssignment | None = None
    """The request to repeat, with the reasons."""

    @property
    def is_unfit(self) -> bool:
        """True if the answer had items, but none is used."""
        return not self.items and not self.is_empty


@dataclass(frozen=True, slots=True)
class Origin:
    """The shared properties of all items of an answer."""

    scope: Scope
    maker: str
    topics: TopicsOfTurns


def prompt_version() -> str:
    """Hash the current prompts, so that knowledge is learned again when they change."""
    texts = [prompt_text(f"knowledge/{name}") for name in PROMPT_KEYS]
    return hashlib.sha256("\0".join([str(PROMPT_VERSION), *texts]).encode()).hexdigest()[:12]


def assign(
    chunk: Chunk, known: Sequence[NewKnowledge], *, nonce: str, settings: KnowledgeSettings, output_tokens: int = 0
) -> LearnAssignment:
    """Make the request for a chunk. Secrets are masked again, since texts of tools and titles are sent too."""
    lines = [f"{mark}\n{text}" for mark, text in zip(_marks(chunk), chunk.texts, strict=True)]
    output_tokens = output_tokens or settings.max_output_tokens
    rules = fill(
        "knowledge/learn",
        prompt_text("knowledge/learn").strip(),
        {
            "lesson_tokens": "{} to {}".format(*LESSON_TOKENS),
            "reference_tokens": "{} to {}".format(*REFERENCE_TOKENS),
            "lessons": str(max(1, min(12, output_tokens // 500))),
        },
    )
    request = enveloped(
        "knowledge/request", {"source": "\n".join(lines), "known": "\n".join(_known_titles(known))}, nonce=nonce
    )
    messages = (Message("system", (Text(rules),)), Message("user", (Text(request),)))
    return LearnAssignment(make_ask(messages, SCHEMA, output_tokens), nonce, chunk.turns)


def _marks(chunk: Chunk) -> Iterator[str]:
    """Yield the line before each turn: its number, the number of its session, and its day."""
    sessions: dict[str, int] = {}
    for number, turn in enumerate(chunk.turns, 1):
        session = sessions.setdefault(turn.source.session_id, len(sessions) + 1)
        yield f"({number}) session {session}, {day_text(turn.at_us)}"


def make_ask(messages: tuple[Message, ...], schema: Mapping[str, Json], output_tokens: int) -> Ask:
    """Make a request with this answer schema."""
    return Ask.shaped("learn", messages, schema, max_output_tokens=output_tokens, count=count_tokens)


def enveloped(key: str, texts: Mapping[str, str], *, nonce: str) -> str:
    """Fill a prompt with data in envelopes. The nonce does not occur in the data, so nothing there can end them."""
    shown = {name: without_nonce(redact(text), nonce).strip("\n") for name, text in texts.items()}
    return fill(key, prompt_text(key).strip(), {"nonce": nonce, **shown})


def _known_titles(known: Sequence[NewKnowledge]) -> Iterable[str]:
    left = KNOWN_TOKENS
    ranked = sorted(known, key=lambda row: (-row.weight, row.id))
    for row in ranked:
        if row.kind in ("topic", "recommendation") or row.state == "retired":
            continue
        line = f"- {one_line(row.title)[:MAX_TITLE_CHARS]}"
        left -= count_tokens(line) + 1
        if left < 0:
            return
        yield line


def judge(assignment: LearnAssignment, answer: Answer, origin: Origin) -> LearnVerdict:
    """Return the items of an answer that their named turns prove, without duplicates."""
    loaded, problem = load_object(answer)
    lists = {name: loaded.get(name) if loaded else None for name in (*_KINDS, "recommendations")}
    if not problem and not all(isinstance(found, list) for found in lists.values()):
        problem = "a list is missing, or not as the schema has it"
    if problem:
        again = _again(assignment, answer, [problem], is_readable=False)
        return LearnVerdict(refused=(Rejection(kind="answer", title="", reason=problem),), again=again)
    bench = _Bench(assignment, origin)
    items: list[NewKnowledge] = []
    refused: list[Rejection] = []
    judged = 0
    for name, found in lists.items():
        for value in found if isinstance(found, list) else []:
            judged += 1
            if judged > MAX_ITEMS:
                break
            ruling = bench.recommendation(value) if name == "recommendations" else bench.item(_KINDS[name], value)  # type: ignore[index]
            (items if isinstance(ruling, NewKnowledge) else refused).append(ruling)  # type: ignore[arg-type]
    reasons = [f"{each.kind} {each.title!r}: {each.reason}" for each in refused[:MAX_REASONS]]
    again = _again(assignment, answer, reasons, is_readable=True) if refused and not items else None
    return LearnVerdict(unique(items), tuple(refused), is_empty=not judged, again=again)


def _again(
    assignment: LearnAssignment, answer: Answer, reasons: Sequence[str], *, is_readable: bool
) -> LearnAssignment | None:
    """Repeat the request with the reasons; an unreadable answer is not sent back."""
    if assignment.is_second or answer.finish == "refused":
        return None
    complaint = enveloped("knowledge/again", {"refused": "\n".join(reasons)}, nonce=assignment.nonce)
    rules, request, *_ = assignment.ask.messages
    messages: tuple[Message, ...] = (rules, Message("user", (Text(f"{request.text}\n\n{complaint}"),)))
    if is_readable:
        reply = Message("assistant", (Text(redact(answer.text)),))
        messages = (rules, request, reply, Message("user", (Text(complaint),)))
    ask = make_ask(messages, SCHEMA, assignment.ask.max_output_tokens)
    return replace(assignment, ask=ask, is_second=True)


class _Bench:
    """Judges the items of one answer."""

    def __init__(self, assignment: LearnAssignment, origin: Origin) -> None:
        self._assignment = assignment
        self._origin = origin
        self._proofs: dict[tuple[int, ...], Evidence] = {}

    def item(self, kind: KnowledgeKind, value: object) -> NewKnowledge | Rejection:
        """Return an item to store, or its rejection."""
        found: Mapping[str, object] = value if isinstance(value, dict) else {}
        title, text = found.get("title"), found.get("text")
        if not isinstance(title, str) or not isinstance(text, str):
            return Rejection(kind=kind, title="", reason="it is not as the schema has it")
        title, text = one_line(visible(title)).strip("#*. "), visible(text).strip()
        shown = title[:MAX_TITLE_CHARS] or text[:MAX_TITLE_CHARS]
        numbers = self._numbers(found.get("turns"))
        if isinstance(numbers, str):
            return Rejection(kind=kind, title=shown, reason=numbers)
        evidence = self._evidence(numbers)
        reason = self._wrong_text(kind, text) or evidence.problem(text, nonce=self._assignment.nonce)
        if reason:
            kept = "" if redact(text) != text else text[:MAX_REJECTED_CHARS]
            return Rejection(kind=kind, title=shown, reason=reason, text=kept)
        if not title or len(title) > MAX_TITLE_CHARS or self._wrong_title(title, evidence):
            title = _first_words(text)
        if kind == "reference" and count_tokens(text) < REFERENCE_TOKENS[0]:
            kind = "lesson"
        return self._made(kind, title, text, numbers, found)

    def recommendation(self, value: object) -> NewKnowledge | Rejection:
        """Return advice on a subject that its turns contain; the subject may not be an instruction itself."""
        found: Mapping[str, object] = value if isinstance(value, dict) else {}
        action, subject = found.get("action"), found.get("subject")
        if action not in _ADVICE or not isinstance(subject, str) or not subject.strip():
            return Rejection(kind="recommendation", title="", reason="it is not as the schema has it")
        subject = one_line(visible(subject)).rstrip(".")
        numbers = self._numbers(found.get("turns"))
        reason = numbers if isinstance(numbers, str) else ""
        if not reason and len(subject) > MAX_SUBJECT_CHARS:
            reason = "its subject is not a few words"
        if not reason and is_rule(subject):
            reason = "its subject is an instruction"
        if not reason:
            assert not isinstance(numbers, str)
            reason = self._wrong_text("profile", subject)
            reason = reason or self._evidence(numbers).problem(subject, nonce=self._assignment.nonce, is_heading=True)
        if reason:
            return Rejection(kind="recommendation", title=subject[:MAX_TITLE_CHARS], reason=reason)
        assert not isinstance(numbers, str)
        title = _ADVICE[str(action)].format(subject=subject)
        return self._made("recommendation", title, title, numbers, found)

    def _numbers(self, turns: object) -> tuple[int, ...] | str:
        """Return the numbers of the turns that an item names, or what is wrong with them."""
        if not isinstance(turns, list) or not turns or not all(type(number) is int for number in turns):
            return "it names no turns"
        numbers = tuple(sorted(set(turns)))[:MAX_SOURCES]
        unknown = next((number for number in numbers if not 1 <= number <= len(self._assignment.turns)), None)
        return numbers if unknown is None else f"it names turn {unknown}, which was not shown"

    def _evidence(self, numbers: tuple[int, ...]) -> Evidence:
        if numbers not in self._proofs:
            self._proofs[numbers] = Evidence([self._assignment.turns[number - 1] for number in numbers])
        return self._proofs[numbers]

    @staticmethod
    def _wrong_text(kind: KnowledgeKind, text: str) -> str:
        if not text:
            return "it has no text"
        most = _MOST_TOKENS[kind]
        if len(text) > most * 12 or (tokens := count_tokens(text)) > most:
            return f"it has more than {most:,} tokens"
        del tokens
        return "it has something that looks like a secret" if redact(text) != text else ""

    def _wrong_title(self, title: str, evidence: Evidence) -> bool:
        nonce = self._assignment.nonce
        return redact(title) != title or bool(evidence.problem(title, nonce=nonce, is_heading=True))

    def _made(
        self, kind: KnowledgeKind, title: str, text: str, numbers: tuple[int, ...], found: Mapping[str, object]
    ) -> NewKnowledge:
        turns = [self._assignment.turns[number - 1] for number in numbers]
        sources = tuple(sorted(turn.source for turn in turns))
        words = " ".join(f"{turn.user} {turn.assistant}" for turn in turns).casefold()
        keywords = _words_in(found.get("keywords"), words)
        share = min(MOST_CONFIDENCE, LEAST_CONFIDENCE + CONFIDENCE_PER_SOURCE * len(sources))
        return NewKnowledge(
            id=item_id(self._origin.scope, kind, text),
            scope=str(self._origin.scope),
            kind=kind,
            state="proposed",
            title=title,
            text=text,
            topics=topics_of(sources, self._origin.topics),
            keywords=tuple((word, round(1 - place / MAX_KEYWORDS, 2)) for place, word in enumerate(keywords)),
            technologies=_words_in(found.get("technologies"), words),
            weight=_weight(found.get("weight")),
            confidence=round(share, 2),
            sources=sources,
            maker=self._origin.maker,
            prompt_version=prompt_version(),
            first_seen_us=min(turn.at_us for turn in turns),
            last_seen_us=max(turn.at_us for turn in turns),
        )


def unique(items: Iterable[NewKnowledge]) -> tuple[NewKnowledge, ...]:
    """Remove items that duplicate an earlier one of the same kind; sources are joined."""
    kept: list[NewKnowledge] = []
    for item in items:
        place = next(
            (place for place, other in enumerate(kept) if other.id == item.id or _is_same(other, item)),
            None,
        )
        if place is None:
            kept.append(item)
            continue
        other = kept[place]
        kept[place] = replace(
            other,
            sources=tuple(sorted({*other.sources, *item.sources})),
            first_seen_us=min(other.first_seen_us, item.first_seen_us),
            last_seen_us=max(other.last_seen_us, item.last_seen_us),
        )
    return tuple(kept)


def _is_same(one: NewKnowledge, two: NewKnowledge) -> bool:
    return one.kind == two.kind != "topic" and same_words(one.text, two.text) >= SAME_ITEM


def _first_words(text: str) -> str:
    line = one_line(text.lstrip("#*- ").split("\n", 1)[0])
    if len(line) <= MAX_SUBJECT_CHARS:
        return line.rstrip(".")
    return f"{line[:MAX_SUBJECT_CHARS].rpartition(' ')[0] or line[:MAX_SUBJECT_CHARS]}…"


def _words_in(values: object, text: str) -> tuple[str, ...]:
    """Return the short texts that occur in the turns, without duplicates."""
    listed = values if isinstance(values, list) else []
    words = [one_line(visible(value)) for value in listed if isinstance(value, str)]
    kept = [word for word in words if 1 < len(word) <= 40 and word.casefold() in text]  # noqa: PLR2004
    return tuple({word.casefold(): word for word in reversed(kept)}.values())[::-1][:MAX_KEYWORDS]


def topics_of(sources: Iterable[KnowledgeSource], topics: TopicsOfTurns) -> tuple[str, ...]:
    """Return the heaviest topics of some turns."""
    weights: dict[str, float] = {}
    for source in sources:
        for topic, weight in topics.get(source, ()):
            weights[topic] = weights.get(topic, 0.0) + weight
    return tuple(sorted(weights, key=lambda topic: (-weights[topic], topic))[:TOPICS_PER_ITEM])


def _weight(value: object) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return round(min(1.0, max(0.0, float(value))), 2) if is_number else 0.5  # type: ignore[arg-type]
