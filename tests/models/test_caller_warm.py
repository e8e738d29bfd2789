"""Models that are loaded and connected to before their first call."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import foveate
from foveate.models import Ask
from foveate.settings import Settings, load_settings
from foveate.turn import Message, Text
from support.faulty_server import FaultyServer, Said, environment, faulty_server, plain
from support.patience import wait_until
from support.servers import client_of

MODEL = "openai:gpt-5-mini"
ASK = Ask(purpose="recall", messages=(Message("user", (Text("Hi"),)),), max_output_tokens=10, input_tokens=5)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyServer]:
    with faulty_server() as made:
        for name, value in environment(made, "sk-secret").items():
            monkeypatch.setenv(name, value)
        made.will(plain("openai", Said('{"numbers": [1]}')))
        yield made


def settings(**recall: object) -> Settings:
    return load_settings(overrides={"recall": recall})


def test_the_first_call_uses_the_connection_that_was_opened_before_it(server: FaultyServer, tmp_path: Path) -> None:
    async def job() -> None:
        async with foveate.open(tmp_path / "chat.db", settings=settings(filter_model=MODEL)) as fov:
            await fov.session("s")
            await fov.caller.warmed()
            assert (len(server.heads), server.requests) == (1, [])
            await fov.caller.ask(ASK, [MODEL])

    asyncio.run(job())
    assert server.heads[0].connection == server.requests[0].connection
    assert "sk-secret" not in str(server.heads[0].headers)


def test_models_are_connected_to_once_and_only_if_recall_asks_them(server: FaultyServer, tmp_path: Path) -> None:
    async def opened(chosen: Settings) -> None:
        async with foveate.open(tmp_path / "chat.db", settings=chosen) as fov:
            for name in ("a", "b", "a"):
                await fov.session(name)
            await fov.caller.warmed()

    asyncio.run(opened(settings()))
    assert server.heads == []
    asyncio.run(opened(settings(filter_model=MODEL, judge_model=MODEL)))
    assert len(server.heads) == 1


def test_a_model_that_cannot_be_loaded_or_reached_delays_and_breaks_nothing(tmp_path: Path) -> None:
    async def job() -> None:
        chosen = settings(filter_model="openai:gpt-5-mini@http://127.0.0.1:9/v1", judge_model="nothing:of-this-name")
        async with foveate.open(tmp_path / "chat.db", settings=chosen) as fov:
            session = await fov.session("s")
            await session.record([{"role": "user", "content": "The port is 8443."}])
            await fov.caller.warmed()
            assert "8443" in (await session.context("Which port?")).text

    asyncio.run(job())


def test_a_server_connects_when_it_starts(
    server: FaultyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOVEATE_RECALL__JUDGE_MODEL", MODEL)
    with client_of(tmp_path / "chat.db"):
        wait_until(lambda: len(server.heads) == 1)
