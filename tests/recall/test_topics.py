"""The turns of a learned topic."""

from __future__ import annotations

import asyncio
from pathlib import Path

from foveate import Foveate
from foveate.store.knowledge import KnowledgeChanges, KnowledgeSource, NewKnowledge, NewRun, TurnTopicRow
from support.engine import assistant, user, with_store

TOPIC = NewKnowledge(
    id="t-0000000001",
    scope="project:",
    kind="topic",
    state="proposed",
    title="harbour, depth",
    text="harbour, depth",
    keywords=(("harbour", 1.0), ("depth", 0.8), ("quay", 0.4)),
    sources=(KnowledgeSource("s", 1),),
    maker="local",
    first_seen_us=1,
    last_seen_us=2,
)


async def _talk(fov: Foveate) -> None:
    """Ten turns with one word each, every second of which is learned as one topic."""
    session = await fov.session("s")
    for number in range(1, 11):
        await session.record([user(f"Word albatross{number}?"), assistant("Yes.")])
    run = NewRun(id="r", tenant="", scope="project:", watermark="w", prompt_version="", owner="me", lease_seconds=60.0)
    await fov.store.knowledge.begin_run(run)
    rows = tuple(("s", TurnTopicRow(number, TOPIC.id, 0.5)) for number in range(1, 11, 2))
    changes = KnowledgeChanges(items=(TOPIC,), turn_topics=rows, topic_sessions=("s",))
    await fov.store.knowledge.finish_run("r", "me", "{}", changes)


def test_turns_of_a_learned_topic_are_exact(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        await _talk(fov)
        session = await fov.session("s")
        for name in (TOPIC.id, "Harbour, depth", "quay"):
            found = await session.get_turns_by_topic(name, "R")
            assert [content.turn_id for content in found] == ["T-1", "T-3", "T-5", "T-7", "T-9"]
            assert found.is_exact
            assert found.topics == ("harbour, depth",)
        answer = await session.call_tool("get_turns_by_topic", {"topic": "harbour", "level": "R"})
        assert answer.startswith("5 turns on harbour, depth: T-1, T-3, T-5, T-7, T-9.\n")
        assert "albatross9" in answer

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_the_details_of_a_turn_name_its_learned_topics_else_its_most_telling_words(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        await _talk(fov)
        session = await fov.session("s")
        assert (await session.turn_details("T-3")).topics == ("harbour, depth",)
        assert "albatross4" in (await session.turn_details("T-4")).topics

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_topic_that_was_not_learned_is_searched_for_and_says_so(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        await _talk(fov)
        await fov.settle()
        session = await fov.session("s")
        found = await session.get_turns_by_topic("albatross4", "R")
        assert "T-4" in [content.turn_id for content in found]
        assert not found.is_exact
        answer = await session.call_tool("get_turns_by_topic", {"topic": "albatross4", "level": "R"})
        assert answer.startswith("No topic 'albatross4' was learned; these turns were found by a search.\n")
        other = await fov.session("other")
        await other.record([user("Anything."), assistant("Yes.")])
        assert await other.get_turns_by_topic("harbour", "R") == []

    asyncio.run(with_store(tmp_path / "chat.db", job))
