"""A copy has everything, ends equal however often it was killed, and never overwrites what is not its own."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import psycopg
import pytest

import foveate
from foveate import Foveate
from foveate.client import copy_all
from foveate.errors import StoreError
from foveate.recall.table import pack
from foveate.store import copy, copy_store, open_store
from foveate.store.access import AccessKeyRow
from foveate.store.bodies import digest_of
from foveate.store.cabinet import NewContent
from foveate.store.postgres import PostgresServer
from foveate.store.rows import KEY_SHIFT, NewPassages, PassageText
from foveate.store.settings import StoreSettings
from foveate.store.sql import Locks
from support.engine import assistant, settings, talk, user
from support.postgres_proxy import proxied
from support.stores import draft, new_session

OFF = settings(compress={"enabled": False, "processes": 0})
EVERY_TABLE = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite~_%' ESCAPE '~'"


async def _fill(location: str, turns: int = 6) -> None:
    async with foveate.open(location, settings=OFF) as fov:
        session = await fov.session("main", title="Nul \0 and 日本", platform="tests")
        await talk(session, turns)
        await session.pin("Never on a Friday.")
        fork = await session.fork("fork", "T-3")
        await fork.record([user("In the fork."), assistant("Yes.")])
        await fov.settle()
        await session.context("What was said about 2?", budget_tokens=3_000)
        store = fov._store
        await store.prompts.add("", "chat", "Be brief.")
        await store.access.add(AccessKeyRow("k1", "one", b"1" * 32, "", "owner", 5, None))
        data = b"a whole result"
        content = NewContent(
            tenant="",
            digest=digest_of(data),
            size=len(data),
            is_packed=False,
            data=data,
            name="r",
            media_type="text/plain",
            source="tool",
            expires_us=2**60,
            session_id="main",
        )
        await store.cabinet.file(content, now_us=7)


async def _shown(fov: Foveate) -> list[object]:
    """What people see of a store."""
    seen: list[object] = [info.id for info in await fov.sessions()]
    for name in ("main", "fork"):
        session = await fov.open_session(name)
        seen.append((await session.context("What was said about 2?", budget_tokens=3_000)).text)
        seen.append([hit.turn_id for hit in await fov.search("said", session_id=name)])
        seen.append([pin.text for pin in await session.pins()])
        seen.append(await session.stats())
    seen.append([row.text for row in await fov._store.prompts.newest("")])
    seen.append([key.id for key in await fov._store.access.list_all()])
    keys = await fov._store.cabinet.list_keys("", now_us=8)
    seen.append([(row.name, await fov._store.cabinet.read("", row.digest)) for row in keys])
    return seen


async def _seen(location: str) -> list[object]:
    async with foveate.open(location, settings=OFF) as fov:
        return await _shown(fov)


def test_a_copy_to_a_server_and_back_is_equal(tmp_path: Path, postgres_url: str) -> None:
    async def run() -> None:
        first, last = str(tmp_path / "first.db"), str(tmp_path / "last.db")
        await _fill(first)
        there = await copy_all(first, postgres_url)
        assert (sorted(there.copied), there.unchanged, there.conflicts) == (["fork", "main"], 0, [])
        back = await copy_all(postgres_url, last)
        assert sorted(back.copied) == ["fork", "main"]
        again = await copy_all(first, last)
        assert (again.copied, again.unchanged, again.turns) == ([], 2, 0)
        assert await _seen(first) == await _seen(postgres_url) == await _seen(last)

    asyncio.run(run())


def test_every_table_is_copied_or_left_out_on_purpose(tmp_path: Path) -> None:
    asyncio.run(_fill(str(tmp_path / "chat.db"), 3))
    with closing(sqlite3.connect(tmp_path / "chat.db")) as connection:
        tables = {name for (name,) in connection.execute(EVERY_TABLE)}
    own = {name for name in tables if not name.startswith("passage_words")} - {"foveate_schema", "sessions"}
    known = {*copy.BY_TURN, *copy.OF_SESSION, *copy.SHARED, *copy.LEFT_OUT}
    assert own <= known
    assert known - own <= {"passage_words"}


class Killed(BaseException):
    """What ends a copy, as a kill would: nothing runs after it but the rollback."""


@pytest.mark.parametrize("is_server", [False, True], ids=["file", "server"])
def test_a_copy_that_was_killed_anywhere_ends_equal(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, *, is_server: bool
) -> None:
    source = str(tmp_path / "source.db")
    target = str(request.getfixturevalue("postgres_url")) if is_server else str(tmp_path / "target.db")
    asyncio.run(_fill(source))
    monkeypatch.setattr(copy, "TURNS_PER_COMMIT", 2)
    write = copy.StoreCopy._write

    def run(killed_after: int) -> bool:
        left = killed_after

        def limited(self: copy.StoreCopy, locks: Locks, job: Callable[[], object]) -> object:
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1
            return write(self, locks, job)

        monkeypatch.setattr(copy.StoreCopy, "_write", limited)
        try:
            copy_store(source, target, StoreSettings())
        except Killed:
            return False
        return True

    runs = 1
    while not run(runs):
        runs += 1
    assert runs >= 4
    assert asyncio.run(_seen(source)) == asyncio.run(_seen(target))


def test_what_is_new_is_brought_over_and_what_is_not_ours_is_not_changed(tmp_path: Path) -> None:
    async def run() -> None:
        source, target = str(tmp_path / "source.db"), str(tmp_path / "target.db")
        await _fill(source)
        await copy_all(source, target)
        async with foveate.open(source, settings=OFF) as fov:
            await talk(await fov.open_session("main"), 1)
            await fov.settle()
        assert (await copy_all(source, target)).copied == ["main"]
        assert await _seen(source) == await _seen(target)
        async with foveate.open(target, settings=OFF) as fov:
            await (await fov.open_session("main")).record([user("Only here.")])
        async with foveate.open(source, settings=OFF) as fov:
            await (await fov.open_session("main")).record([user("Only there.")])
        report = await copy_all(source, target)
        assert (report.conflicts, report.copied) == (["main", "fork"], [])
        async with foveate.open(target, settings=OFF) as fov:
            assert "Only here." in (await (await fov.open_session("main")).get_turn(8, "R")).content

    asyncio.run(run())


@pytest.mark.parametrize("text", [b"JOIN bodies", b"FROM passages"])
def test_a_copy_goes_on_when_the_source_loses_a_connection(text: bytes, tmp_path: Path, postgres_url: str) -> None:
    asyncio.run(_fill(postgres_url, 3))
    with proxied(tmp_path, postgres_url) as proxy:
        proxy.cut(text, "after")
        report = copy_store(proxy.url, str(tmp_path / "target.db"), StoreSettings())
        assert not proxy.cuts
    assert sorted(report.copied) == ["fork", "main"]


@pytest.mark.parametrize("text", [b"INSERT INTO bodies", b"COMMIT\0"])
def test_a_copy_goes_on_when_the_target_loses_a_connection(text: bytes, tmp_path: Path, postgres_url: str) -> None:
    source = str(tmp_path / "source.db")
    asyncio.run(_fill(source, 3))
    PostgresServer(postgres_url, StoreSettings()).prepare()
    with proxied(tmp_path, postgres_url) as proxy:
        proxy.cut(text, "after")
        report = copy_store(source, proxy.url, StoreSettings())
        assert not proxy.cuts
    assert sorted(report.copied) == ["fork", "main"]
    assert asyncio.run(_seen(source)) == asyncio.run(_seen(postgres_url))


def test_a_server_that_stays_away_ends_a_copy_with_an_error(tmp_path: Path, postgres_url: str) -> None:
    asyncio.run(_fill(postgres_url, 3))
    with proxied(tmp_path, postgres_url) as proxy:
        proxy.cut(b"JOIN bodies", "before")
        proxy.close_after_cut = True
        with pytest.raises(StoreError, match="connect"):
            copy_store(proxy.url, str(tmp_path / "target.db"), StoreSettings(lock_timeout_seconds=0.3))


def test_passages_of_a_copy_are_found_by_their_vectors(tmp_path: Path, postgres_url: str) -> None:
    """Each vector is found under its passage, also where tools made passages without one."""
    chance = np.random.default_rng(1)
    spoken, listed = PassageText("user", "words", None, ""), PassageText("tool", "words", "ls", "")
    turns = [((spoken,), (0,)), ((spoken, listed, listed, listed, spoken), (0, 1, 3, 4)), ((spoken, spoken), (0, 1))]
    vectors = [chance.standard_normal((len(numbers), 16)).astype(np.float32) for _, numbers in turns]
    made = [
        NewPassages(
            turn=turn,
            messages=1,
            at_us=1,
            maker="m",
            marks=b"",
            texts=texts,
            vectors=pack(rows, numbers),
            embedded=numbers,
        )
        for turn, ((texts, numbers), rows) in enumerate(zip(turns, vectors, strict=True), 1)
    ]

    async def fill(location: str) -> None:
        store = await open_store(location, StoreSettings())
        await store.create_session(new_session("s"))
        await store.append("s", [draft("1")])
        await store.append("s", [draft("2")])
        await store.append("s", [draft("3")])
        await store.passages.add("s", made)
        await store.close()

    async def find() -> None:
        store = await open_store(postgres_url, StoreSettings())
        ids = {row.turn: row.id for row in (await store.passages.look("s", after=0, phrases=(), limit=0)).rows}
        for turn, ((_, numbers), rows) in enumerate(zip(turns, vectors, strict=True), 1):
            for number, vector in zip(numbers, rows, strict=True):
                found = await store.passages.nearest(vector.tolist(), sessions=None, limit=1)
                assert found is not None
                assert [key for key, _ in found] == [ids[turn] << KEY_SHIFT | number]
        await store.close()

    asyncio.run(fill(str(tmp_path / "source.db")))
    copy_store(str(tmp_path / "source.db"), postgres_url, StoreSettings())
    asyncio.run(find())
    with psycopg.connect(postgres_url) as connection:
        query = "SELECT count(*) FROM pg_indexes WHERE indexname = 'passage_vectors_16'"
        assert connection.execute(query).fetchall() == [(1,)]


def test_a_source_that_does_not_exist_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="does not exist"):
        copy_store(str(tmp_path / "no.db"), str(tmp_path / "new.db"), StoreSettings())
    assert list(tmp_path.iterdir()) == []
