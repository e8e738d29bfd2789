"""The turns of a session that are on a learned topic, which is named by its id, its title or one of its keywords."""

from __future__ import annotations

from dataclasses import dataclass

from foveate.store import SessionRow, Store


@dataclass(frozen=True, slots=True)
class TopicMatch:
    """The learned topics that a name means, and the turns on them, oldest first."""

    titles: tuple[str, ...]
    turns: tuple[int, ...]


async def match_topic(store: Store, session: SessionRow, topic: str) -> TopicMatch | None:
    """The topics of the session's turns that have this name; None if none has. An id or a whole title goes before
    keywords."""
    rows = await store.knowledge.turn_topics(session.id, 1, session.last_turn)
    present = {row.topic for row in rows}
    if not present:
        return None
    every = await store.knowledge.list_items(session.tenant, kind="topic")
    items = [item for item in every if item.id in present and item.state != "retired"]
    wanted = " ".join(topic.casefold().split())
    named = [item for item in items if wanted in (item.id, " ".join(item.title.casefold().split()))]
    named = named or [item for item in items if wanted in (word.casefold() for word, _ in item.keywords)]
    ids = {item.id for item in named}
    turns = sorted({row.turn for row in rows if row.topic in ids})
    return TopicMatch(tuple(sorted(item.title for item in named)), tuple(turns)) if turns else None
