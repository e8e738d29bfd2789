"""Searching real sessions: whatever was said is found, by whoever sees it, and nothing else is."""

import asyncio
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import foveate
from foveate import Foveate, Message, Session, Text
from foveate.errors import InputError
from foveate.recall.index import Index, Query
from foveate.recall.rank import fuse
from foveate.recall.search import Hit
from foveate.settings import load_settings
from foveate.store import passages
from support import engine
from support.engine import assistant, tool_step, user, with_store
from support.examples import times

BACKGROUND_OFF = {"compress": {"enabled": False, "processes": 0}}
ALPHABET = "abcXYZ059 _-./:@'\"()éßÅжЖωΣאب字語かナ한글😀\u200d\u0301\t\nthe of"
few = settings(max_examples=times(12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def turns(found: list[Hit]) -> list[str]:
    return [each.turn_id for each in found]


def index_of(session: Session) -> Index:
    return session.engine.shared.searcher.index(session.engine.row)


async def filled(fov: Foveate, *texts: str, name: str = "s") -> Session:
    session = await fov.session(name)
    for text in texts:
        await session.record([user(text)])
    await fov.settle()
    return session


@pytest.mark.parametrize(
    ("query", "turn"),
    [
        ("blue-otter-42", "T-1"),
        ("otter", "T-1"),
        ("src/auth/jwt.py", "T-2"),
        ("jwt.py", "T-2"),
        ("auth", "T-2"),
        ("getUserById", "T-3"),
        ("get_user_by_id", "T-3"),
        ("user by id", "T-3"),
        ("max_retry_count", "T-4"),
        ("retry count", "T-4"),
        ("PORTS", "T-5"),
        ("Zurich", "T-6"),
        ("会議", "T-7"),
        ("👩\u200d🚀", "T-8"),
        ("ISO 8601", "T-9"),
        ("what is in the vault?", "T-10"),
    ],
)
def test_identifiers_and_words_are_found_whole_and_in_parts(query: str, turn: str, tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await filled(
            fov,
            "The code is blue-otter-42.",
            "It is in src/auth/jwt.py somewhere.",
            "Call getUserById(7) first.",
            "Set max_retry_count to 5.",
            "The port was closed.",
            "We met in Zürich.",
            "明日の会議は三時です",
            "Done 👩\u200d🚀",
            "Dates are as in ISO8601.",
            "A vault has a door.",
            "Thanks, that is all.",
        )
        assert turns(await session.search(query))[0] == turn

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_something_is_found_by_its_meaning_where_no_word_is_the_same(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await filled(fov, "My dog had puppies last night.", "The invoice is overdue.", "It rained all day.")
        assert turns(await session.search("unpaid bill payment late", 1)) == ["T-2"]

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_what_is_far_from_everything_is_not_found(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await filled(fov, "The albatross nests on pier 9.")
        assert await session.search("walrus") == []
        assert await session.search("zzqx-77 qqwv") == []

    asyncio.run(with_store(tmp_path / "chat.db", job))


@pytest.mark.parametrize("query", ["", "  \n"])
def test_an_empty_query_is_an_error(query: str, tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await filled(fov, "Hello")
        with pytest.raises(InputError, match="the search is empty"):
            await session.search(query)
        with pytest.raises(InputError, match="max_results is 0"):
            await session.search("hello", 0)
        with pytest.raises(InputError, match="role is 'ghost'"):
            await session.search("hello", role="ghost")

    asyncio.run(with_store(tmp_path / "chat.db", job))


@pytest.mark.databases
def test_filters_leave_out_what_is_not_asked_for(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        for is_settled in (False, True):
            session = await fov.session(f"s{is_settled}")
            await session.record([user("The pump on dock 4"), assistant("A pump, I see.")], at="2026-01-01T10:00:00Z")
            await session.record(
                [user("Read the log of src/pump.py"), *tool_step(1, "pump failed", name="grep")], at="2026-02-01"
            )
            await session.record([user("The pump again"), *tool_step(1, "pump ok", name="cat")], at="2026-03-01")
            if is_settled:
                await fov.settle()
            assert sorted(turns(await session.search("pump"))) == ["T-1", "T-2", "T-3"]
            assert turns(await session.search("pump", role="assistant")) == ["T-1"]
            assert turns(await session.search("pump", tool="grep")) == ["T-2"]
            assert turns(await session.search("pump", tool="GREP", role="tool")) == ["T-2"]
            assert sorted(turns(await session.search("pump", after="2026-02-01"))) == ["T-2", "T-3"]
            assert turns(await session.search("pump", before="2026-02-01")) == ["T-1"]
            assert turns(await session.search("pump", file="pump.py")) == ["T-2"]
            assert await session.search("pump", file="other.py") == []
            (found,) = await session.search("failed", tool="grep")
            assert (found.role, found.tool, found.at.month) == ("tool", "grep", 2)

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_turns_that_nobody_has_indexed_yet_are_found(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        await session.record([user("The narwhal code is 4711.")])
        assert turns(await session.search("narwhal")) == ["T-1"]
        await session.record([assistant("And the walrus has none.")])
        assert turns(await session.search("walruses")) == ["T-1"]
        for number in range(50):
            await session.record([user(f"Talk number {number}")])
        assert turns(await session.search("49"))[0] == "T-51"

    asyncio.run(with_store(tmp_path / "chat.db", job, load_settings(environment={}, overrides=BACKGROUND_OFF)))


def test_an_open_turn_is_found_as_it_is_now_and_once(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await filled(fov, "The narwhal code is 4711.")
        await session.record([assistant("Noted, narwhal.")])
        assert turns(await session.search("narwhal")) == ["T-1"]
        assert turns(await session.search("noted")) == ["T-1"]
        await fov.settle()
        assert turns(await session.search("narwhal noted")) == ["T-1"]

    asyncio.run(with_store(tmp_path / "chat.db", job))


@pytest.mark.databases
def test_what_another_process_writes_or_takes_away_is_noticed(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await filled(fov, "An old zebra")
        assert turns(await session.search("zebra")) == ["T-1"]
        async with foveate.open(tmp_path / "chat.db", settings=engine.settings()) as other:
            same = await other.session("s")
            await same.record([user("A new walrus")], at="2030-01-01")
            await other.settle()
            assert turns(await session.search("walrus")) == ["T-2"]
            await same.record([user("Open")], at="2030-01-01")
            await other.prune("s", before="2029-01-01", dry_run=False)
        assert await session.search("zebra") == []
        assert turns(await session.search("walrus")) == ["T-2"]

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_session_of_the_same_name_as_a_deleted_one_has_nothing_of_it(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await filled(fov, "A zebra")
        assert await session.search("zebra")
        await fov.delete_session("s")
        session = await filled(fov, "A walrus")
        assert await session.search("zebra") == []
        assert turns(await session.search("walrus")) == ["T-1"]

    asyncio.run(with_store(tmp_path / "chat.db", job))


@pytest.mark.databases
def test_all_sessions_are_searched_and_shared_turns_told_once(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await filled(fov, "The zebra crossing", "Other talk")
        fork = await session.fork("f", 1)
        await fork.record([user("A zebra of the fork")])
        await filled(fov, "No animals at all", name="other")
        found = await fov.search("zebra")
        assert sorted((each.session_id, each.turn_id) for each in found) == [("f", "T-2"), ("s", "T-1")]
        assert sorted(turns(await fov.search("zebra", session_id="f", max_results=5))) == ["T-1", "T-2"]

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_passages_of_another_model_are_found_by_their_words(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await filled(fov, "My dog had puppies last night.", "The invoice is overdue.")
        with closing(sqlite3.connect(tmp_path / "chat.db")) as connection, connection:
            connection.execute("UPDATE passages SET digest = NULL, maker = '1 another'")
        assert (await fov.index_state()).missing == 2
        assert turns(await session.search("invoices")) == ["T-2"]
        assert await session.search("unpaid bill payment late") == []
        seen: list[int] = []
        await fov.rebuild_index(seen.append)
        assert sum(seen) == 2
        assert (await fov.index_state()).missing == 0
        assert turns(await session.search("unpaid bill payment late", 1)) == ["T-2"]

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_an_index_older_than_the_store_is_made_when_something_is_settled(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await filled(fov, *[f"Talk of the heron {number}" for number in range(70)])
        await session.engine.store.passages.clear()
        assert len(await session.search("heron", 100)) == 32
        await fov.settle()
        assert len(await session.search("heron", 100)) == 70
        assert await session.engine.store.passages.unindexed() == []

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_words_in_almost_every_passage_do_not_hide_the_one_that_tells(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        for start in range(0, 300, 100):
            said = [user(f"The heron report {number} is in.") for number in range(start, start + 100)]
            await session.record(said)
        await session.record([user("The heron report on quinoa is missing.")])
        await session.record([user("Thanks.")])
        await fov.settle()
        assert turns(await session.search("heron report quinoa", 1)) == ["T-301"]
        assert len(await session.search("heron", 5)) == 5

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_the_same_search_gives_the_same_answer(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> list[Hit]:
        session = await filled(fov, *[f"Note {number}: the pump on dock {number % 7} leaks." for number in range(40)])
        first = await session.search("Which dock has a leaking pump?", 20)
        assert await session.search("Which dock has a leaking pump?", 20) == first
        return first

    async def run() -> None:
        one = await with_store(tmp_path / "one.db", job)
        two = await with_store(tmp_path / "two.db", job)
        assert turns(one) == turns(two)
        assert [each.keyword for each in one] == [each.keyword for each in two]

    asyncio.run(run())


@few
@given(
    query=st.text(max_size=300)
    | st.sampled_from(['"', "AND", "NEAR(a b)", "text:x", "a*", "\x00", "\ud800", "x" * 100_000, "the of", "'; DROP"])
)
def test_no_query_ever_fails(query: str, shared_session: tuple[asyncio.Runner, Session]) -> None:
    runner, session = shared_session
    if query.strip():
        runner.run(session.search(query))
        runner.run(session.call_tool("search_history", {"query": query}))


@few
@given(said=st.text(st.sampled_from(ALPHABET), min_size=1, max_size=200))
def test_every_word_of_a_recorded_turn_finds_it(said: str, shared_session: tuple[asyncio.Runner, Session]) -> None:
    runner, session = shared_session
    recorded = runner.run(session.record([Message("user", (Text(f"Said: {said}"),))]))
    for is_indexed in (False, True):
        if is_indexed:
            runner.run(session.engine.shared.worker.settle([session.id]))
        for word in re.findall(r"[^\W_](?:[^\W_]|\u0301)*", said)[:5]:
            assert recorded.id in turns(runner.run(session.search(word, 1_000))), word


@pytest.fixture(scope="module")
def shared_session(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    """One session that generated cases share; what they record stays in it."""
    given = load_settings(environment={}, overrides=BACKGROUND_OFF)
    with asyncio.Runner() as runner:
        fov = runner.run(_opened(tmp_path_factory.mktemp("shared") / "chat.db", given))
        session = runner.run(fov.session("s"))
        runner.run(session.record([user("The port is 8443."), assistant("Noted.")]))
        yield runner, session
        runner.run(fov.close())


async def _opened(path: Path, given: foveate.Settings) -> Foveate:
    return await foveate.open(path, settings=given)


@pytest.fixture
def rows_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each statement of an index read."""
    counts: list[int] = []
    of_statement = passages._intact_rows

    def counted(*given: Any) -> Any:
        found = list(of_statement(*given))
        counts.append(len(found))
        return found

    monkeypatch.setattr("foveate.store.passages._intact_rows", counted)
    return counts


def test_an_index_is_loaded_once_for_all_who_wait_and_by_none_that_gives_up(
    tmp_path: Path, rows_read: list[int]
) -> None:
    async def job(fov: Foveate) -> None:
        session = await filled(fov, *(f"Site {number} is in harbour {number}." for number in range(20)))
        index = index_of(session)
        rows_read.clear()
        hasty = asyncio.create_task(index.look(Query.of("harbour")))
        await asyncio.sleep(0)
        hasty.cancel()
        await asyncio.gather(*(index.look(Query.of(f"site {number}")) for number in range(5)))
        assert sum(rows_read) == 20

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_what_comes_after_a_look_counts_the_next_time(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await filled(fov, "The heron nests on pier 9.", "It rained all day.")
        index, asked = index_of(session), "Where does the heron nest?"
        look, vector = await index.look(Query.of(asked)), await index.embed(asked)
        await session.record([user("The heron moved to pier 4.")])
        await fov.settle()
        later = await index.look(Query.of(asked))
        for seen, turns_seen in ((look, {1, 2}), (later, {1, 2, 3})):
            measured = seen.measured(await index.compare(seen, vector))
            assert set(measured.passages.turn.tolist()) == turns_seen
            assert measured.words
            assert measured.vectors
            assert len(measured.words.values) == len(measured.vectors.values) == len(measured.passages.key)

    asyncio.run(with_store(tmp_path / "chat.db", job))


@pytest.mark.parametrize("is_local", [True, False])
def test_turns_that_are_not_indexed_have_scores_by_words_and_by_vectors_of_a_local_model(
    tmp_path: Path, *, is_local: bool
) -> None:
    async def job(fov: Foveate) -> None:
        session = await filled(fov, "It rained all day.", "The invoice is overdue.")
        await session.engine.store.passages.clear()
        index, asked = index_of(session), "unpaid bill payment late, all day"
        index.embedder.is_local = is_local
        measured = (look := await index.look(Query.of(asked))).measured(
            await index.compare(look, await index.embed(asked))
        )
        assert measured.words
        assert measured.vectors
        assert measured.passages.turn[measured.words.values.argmax()] == 1
        assert (measured.vectors.values.max() > measured.vectors.values.min()) == is_local

    asyncio.run(with_store(tmp_path / "chat.db", job))


@pytest.mark.databases
def test_an_index_loaded_in_parts_finds_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_read: list[int]
) -> None:
    async def job(fov: Foveate) -> None:
        session = await filled(fov, *(f"Site {number} is in harbour {number % 7}." for number in range(20)))
        whole = await index_of(session).scores("harbour 3")
        monkeypatch.setattr("foveate.recall.index.LOADED_ROWS", 3)
        index = index_of(session)
        rows_read.clear()
        index._table = index._new_table()
        parts = await index.scores("harbour 3")
        assert max(rows_read) == 3
        assert (parts.turn.tolist(), parts.keyword.tolist()) == (whole.turn.tolist(), whole.keyword.tolist())

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_glance_finds_the_best_passage_and_reads_few_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_read: list[int]
) -> None:
    monkeypatch.setattr("foveate.recall.index.GLANCED_TURNS", 10)

    async def job(fov: Foveate) -> None:
        told = [f"Batch {number} went through, nothing of note." for number in range(60)]
        told[20] = "The harbour master keeps the spare key on hook KH-731."
        session = await filled(fov, *told)
        index = index_of(session)
        rows_read.clear()
        asked = "Which hook has the spare key?"
        look = await index.glance(Query.of(asked), 60)
        glanced = look.measured(await index.compare(look, await index.embed(asked)))
        assert not index.is_loaded
        assert sum(rows_read) <= 12
        look = await index.look(Query.of(asked))
        full = look.measured(look.scores)
        assert glanced.words
        assert full.words
        for scores, own in ((glanced.words, glanced), (glanced.vectors, glanced), (full.words, full)):
            assert scores
            assert own.passages.turn[scores.values.argmax()] == 21
        assert fuse(glanced.words, None).max() == pytest.approx(fuse(full.words, None).max(), rel=0.05)

    asyncio.run(with_store(tmp_path / "chat.db", job))
