"""Topic names by a model: requested once, and limited to words of the topic's own turns.

A topic that a model named keeps its name from run to run; names that change every night are useless.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from foveate.compress.cues import look_at
from foveate.compress.marks import one_line
from foveate.compress.model.answer import load_object
from foveate.compress.model.checks import structure_in, visible
from foveate.knowledge.evidence import is_about_a_will, is_rule
from foveate.knowledge.model import TOPICS_SCHEMA, Rejection, enveloped, make_ask, prompt_version
from foveate.models import Answer, Ask
from foveate.models.prompts import prompt_text
from foveate.secrets import redact
from foveate.store.knowledge import KnowledgeRow, KnowledgeSource, NewKnowledge
from foveate.turn import Message, Text

if TYPE_CHECKING:
    from foveate.knowledge.gather import LearnedTurn

LOCAL = "local"
TOPICS_PER_REQUEST = 40
NOTES_PER_TOPIC = 4
MAX_NOTE_CHARS = 200
SHOWN_KEYWORDS = 8
MAX_LABEL_CHARS = 60
MAX_LABEL_WORDS = 8
TOKENS_PER_LABEL = 40


@dataclass(frozen=True, slots=True)
class LabelAssignment:
    """A request for the names of topics; number 1 is the first of them."""

    ask: Ask
    nonce: str
    topics: tuple[NewKnowledge, ...]


@dataclass(frozen=True, slots=True)
class LabelVerdict:
    """The topics with accepted names."""

    items: tuple[NewKnowledge, ...] = ()
    refused: tuple[Rejection, ...] = ()


def keep_labels(topics: Iterable[NewKnowledge], known: Iterable[KnowledgeRow]) -> tuple[NewKnowledge, ...]:
    """Return the topics that a model named in an earlier run, with that name."""
    named = {row.id: row for row in known if row.kind == "topic" and row.prompt_version and row.maker != LOCAL}
    return tuple(
        replace(topic, title=row.title, maker=row.maker, prompt_version=row.prompt_version)
        for topic in topics
        if (row := named.get(topic.id))
    )


def topic_requests(
    topics: Sequence[NewKnowledge], turns: Mapping[KnowledgeSource, LearnedTurn], *, nonces: Iterator[str]
) -> Iterator[LabelAssignment]:
    """Yield requests for the names of these topics."""
    rules = prompt_text("knowledge/topics").strip()
    for start in range(0, len(topics), TOPICS_PER_REQUEST):
        requested, nonce = tuple(topics[start : start + TOPICS_PER_REQUEST]), next(nonces)
        shown = [f"({number}) {_described(topic, turns)}" for number, topic in enumerate(requested, 1)]
        request = enveloped("knowledge/request", {"source": "\n".join(shown), "known": ""}, nonce=nonce)
        messages = (Message("system", (Text(rules),)), Message("user", (Text(request),)))
        yield LabelAssignment(make_ask(messages, TOPICS_SCHEMA, TOKENS_PER_LABEL * len(requested)), nonce, requested)


def _described(topic: NewKnowledge, turns: Mapping[KnowledgeSource, LearnedTurn]) -> str:
    words = ", ".join(word for word, _ in topic.keywords[:SHOWN_KEYWORDS])
    step = max(1, len(topic.sources) // NOTES_PER_TOPIC)
    sample = [turns[source] for source in topic.sources[::step] if source in turns][:NOTES_PER_TOPIC]
    return "\n".join([words, *(f"- {one_line(turn.tiny)[:MAX_NOTE_CHARS]}" for turn in sample)])


def judge_labels(
    assignment: LabelAssignment, answer: Answer, turns: Mapping[KnowledgeSource, LearnedTurn], maker: str
) -> LabelVerdict:
    """Accept the names whose words occur in the topics' turns."""
    loaded, problem = load_object(answer)
    found = loaded.get("topics") if loaded else None
    if problem or not isinstance(found, list):
        return LabelVerdict(refused=(Rejection(kind="topic", title="", reason=problem or "there is no list"),))
    items: dict[str, NewKnowledge] = {}
    refused: list[Rejection] = []
    for value in found[: 2 * len(assignment.topics)]:
        number, label = (value.get("number"), value.get("label")) if isinstance(value, dict) else (None, None)
        if type(number) is not int or not 1 <= number <= len(assignment.topics) or not isinstance(label, str):
            refused.append(Rejection(kind="topic", title="", reason="it names no topic that was shown"))
            continue
        topic = assignment.topics[number - 1]
        label = one_line(visible(label)).strip(".\"'")
        reason = _wrong(label, topic, turns, assignment.nonce)
        if reason:
            refused.append(Rejection(kind="topic", title=label[:MAX_LABEL_CHARS], reason=reason))
        elif topic.id not in items:
            items[topic.id] = replace(topic, title=label, maker=maker, prompt_version=prompt_version())
    return LabelVerdict(tuple(items.values()), tuple(refused))


def _wrong(label: str, topic: NewKnowledge, turns: Mapping[KnowledgeSource, LearnedTurn], nonce: str) -> str:
    if not label or len(label) > MAX_LABEL_CHARS or len(label.split()) > MAX_LABEL_WORDS:
        return "it is not a few words"
    if is_rule(label) or is_about_a_will(label) or redact(label) != label:
        return "it is no name"
    if reason := structure_in(label, nonce):
        return reason
    known = {root for word, _ in topic.keywords for part in word.split() if (root := look_at(part).root)}
    unknown = {root for word in label.split() if (root := look_at(word).root)} - known
    for source in topic.sources:
        if not unknown:
            break
        if turn := turns.get(source):
            unknown -= {look_at(word).root for word in f"{turn.user} {turn.assistant}".split()}
    return f"its turns do not have {next(iter(sorted(unknown)))!r}" if unknown else ""
