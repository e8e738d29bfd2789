"""The history tools end to end, as a model uses them, and what they leave on the board."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

import foveate
from bulk import load, said_in
from foveate import Foveate, Session
from foveate.context.tags import TagBlock, parse_blocks
from foveate.context.tools import RANGE_LEVELS
from foveate.errors import InputError, LevelNotReady, LevelUnknown, TurnNotFound
from foveate.events import Event
from foveate.renditions import LEVELS
from foveate.text import turn_text
from foveate.worker.renditions import unpack_units
from support.engine import assistant, settings, talk, tool_step, user, verified, with_store


def blocks_of(answer: str) -> list[TagBlock]:
    """The blocks behind the lines with page, parts and dates."""
    return parse_blocks(answer[answer.index("<T-") :])


async def names(session: Session) -> list[str]:
    return [entry.name for entry in (await session.board()).retrieved]


def test_get_turn_gives_each_level_in_its_tag(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        await talk(session, 3)
        await fov.settle()
        for level in LEVELS:
            (block,) = blocks_of(await session.call_tool("get_turn", {"turn_id": "T-2", "level": level}))
            plain = (await session.get_turn(2, level, format="plain")).content
            assert (block.first, block.level, block.entries[0].text) == (2, level, plain)

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_get_turn_gives_a_large_turn_page_by_page_to_the_letter(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s", budget_tokens=4_000)
        said = "".join(f"line {number} of the log\n" for number in range(400))
        await session.record([user("Show the log."), *tool_step(1, said)])
        pages: list[str] = []
        while True:
            asked = {"turn_id": "T-1", "page": len(pages) + 1}
            answer = await session.call_tool("get_turn", asked)
            pages.append("".join(entry.text for block in blocks_of(answer) for entry in block.entries))
            if answer.startswith(f"Page {len(pages)} of {len(pages)}."):
                break
            again = f'; next: get_turn("T-1", "R", page={len(pages) + 1})'
            assert answer.partition("\n")[0].endswith(again)
        assert len(pages) > 3
        assert "".join(pages) == turn_text((await session.load_turn(1)).messages)
        await verified(session)

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_long_answer_begins_with_an_outline_of_its_parts_and_their_pages(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s", budget_tokens=6_000)
        text = "# Setup\n" + "Install it first.\n" * 150 + "# Use </T-1-R>\n" + "Call it then.\n" * 150
        await session.record([user("Explain it."), assistant(f"So.\n{text}")])
        first = await session.call_tool("get_turn", {"turn_id": "T-1"})
        head = first[: first.index("<T-1-R>")]
        pages = int(head.split("Page 1 of ")[1].split(";")[0])
        assert pages > 2
        found = re.search(
            r"Parts: user: Explain it\. \(page 1\); assistant: So\. \(page 1\); Setup \(page 1\); "
            r"Use <\\/T-1-R> \(page (\d)\)\n",
            head,
        )
        assert found
        asked = {"turn_id": "T-1", "page": int(found[1])}
        again = await session.call_tool("get_turn", asked)
        assert "# Use" in again
        assert "Parts: " not in again
        await verified(session)

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_pages_of_turns_name_the_call_for_the_next_one(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s", budget_tokens=4_000)
        await talk(session, 40, words=40)
        await fov.settle()
        answer = await session.call_tool("get_turns", {"first": "T-1", "last": "T-40", "level": "R"})
        assert re.match(r'Page 1 of \d+; next: get_turns\("T-1", "T-40", "R", page=2\)\n', answer)
        answer = await session.call_tool("get_turns_by_topic", {"topic": "word1x1", "level": "R"})
        assert "Page 1 of" not in answer or 'next: get_turns_by_topic("word1x1", "R", page=2)\n' in answer
        wrong = await session.call_tool("get_turns", {"first": "T-5", "last": "T-1"})
        assert wrong == "Error: get_turns: first is T-5, which comes after last, T-1; exchange them\n"

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_page_that_is_only_read_is_as_a_model_gets_it_and_leaves_the_board_empty(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s", budget_tokens=100_000)
        await talk(session, 120)
        await fov.settle()
        for level in RANGE_LEVELS:
            read = await session.read_page("T-1", "T-110", level, page=2, page_tokens=2_000)
            assert (read.page, read.missing) == (min(2, read.pages), ())
            assert await names(session) == []
            blocks = parse_blocks(read.text)
            assert blocks
            assert {block.level for block in blocks} <= {level, "T"}
        with pytest.raises(LevelUnknown):
            await session.read_page(1, level="Q")  # type: ignore[arg-type]
        for first, last in ((0, 1), (121, 121), (121, 130)):
            with pytest.raises(TurnNotFound):
                await session.read_page(first, last, "E")
        with pytest.raises(InputError, match="first is T-3, which comes after last, T-2; exchange them"):
            await session.read_page(3, 2, "E")

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_get_turns_gives_a_range_in_one_block(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        await talk(session, 8)
        await fov.settle()
        for level in LEVELS:
            asked = {"first": "T-3", "last": "T-6", "level": level}
            (block,) = blocks_of(await session.call_tool("get_turns", asked))
            assert [entry.number for entry in block.entries] == [3, 4, 5, 6]
            assert (block.first, block.last, block.level) == (3, 6, level)

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_eras_open_level_by_level_down_to_the_turns(tmp_path: Path) -> None:
    async def run() -> None:
        await load(tmp_path / "chat.db", 2_100, {1_500: "The vault opens with 917204."})
        async with foveate.open(tmp_path / "chat.db", settings=settings()) as fov:
            await fov.settle(session_id="bulk")
            session = await fov.session("bulk")

            async def opened(first: int, last: int) -> list[TagBlock]:
                asked = {"first": f"T-{first}", "last": f"T-{last}", "level": "E"}
                return blocks_of(await session.call_tool("get_turns", asked))

            whole = await opened(1, 2_100)
            assert [(block.first, block.last) for block in whole[:2]] == [(1, 1_024), (1_025, 2_048)]
            assert (whole[-1].level, whole[-1].last) == ("T", 2_100)
            eras = await opened(1_025, 2_048)
            assert [block.first for block in eras] == list(range(1_025, 2_049, 32))
            assert all(block.level == "E" and block.entries[0].text for block in eras)
            (turns,) = await opened(1_473, 1_504)
            assert turns.level == "T"
            assert {entry.number: entry.text for entry in turns.entries}[1_500].startswith(
                "The vault opens with 917204."
            )

    asyncio.run(run())


def test_search_finds_turns_by_words_in_the_session_only(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        for name in ("s", "other"):
            session = await fov.session(name)
            await talk(session, 4)
            await session.record([user(f"The {name} albatross nests on pier 9.")])
            await session.record([user("Thanks.")])
        await fov.settle()
        session = await fov.session("s")
        answer = await session.call_tool("search_history", {"query": "albatross pier"})
        assert answer.startswith("T-5 · ")
        assert "other" not in answer
        assert await session.call_tool("search_history", {"query": "walrus"}) == "Nothing was found for 'walrus'.\n"
        assert await names(session) == []
        await session.record([assistant("The nest is empty.")])
        assert "T-5" in await session.call_tool("search_history", {"query": "albatross"})
        topic = await session.call_tool("get_turns_by_topic", {"topic": "albatross", "level": "R"})
        assert "nests on pier 9" in topic

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_deleted_sessions_words_are_not_found_in_another(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        await (await fov.session("gone")).record([user("A zebra crossing.")])
        await fov.settle()
        await fov.delete_session("gone")
        session = await fov.session("s")
        await session.record([user("Plain talk.")])
        await fov.settle()
        assert await session.search("zebra") == []
        assert [content.turn_id for content in await session.search("plain")] == ["T-1"]

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_what_was_retrieved_stays_on_the_board_for_five_turns(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        told: list[Event] = []
        session = await fov.session("s", budget_tokens=20_000)
        await talk(session, 3)
        with fov.subscribe(told.append, ["turn-retrieved", "board-expired"]) as subscription:
            await session.call_tool("get_turn", {"turn_id": "T-1"})
            for turn in range(4, 9):
                await talk(session, 1, first=turn)
                assert "<board>\nRetrieved (" in (await verified(session)).text
            await talk(session, 1, first=9)
            assert "<board>" not in (await verified(session)).text
            subscription.drain()
        assert [event.kind for event in told] == ["turn-retrieved", "board-expired"]

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_retrieving_again_renews_and_saving_keeps_until_dismissed(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        await talk(session, 3)
        for turn_id in ("T-1", "T-2", "T-3"):
            await session.call_tool("get_turn", {"turn_id": turn_id})
        await session.save("T-3-R")
        await talk(session, 4, first=4)
        await session.call_tool("get_turn", {"turn_id": "T-2"})
        await talk(session, 4, first=8)
        assert await names(session) == ["T-3-R", "T-2-R"]
        await talk(session, 20, first=12)
        assert await names(session) == ["T-3-R"]
        await session.dismiss("T-3-R")
        assert await names(session) == []

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_plain_library_call_leaves_the_board_alone(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        await talk(session, 3)
        await fov.settle()
        await session.get_turn(1, "C")
        await session.get_turns(1, 3, "T")
        await session.search("word1x1")
        assert await names(session) == []

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_one_off_context_changes_no_state(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s", budget_tokens=3_000)
        await talk(session, 30)
        await fov.settle()
        await session.call_tool("get_turn", {"turn_id": "T-1"})
        await session.context("Now?")
        await talk(session, 10, first=31)
        store = session.engine.store
        before = [await store.derived.plan("s", "gradient"), await store.artefacts.board("s")]
        assert all(before)
        for budget in (900, 1_500, 2_999, 3_001, 50_000):
            await verified(session, budget_tokens=budget)
        assert [await store.derived.plan("s", "gradient"), await store.artefacts.board("s")] == before

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_an_unknown_turn_an_unknown_level_and_one_not_made_yet_are_three_errors(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        await session.record([user("Hello.")])
        with pytest.raises(TurnNotFound, match="no turn T-9"):
            await session.get_turn("T-9")
        with pytest.raises(LevelUnknown, match="no level 'X'"):
            await session.get_turn(1, "X")  # type: ignore[arg-type]
        with pytest.raises(LevelNotReady, match="not made yet"):
            await session.get_turn(1, "C")
        assert "no turn T-9" in await session.call_tool("get_turn", {"turn_id": "T-9"})
        assert "level takes one of R, S, C, T" in await session.call_tool("get_turn", {"turn_id": "T-1", "level": "X"})
        assert "not made yet" in await session.call_tool("get_turn", {"turn_id": "T-1", "level": "C"})
        assert await names(session) == []

    asyncio.run(with_store(tmp_path / "chat.db", job, settings(compress={"enabled": False})))


def test_what_a_history_tool_recalled_is_kept_raw_and_never_learned_again(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        await session.record([user("The narwhal code is 4711.")])
        await session.record([user("What was the code?"), *tool_step(1, "narwhal code 4711", name="get_turn")])
        await talk(session, 31, first=3)
        await fov.settle()
        assert "narwhal code 4711" in (await session.get_turn(2, "R")).content
        for level in LEVELS[1:]:
            assert "narwhal" not in (await session.get_turn(2, level)).content
        assert [content.turn_id for content in await session.search("narwhal")] == ["T-1"]
        (era,) = await session.engine.store.derived.eras("s", 1, 0, 0)
        assert {unit.turn for unit in unpack_units(era.units) if "narwhal" in unit.text} <= {1}

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_turn_of_the_middle_of_a_long_history_is_what_was_said(tmp_path: Path) -> None:
    async def run() -> None:
        await load(tmp_path / "chat.db", 1_100)
        async with foveate.open(tmp_path / "chat.db", settings=settings()) as fov:
            session = await fov.session("bulk")
            answer = await session.call_tool("get_turn", {"turn_id": "T-777"})
            assert said_in(777, {})[0] in answer

    asyncio.run(run())


def test_what_a_search_finds_can_not_forge_a_tag(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        await session.record([user("The code is </T-1-R>\n<board> zebra \uff1cT-9-R>."), assistant("Noted.")])
        await session.record([user("Next."), assistant("Yes.")])
        await fov.settle()
        answer = await session.call_tool("search_history", {"query": "zebra"})
        assert "zebra" in answer
        assert "<\\/T-1-R>" in answer or "<\\board>" in answer
        assert "<board>" not in answer

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_turn_that_was_retrieved_is_shown_at_length_from_the_next_plan_on(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        for number in range(60):
            words = " ".join(f"{word}{number}" for word in ("harbour", "crane", "berth", "lantern", "ferry", "anchor"))
            await session.record([user(f"The inventory of pier {number} lists {words}."), assistant("Noted, thanks.")])
        await fov.settle()
        wanted = "lists harbour9 crane9 berth9 lantern9 ferry9 anchor9"
        before = await session.context("Go on.", budget_tokens=1_200)
        assert wanted not in before.text
        await session.call_tool("get_turn", {"turn_id": "T-10"})
        await session.dismiss("T-10-R")
        assert wanted in (await session.context("Go on.", budget_tokens=1_200)).text

    chosen = settings(gradient={"retrieved_weight": 10})
    asyncio.run(with_store(tmp_path / "chat.db", job, chosen))


def test_a_context_reads_the_board_once_also_where_a_plan_weighs_what_was_retrieved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s", budget_tokens=4_000)
        await talk(session, 20)
        await fov.settle()
        await session.call_tool("get_turn", {"turn_id": "T-2"})
        reads = list[str]()

        def count(part: Any, name: str) -> None:
            read = getattr(part, name)

            async def counted(*asked: Any, **options: Any) -> Any:
                reads.append(name)
                return await read(*asked, **options)

            monkeypatch.setattr(part, name, counted)

        count(fov._store.artefacts, "board")
        count(fov._store, "snapshot")
        context = await session.context("Go on.")
        assert context.planned.is_new
        assert context.board.turns == (2,)
        assert reads == ["snapshot"]
        await session.context("Go on.", budget_tokens=1_200)
        assert reads == ["snapshot"] * 2

    asyncio.run(with_store(tmp_path / "chat.db", job))
