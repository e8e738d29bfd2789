"""Learned topics of a session's turns: which a turn has, and which turns are on one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from foveate.store import SessionRow, Store
from foveate.store.knowledge import KnowledgeRow


@dataclass(frozen=True, slots=True)
class TopicMatch:
    """The learned topics that a name means, and the turns on them, oldest first."""

    titles: tuple[str, ...]
    turns: tuple[int, ...]


async def topic_titles(store: Store, session: SessionRow, turn: int) -> tuple[str, ...]:
    """Titles of a turn's learned topics, the heaviest first; empty if none was learned."""
    present = [row.topic for row in await store.knowledge.turn_topics(session.id, turn, turn)]
    titles = {item.id: item.title for item in await _items(store, session, present)}
    return tuple(titles[topic] for topic in present if topic in titles)


async def match_topic(store: Store, session: SessionRow, topic: str) -> TopicMatch | None:
    """The topics of the session's turns that have this name, which is an id, a title or a keyword; None if none has.

    An id or a whole title goes before keywords.
    """
    rows = await store.knowledge.turn_topics(session.id, 1, session.last_turn)
    items = await _items(store, session, {row.topic for row in rows})
    wanted = " ".join(topic.casefold().split())
    named = [item for item in items if wanted in (item.id, " ".join(item.title.casefold().split()))]
    named = named or [item for item in items if wanted in (word.casefold() for word, _ in item.keywords)]
    ids = {item.id for item in named}
    turns = sorted({row.turn for row in rows if row.topic in ids})
    return TopicMatch(tuple(sorted(item.title for item in named)), tuple(turns)) if turns else None


async def _items(store: Store, session: SessionRow, ids: Collection[str]) -> list[KnowledgeRow]:
    """The topics with these ids that are in use."""
    if not ids:
        return []
    every = await store.knowledge.list_items(session.tenant, kind="topic")
    return [item for item in every if item.id in ids and item.state != "retired"]
