"""Texts that plans ask for: large turns don't hold up the event loop, and a cut one keeps what people typed."""

import asyncio
import gc
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from foveate import Foveate
from foveate.context.assemble import BlockText
from foveate.context.costs import overheads
from foveate.history import texts
from foveate.plan import BRIEF_LINE, Block
from foveate.store import open_store
from foveate.store.database import Database
from foveate.store.settings import StoreSettings
from foveate.store.snapshot import MAX_NEW_TURNS
from support.engine import assistant, user, with_store
from support.stores import draft, new_session
from support.stores.derived import rendition


def test_a_large_turn_is_read_and_written_off_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_loop: dict[str, list[int]] = {}

    def noted(name: str, size: Callable[..., int]) -> None:
        """Note the sizes of what is done in the event loop's thread."""
        done = getattr(texts, name)

        def do(*given: Any, **options: Any) -> Any:
            if threading.current_thread() is threading.main_thread():
                on_loop.setdefault(name, []).append(size(*given))
            return done(*given, **options)

        monkeypatch.setattr(texts, name, do)

    noted("write_text", lambda _row, entries, *_: sum(len(entry.text) for entry in entries))
    noted("_restored", lambda rows, *_: sum(len(row.body or b"") for row in rows))

    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        large = " ".join(f"word{number * 7919 % 100_003}" for number in range(60_000))
        await session.record([user("Hello"), assistant("Good day."), user(large), assistant("Noted.")])
        assert "word7919" in (await session.context("And now?")).text

    asyncio.run(with_store(tmp_path / "chat.db", job))
    assert set(on_loop) == {"write_text", "_restored"}
    assert max(size for sizes in on_loop.values() for size in sizes) <= texts.MAX_LOOP_CHARS


def test_a_past_turn_is_read_in_two_queries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        for number in range(4):
            await session.record([user(f"Question {number}"), assistant(f"Answer {number}")])
        await session.refresh()  # so that the turn is known to be over
        read, reads = Database.read, []

        async def counted(database: Database, work: Any) -> Any:
            reads.append(work)
            return await read(database, work)

        await fov.settle()
        monkeypatch.setattr(Database, "read", counted)
        assert "Question 2" in (await session.get_turn("T-3")).content
        assert len(reads) == 2

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_turn_that_is_cut_keeps_what_a_person_typed_before_what_a_program_added(tmp_path: Path) -> None:
    rules = " ".join(f"rule {number}: attribute commits." for number in range(800))
    reminded = f"<system-reminder>\n{rules}\n</system-reminder>\nRemember: the port is 8443."

    async def job(fov: Foveate) -> None:
        session = await fov.session("s", budget_tokens=4_000)
        await session.record([user(reminded), assistant("Noted.")])
        await session.record([user("Tell me about tides."), assistant("They come and go. " * 800)])
        text = (await session.context("And now?")).text
        assert "the port is 8443" in text
        assert "rule 799" not in text

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_line_in_brief_shows_the_brief_form_and_c_where_there_is_none(tmp_path: Path) -> None:
    async def job() -> str:
        store = await open_store(str(tmp_path / "chat.db"), StoreSettings())
        await store.create_session(new_session("s"))
        await store.append("s", [draft("one"), draft("two")])
        lacking = replace(rendition(2, "two"), brief=None, brief_tokens=None)
        await store.derived.add_renditions("s", [rendition(1, "one"), lacking])
        row = Block(1, 2, "C", 99, is_range=True, levels=BRIEF_LINE * 2, sizes=(40, 40))
        session = await store.get_session("s")
        (block,) = await texts.TextReader(store, "s").write(session, [row], overheads(2, session.exact))
        await store.close()
        return block.text

    assert "Turn 1: brief one\nTurn 2: compressed two\n" in asyncio.run(job())


def test_contexts_made_at_once_show_a_new_message_once(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        await session.record([user("Hello"), assistant("Good day."), user("How deep is it?")])
        await session.context()
        await session.record([assistant("Nine fathoms.")])
        made = await asyncio.gather(*(session.context("And now?") for _ in range(3)))
        for context in (*made, await session.context("And now?")):
            assert context.text.count("Nine fathoms.") == 1

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_turn_that_grew_before_many_others_is_shown_whole(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session, other = await fov.session("s", budget_tokens=100_000), await fov.session("s")
        await session.record([user("Hello"), assistant("Good day."), user("How deep is it?")])
        await session.context()
        await other.record([assistant("Nine fathoms.")])
        for number in range(MAX_NEW_TURNS + 1):
            await other.record([user(f"Question {number}"), assistant(f"Answer {number}")])
        assert "Nine fathoms." in (await session.context()).text

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_turn_that_is_pruned_while_it_is_read_stays_out_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def job(fov: Foveate) -> None:
        session, store = await fov.session("s", budget_tokens=100_000), fov.store
        await session.record([user("The code is albatross."), assistant("Noted.")], at="2020-01-01T00:00:00Z")
        await session.record([user("Hello"), assistant("Good day.")])
        reader, row = session.engine.contexts.reader, await store.get_session("s")
        read = store.read

        async def pruned_meanwhile(*given: Any) -> Any:
            found = await read(*given)
            monkeypatch.undo()
            await store.prune("s", before_us=time.time_ns() // 1_000 - 60_000_000, dry_run=False)
            await session.engine.contexts.snapshot()  # of another context
            return found

        monkeypatch.setattr(store, "read", pruned_meanwhile)
        assert "albatross" in (await reader.raw_turn(row, 1)).text
        assert "albatross" not in (await session.context("And now?")).text

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_an_open_session_holds_the_texts_that_its_contexts_show_and_not_all_it_ever_had(tmp_path: Path) -> None:
    def held(kind: type) -> int:
        gc.collect()
        return sum(isinstance(value, kind) for value in gc.get_objects())

    async def job(fov: Foveate) -> None:
        session = await fov.session("s", budget_tokens=1_500)
        before = held(texts.RawTurn), held(BlockText)
        for number in range(150):
            await session.record([user(f"Question {number}"), assistant(f"Answer {number}: {'yes ' * 60}")])
            await session.context("And now?", recall=False)
        assert held(texts.RawTurn) - before[0] < 75
        assert held(BlockText) - before[1] < 75

    asyncio.run(with_store(tmp_path / "chat.db", job))
