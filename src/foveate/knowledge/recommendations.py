"""Recommendations made without a model: references for large topics, errors without a resolution, and turns without a
topic."""

from __future__ import annotations

from collections.abc import Sequence

from foveate.knowledge.failures import Failure
from foveate.knowledge.gather import Gathered
from foveate.knowledge.items import item_id
from foveate.knowledge.topics import TopicsFound
from foveate.store.knowledge import KnowledgeSource, NewKnowledge

REFERENCE_SHARE = 0.05
REFERENCE_TURNS = 10
"""Minimum number of turns of a topic that is worth a reference; REFERENCE_SHARE is their minimum share of all turns."""
MAX_REFERENCES = 5
MAX_GAPS = 10
MAX_SOURCES = 20
UNPLACED_SHARE = 0.5
"""Share of turns without a topic above which a hint is given."""


def find_recommendations(gathered: Gathered, topics: TopicsFound, unsolved: Sequence[Failure]) -> list[NewKnowledge]:
    """Find recommendations to a person; they have no effect by themselves."""
    return [*_references(gathered, topics), *_gaps(gathered, unsolved), *_hints(gathered, topics)]


def _references(gathered: Gathered, topics: TopicsFound) -> list[NewKnowledge]:
    turns: dict[str, list[KnowledgeSource]] = {}
    for session_id, row in topics.turn_topics:
        turns.setdefault(row.topic, []).append(KnowledgeSource(session_id, row.turn))
    least = max(REFERENCE_TURNS, REFERENCE_SHARE * len(gathered.turns))
    large = [topic for topic in topics.items if len(turns.get(topic.id, ())) >= least]
    large.sort(key=lambda topic: (-len(turns[topic.id]), topic.id))
    return [
        _item(
            gathered,
            f"reference {topic.id}",
            f"Write a reference on {topic.title}",
            f"{len(turns[topic.id])} turns are about {topic.title}. A reference would save reading them again.",
            topic.sources,
            topics=(topic.id,),
        )
        for topic in large[:MAX_REFERENCES]
    ]


def _gaps(gathered: Gathered, unsolved: Sequence[Failure]) -> list[NewKnowledge]:
    return [
        _item(
            gathered,
            f"gap {failure.signature}",
            f"Say what resolves: {failure.line}",
            f"{len(failure.places)} turns have this error, and none says what resolved it: {failure.line}",
            [gathered.turns[place].source for place in failure.places],
        )
        for failure in unsolved[:MAX_GAPS]
    ]


def _hints(gathered: Gathered, topics: TopicsFound) -> list[NewKnowledge]:
    placed = {KnowledgeSource(session_id, row.turn) for session_id, row in topics.turn_topics}
    rest = [turn.source for turn in gathered.turns if turn.source not in placed]
    if not topics.items or len(rest) <= UNPLACED_SHARE * len(gathered.turns):
        return []
    text = (
        f"{len(rest)} of {len(gathered.turns)} turns have no topic. They are short or unlike all others, or their "
        "index is not built yet."
    )
    return [_item(gathered, "hint topics", "Many turns have no topic", text, rest)]


def _item(
    gathered: Gathered,
    identity: str,
    title: str,
    text: str,
    sources: Sequence[KnowledgeSource],
    *,
    topics: tuple[str, ...] = (),
) -> NewKnowledge:
    kept = set(sources[-MAX_SOURCES:])
    times = [turn.at_us for turn in gathered.turns if turn.source in kept]
    return NewKnowledge(
        id=item_id(gathered.scope, "recommendation", identity),
        scope=str(gathered.scope),
        kind="recommendation",
        state="proposed",
        title=title,
        text=text,
        topics=topics,
        weight=0.3,
        confidence=0.5,
        sources=tuple(sorted(kept)),
        maker="local",
        first_seen_us=min(times),
        last_seen_us=max(times),
    )
