"""The budget of a chat: one that nobody chose follows the model's window, one that somebody chose must fit it."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

import foveate
from foveate.agents.budget import fitting_budget
from foveate.errors import InputError
from foveate.session.values import SessionInfo
from support.engine import settings, user
from support.paths import ROOT

DEFAULT = settings().session.budget_tokens


def fitting(known: SessionInfo | None, *, asked: int | None = None, window: int | None = 40_000) -> int:
    return fitting_budget(
        asked, known, default_tokens=DEFAULT, output_tokens=4_000, window_tokens=window, option="--budget"
    )


def known(tmp_path: Path, budget_tokens: int | None) -> tuple[SessionInfo, SessionInfo]:
    """A session with this budget, and a fork of it; read again after the store was closed."""

    async def run() -> tuple[SessionInfo, SessionInfo]:
        async with foveate.open(tmp_path / "chat.db", settings=settings()) as fov:
            session = await fov.session("s", budget_tokens=budget_tokens)
            await session.record(user("Hello"))
            await session.fork("f")
        async with foveate.open(tmp_path / "chat.db", settings=settings()) as fov:
            await fov.session("s", title="Another title")
            return (await fov.open_session("s")).info, (await fov.open_session("f")).info

    return asyncio.run(run())


def test_a_budget_nobody_chose_is_reduced_to_the_window(tmp_path: Path) -> None:
    assert fitting(None) < 36_000
    for info in known(tmp_path, None):
        assert (info.budget_tokens, info.budget_chosen) == (DEFAULT, False)
        assert fitting(info) == fitting(None)
        assert fitting(info, window=None) == DEFAULT


def test_a_chosen_budget_is_kept_even_if_it_equals_the_default(tmp_path: Path) -> None:
    for info in known(tmp_path, DEFAULT):
        assert info.budget_chosen
        with pytest.raises(InputError, match="--budget 3"):
            fitting(info)
        assert fitting(info, window=1_000_000) == DEFAULT


def test_a_budget_nobody_chose_follows_the_window_whatever_the_default_was_when_the_session_began(
    tmp_path: Path,
) -> None:
    async def run() -> SessionInfo:
        given = settings(session={"budget_tokens": 64_000})
        async with foveate.open(tmp_path / "chat.db", settings=given) as fov:
            return (await fov.session("s")).info

    assert fitting(asyncio.run(run())) == fitting(None)


def test_a_budget_nobody_chose_is_that_of_the_settings_of_today(tmp_path: Path) -> None:
    async def run() -> None:
        async with foveate.open(tmp_path / "chat.db", settings=settings()) as fov:
            await fov.session("s")
            await fov.session("chosen", budget_tokens=DEFAULT)
            lowered = await fov.session("lowered")
            assert (await lowered.engine.lower_budget(9_000)).budget_tokens == 9_000
        for default in (64_000, 8_000):
            later = settings(session={"budget_tokens": default})
            async with foveate.open(tmp_path / "chat.db", settings=later) as fov:
                expected = {"s": default, "chosen": DEFAULT, "lowered": min(9_000, default)}
                assert {info.id: info.budget_tokens for info in await fov.sessions()} == expected
                assert {name: (await fov.session(name)).info.budget_tokens for name in expected} == expected
                assert (await (await fov.session("s")).context("Hello")).budget_tokens == default

    asyncio.run(run())


def test_a_budget_given_later_is_chosen_and_can_be_taken_back(tmp_path: Path) -> None:
    async def run() -> None:
        async with foveate.open(tmp_path / "chat.db", settings=settings()) as fov:
            before = (await fov.session("s")).info
            session = await fov.session("s", budget_tokens=DEFAULT)
            assert session.info.budget_chosen
            assert not (await session.engine.restore_budget(before)).budget_chosen

    asyncio.run(run())


def test_in_an_older_database_the_default_counts_as_not_chosen(tmp_path: Path) -> None:
    shutil.copy(ROOT / "tests" / "store" / "baselines" / "schema-8.db", tmp_path / "chat.db")

    async def run() -> bool:
        async with foveate.open(tmp_path / "chat.db", settings=settings()) as fov:
            return (await fov.open_session("first")).info.budget_chosen

    assert not asyncio.run(run())
