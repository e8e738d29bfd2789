"""Eras given to a model: once each, and what it can't do stays as rules made it."""

import asyncio
import re
from pathlib import Path

import pytest

from foveate import Foveate
from foveate.models import Ask
from foveate.settings import Settings
from foveate.testing.scripted import Behaviour, Fails, Refuses, Says, SaysJson
from foveate.worker.renditions import unpack_units
from support.engine import settings
from support.refining import MODEL, said, scripted_store

TURNS = 70
_LINE = re.compile(r"^(\d+) (user|assistant): (.*)$", re.MULTILINE)


def rolling(**models: object) -> Settings:
    return settings(models={"roll_up": MODEL, "backoff_seconds": 0.0, **models})


def honest(ask: Ask) -> Behaviour:
    """What was done in every third turn, word for word: as much as an era has room for."""
    found = _LINE.findall(ask.messages[-1].text)
    moved = [line for line in found if "moved" in line[2]]
    clauses = [{"turn": int(turn), "speaker": speaker, "text": text} for turn, speaker, text in moved]
    return SaysJson({"clauses": clauses[::3]})


async def talk(fov: Foveate, first: int = 1) -> None:
    session = await fov.session("s")
    await session.record([message for number in range(first, first + TURNS) for message in said(number)])
    await fov.settle()


async def units_of(fov: Foveate) -> list[list[str]]:
    eras = await fov._store.derived.eras("s", 1, 0, 99)
    return [[unit.text for unit in unpack_units(era.units)] for era in eras]


def test_a_model_words_each_era_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with scripted_store(tmp_path / "rules.db", honest, settings()) as (fov, _):
            await talk(fov)
            by_rules = await units_of(fov)
        async with scripted_store(tmp_path / "chat.db", honest, rolling()) as (fov, model):
            await talk(fov)
            by_model = await units_of(fov)
            assert [ask.purpose for ask in model.asks] == ["roll-up"] * 2
            assert len(by_model) == 2
            assert all(one != other for one, other in zip(by_model, by_rules, strict=True))
            await fov.settle(session_id="s")
            assert len(model.asks) == 2
        async with scripted_store(tmp_path / "chat.db", honest, rolling()) as (fov, model):
            await talk(fov, first=100)
            assert len(model.asks) == 2
            assert (await units_of(fov))[:2] == by_model

    asyncio.run(run())


@pytest.mark.parametrize("answer", [Fails("server"), Says("Once upon a time."), SaysJson({"clauses": [{"turn": 9}]})])
def test_an_era_that_a_model_cannot_word_stays_and_is_not_asked_for_again(answer: Behaviour, tmp_path: Path) -> None:
    async def run() -> None:
        async with scripted_store(tmp_path / "rules.db", honest, settings()) as (fov, _):
            await talk(fov)
            by_rules = await units_of(fov)
        async with scripted_store(tmp_path / "chat.db", answer, rolling(max_retries=1)) as (fov, model):
            await talk(fov)
            assert await units_of(fov) == by_rules
            for _ in range(8):
                await fov.settle(session_id="s")
            asked = len(model.asks)
            assert 2 <= asked <= 2 * fov.settings.models.max_calls_per_turn
            await fov.settle(session_id="s")
            assert len(model.asks) == asked

    asyncio.run(run())


def test_an_era_is_asked_for_again_when_the_provider_is_back(tmp_path: Path) -> None:
    async def run() -> None:
        down = True
        async with scripted_store(
            tmp_path / "chat.db", lambda ask: Fails("server") if down else honest(ask), rolling(max_retries=1)
        ) as (fov, model):
            await talk(fov)
            by_rules = await units_of(fov)
            assert model.asks
            down = False
            await fov.settle(session_id="s")
            assert all(one != other for one, other in zip(await units_of(fov), by_rules, strict=True))

    asyncio.run(run())


def test_an_era_that_was_held_back_is_asked_for_later(tmp_path: Path) -> None:
    async def run() -> None:
        async with scripted_store(tmp_path / "chat.db", honest, rolling(requests_per_minute=1)) as (fov, model):
            await talk(fov)
            assert len(model.asks) == 1
        async with scripted_store(tmp_path / "chat.db", honest, rolling()) as (fov, model):
            await fov.settle(session_id="s")
            assert len(model.asks) == 1

    asyncio.run(run())


def test_a_fork_leaves_the_eras_before_it_to_its_ancestor(tmp_path: Path) -> None:
    async def run() -> None:
        async with scripted_store(tmp_path / "chat.db", honest, rolling()) as (fov, model):
            await talk(fov)
            fork = await (await fov.session("s")).fork("f")
            await fork.record([message for number in range(200, 230) for message in said(number)])
            await fov.settle()
            assert len(model.asks) == 3

    asyncio.run(run())


def test_an_era_that_fails_costs_its_calls_once_over_restarts_too(tmp_path: Path) -> None:
    async def run() -> None:
        asked = 0
        given = rolling(max_retries=0, max_calls_per_turn=2)
        for process in range(8):
            async with scripted_store(tmp_path / "chat.db", Fails("server"), given) as (fov, model):
                await (talk(fov) if process == 0 else fov.settle(session_id="s"))
                asked += len(model.asks)
        assert 2 <= asked <= 2 * 2  # two eras

    asyncio.run(run())


def test_two_processes_ask_for_an_era_once(tmp_path: Path) -> None:
    async def run() -> None:
        path = tmp_path / "chat.db"
        async with scripted_store(path, honest, settings()) as (fov, _):
            await talk(fov)
        async with (
            scripted_store(path, honest, rolling()) as (one, first),
            scripted_store(path, honest, rolling()) as (other, second),
        ):
            await asyncio.gather(one.settle(session_id="s"), other.settle(session_id="s"))
            assert len(first.asks) + len(second.asks) == 2

    asyncio.run(run())


def test_a_refusal_gives_up_one_era_and_not_those_after_it(tmp_path: Path) -> None:
    async def run() -> None:
        asked = 0

        def refuse_once(ask: Ask) -> Behaviour:
            nonlocal asked
            asked += 1
            return Refuses() if asked == 1 else honest(ask)

        async with scripted_store(tmp_path / "rules.db", honest, settings()) as (fov, _):
            await talk(fov)
            by_rules = await units_of(fov)
        async with scripted_store(tmp_path / "chat.db", refuse_once, rolling()) as (fov, model):
            await talk(fov)
            by_model = await units_of(fov)
            assert len(model.asks) == 2
            assert by_model[0] == by_rules[0]
            assert by_model[1] != by_rules[1]

    asyncio.run(run())
