"""Bit flips in stored rows: derived data is dropped and made again, records are set aside and named by the check."""

import asyncio
import hashlib
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest
import zstandard

import foveate.sync
from foveate.settings import load_settings
from foveate.store import Store, bodies, open_store
from foveate.store.rows import ERA_FANOUT, ArtefactRow, EraRow
from foveate.store.settings import StoreSettings
from support.stores import draft, new_session
from support.stores.cabinet import NOW, content
from support.stores.derived import rendition

Job = Callable[[Store], Awaitable[None]]


def use(path: Path, job: Job) -> None:
    async def run() -> None:
        store = await open_store(str(path), StoreSettings())
        try:
            await job(store)
        finally:
            await store.close()

    asyncio.run(run())


def flip(path: Path, table: str, column: str, condition: str = "1 = 1") -> None:
    """Change one bit in the middle of a stored value."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        found = connection.execute(f"SELECT rowid, {column} FROM {table} WHERE {condition}").fetchall()
        assert found
        for row, value in found:
            data = bytearray(value.encode() if isinstance(value, str) else value)
            data[len(data) // 2] ^= 1
            changed: object = data.decode() if isinstance(value, str) else bytes(data)
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (changed, row))


async def fill(store: Store) -> None:
    await store.create_session(new_session())
    await store.append("s", [draft(f"prompt {number}") for number in range(1, 3 * ERA_FANOUT + 1)])
    await store.derived.add_renditions("s", [rendition(turn) for turn in range(1, 3 * ERA_FANOUT)])
    await store.derived.add_eras("s", [EraRow(1, place, 50, b"units %d" % place) for place in range(2)])
    await store.derived.keep_plan("s", "gradient", b"a plan")
    await store.derived.keep_recalled("s", b"a layer")
    await store.derived.keep_offer("s", "topics", b"an offer")
    await store.artefacts.keep_made("s", "topics", [ArtefactRow("one", "topic", 1, 2, 5, b"words")])
    await store.artefacts.keep_state("s", "topics", b"seals")
    await store.artefacts.keep_board("s", b"saved items")


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    path = tmp_path / "chat.db"
    use(path, fill)
    return path


@pytest.mark.parametrize("column", ["tiny", "compressed", "smoothed", "units"])
def test_a_damaged_rendition_is_dropped_and_queued_again(filled: Path, column: str) -> None:
    flip(filled, "renditions", column, "turn = 2")

    async def look(store: Store) -> None:
        assert [row.turn for row in await store.derived.renditions("s", 1, 3)] == [1, 3]

    async def look_again(store: Store) -> None:
        assert (await store.derived.sizes_of("s", 2, 2))[0].tiny is None
        assert await store.derived.settled("s") == 1
        claims = await store.derived.claim("s", owner="w", limit=1, lease_seconds=9, include_open=False)
        assert [claim.turn for claim in claims] == [2]

    use(filled, look)
    use(filled, look_again)


def test_a_body_that_claims_more_than_can_be_stored_allocates_nothing() -> None:
    claim = bodies.ZSTD_MAGIC + b"\xe0" + (1 << 50).to_bytes(8, "little") + b"\x01\x00\x00"
    with pytest.raises(zstandard.ZstdError, match="more than 536,870,912 bytes"):
        bodies.expand_bytes(claim)
    with pytest.raises(ValueError, match="can't be decompressed"):
        bodies.unpack(claim, b"")


def test_a_damaged_tiny_text_is_not_shown(filled: Path) -> None:
    flip(filled, "renditions", "tiny", "turn = 2")

    async def look(store: Store) -> None:
        assert [turn for turn, _, _ in await store.derived.tinies("s", 1, 3)] == [1, 3]

    use(filled, look)


def test_a_damaged_era_is_dropped_and_the_next_one_to_make(filled: Path) -> None:
    flip(filled, "eras", "units", "place = 0")

    async def look(store: Store) -> None:
        assert [era.place for era in await store.derived.eras("s", 1, 0, 9)] == [1]

    async def look_again(store: Store) -> None:
        assert await store.derived.next_era("s", 1) == 0
        await store.derived.add_eras("s", [EraRow(1, 0, 50, b"made again")])
        assert await store.derived.next_era("s", 1) == 2

    use(filled, look)
    use(filled, look_again)


@pytest.mark.parametrize("table", ["plans", "recalled", "offers"])
def test_a_damaged_cache_counts_as_absent(filled: Path, table: str) -> None:
    flip(filled, table, "data")

    async def look(store: Store) -> None:
        derived = store.derived
        found = [await derived.plan("s", "gradient"), await derived.recalled("s"), await derived.offer("s", "topics")]
        assert found.count(None) == 1
        assert found[["plans", "recalled", "offers"].index(table)] is None
        assert [finding.problem async for finding in store.check() if finding.problem] == []

    use(filled, look)


@pytest.mark.parametrize("column", ["name", "kind", "data"])
def test_a_damaged_artefact_is_dropped(filled: Path, column: str) -> None:
    flip(filled, "artefacts", column)

    async def look(store: Store) -> None:
        assert await store.artefacts.made("s", "topics") == []

    use(filled, look)


@pytest.mark.parametrize("table", ["states", "boards"])
def test_a_damaged_record_is_a_finding_and_never_overwritten(filled: Path, table: str) -> None:
    flip(filled, table, "data")

    async def look(store: Store) -> None:
        assert (await store.artefacts.state("s", "topics") is None) == (table == "states")
        assert (await store.artefacts.board("s") is None) == (table == "boards")
        await store.artefacts.keep_state("s", "topics", b"new seals")
        await store.artefacts.keep_board("s", b"new items")
        assert await store.artefacts.state("s", "topics") == b"new seals"
        assert await store.artefacts.board("s") == b"new items"
        (problem,) = [finding.problem async for finding in store.check() if finding.problem]
        assert "of session 's' is damaged" in problem

    use(filled, look)
    with closing(sqlite3.connect(filled)) as connection:
        assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (2,)


def talk(path: Path) -> None:
    with foveate.sync.open(path) as fov:
        session = fov.session("s", budget_tokens=3_000)
        for number in range(1, 41):
            words = f"The relay in hall {number} trips at {number * 3} ampere. " * 8
            session.record([{"role": "user", "content": f"Hall {number}?"}, {"role": "assistant", "content": words}])
        fov.settle()
        session.context("And now?")


FLIPS = {
    "renditions": ("tiny", "compressed", "smoothed", "units"),
    "eras": ("units",),
    "plans": ("data",),
    "passages": ("texts", "marks"),
}


@pytest.mark.parametrize(
    ("table", "column", "problem"),
    [
        ("contents", "data", "the content HASH of the file cabinet"),
        ("prompts", "text", "version 1 of the prompt 'greeting' is damaged"),
    ],
)
def test_the_check_finds_a_damaged_content_and_prompt(tmp_path: Path, table: str, column: str, problem: str) -> None:
    path = tmp_path / "chat.db"

    async def fill_cabinet(store: Store) -> None:
        await store.cabinet.file(content(b"0123456789" * 100), now_us=NOW)
        await store.prompts.add("", "greeting", "Hello")

    use(path, fill_cabinet)
    flip(path, table, column)

    async def look(store: Store) -> None:
        (said,) = [finding.problem async for finding in store.check() if finding.problem]
        digest = hashlib.sha256(b"0123456789" * 100).hexdigest()
        assert said.startswith(problem.replace("HASH", digest[:12]))

    use(path, look)


def test_the_check_finds_a_missing_content(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"

    async def fill_cabinet(store: Store) -> None:
        await store.create_session(new_session())
        await store.append("s", [draft("one")])
        await store.cabinet.file(content(session_id="s"), now_us=NOW)

    use(path, fill_cabinet)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DELETE FROM contents")

    async def look(store: Store) -> None:
        found = [finding.problem async for finding in store.check() if finding.problem]
        assert found[0] == "a whole tool result of T-1 in session 's' is missing"
        assert "of the file cabinet is missing" in found[1]

    use(path, look)


@pytest.mark.parametrize(("table", "column"), [(table, column) for table, own in FLIPS.items() for column in own])
def test_a_context_is_answered_and_derived_data_made_again_after_bit_flips(
    tmp_path: Path, table: str, column: str
) -> None:
    path = tmp_path / "chat.db"
    talk(path)
    flip(path, table, column)
    with foveate.sync.open(path) as fov:
        session = fov.session("s")
        assert session.context("What about hall 3?").tokens <= 3_000
        session.search("hall 3")
        fov.settle()
    with foveate.sync.open(path) as fov:
        session = fov.session("s")
        fov.settle()
        assert session.context("What about hall 3?").tokens <= 3_000
        assert [finding.problem for finding in fov.check() if finding.problem] == []


def test_one_damaged_message_neither_fails_contexts_nor_holds_up_compression(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    with foveate.sync.open(path, settings=load_settings(overrides={"compress": {"enabled": False}})) as fov:
        session = fov.session("s", budget_tokens=3_000)
        for number in range(1, 31):
            words = f"The relay in hall {number} trips at {number * 3} ampere. " * 8
            session.record([{"role": "user", "content": f"Hall {number}?"}, {"role": "assistant", "content": words}])
    flip(path, "bodies", "data", "message = 58")
    with foveate.sync.open(path) as fov:
        session = fov.session("s")
        fov.settle()
        assert session.stats().pending == 0
        text = str(session.context("Which hall?").messages())
        assert "(message 2 of T-29 is damaged; run foveate doctor)" in text
        assert "hall 30 trips" in text
        (problem,) = [finding.problem for finding in fov.check() if finding.problem]
        assert "message 2 of T-29 in session 's'" in problem
