"""The file cabinet of a session: keys that expire, live on while they are shown, and notes on the board."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

import foveate
from foveate.client import Foveate
from foveate.errors import ContentExpired, ContentNotFound, InputError
from foveate.session import Session, cabinet
from foveate.store.rows import DAY_US

PAGE = b"The price is 42 euros.\n" * 500
NOW = 1_800_000_000_000_000


class Calendar:
    """The clock of the file cabinet, moved by days."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.days = 0.0
        patch.setattr(cabinet, "now_us", lambda: int(NOW + self.days * DAY_US))


@pytest.fixture
def calendar(monkeypatch: pytest.MonkeyPatch) -> Calendar:
    return Calendar(monkeypatch)


def run(folder: Path, job: Callable[[Foveate, Session], Awaitable[None]]) -> None:
    async def work() -> None:
        async with foveate.open(folder / "chat.db") as fov:
            session = await fov.session("s")
            await session.record([{"role": "user", "content": "Look it up"}])
            await job(fov, session)

    asyncio.run(work())


def test_a_key_expires_after_thirty_days_and_says_how_to_get_it_again(tmp_path: Path, calendar: Calendar) -> None:
    async def job(fov: Foveate, session: Session) -> None:
        entry = await session.cabinet.file(PAGE, name="page", source="https://example.org/")
        by_hand = await fov.cabinet.file(b"by hand", name="note", source="a desk")
        assert entry.created == datetime.fromtimestamp(NOW / 1_000_000, UTC)
        assert (entry.expires - entry.created).days == 30
        calendar.days = 29.9
        assert await session.cabinet.content(entry.key) == PAGE
        calendar.days = 30.1
        with pytest.raises(ContentExpired, match=r"expired on 2027-02-14 08:00 UTC; it is a result of T-1: get_turn"):
            await session.cabinet.content(entry.key)
        with pytest.raises(ContentExpired, match="T-1 of session 's'"):
            await fov.cabinet.read(entry.key)
        with pytest.raises(ContentExpired, match="get it again from a desk"):
            await session.cabinet.read(by_hand.key)
        assert await fov.cabinet.list() == []
        assert {gone.key for gone in await fov.cabinet.prune(dry_run=True)} == {entry.key, by_hand.key}
        assert len(await fov.cabinet.prune()) == 2
        assert await fov.cabinet.prune() == []
        with pytest.raises(ContentExpired):
            await session.cabinet.read(entry.key)

    run(tmp_path, job)


def test_a_key_lives_on_while_a_context_shows_its_turn_and_comes_back_with_it(
    tmp_path: Path, calendar: Calendar
) -> None:
    async def job(fov: Foveate, session: Session) -> None:
        entry = await session.cabinet.file(PAGE, name="page")
        other = await session.cabinet.file(b"not shown", name="other")
        await session.record([{"role": "assistant", "content": f"It is in {entry.key}."}])
        calendar.days = 20
        await session.dismiss(other.key)
        await session.context("And now?", recall=False)
        calendar.days = 40
        assert await session.cabinet.content(entry.key) == PAGE
        with pytest.raises(ContentExpired):
            await session.cabinet.content(other.key)
        calendar.days = 400
        await fov.cabinet.prune()
        with pytest.raises(ContentExpired):
            await session.cabinet.content(entry.key)
        await session.context("And now?", recall=False)
        assert await session.cabinet.content(entry.key) == PAGE

    run(tmp_path, job)


def test_a_key_is_renewed_once_a_day_by_all_handles_together(tmp_path: Path, calendar: Calendar) -> None:
    async def job(fov: Foveate, session: Session) -> None:
        entry = await session.cabinet.file(PAGE, name="page")
        await session.record([{"role": "assistant", "content": f"It is in {entry.key}."}])
        written = []
        for days in (1, 1.5, 1.9, 2.1):
            calendar.days = days
            await (await fov.open_session("s")).context("And now?", recall=False)
            written.append(((await fov.cabinet.entry(entry.key)).expires - entry.created).total_seconds() / 86_400)
        assert written == pytest.approx([31, 31, 31, 32.1])

    run(tmp_path, job)


def test_a_preview_renews_nothing(tmp_path: Path, calendar: Calendar) -> None:
    async def job(_: Foveate, session: Session) -> None:
        entry = await session.cabinet.file(PAGE, name="page")
        calendar.days = 20
        await session.context("And now?", budget_tokens=9_000)
        assert (await session.cabinet.entry(entry.key)).expires == entry.expires

    run(tmp_path, job)


def test_the_board_lists_new_keys_and_fetches_for_some_turns(tmp_path: Path) -> None:
    async def job(_: Foveate, session: Session) -> None:
        page = await session.cabinet.file(PAGE, name="prices", media_type="text/html", source="https://example.org/p")
        log = await session.cabinet.file(b"output", name="exec result")
        in_progress = await session.context()
        assert page.key not in in_progress.text
        session.tools("openai")
        shown = (await session.context("And now?")).text
        assert f"Fetched ({page.key}): prices, text/html, 11,500 bytes, from https://example.org/p\n" in shown
        assert f"In the file cabinet ({log.key}): exec result, text/plain, 6 bytes\n" in shown
        assert "Remember: read_cabinet reads lines of a key" in shown
        for number in range(11):
            await session.record(
                [{"role": "user", "content": f"Next {number}"}, {"role": "assistant", "content": "Yes"}]
            )
        assert page.key not in (await session.context("And now?")).text

    run(tmp_path, job)


def test_filing_again_in_a_turn_in_progress_changes_nothing_before_it(tmp_path: Path) -> None:
    async def job(_: Foveate, session: Session) -> None:
        await session.cabinet.file(b"one", name="one")
        await session.cabinet.file(b"two", name="two")
        await session.record([{"role": "assistant", "content": "Done"}, {"role": "user", "content": "Again"}])
        before = (await session.context()).text
        await session.cabinet.file(b"one", name="one")
        await session.cabinet.file(b"three", name="three")
        assert (await session.context()).text == before
        assert [note.key[:2] for note in (await session.board()).notes] == ["f-"] * 3

    run(tmp_path, job)


def test_files_of_calls_side_by_side_are_all_on_the_board(tmp_path: Path) -> None:
    async def job(_: Foveate, session: Session) -> None:
        await asyncio.gather(*(session.cabinet.file(b"%d" % number, name="x") for number in range(20)))
        assert len((await session.board()).notes) == 20

    run(tmp_path, job)


@pytest.mark.databases
def test_a_tenant_never_sees_the_files_of_another(tmp_path: Path) -> None:
    async def job(fov: Foveate, session: Session) -> None:
        acme = fov.tenant("acme")
        theirs = await acme.session("chat")
        await theirs.record([{"role": "user", "content": "Hello"}])
        entry = await theirs.cabinet.file(PAGE, name="page")
        assert (entry.session_id, entry.tenant) == ("chat", "acme")
        for other in (session.cabinet, fov.tenant("rival").cabinet):
            with pytest.raises(ContentNotFound):
                await other.content(entry.key)
            assert await other.list() == []
        assert await acme.cabinet.content(entry.key) == PAGE
        (seen,) = await fov.cabinet.list()
        assert (seen.session_id, seen.tenant) == ("acme:chat", "acme")

    run(tmp_path, job)


@pytest.mark.parametrize(("first_line", "lines"), [(0, 1), (1, 0), (-5, 5)])
def test_lines_are_counted_from_one(tmp_path: Path, first_line: int, lines: int) -> None:
    async def job(_: Foveate, session: Session) -> None:
        entry = await session.cabinet.file(PAGE, name="page")
        with pytest.raises(InputError, match="numbered from 1"):
            await session.cabinet.read(entry.key, first_line, lines)

    run(tmp_path, job)


@pytest.mark.databases
def test_an_export_has_whole_results_and_a_deleted_session_takes_them_along(tmp_path: Path) -> None:
    async def job(fov: Foveate, session: Session) -> None:
        entry = await session.cabinet.file(PAGE, name="page")
        image = await session.cabinet.file(b"\x89PNG\0", name="plot", media_type="image/png")
        exported = json.loads("".join([piece async for piece in session.export("json")]))
        first, second = exported["turns"][0]["contents"]
        assert (first["key"], first["sha256"], first["text"]) == (entry.key, entry.sha256, PAGE.decode())
        assert (second["key"], second["base64"]) == (image.key, "iVBORwA=")
        await fov.delete_session("s")
        with pytest.raises(ContentNotFound):
            await fov.cabinet.content(entry.key)

    run(tmp_path, job)
