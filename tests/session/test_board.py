"""The stored board of a session: what contexts and tools write at the same time."""

import asyncio
from pathlib import Path

from foveate import Foveate
from support.engine import talk, with_store


def test_an_older_snapshot_removes_what_expired_and_nothing_newer(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s", budget_tokens=20_000)
        board = session.engine.contexts.board
        await talk(session, 5)
        await session.call_tool("get_turn", {"turn_id": "T-1"})
        await talk(session, 40, first=6)
        snapshot = await session.engine.contexts.snapshot()
        await session.call_tool("get_turn", {"turn_id": "T-2"})
        shown = await board.shown(snapshot, ends_turn=True, keep=True)
        assert shown.retrieved == ()
        assert [entry.first for entry in (await board.load(snapshot.session)).retrieved] == [2]

    asyncio.run(with_store(tmp_path / "chat.db", job))
