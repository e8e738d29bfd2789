"""The engine behind a session: internal operations, and the old public names that moved there."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import foveate
from foveate import sync
from foveate.client import open_row
from foveate.session import Session
from foveate.session.engine import SessionEngine

OLD_NAMES = (
    "append",
    "came_from",
    "compression_level",
    "context_with",
    "draft",
    "home",
    "is_waiting",
    "limit_budget",
    "look",
    "lower_budget",
    "note",
    "publish",
    "restore_budget",
    "sizes",
    "stored_id",
    "take",
)
MAX_PUBLIC_NAMES = 52


def test_the_public_session_is_small() -> None:
    names = {name for name in vars(Session) if not name.startswith("_")}
    assert len(names) + len({"id", "engine"}) <= MAX_PUBLIC_NAMES
    assert not names & set(OLD_NAMES)


def test_old_names_work_with_a_warning(tmp_path: Path) -> None:
    async def run() -> None:
        async with foveate.open(tmp_path / "chat.db") as fov:
            session = await fov.session("s")
            for name in OLD_NAMES:
                with pytest.warns(DeprecationWarning, match=rf"session\.engine\.{name}$"):
                    assert getattr(session, name) is not None
            with pytest.raises(AttributeError, match="'Session' object has no attribute 'nonsense'"):
                session.nonsense  # type: ignore[attr-defined]  # noqa: B018
            with pytest.warns(DeprecationWarning, match=r"foveate\.client\.open_row"):
                again = fov.open_row(session.engine.row)  # type: ignore[attr-defined]
            assert again.info == session.info
            with pytest.raises(AttributeError, match="'Foveate' object has no attribute 'nonsense'"):
                fov.nonsense  # type: ignore[attr-defined]  # noqa: B018

    asyncio.run(run())


def test_old_names_block_in_the_blocking_library_which_has_no_engine(tmp_path: Path) -> None:
    with sync.open(tmp_path / "chat.db") as fov:
        session = fov.session("s", budget_tokens=50_000)
        with pytest.warns(DeprecationWarning, match=r"session\.engine\.lower_budget"):
            assert session.lower_budget(9_000).budget_tokens == 9_000  # type: ignore[attr-defined]
        assert not hasattr(session, "engine")


def test_a_session_is_opened_from_its_row_in_the_view_of_its_tenant(tmp_path: Path) -> None:
    async def run() -> None:
        async with foveate.open(tmp_path / "chat.db") as fov:
            view = fov.tenant("acme")
            row = (await view.session("s")).engine.row
            opened = open_row(view, row)
            assert (opened.id, opened.engine.stored_id, opened.engine.home.tenant_name) == ("s", "acme:s", "acme")
            assert open_row(fov, row).id == "acme:s"

    asyncio.run(run())


def test_a_limit_of_one_handle_is_not_stored(tmp_path: Path) -> None:
    async def run() -> None:
        async with foveate.open(tmp_path / "chat.db") as fov:
            session = await fov.session("s", budget_tokens=50_000)
            session.engine.limit_budget(8_000)
            assert session.info.budget_tokens == 8_000
            assert (await session.refresh()).budget_tokens == 8_000
            assert (await fov.open_session("s")).info.budget_tokens == 50_000

    asyncio.run(run())


def test_a_fork_has_an_engine_of_its_own(tmp_path: Path) -> None:
    async def run() -> None:
        async with foveate.open(tmp_path / "chat.db") as fov:
            session = await fov.session("s")
            await session.record({"role": "user", "content": "Hello"})
            fork = await session.fork("other")
            assert isinstance(fork.engine, SessionEngine)
            assert fork.engine is not session.engine
            assert fork.engine.shared is session.engine.shared

    asyncio.run(run())
