"""What PostgreSQL does differently from SQLite: connections, locks, errors. The contract is in `test_conformance`."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

import foveate
from foveate.errors import InputError, NewerSchema, NotADatabase, ReadOnlyStore, SessionNotFound, StoreBusy, StoreError
from foveate.recall.embed import STATIC, static
from foveate.recall.passages import index_turn
from foveate.recall.table import EXACT_PASSAGES, pack
from foveate.settings import load_settings
from foveate.store import Store, open_store, sql
from foveate.store.passages import ADDED_TURNS
from foveate.store.postgres import LOCK_SPACE, NAMED_LOCKS, PostgresConnection, PostgresServer
from foveate.store.postgres.policies import UNFORCED, UNSCOPED
from foveate.store.postgres.vectors import NEAREST
from foveate.store.postgres.words import MATCH_WORDS, PostgresWords
from foveate.store.rows import KEY_SHIFT, NewPassages, PassageText
from foveate.store.settings import StoreSettings
from foveate.store.sqlite import SqliteTextWords
from foveate.turn import Message, Text
from support.postgres import LIST_TABLES, LocalServer
from support.postgres_proxy import Moment, proxied
from support.stores import draft, new_session
from support.stores.derived import entry

END_CONNECTIONS = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()"""


@asynccontextmanager
async def opened(url: str, **settings: float) -> AsyncIterator[Store]:
    store = await open_store(url, StoreSettings(**settings))  # type: ignore[arg-type]
    try:
        yield store
    finally:
        await store.close()


async def open_and_close(url: str) -> None:
    async with opened(url):
        pass


def run(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement)
        while cursor.nextset():
            pass
        return cursor.fetchall() if cursor.description else []


@pytest.mark.parametrize(
    "url",
    ["postgresql://user:se@cret@host/db", "postgresql://user:se/cret@host/db", "postgresql://user:secret@host/db?y"],
)
def test_a_url_that_cannot_be_read_is_rejected_without_its_password(url: str) -> None:
    with pytest.raises(InputError) as caught:
        asyncio.run(open_and_close(url))
    assert "cret" not in f"{caught.value!r} {caught.value}"


def test_a_server_that_cannot_be_reached_is_named_without_the_password() -> None:
    with pytest.raises(StoreError, match="can't connect") as caught:
        asyncio.run(open_and_close("postgresql://user:secret@127.0.0.1:1/db?sslpassword=secret"))
    assert "secret" not in str(caught.value)
    assert caught.value.location == "postgresql://user@127.0.0.1:1/db"


def test_a_wrong_password_is_a_clear_error(postgres_server: LocalServer, postgres_url: str) -> None:
    url = postgres_url.replace("postgres@", "guarded:wrongword@")
    with pytest.raises(StoreError, match="password authentication failed") as caught:
        asyncio.run(open_and_close(url))
    assert "wrongword" not in str(caught.value)


def test_a_database_that_does_not_exist_is_a_clear_error(postgres_server: LocalServer) -> None:
    with pytest.raises(StoreError, match="does not exist"):
        asyncio.run(open_and_close(postgres_server.url("nowhere")))


def test_a_hanging_network_is_noticed_unless_the_url_says_otherwise() -> None:
    server = PostgresServer("postgresql://host/db?connect_timeout=3", StoreSettings())
    assert "connect_timeout=3" in server._conninfo
    assert "tcp_user_timeout=30000" in server._conninfo


def test_a_replica_that_can_only_be_read_is_rejected_on_opening(new_database: Callable[[], str]) -> None:
    url = new_database()
    run(url, f"ALTER DATABASE {urlsplit(url).path[1:]} SET default_transaction_read_only = on")
    with pytest.raises(ReadOnlyStore, match="read-only replica"):
        asyncio.run(open_and_close(url))


def test_tables_of_another_program_are_left_as_they_are(new_database: Callable[[], str]) -> None:
    url = new_database()
    run(url, "CREATE TABLE messages (text TEXT)")
    with pytest.raises(NotADatabase, match="another program"):
        asyncio.run(open_and_close(url))
    assert run(url, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'") == [("messages",)]
    run(url, "DROP TABLE messages")

    async def open_at_once() -> None:
        await asyncio.gather(*(open_and_close(url) for _ in range(3)))

    asyncio.run(open_at_once())  # three migrations at once are one
    assert run(url, sql.READ_VERSION) == [(sql.latest_version(),)]
    run(url, f"UPDATE {sql.SCHEMA_TABLE} SET version = 999")
    with pytest.raises(NewerSchema, match="999"):
        asyncio.run(open_and_close(url))


def test_the_tables_have_no_keys_into_each_other_and_sort_by_bytes(postgres_url: str) -> None:
    assert run(postgres_url, "SELECT conname FROM pg_constraint WHERE contype = 'f'") == []
    columns = """SELECT table_name, column_name FROM information_schema.columns
        WHERE table_schema = 'public' AND data_type = 'text' AND collation_name IS DISTINCT FROM 'C'"""
    assert run(postgres_url, columns) == []


def test_writers_of_many_processes_never_lose_or_mix_turns(postgres_url: str) -> None:
    """Each store here has a connection of its own, as each process would; their groups have sessions in any order."""

    async def write() -> None:
        async with opened(postgres_url) as first, opened(postgres_url) as second, opened(postgres_url) as third:
            stores, names = (first, second, third), [f"s{number}" for number in range(5)]
            for name in names:
                await first.create_session(new_session(name))
            await asyncio.gather(
                *(
                    store.append(name, [draft(f"{turn}", key=f"{place}-{turn}"), draft("yes", "assistant")])
                    for place, store in enumerate(stores)
                    for turn in range(8)
                    for name in (names if (place + turn) % 2 else names[::-1])
                )
            )
            for name in names:
                assert [row.messages for row in await first.turns(name, 1, 100)] == [2] * 24
            assert second.commits < 40  # appends that wait together share a commit
            assert [finding.problem async for finding in first.check() if finding.problem] == []

    asyncio.run(write())


def test_a_session_that_another_process_holds_is_busy_after_the_timeout(postgres_url: str) -> None:
    async def append() -> None:
        async with opened(postgres_url, lock_timeout_seconds=0.1) as store:
            await store.create_session(new_session())
            with psycopg.connect(postgres_url) as other:
                other.execute("SELECT 1 FROM sessions FOR UPDATE")
                with pytest.raises(StoreBusy, match="lock_timeout_seconds"):
                    await store.append("s", [draft()])
            await store.append("s", [draft()])

    asyncio.run(append())


def test_passages_become_visible_in_the_order_of_their_ids(postgres_url: str) -> None:
    """A reader looks only beyond the newest id it saw, so a lower one must not come later."""

    async def add() -> None:
        async with opened(postgres_url, lock_timeout_seconds=0.1) as store:
            await store.create_session(new_session())
            await store.append("s", [draft()])
            made = NewPassages(turn=1, messages=1, at_us=1, maker="m", marks=b"", texts=(), vectors=b"", embedded=())
            with psycopg.connect(postgres_url) as other:
                other.execute("SELECT pg_advisory_xact_lock(%s, %s)", [LOCK_SPACE, NAMED_LOCKS.index("passages")])
                with pytest.raises(StoreBusy):
                    await store.passages.add("s", [made])
            await store.passages.add("s", [made])

    asyncio.run(add())


def test_lost_connections_are_replaced(postgres_url: str) -> None:
    async def use() -> None:
        async with opened(postgres_url) as store:
            await store.create_session(new_session())
            for number in range(3):
                run(postgres_url, END_CONNECTIONS)
                await store.append("s", [draft(f"{number}")])
                run(postgres_url, END_CONNECTIONS)
                assert len(await store.turns("s", 1, 10)) == number + 1

    asyncio.run(use())


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("text", [b"BEGIN", b"INSERT INTO messages", b"COMMIT\0"])
def test_a_write_whose_connection_breaks_is_stored_once(
    text: bytes, moment: Moment, postgres_url: str, tmp_path: Path
) -> None:
    async def append(url: str) -> None:
        async with opened(url) as store:
            await store.create_session(new_session())
            proxy.cut(text, moment)
            await store.append("s", [draft("once")])
            assert [row.messages for row in await store.turns("s", 1, 10)] == [1]

    with proxied(tmp_path, postgres_url) as proxy:
        asyncio.run(append(proxy.url))


def test_a_commit_whose_outcome_cannot_be_known_is_an_error(postgres_url: str, tmp_path: Path) -> None:
    async def append(url: str) -> None:
        async with opened(url, lock_timeout_seconds=0.3) as store:
            await store.create_session(new_session())
            proxy.cut(b"COMMIT\0", "after")
            proxy.close()  # nobody answers any more
            with pytest.raises(StoreError, match="not known"):
                await store.append("s", [draft()])

    with proxied(tmp_path, postgres_url) as proxy:
        asyncio.run(append(proxy.url))


def test_a_number_that_a_crashed_server_gave_to_another_transaction_proves_nothing(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foveate.store.postgres.START", "SELECT CAST(random() AS TEXT)")  # it crashed meanwhile
    monkeypatch.setattr("foveate.store.postgres.OUTCOME", "SELECT 'committed' || left(:transaction, 0)")

    async def append(url: str) -> None:
        async with opened(url) as store:
            await store.create_session(new_session())
            proxy.cut(b"COMMIT\0", "before")
            with pytest.raises(StoreError, match="not known"):
                await store.append("s", [draft()])
            assert await store.turns("s", 1, 9) == []

    with proxied(tmp_path, postgres_url) as proxy:
        asyncio.run(append(proxy.url))


def test_texts_that_postgres_cannot_hold_come_back_as_they_were(postgres_url: str) -> None:
    texts = ["a\0b", "\0", "\ufdd0", "\ufdd00\0\ufdd01", "%s $1 :name '", "\\"]

    async def keep() -> None:
        async with opened(postgres_url) as store:
            await store.create_session(new_session())
            for number, text in enumerate(texts):
                await store.artefacts.keep_document("s", f"d{number}", text)
            assert [row.text for row in await store.artefacts.documents("s")] == texts
            with pytest.raises(InputError, match="too long"):
                await store.append("s", [draft(key="k" + "".join(chr(65 + n % 58) + str(n) for n in range(9_000)))])
            await store.append("s", [draft()])

    asyncio.run(keep())


def test_turns_that_are_indexed_together_take_as_many_statements_as_one(
    postgres_url: str, statements: list[str]
) -> None:
    async def count(store: Store, name: str, turns: int) -> int:
        await store.create_session(new_session(name))
        statements.clear()
        await store.passages.add(name, [entry(turn, "word", "other") for turn in range(1, turns + 1)])
        return len(statements)

    async def index() -> None:
        async with opened(postgres_url) as store:
            assert await count(store, "many", ADDED_TURNS) == await count(store, "one", 1) <= 6

    asyncio.run(index())


def test_records_that_share_a_commit_take_as_many_round_trips_as_few(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[object] = []
    wait = psycopg.Connection.wait

    def counted(self: psycopg.Connection[Any], *arguments: Any, **named: Any) -> object:
        waits.append(arguments)
        return wait(self, *arguments, **named)

    async def count(store: Store, appends: int) -> int:
        waits.clear()
        before = store.commits
        await asyncio.gather(*(store.append(f"s{number % 4}", [draft(), draft()]) for number in range(appends)))
        assert store.commits == before + 1
        return len(waits)

    async def record() -> None:
        async with opened(postgres_url) as store:
            for number in range(4):
                await store.create_session(new_session(f"s{number}"))
            await store.append("s0", [draft()])
            monkeypatch.setattr(psycopg.Connection, "wait", counted)
            monkeypatch.setattr("foveate.store.postgres.NOTIFY_SECONDS", 0.0)
            few = await count(store, 2)
            assert await count(store, 40) <= few
            stored = [await store.turns(f"s{number}", 1, 99) for number in range(4)]
            assert [sum(turn.messages for turn in turns) for turns in stored] == [23, 22, 20, 20]

    asyncio.run(record())


def test_a_write_that_fails_late_fails_alone(postgres_url: str) -> None:
    """What a write defers fails when others have run already."""
    long = "k" + "".join(chr(65 + n % 58) + str(n) for n in range(9_000))

    async def record() -> None:
        async with opened(postgres_url) as store:
            for name in ("a", "b", "c"):
                await store.create_session(new_session(name))
            writes = (store.append("a", [draft()]), store.append("b", [draft(key=long)]), store.append("c", [draft()]))
            outcomes = await asyncio.gather(*writes, return_exceptions=True)
            first, second, third = outcomes
            assert isinstance(second, InputError)
            assert [place.turn for place in first + third] == [1, 1]  # type: ignore[operator]
            assert [len(await store.turns(name, 1, 9)) for name in ("a", "b", "c")] == [1, 0, 1]

    asyncio.run(record())


def test_a_session_deleted_in_the_same_commit_takes_no_more_turns(postgres_url: str) -> None:
    async def record() -> None:
        async with opened(postgres_url) as store:
            await store.create_session(new_session())
            writes = (store.append("s", [draft()]), store.delete_session("s"), store.append("s", [draft()]))
            _, _, late = await asyncio.gather(*writes, return_exceptions=True)
            assert isinstance(late, SessionNotFound)

    asyncio.run(record())


WORDS = ("run", "running", "Ärger", "arger", "don't", "東京", "x_y", "a", "run run", "v1.2", "ĳ", "'b'", "\\")


@given(
    st.lists(st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join), min_size=1, max_size=5),
    st.lists(st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join), min_size=1, max_size=8),
)
def test_a_phrase_matches_what_it_matches_in_sqlite(
    postgres_words: PostgresWords, texts: list[str], phrases: list[str]
) -> None:
    passages = [PassageText("user", text, "run_a", extra) for text, extra in zip(texts, texts[::-1], strict=True)]
    postgres_words.recreate()
    postgres_words.add(7, enumerate(passages))
    expected = SqliteTextWords(passages).match(phrases)
    assert [postgres_words.match(phrase) for phrase in phrases] == expected
    assert postgres_words.match_many([(phrase, -1) for phrase in phrases]) == expected
    assert [postgres_words.match(phrase, sessions=[3, 7]) for phrase in phrases] == expected
    assert [postgres_words.match(phrase, sessions=[3]) for phrase in phrases] == [[] for _ in phrases]


@pytest.fixture(scope="module")
def postgres_words(new_database: Callable[[], str]) -> Iterator[PostgresWords]:
    server = PostgresServer(new_database(), StoreSettings())
    server.prepare()
    connection = server.connect(read_only=False)
    with server._connect() as connection.raw:
        yield connection.words


def test_a_tenant_sees_and_writes_its_own_rows_alone(
    postgres_server: LocalServer, new_database: Callable[[], str]
) -> None:
    """Row-level security holds even for statements that forget the tenant, as a role that is no superuser."""
    url = as_common_role(postgres_server, new_database())

    async def use() -> None:
        async with opened(url) as store:
            acme, other = store.for_tenant("acme"), store.for_tenant("other")
            await acme.create_session(replace(new_session("a"), tenant="acme"))
            await acme.append("a", [draft("secret")])
            await acme.artefacts.keep_document("a", "epic", "text")
            with pytest.raises(SessionNotFound):
                await other.append("a", [draft()])
            assert [row.id for row in await acme.list_sessions()] == ["a"]
            assert [row.id for row in await store.list_sessions()] == ["a"]
            assert await other.list_sessions() == []
            with pytest.raises(ReadOnlyStore, match="row-level security"):
                await other.create_session(replace(new_session("b"), tenant="acme"))
            counts = await other._database.read(_count_all)
            assert counts == {}
            assert (await acme._database.read(_count_all))["bodies"] == 1
            await acme.passages.add("a", [entry(1, "secret")])
            for view, found in ((acme, 1), (store, 1), (other, 0)):
                assert len(await view._database.read(lambda connection: connection.words.match("secret"))) == found
            plan = await acme._database.read(_plan_of_match)
            assert "passage_words_words" in plan

    asyncio.run(use())


def _plan_of_match(connection: sql.Connection) -> str:
    """How the words of passages are looked up where the table is large."""
    connection.execute("SET LOCAL enable_seqscan = off")
    values = {"query0": "secret", "beyond0": -1, "limit": 10}
    return str(connection.execute(f"EXPLAIN SELECT {MATCH_WORDS.format(0)}", values).fetchall())


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that are run from now on; each is a round trip."""
    found: list[str] = []
    for name in ("execute", "execute_planned", "executemany", "insert"):
        run_one = getattr(PostgresConnection, name)

        def counted(self: PostgresConnection, statement: str, *values: object, run_one: Any = run_one) -> object:
            found.append(statement)
            return run_one(self, statement, *values)

        monkeypatch.setattr(PostgresConnection, name, counted)
    return found


def test_a_search_takes_as_many_statements_for_many_phrases_as_for_one(
    postgres_url: str, statements: list[str]
) -> None:
    async def counts(store: Store, words: list[str], ids: list[int]) -> int:
        statements.clear()
        look = await store.passages.look("s", after=99, phrases=[(word, 0) for word in words], limit=9)
        assert [len(postings.keys) for postings in look.postings] == [1] * len(words)
        assert len(await store.passages.texts(ids)) == len(ids)
        return len(statements)

    async def search() -> None:
        async with opened(postgres_url) as store:
            await store.create_session(new_session())
            texts = [f"word{number}" for number in range(1, 20)]
            await store.passages.add("s", [entry(turn, text) for turn, text in enumerate(texts, 1)])
            ids = [row.id for row in (await store.passages.look("s", after=0, phrases=(), limit=0)).rows]
            assert await counts(store, texts, ids) == await counts(store, texts[:1], ids[:1])

    asyncio.run(search())


def _count_all(connection: sql.Connection) -> dict[str, int]:
    """The rows of each table that a statement without any condition sees."""
    tables = [name for (name,) in connection.execute(LIST_TABLES) if name not in UNSCOPED]
    counted = {name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables}
    return {name: count for name, count in counted.items() if count}


def as_common_role(server: LocalServer, url: str) -> str:
    """The URL of a database for a role that owns it and may do nothing else."""
    database = urlsplit(url).path[1:]
    with suppress(psycopg.errors.DuplicateObject):
        server.execute("CREATE ROLE common LOGIN")
    server.execute(f"ALTER DATABASE {database} OWNER TO common")
    return server.url(database, user="common")


def test_every_table_says_whose_its_rows_are(postgres_url: str) -> None:
    restricted = "SELECT relname FROM pg_class WHERE relrowsecurity"
    tables = {str(name) for (name,) in run(postgres_url, LIST_TABLES)}
    assert tables - {str(name) for (name,) in run(postgres_url, restricted)} == UNSCOPED & tables
    forced = {str(name) for (name,) in run(postgres_url, f"{restricted} AND relforcerowsecurity")}
    assert tables - forced == (UNSCOPED | UNFORCED) & tables


@pytest.mark.thorough
def test_a_standby_is_rejected_on_opening_and_has_what_was_written(tmp_path: Path) -> None:
    primary = LocalServer(tmp_path / "primary", "wal_level = replica\nmax_wal_senders = 4\n")
    standby = None

    async def write() -> None:
        async with opened(primary.url("postgres")) as store:
            await store.create_session(new_session())

    try:
        asyncio.run(write())
        primary.copy_to(tmp_path / "standby")
        standby = LocalServer(tmp_path / "standby")
        with pytest.raises(ReadOnlyStore, match="read-only replica"):
            asyncio.run(open_and_close(standby.url("postgres")))
        assert run(standby.url("postgres"), "SELECT id FROM sessions") == [("s",)]
    finally:
        primary.stop()
        if standby is not None:
            standby.stop()


@pytest.mark.thorough
def test_a_restart_of_the_server_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    server = LocalServer(tmp_path / "postgres", "")

    async def write() -> None:
        async with opened(server.url("postgres")) as store:
            await store.create_session(new_session())
            written = 0
            for _ in range(3):
                restart = asyncio.create_task(asyncio.to_thread(server.restart))
                while not restart.done():
                    with suppress(StoreError):  # of a commit that the crash interrupted the outcome is not known
                        await store.append("s", [draft(f"{written}", key=f"{written}")])
                        written += 1
                await restart
            assert await store.keys("s", 1, written) == [f"{number}" for number in range(written)]

    try:
        asyncio.run(write())
    finally:
        server.stop()


def test_the_nearest_passages_of_all_sessions_come_from_an_index(postgres_url: str) -> None:
    """Of many vectors it finds those that an exact comparison finds, also where a filter leaves few sessions."""
    chance = np.random.default_rng(1)
    vectors = chance.standard_normal((400, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    text = PassageText("user", "words", None, "")

    async def search() -> None:
        async with opened(postgres_url) as store:
            for name in ("s0", "s1"):
                await store.create_session(new_session(name))
                own = range(int(name[1]), 400, 2)
                made = [
                    NewPassages(
                        turn=number + 1,
                        messages=1,
                        at_us=1,
                        maker="m",
                        marks=b"",
                        texts=(text, text),
                        vectors=pack(vectors[[number]], [1]),
                        embedded=(1,),
                    )
                    for number in own
                ]
                await store.passages.add(name, made)
            numbers = {row.id: row.number for row in await store.list_sessions()}
            question = vectors[7]
            ids: dict[int, int] = {}
            for name in numbers:
                snapshot = await store.passages.look(name, after=0, phrases=(), limit=0)
                ids |= {row.turn - 1: row.id << KEY_SHIFT | 1 for row in snapshot.rows}
            for sessions, own in ((None, range(400)), ([numbers["s0"]], range(0, 400, 2))):
                found = await store.passages.nearest(question.tolist(), sessions=sessions, limit=20)
                best = sorted(own, key=lambda number: -float(vectors[number] @ question))[:20]
                assert found is not None
                assert len({key for key, _ in found} & {ids[number] for number in best}) >= 19
                assert found[0][1] == pytest.approx(float(vectors[best[0]] @ question), abs=0.02)

    asyncio.run(search())
    plan = run(
        postgres_url,
        "SET enable_seqscan = off; EXPLAIN "
        + NEAREST.format(dimensions=16, only="")
        .replace(":limit", "5")
        .replace(":vector", f"'[{','.join(['0.1'] * 16)}]'"),
    )
    assert "passage_vectors_16" in str(plan)


@pytest.mark.thorough
def test_a_search_over_more_passages_than_are_compared_exactly_asks_the_index(
    postgres_url: str, statements: list[str]
) -> None:
    """The best answer by meaning is found, though it has no word of the question."""
    said = [Message(role="user", parts=(Text("We chose PostgreSQL as the database of the billing service."),))]
    answer = index_turn(1, said, at_us=1, embeddings=STATIC)
    other = index_turn(1, [Message(role="user", parts=(Text("nothing"),))], at_us=1, embeddings=STATIC)
    chance = np.random.default_rng(1)
    count = EXACT_PASSAGES // 2 + 8

    quiet = load_settings(environment={}, overrides={"compress": {"enabled": False, "processes": 0}})

    async def search() -> None:
        async with foveate.open(postgres_url, settings=quiet) as fov:
            for name in ("s0", "s1"):
                await fov.store.create_session(new_session(name))
                noise = chance.standard_normal((count, static.DIMENSIONS)).astype(np.float32)
                made = [replace(other, turn=turn + 2, vectors=pack(noise[[turn]], [0])) for turn in range(count)]
                await fov.store.passages.add(name, [answer, *made] if name == "s1" else made)
            hits = await fov.search("Which SQL server stores invoices?", 1)
            assert [(hit.session_id, hit.turn_id) for hit in hits] == [("s1", "T-1")]

    asyncio.run(search())
    assert any("halfvec" in statement and statement.startswith("SELECT key") for statement in statements)
