"""The conversation store of Pydantic AI."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationStore,
    InMemoryConversationStore,
)
from pydantic_ai.messages import (
    BinaryImage,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    UserPromptPart,
)

import foveate
from foveate.adapters.pydantic_ai_store import FoveateConversationStore
from foveate.testing.adapters import Case, run_case
from support.adapter_cases import every_short_case
from support.pydantic_ai_door import PydanticAIStoreDoor


@every_short_case
def test_the_store_conforms_together_with_the_capability(case: Case, tmp_path: Path) -> None:
    asyncio.run(run_case(case, PydanticAIStoreDoor, tmp_path / "chat.db"))


def exchange(number: int) -> list[ModelMessage]:
    asked: list[Any] = [f"question {number}", BinaryImage(b"\xff\x00", media_type="image/png")]
    parts: list[Any] = [UserPromptPart(asked)] if number else [SystemPromptPart("Be brief."), UserPromptPart(asked)]
    return [ModelRequest(parts), ModelResponse([TextPart(f"answer {number}")], model_name="m")]


async def add(store: ConversationStore, name: str, *numbers: int, scope: str | None = None) -> Conversation:
    conversation = await store.load(name) or Conversation(conversation_id=name)
    conversation.messages = [*conversation.messages, *(message for number in numbers for message in exchange(number))]
    await store.save(conversation, scope=scope)
    return conversation


async def said(store: ConversationStore, name: str, limit: int | None = None) -> list[str]:
    conversation = await store.load(name, limit=limit)
    assert conversation is not None
    return [_words(message) for message in conversation.messages]


def _words(message: ModelMessage) -> str:
    contents = [part.content for part in message.parts if isinstance(part, UserPromptPart | TextPart)]
    return " ".join(content if isinstance(content, str) else str(content[0]) for content in contents)


async def grows(store: ConversationStore) -> Sequence[object]:
    await add(store, "c", 0)
    await add(store, "c", 1, 2)
    window = await store.load("c", limit=1)
    assert window is not None
    window.messages = [*window.messages, *exchange(3)]
    stored = await store.save(window)
    entries = await store.load_entries("c")
    assert entries is not None
    assert [entry.id for entry in entries[-2:]] == [entry.id for entry in stored]
    assert (await store.read_entry(entries[3].id)).message == entries[3].message
    return await said(store, "c"), await said(store, "c", 3), await said(store, "c", 0)


async def branches_and_back(store: ConversationStore) -> Sequence[object]:
    before = await add(store, "c", 0, 1)
    await store.branch("c", at=2, expected_revision=before.revision)
    await add(store, "c", 2)
    there = await said(store, "c")
    (record,) = await store.list_conversations()
    await store.branch("c", from_entry=record.branches[0], expected_revision=record.revision)
    await add(store, "c", 3)
    middle = await store.load("c")
    assert middle is not None
    await store.branch("c", at=3, expected_revision=middle.revision)
    await add(store, "c", 4)
    return there, await said(store, "c"), len((await store.list_conversations())[0].branches)


async def rewritten(store: ConversationStore) -> Sequence[object]:
    await add(store, "c", 0, 1)
    loaded = await store.load("c")
    assert loaded is not None
    edited = Conversation(messages=[*loaded.messages[:2], *exchange(5)], conversation_id="c", revision=loaded.revision)
    stored = await store.save(edited)
    return len(stored), await said(store, "c")


async def forks(store: ConversationStore) -> Sequence[object]:
    await add(store, "c", 0, 1, scope="anna")
    await store.fork("c", new_conversation_id="whole")
    await store.fork("c", at=1, new_conversation_id="part", scope="ben")
    await add(store, "whole", 2)
    await add(store, "part", 3)
    await add(store, "c", 4)
    names = [record.conversation_id for record in await store.list_conversations(scope="anna")]
    last = [record.conversation_id for record in await store.list_conversations(limit=1)]
    await store.delete("c")
    return [await said(store, name) for name in ("whole", "part")], names, last, await store.load("c")


async def conflicts(store: ConversationStore) -> Sequence[object]:
    await add(store, "c", 0)
    first, second = await store.load("c"), await store.load("c")
    assert first is not None
    assert second is not None
    for one in (first, second):
        one.messages = [*one.messages, *exchange(1)]
    saves = await asyncio.gather(store.save(first), store.save(second), return_exceptions=True)
    new = Conversation(conversation_id="c", messages=exchange(0))
    again = await asyncio.gather(store.save(new), return_exceptions=True)
    await store.delete("c", scope="other")
    kept = await said(store, "c")
    await store.delete("c")
    await add(store, "c", 7)
    lost = sum(isinstance(one, ConversationConflict) for one in saves)
    return lost, type(again[0]), kept, await said(store, "c"), await store.load("nobody")


@pytest.mark.parametrize("script", [grows, branches_and_back, rewritten, forks, conflicts])
def test_the_store_does_what_the_frameworks_own_does(
    script: Callable[[ConversationStore], Awaitable[Sequence[object]]], tmp_path: Path
) -> None:
    async def run() -> None:
        async with foveate.open(tmp_path / "chat.db") as fov:
            for owner in (fov, fov.tenant("acme")):
                assert await script(FoveateConversationStore(owner)) == await script(InMemoryConversationStore())

    asyncio.run(run())


def test_messages_come_back_exactly_and_are_turns_of_a_session(tmp_path: Path) -> None:
    async def run() -> None:
        async with foveate.open(tmp_path / "chat.db") as fov:
            saved = await add(FoveateConversationStore(fov), "c", 0, 1)
        async with foveate.open(tmp_path / "chat.db") as fov:
            store = FoveateConversationStore(fov)
            loaded = await store.load("c")
            assert loaded is not None
            assert loaded.messages == saved.messages
            await store.fork("c", at=2, new_conversation_id="d")
            await add(store, "d", 2)
            turns = {info.id: info.turns for info in await fov.sessions()}
            assert turns == {"c": 2, "d": 2}
            assert (await (await fov.open_session("d")).get_turn("T-2")).content.count("answer 2")

    asyncio.run(run())


def test_a_pruned_conversation_keeps_its_newest_messages(tmp_path: Path) -> None:
    async def run() -> None:
        async with foveate.open(tmp_path / "chat.db") as fov:
            store = FoveateConversationStore(fov)
            await add(store, "c", 0, 1)
            await fov.prune("c", before="2100-01-01", dry_run=False)
            assert await said(store, "c") == ["question 1", "answer 1"]
            await add(store, "c", 2)
            assert (await said(store, "c"))[2:] == ["question 2", "answer 2"]

    asyncio.run(run())
