"""`search_history` as a model uses it: dated hits, filters, lists by time, neighbours, copies and pages."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from foveate import Foveate, Session
from foveate.context.tools import MAX_RESULTS
from foveate.session.found import MAX_ANSWER_CHARS
from foveate.turn import Message, Text
from support.engine import assistant, settings, user, with_store


def on(day: str, role: str, text: str) -> Message:
    return Message(role, (Text(text),), at=datetime.fromisoformat(f"{day}T10:00:00+00:00"))  # type: ignore[arg-type]


async def diary(fov: Foveate, name: str = "s") -> Session:
    """A session of some months, one turn a line."""
    session = await fov.session(name)
    for day, text in (
        ("2022-09-03", "I started running: 2 km today."),
        ("2022-10-10", "I bought a grey coat for 80 euros."),
        ("2023-01-29", "Running again: 5 km in 31 minutes."),
        ("2023-05-04", "My garden has 12 roses now."),
        ("2023-05-31", "I ran 8 km while running with Tom."),
        ("2023-06-14", "It rains."),
    ):
        await session.record([on(day, "user", text), on(day, "assistant", "Noted.")])
    await fov.settle()
    return session


async def found(session: Session, **arguments: object) -> str:
    return await session.call_tool("search_history", arguments)


def turns(answer: str) -> list[str]:
    return re.findall(r"^(T-\d+) · ", answer, re.MULTILINE)


def test_every_hit_has_its_date_and_its_speaker(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await diary(fov)
        assert (await found(session, query="roses")).startswith(
            "T-4 · 4 May 2023 · user: My garden has 12 roses now.\n"
        )
        for line in (await found(session, query="running km", max_results=50)).splitlines():
            assert re.match(r"T-\d+ · \d{1,2} [A-Z][a-z]+ \d{4} · (user|assistant): ", line), line

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_every_turn_that_is_read_has_its_date(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await diary(fov)
        one = await session.call_tool("get_turn", {"turn_id": "T-4"})
        assert one.startswith("T-4 · 4 May 2023\n<T-4-R>")
        some = await session.call_tool("get_turns", {"first": "T-4", "last": "T-6", "level": "R"})
        assert some.startswith("T-4 · 4 May 2023; T-5 · 31 May 2023; T-6 · 14 June 2023\n<T-4-through-6-R>")
        topic = await session.call_tool("get_turns_by_topic", {"topic": "roses", "level": "R"})
        assert "T-4 · 4 May 2023\n<T-4-R>" in topic
        assert "T-4 · 4 May 2023\n<T-4-R>" in (await session.context("And?")).text, "on the board too"
        page = await session.read_page(1, 3, "R")
        assert page.days == "T-1 · 3 September 2022; T-2 · 10 October 2022; T-3 · 29 January 2023\n"

    asyncio.run(with_store(tmp_path / "chat.db", job))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"after": "2023-01-01"}, ["T-3", "T-5"]),
        ({"after": "January 2023", "before": "May 2023"}, ["T-3"]),
        ({"before": "last year"}, []),
        ({"after": "September 2022", "before": "September 2022"}, ["T-1"]),
        ({"after": "2 weeks ago"}, ["T-5"]),
        ({"after": "vor zwei Wochen"}, ["T-5"]),
        ({"before": "janvier 2023"}, ["T-1"]),
        ({"after": "mayo de 2023"}, ["T-5"]),
        ({"role": "assistant"}, []),
        ({"role": "user", "before": "29 January 2023"}, ["T-1"]),
    ],
)
def test_dates_in_words_and_roles_filter_a_search(
    arguments: dict[str, str], expected: list[str], tmp_path: Path
) -> None:
    async def job(fov: Foveate) -> None:
        session = await diary(fov)
        assert sorted(turns(await found(session, query="running", max_results=50, **arguments))) == expected

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_time_in_the_query_puts_its_turns_first(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await diary(fov)
        assert turns(await found(session, query="running in September 2022"))[0] == "T-1"
        assert turns(await found(session, query="running last January"))[0] == "T-3"
        assert turns(await found(session, query="running last May"))[0] == "T-5"

    asyncio.run(with_store(tmp_path / "chat.db", job))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("May 2023", ["T-4", "T-5"]),
        ("last May", ["T-4", "T-5"]),
        ("the first week of May", ["T-4"]),
        ("today", ["T-6"]),
    ],
)
def test_a_query_that_only_names_a_time_finds_the_turns_of_that_time(
    query: str, expected: list[str], tmp_path: Path
) -> None:
    async def job(fov: Foveate) -> None:
        assert turns(await found(await diary(fov), query=query)) == expected

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_date_that_was_mentioned_is_found_whenever_that_was(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await diary(fov)
        await session.record([on("2023-06-15", "user", "The lease ends on 3 February 2031, signed on 4 May 2023.")])
        await fov.settle()
        assert turns(await found(session, query="3 February 2031")) == ["T-7"]
        assert turns(await found(session, query="4 May 2023")) == ["T-7", "T-4"]

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_speaker_is_found_by_the_name_that_messages_begin_with(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        for name, text in (
            ("Anna", "the keys are in the shed"),
            ("Ben Berg", "the keys are lost"),
            ("Anna", "it rains"),
        ):
            await session.record([user(f"{name}: {text}"), assistant("Anna: keys, noted.")])
        await fov.settle()
        assert turns(await found(session, query="keys", speaker="anna", role="user")) == ["T-1"]
        assert turns(await found(session, query="keys", speaker="Ben")) == ["T-2"]
        assert turns(await found(session, order="time", speaker="Anna", role="user")) == ["T-1", "T-3"]
        answer = await found(session, query="keys", speaker="Carl")
        assert answer == "Nothing was found for 'keys'; leave out speaker, or use other words.\n"

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_list_by_time_has_one_dated_line_for_each_turn_oldest_first(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await diary(fov)
        assert await found(session, query="running", order="time", role="user") == (
            "T-1 · 3 September 2022 · user: I started running: 2 km today.\n"
            "T-3 · 29 January 2023 · user: Running again: 5 km in 31 minutes.\n"
            "T-5 · 31 May 2023 · user: I ran 8 km while running with Tom.\n"
        )
        every = await found(session, order="time", role="user")
        assert turns(every) == [f"T-{number}" for number in range(1, 7)]
        assert turns(await found(session, order="time", after="2023-01-01", before="June 2023")) == [
            "T-3",
            "T-4",
            "T-5",
        ]

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_list_of_all_turns_has_them_at_level_t_where_it_is_made(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await diary(fov)
        answer = await found(session, order="time")
        for line, turn in zip(answer.splitlines(), range(1, 7), strict=True):
            tiny = (await session.get_turn(turn, "T", format="plain")).content
            assert re.fullmatch(rf"T-{turn} · \d+ \w+ 202[23]: {re.escape(' '.join(tiny.split()))}", line)

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_line_of_a_list_keeps_what_was_stated_and_its_numbers(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        filler = "The weather was as it mostly is at this time of the year, and nobody minded it very much. " * 5
        await session.record([user(f"{filler}My new rent is 1,250 euros a month. {filler}"), assistant("Noted.")])
        await fov.settle()
        answer = await found(session, order="time", role="user")
        assert "My new rent is 1,250 euros a month." in answer

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_list_has_every_turn_that_names_what_is_looked_for(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        others = "I met him at the film festival and I'm not sure how to include him; can you help me figure it out?"
        for number in range(40):
            await session.record(
                [user(f"I've known Douglas for {number} years. {others * (number % 3)}"), assistant("Ok.")]
            )
            await session.record([user("Douglas, Douglas."), assistant("Who?")])
        await fov.settle()
        listed = [
            turn
            for page in (1, 2, 3)
            for turn in turns(await found(session, query="Douglas", order="time", role="user", page=page))
        ]
        assert listed == [f"T-{number}" for number in range(1, 81)]

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_pages_of_a_list_have_every_turn_once_and_name_the_next_call(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await diary(fov)
        first = await found(session, query="", order="time", role="user", max_results=4)
        again = 'page 1; next: search_history("", role="user", order="time", max_results=4, page=2)\n'
        assert first.endswith(again)
        second = await found(session, query="", order="time", role="user", max_results=4, page=2)
        assert turns(first) + turns(second) == [f"T-{number}" for number in range(1, 7)]
        assert "next" not in second
        assert await found(session, order="time", max_results=4, page=3) == "There is no page 3.\n"

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_pages_of_a_search_have_every_hit_once(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        for number in range(7):
            await session.record([user(f"The zebra number {number} is fed."), assistant("Noted.")])
        await fov.settle()
        pages = [await found(session, query="zebra", max_results=3, page=page) for page in (1, 2, 3)]
        assert [len(turns(page)) for page in pages] == [3, 3, 1]
        assert len({turn for page in pages for turn in turns(page)}) == 7
        assert pages[0].endswith('page 1; next: search_history("zebra", max_results=3, page=2)\n')
        assert await found(session, query="zebra", page=9) == "There is no page 9.\n"

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_question_brings_its_reply_and_a_reply_its_question(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        await session.record([user("Which port has the ledger service?"), assistant("It listens on 8443.")])
        await session.record([user("What colour shall the door get?"), assistant("Paint it teal.")])
        await session.record([user("It rains."), assistant("Noted.")])
        await fov.settle()
        question = await found(session, query="ledger service ports")
        assert "user: Which port has the ledger service?\n  reply: It listens on 8443.\n" in question
        reply = await found(session, query="paint teal")
        assert "assistant: Paint it teal.\n  question: What colour shall the door get?\n" in reply

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_the_reply_of_a_turn_that_a_fork_does_not_share_is_not_shown(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        await session.record([user("Which port has the ledger service?")])
        await session.record([user("It is the secret 8443.")])
        await fov.settle()
        fork = await session.fork("f", "T-1")
        await fork.record([user("Never mind.")])
        assert "8443" not in await found(fork, query="ledger service port")

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_copies_are_shown_once_with_the_other_turns(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        for text in (
            "The pump in hall 3 leaks.",
            "The pump in hall 3 leaks!",
            "The pump in hall 4 leaks.",
            "It rains.",
        ):
            await session.record([user(text), assistant("Noted.")])
        await fov.settle()
        answer = await found(session, query="pump leaks")
        assert len(turns(answer)) == 2
        assert re.search(r"hall 3 leaks[.!]\n  also T-[12]\n", answer)

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_what_a_model_always_says_does_not_crowd_out_what_the_user_stated(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        items = "\n".join(f"- marathon training tip number {number}: marathon plan" for number in range(6))
        for number in range(6):
            await session.record(
                [user(f"Tell me more, part {number}."), assistant("Sure! Here is your marathon plan:")]
            )
            await session.record([user(f"And again {number}."), assistant(f"Ideas {number}:\n{items}")])
        await session.record([user("My marathon plan has 3 runs a week, the longest is 18 km."), assistant("Noted.")])
        await fov.settle()
        assert turns(await found(session, query="marathon plan"))[0] == "T-13"

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_standing_order_is_found_by_what_it_is_about(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        await session.record([user("Always add the exchange rate when I ask about prices."), assistant("I will.")])
        for number in range(8):
            await session.record(
                [user(f"The prices of lot {number} and lot 1{number}: prices went up."), assistant("Ok.")]
            )
        await fov.settle()
        assert turns(await found(session, query="prices of the lots"))[0] == "T-1"

    asyncio.run(with_store(tmp_path / "chat.db", job))


@pytest.mark.parametrize("order", ["relevance", "time"])
@pytest.mark.parametrize("results", [1, 5, MAX_RESULTS])
def test_an_answer_stays_within_its_size(order: str, results: int, tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        for number in range(60):
            text = f"Zebra {number}. " + " ".join(f"word{number}x{place}" for place in range(400))
            await session.record([user(text), assistant(f"What about zebra {number}? {text}")])
        await fov.settle()
        answer = await found(session, query="zebra", order=order, max_results=results)
        assert len(turns(answer)) == results
        assert len(answer) <= MAX_ANSWER_CHARS * 1.25

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_the_same_store_gives_the_same_answer(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await diary(fov)
        for arguments in ({"query": "running"}, {"order": "time"}, {"query": "2 weeks ago"}):
            assert await found(session, **arguments) == await found(session, **arguments)

    asyncio.run(with_store(tmp_path / "chat.db", job))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"query": "x", "after": "someday"}, "'someday' is not a time; use 2026-11-15, 7d, yesterday, last May"),
        ({"query": "x", "after": "May 2023", "before": "April 2023"}, "no time is between them; exchange them"),
        ({}, 'query is missing; give words, or order="time" to list turns by date'),
    ],
)
def test_a_wrong_search_says_what_to_do(arguments: dict[str, str], problem: str, tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        answer = await found(await diary(fov), **arguments)
        assert answer.startswith("Error: ")
        assert problem in answer

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_library_calls_list_by_time_and_filter_by_speaker_too(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await diary(fov)
        hits = await session.search("", order="time", after="2023-01-01")
        assert [hit.turn_id for hit in hits] == ["T-3", "T-4", "T-5", "T-6"]
        assert [hit.turn_id for hit in await fov.search("running", order="time")] == ["T-1", "T-3", "T-5"]
        assert hits[1].day == "4 May 2023"
        assert hits[1].at == datetime(2023, 5, 4, 10, tzinfo=UTC)
        assert await session.search("running", speaker="Anna") == []

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_list_says_how_many_turns_are_not_indexed_yet(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        for number in range(40):
            await session.record([user(f"The zebra number {number} is fed."), assistant("Noted.")])
        answer = await found(session, order="time", max_results=500)
        assert len(turns(answer)) == MAX_RESULTS
        assert "8 older turns not indexed yet and not listed; get_turns reads them.\n" in answer

    asyncio.run(with_store(tmp_path / "chat.db", job, settings(compress={"enabled": False})))
