"""What is particular to the SQLite file: bad files, full disks, damage, modes, and old schemas."""

import asyncio
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from foveate.errors import (
    FoveateError,
    InputError,
    NewerSchema,
    NotADatabase,
    ReadOnlyStore,
    StorageFull,
    StoreBusy,
    StoreError,
)
from foveate.store import MessageRow, Store, open_store, sql
from foveate.store.codec import restore_message
from foveate.store.settings import StoreSettings
from foveate.text import message_text
from support.stores import draft, new_session

BASELINES = Path(__file__).parent / "baselines"


def use(path: Path, job: Callable[[Store], Awaitable[object]], settings: StoreSettings | None = None) -> object:
    async def run() -> object:
        store = await open_store(str(path), settings or StoreSettings())
        try:
            return await job(store)
        finally:
            await store.close()

    return asyncio.run(run())


async def fill(store: Store) -> None:
    await store.create_session(new_session())
    await store.append("s", [draft("question " * 100), draft("answer " * 100, "assistant")])


async def nothing(_: Store) -> None:
    pass


async def problems(store: Store) -> list[str]:
    return [finding.problem async for finding in store.check() if finding.problem]


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    path = tmp_path / "chat.db"
    use(path, fill)
    return path


def test_the_file_and_its_journal_are_private_whatever_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"

    async def look(store: Store) -> list[int]:
        await fill(store)
        return [stat.S_IMODE((path.with_name(path.name + end)).stat().st_mode) for end in ("", "-wal", "-shm")]

    old = os.umask(0)
    try:
        assert use(path, look) == [0o600, 0o600, 0o600]
    finally:
        os.umask(old)


def test_the_default_is_a_full_sync_in_wal_mode(filled: Path) -> None:
    with closing(sqlite3.connect(filled)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert StoreSettings().synchronous == "full"


@pytest.mark.parametrize("content", [b"this is a letter, not a database\n" * 50, b"SQLite", b"\x00" * 4096])
def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "letter.txt"
    path.write_bytes(content)
    with pytest.raises(NotADatabase, match=r"letter\.txt"):
        use(path, nothing)
    assert path.read_bytes() == content


def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
    before = path.read_bytes()
    with pytest.raises(NotADatabase, match="another program"):
        use(path, nothing)
    assert path.read_bytes() == before


def test_a_newer_schema_is_refused_and_left_alone(filled: Path) -> None:
    with closing(sqlite3.connect(filled, isolation_level=None)) as connection:
        connection.execute(f"UPDATE {sql.SCHEMA_TABLE} SET version = 999")
    with pytest.raises(NewerSchema, match="999"):
        use(filled, nothing)


@pytest.mark.parametrize(
    ("location", "error"),
    [
        ("", InputError),
        (":memory:", InputError),
        ("mysql://host/db", InputError),
        ("no/such/folder/chat.db", StoreError),
        (".", NotADatabase),
    ],
)
def test_a_place_that_can_be_no_store_is_refused(location: str, error: type[FoveateError]) -> None:
    with pytest.raises(error):
        asyncio.run(open_store(location, StoreSettings()))


def _corrupt(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("UPDATE bodies SET data = x'28b52ffd00' WHERE message = 1", "can't be decompressed"),
        ("UPDATE bodies SET data = x'2278225d' WHERE message = 1", "does not match its hash"),
        ("DELETE FROM bodies WHERE message = 1", "is missing"),
    ],
)
def test_a_note_takes_the_place_of_a_damaged_body_and_the_check_names_it(
    filled: Path, statement: str, expected: str
) -> None:
    _corrupt(filled, statement)

    async def read(store: Store) -> list[MessageRow]:
        return await store.read("s", 1, 1)

    damaged, whole = cast("list[MessageRow]", use(filled, read))
    assert expected in (damaged.problem or "")
    assert message_text(restore_message(damaged)) == "[user] (message 1 of T-1 is damaged; run foveate doctor)\n"
    assert whole.problem is None
    assert b"answer" in (whole.body or b"")
    found = use(filled, problems)
    assert isinstance(found, list)
    assert len(found) == 1
    assert expected in found[0]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("DELETE FROM messages WHERE position = 1", "has 1 of its 2 messages"),
        ("DELETE FROM messages", "has 0 of its 1 turns"),
        ("UPDATE messages SET session = 99", "messages of no session"),
        ("INSERT INTO bodies (message, data) VALUES (77, x'00')", "bodies of no message"),
        ("UPDATE sessions SET parent = 99", "a session that is gone"),
    ],
)
def test_a_gap_is_found_by_the_check(filled: Path, statement: str, expected: str) -> None:
    _corrupt(filled, statement)
    found = use(filled, problems)
    assert isinstance(found, list)
    assert any(expected in problem for problem in found)


def test_a_file_others_may_read_is_found_by_the_check(filled: Path) -> None:
    filled.chmod(0o644)
    found = use(filled, problems)
    assert isinstance(found, list)
    assert "others on this machine may read the file" in found[0]


def test_torn_pages_are_found_by_the_check(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"

    async def fill_more(store: Store) -> None:
        await store.create_session(new_session())
        # So many that the middle of the file has messages, not the schema.
        await store.append("s", [draft(f"{number} " + os.urandom(300).hex()) for number in range(600)])

    use(path, fill_more)
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(os.urandom(8192))
    assert use(path, problems)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 2 MB; needs the right to mount."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_is_told_and_nothing_is_half_stored(small_disk: Path) -> None:
    path = small_disk / "chat.db"

    async def until_full(store: Store) -> int:
        await store.create_session(new_session())
        for number in range(100):
            noise = os.urandom(40_000).hex()
            try:
                await store.append("s", [draft(f"{number} {noise}"), draft(noise, "assistant")])
            except StorageFull:
                return number
        raise AssertionError("the disk was never full")

    kept = use(path, until_full)
    assert isinstance(kept, int)
    assert kept > 0

    async def look(store: Store) -> list[int]:
        assert await problems(store) == []
        return [row.messages for row in await store.turns("s", 1, 1000)]

    copy = small_disk.parent / "copy.db"
    for end in ("", "-wal"):
        if (source := path.with_name(path.name + end)).exists():
            shutil.copy(source, copy.with_name(copy.name + end))
    copy.chmod(0o600)
    assert use(copy, look) == [2] * kept


def test_a_file_that_may_not_be_written_is_told(filled: Path) -> None:
    """Run by a user who is not root, whom file modes don't stop."""
    program = (
        "import asyncio, os, sys\n"
        "from foveate.store import database, open_store, sqlite\n"
        "from foveate.settings import StoreSettings\n"
        "from foveate.errors import ReadOnlyStore\n"
        "from foveate.store import sql; sql.latest_version()\n"
        "if os.getuid() == 0: os.setgid(65534); os.setuid(65534)\n"
        "try: asyncio.run(open_store(sys.argv[1], StoreSettings()))\n"
        "except ReadOnlyStore as error: print(error)\n"
    )
    filled.chmod(0o444)
    for parent in list(filled.parents)[:4]:
        parent.chmod(0o755) if parent != Path("/tmp") and parent.owner() == filled.owner() else None
    told = subprocess.run([sys.executable, "-c", program, filled], capture_output=True, text=True, check=False)
    assert "permissions" in told.stdout, told.stderr


def test_a_lock_held_for_too_long_is_told(filled: Path) -> None:
    with closing(sqlite3.connect(filled, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy, match="lock_timeout_seconds"):
            use(filled, lambda store: store.append("s", [draft()]), StoreSettings(lock_timeout_seconds=0.2))


def test_a_lock_held_for_a_while_is_waited_for(filled: Path) -> None:
    other = sqlite3.connect(filled, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")

    async def wait_for_it(store: Store) -> object:
        asyncio.get_running_loop().call_later(0.3, other.execute, "COMMIT")
        return await store.append("s", [draft()])

    with closing(other):
        assert use(filled, wait_for_it)


@pytest.mark.parametrize("baseline", sorted(BASELINES.glob("*.db")), ids=lambda path: path.stem)
def test_an_old_database_opens_with_everything_in_it(baseline: Path, tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    shutil.copy(baseline, path)
    path.chmod(0o600)

    async def look(store: Store) -> None:
        assert await problems(store) == []
        assert [row.id for row in await store.list_sessions()] == ["worker", "first"]
        assert [row.messages for row in await store.turns("first", 1, 9)] == [3, 2]
        assert [row.messages for row in await store.turns("worker", 1, 9)] == [3, 1]
        assert [pin.text for pin in await store.list_pins("worker")] == ["Never deploy on a Friday."]
        await store.append("first", [draft("still open for business")])

    use(path, look)


def test_named_values_of_schema_6_become_typed_rows_without_loss(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    shutil.copy(BASELINES / "schema-6.db", path)
    path.chmod(0o600)
    old = {
        "plan": b"a plan",
        "plan:mine": b"my plan",
        "state:topics": b"seals",
        "board": b"saved",
        "recalled": b"a layer",
        "wanted:topics": b"an offer",
        "asked:topics:one:2": b"1",
        "asked:topics:two": b"",
        "failures/eras": b"3",
        "roll-up": b'{"1":5,"2":1}',
        "pruned": b"1700000000000000",
    }
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DELETE FROM keepsakes")
        add = "INSERT INTO keepsakes SELECT number, ?, ? FROM sessions WHERE id = 'first'"
        connection.executemany(add, old.items())

    async def look(store: Store) -> None:
        derived, requested = store.derived, store.derived.due.requested
        assert await derived.plan("first", "gradient") == b"a plan"
        assert await derived.plan("first", "mine") == b"my plan"
        assert await store.artefacts.state("first", "topics") == b"seals"
        assert await store.artefacts.board("first") == b"saved"
        assert await derived.recalled("first") == b"a layer"
        assert await derived.offer("first", "topics") == b"an offer"
        assert await derived.pruned("first") == 1_700_000_000_000_000
        assert [await requested("first", "artefact", name) for name in ("topics:one:2", "topics:two")] == [1, 0]
        assert [await requested("first", "era", level) for level in ("1", "2", "3")] == [5, 1, 0]
        assert await requested("first", "failures", "eras") == 3
        assert await derived.plan("worker", "gradient") is None
        assert await problems(store) == []

    use(path, look)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'keepsakes'").fetchone() is None


def test_there_is_a_baseline_for_every_schema() -> None:
    assert {path.stem for path in BASELINES.glob("*.db")} == {f"schema-{v + 1}" for v in range(sql.latest_version())}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be told that a read-only file system is one")
def test_a_read_only_file_system_is_told(filled: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mounted"
    folder.mkdir()
    bound = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], capture_output=True, check=False)
    if bound.returncode != 0:
        pytest.skip("mounting needs more rights than this")
    try:
        shutil.copy(filled, folder / "chat.db")
        subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        with pytest.raises(ReadOnlyStore):
            use(folder / "chat.db", nothing)
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize("is_replaced", [False, True])
def test_nothing_is_acknowledged_after_the_file_was_deleted(tmp_path: Path, *, is_replaced: bool) -> None:
    path = tmp_path / "a.db"

    async def job(store: Store) -> None:
        await store.create_session(new_session("s"))
        await store.append("s", [draft("kept")])
        shutil.copy(path, tmp_path / "copy.db")
        path.unlink()
        if is_replaced:
            shutil.copy(tmp_path / "copy.db", path)
        with pytest.raises(StoreError, match="replaced by" if is_replaced else "was deleted") as caught:
            await store.append("s", [draft("lost")])
        assert "put the file back from a backup, and start them again" in str(caught.value)

    use(path, job)
