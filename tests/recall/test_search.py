"""What a search puts first, in one session and over all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from foveate import Foveate, Session
from foveate.errors import InvalidMessage
from foveate.recall.choice import BATCH
from foveate.recall.dates import parse_moment
from foveate.recall.embed.static import StaticEmbedder
from foveate.recall.index import Index
from foveate.recall.search import Hit
from foveate.store.sql import Connection
from support.engine import assistant, tool_step, user, with_store

QUESTION = "Which port has the storage?"
NOW = datetime(2026, 11, 15, 12, 30, tzinfo=UTC)


def places(found: list[Hit]) -> list[tuple[str, str]]:
    return [(each.session_id, each.turn_id) for each in found]


async def filled(fov: Foveate, name: str, *texts: str) -> Session:
    session = await fov.session(name)
    await session.record([message for text in texts for message in (user(text), assistant("Noted."))])
    await fov.settle()
    return session


def test_a_big_unrelated_session_does_not_come_before_the_one_that_answers(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        await filled(fov, "big", *[f"Ship {n} left the harbour." for n in range(300)], "An invoice came.")
        await filled(fov, "small", "The invoice for the printer repair is overdue.", "The printer jams.")
        assert places(await fov.search("invoice for the printer repair"))[0] == ("small", "T-1")
        scores = [each.score for each in await fov.search("invoice for the printer repair")]
        assert scores == sorted(scores, reverse=True)

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_search_over_all_sessions_reads_the_rows_of_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unexpected(*_: object, **__: object) -> None:
        raise AssertionError("a store may have many sessions")

    async def job(fov: Foveate) -> None:
        await filled(fov, "a", "The zebra is fed.")
        monkeypatch.setattr(fov._store, "list_sessions", unexpected)
        assert places(await fov.search("zebra")) == [("a", "T-1")]

    asyncio.run(with_store(tmp_path / "chat.db", job))


@pytest.mark.databases
def test_a_search_over_some_sessions_finds_only_theirs_indexed_or_not(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        for name in ("a", "b", "c"):
            await filled(fov, name, f"The zebra of {name} is fed.")
        assert sorted(places(await fov.search("zebra", session_ids=["a", "c"]))) == [("a", "T-1"), ("c", "T-1")]
        for name in ("a", "b"):
            await (await fov.session(name)).record([user(f"The quagga of {name} is fed.")])
        assert places(await fov.search("quagga", session_ids={"b", "unknown"})) == [("b", "T-2")]
        assert await fov.search("zebra", session_ids=[]) == []

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_copies_of_the_question_do_not_crowd_out_the_answer(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        asked = [QUESTION, "Do you remember which port the storage has?", "which port has the storage"]
        session = await filled(fov, "s", "The storage port is 9000.", *asked * 20)
        for query in (QUESTION, "storage port", "which port has the storage"):
            assert places(await session.search(query, 3))[0] == ("s", "T-1"), query
            assert places(await fov.search(query, 3))[0] == ("s", "T-1"), query

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_question_without_any_other_match_is_found(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await filled(fov, "s", "It rained all day.", QUESTION)
        assert places(await session.search(QUESTION)) == [("s", "T-2")]

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_the_same_words_said_again_are_listed_last(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await filled(fov, "s", "The pump leaks.", "The pump leaks.", "The pump is loud.")
        assert places(await session.search("pump leaks")) == [("s", "T-2"), ("s", "T-3"), ("s", "T-1")]

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_texts_of_copies_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    texts = Index.texts

    def noted(index: Index, connection: Connection, keys: Sequence[int]) -> Any:
        read.extend(keys)
        return texts(index, connection, keys)

    async def job(fov: Foveate) -> None:
        answers = [f"The ferry number {number} leaves at {number} o'clock from pier {number}." for number in range(8)]
        await filled(fov, "s", *["The ferry leaves when it is full."] * 60, *answers)
        await fov.settle()
        monkeypatch.setattr(Index, "texts", noted)
        found = await fov.search("when does the ferry leave", 8, session_id="s")
        assert len({hit.text for hit in found}) == 8
        assert len(read) <= BATCH + 2 * len(found)  # and the passages before and behind each

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_model_that_searches_does_not_get_its_own_prompt_first(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await filled(fov, "s", "We moved the storage. It listens on port 9000 now.", "It rained.")
        await session.record([user("Please find out for me which port the storage had, would you?")])
        answer = await session.call_tool("search_history", {"query": "storage port"})
        assert answer.startswith("T-1 · ")

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_what_people_said_comes_before_tool_output(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        said = "The storage port is 9000, and it stays so until the whole cluster has been moved to the new racks."
        await session.record([user(said)])
        for number in range(5):
            await session.record([user("Look."), *tool_step(number, f"storage port {number}", name="grep")])
        await fov.settle()
        found = await session.search("storage port")
        assert (found[0].turn_id, found[0].role) == ("T-1", "user")
        assert {each.role for each in found[1:]} == {"tool"}

    asyncio.run(with_store(tmp_path / "chat.db", job))


@pytest.mark.parametrize("query", ["zzqx flumph", "asdkjh qweoiu", "qwertyuiop", "xkcdvb mnbvcx hjkl"])
def test_nonsense_finds_nothing(query: str, tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        await filled(fov, "s", "hm", "ok", "ah", "No clue.", "The vhost xkcd is up.", "uh oh")
        assert await fov.search(query) == []

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_model_knows_a_text_if_half_of_its_words_are_in_its_vocabulary() -> None:
    knows = StaticEmbedder().knows
    assert knows("unpaid bill payment late")
    assert knows("Which harbour is it?")
    assert not knows("zzqx flumph")
    assert knows("the of")


@pytest.mark.databases
def test_what_is_deleted_or_pruned_is_gone_from_a_search_over_all(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        await filled(fov, "a", "A zebra")
        await filled(fov, "b", "Another zebra")
        assert sorted(places(await fov.search("zebra"))) == [("a", "T-1"), ("b", "T-1")]
        await fov.delete_session("b")
        assert places(await fov.search("zebra")) == [("a", "T-1")]
        await filled(fov, "b", "A walrus")
        assert places(await fov.search("zebra")) == [("a", "T-1")]
        assert places(await fov.search("walrus")) == [("b", "T-1")]

    asyncio.run(with_store(tmp_path / "chat.db", job))


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("7d", datetime(2026, 11, 8, 12, 30, tzinfo=UTC)),
        ("12 hours ago", datetime(2026, 11, 15, 0, 30, tzinfo=UTC)),
        ("30min", datetime(2026, 11, 15, 12, 0, tzinfo=UTC)),
        ("2w", datetime(2026, 11, 1, 12, 30, tzinfo=UTC)),
        ("yesterday", datetime(2026, 11, 14, tzinfo=UTC)),
        ("Today", datetime(2026, 11, 15, tzinfo=UTC)),
        ("last month", datetime(2026, 10, 1, tzinfo=UTC)),
        ("2026-11-01", datetime(2026, 11, 1, tzinfo=UTC)),
    ],
)
def test_a_moment_is_a_date_or_counted_back_from_now(text: str, moment: datetime) -> None:
    assert parse_moment(text, NOW, path="after") == moment


@pytest.mark.parametrize("text", ["soon", "7", "99999999y", "999999 years", ""])
def test_what_is_no_moment_is_rejected_with_what_is(text: str) -> None:
    with pytest.raises(InvalidMessage, match="is not a time; use 2026-11-15"):
        parse_moment(text, NOW, path="after")


TALK = (
    "They pay me 4,200 a month before taxes.",
    "The nightly export fails since the disk is full.",
    "Please rename the column to created_at before Friday.",
    "The red line marks the release that broke the login.",
    "We meet on Tuesday at ten to review the budget.",
)


def test_a_word_that_no_turn_has_finds_the_turn_that_says_it_differently(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        await filled(fov, "s", *TALK)
        assert places(await fov.search("salary"))[:1] == [("s", "T-1")]
        assert await fov.search("volcano") == []

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_word_that_turns_have_is_not_diluted_by_what_is_only_a_little_alike(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        await filled(fov, "s", *TALK, "My salary comes on the third.")
        assert places(await fov.search("salary")) == [("s", "T-6")]

    asyncio.run(with_store(tmp_path / "chat.db", job))
