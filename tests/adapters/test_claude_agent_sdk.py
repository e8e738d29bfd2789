"""The session store of the Claude Agent SDK."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

import foveate
from foveate import sync
from foveate.adapters.claude_agent_sdk import FoveateSessionStore

KEY = {"project_key": "-home-anna-shop", "session_id": "5f2c"}


def entry(kind: str, uuid: str, content: Any, **more: Any) -> dict[str, Any]:
    message = {"role": kind, "content": content, **more}
    return {
        "type": kind,
        "uuid": uuid,
        "sessionId": "5f2c",
        "timestamp": "2026-11-16T08:00:00.000Z",
        "message": message,
    }


ENTRIES: list[dict[str, Any]] = [
    {"type": "queue-operation", "operation": "enqueue"},
    entry("user", "u1", "What is in a.txt?"),
    entry("assistant", "u2", [{"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "a.txt"}}], model="c"),
    entry("user", "u3", [{"type": "tool_result", "tool_use_id": "t1", "content": "apples"}]),
    entry("assistant", "u4", [{"type": "text", "text": "Apples."}], model="c"),
    {"type": "user", "uuid": "u5", "message": "of a shape that is not known"},
]


def test_the_store_passes_the_sdks_own_suite(tmp_path: Path) -> None:
    sdk = pytest.importorskip("claude_agent_sdk.testing", reason="not installed; `make adapters` runs this")
    numbers = itertools.count()

    async def run() -> None:
        opened = []

        async def fresh() -> Any:
            opened.append(await foveate.open(tmp_path / f"{next(numbers)}.db"))
            return FoveateSessionStore(opened[-1])

        try:
            await sdk.run_session_store_conformance(fresh)
        finally:
            for fov in opened:
                await fov.close()

    asyncio.run(run())


def test_entries_come_back_exactly_and_are_turns_of_a_session(tmp_path: Path) -> None:
    with sync.open(tmp_path / "chat.db") as fov:
        store = FoveateSessionStore(fov)
        asyncio.run(store.append(KEY, ENTRIES[:4]))
        asyncio.run(store.append(KEY, ENTRIES[1:]))
        session = fov.open_session("-home-anna-shop/5f2c")
        said = [message for turn in session.load_turns() for message in turn.messages if message.kind == "message"]
        assert [message.role for message in said] == ["user", "assistant", "user", "assistant"]
        assert session.stats().turns == 1
        assert "apples" in session.get_turn("T-1").content
    with sync.open(tmp_path / "chat.db") as fov:
        assert asyncio.run(FoveateSessionStore(fov).load(KEY)) == ENTRIES, "another process resumes with all of them"
