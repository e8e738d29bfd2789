"""Sessions to learn from."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import foveate
from foveate.client import Foveate
from foveate.recall.scopes import Scope
from foveate.turn import Json

SHOP = Scope("project", "shop")


def in_store(test: Callable[[Foveate], Awaitable[None]]) -> Callable[[Path], None]:
    """A test of an open store."""

    async def run(location: Path) -> None:
        async with foveate.open(location) as fov:
            await test(fov)

    def test_in_store(tmp_path: Path) -> None:
        asyncio.run(run(tmp_path / "chat.db"))

    return test_in_store


async def record(fov: Foveate, session: str, *prompts: str, channel: str | None = "shop", day: int = 1) -> None:
    """Record turns with these prompts, one an hour."""
    opened = await fov.session(session, channel=channel)
    for hour, prompt in enumerate(prompts):
        said: list[dict[str, Json]] = [{"role": "user", "content": prompt}, {"role": "assistant", "content": "Done."}]
        await opened.record(said, at=f"2026-01-{day:02}T{hour:02}:00:00Z")
