"""Turns read at a level, from a store that was damaged."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from foveate.client import Foveate
from foveate.renditions import Level
from support.engine import settings, talk, with_store

OFF = settings(compress={"enabled": False})
TURNS = 4


@pytest.mark.parametrize("level", ["S", "C", "T"])
@pytest.mark.parametrize("damage", ["compressed = x'00ff', smoothed = x'ff', tiny = 'x'", "tiny = x'ff'"])
def test_a_damaged_rendition_is_made_again_and_the_turns_around_it_are_read(
    damage: str, level: Level, tmp_path: Path
) -> None:
    path = tmp_path / "s.db"

    async def fill(fov: Foveate) -> list[str]:
        session = await fov.session("s")
        await talk(session, TURNS)
        await fov.settle()
        return [turn.content for turn in await session.get_turns(1, TURNS - 1, level)]

    async def read(fov: Foveate) -> list[str]:
        return [turn.content for turn in await (await fov.session("s")).get_turns(1, TURNS - 1, level)]

    async def settled(fov: Foveate) -> int:
        await fov.settle()
        return (await (await fov.session("s")).stats()).pending

    before = asyncio.run(with_store(path, fill))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"UPDATE renditions SET {damage} WHERE turn = 2")
        connection.commit()
    assert asyncio.run(with_store(path, read, OFF)) == before
    assert asyncio.run(with_store(path, settled)) == 0
    assert asyncio.run(with_store(path, read, OFF)) == before


def test_a_forks_newest_turn_is_read_before_it_has_one_of_its_own(tmp_path: Path) -> None:
    async def read(fov: Foveate) -> list[str]:
        session = await fov.session("s")
        await talk(session, TURNS)
        fork = await session.fork("fork")
        assert await fork.get_turns(1, TURNS) == await session.get_turns(1, TURNS)
        return [turn.turn_id for turn in await fork.get_turns(1, TURNS)]

    assert asyncio.run(with_store(tmp_path / "s.db", read, OFF)) == [f"T-{number + 1}" for number in range(TURNS)]


def test_a_range_beyond_the_newest_turn_costs_no_more_than_the_turns_that_exist(tmp_path: Path) -> None:
    async def read(fov: Foveate) -> int:
        session = await fov.session("s")
        await talk(session, TURNS)
        return len(await session.get_turns(1, 10**15))

    assert asyncio.run(with_store(tmp_path / "s.db", read, OFF)) == TURNS
