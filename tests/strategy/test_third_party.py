"""A strategy of a third party has every right that a built-in one has."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

import foveate
from foveate import strategy as strategies
from foveate.errors import InputError, SettingsError
from foveate.events import Event
from foveate.settings import Settings, load_settings, make_strategy, sections
from foveate.testing import strategies as suite
from foveate.testing.scripted import Says
from support.engine import settings, talk
from support.every_right import EXPLANATION, EveryRight
from support.refining import MODEL, scripted_store

NAME = "every-right"
KEPT = "kept-half"
PLACES = {NAME: "support.every_right:EveryRight", KEPT: "support.every_right:KeptHalf"}


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    registry = strategies.REGISTRY
    for name, place in PLACES.items():
        monkeypatch.setitem(registry.registered, name, EntryPoint(name, place, registry.group))
    monkeypatch.setitem(registry.__dict__, "names", tuple(sorted({*registry.names, *PLACES})))
    yield
    strategies.load.cache_clear()


@pytest.mark.parametrize("case", suite.CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("name", PLACES)
def test_it_conforms(name: str, case: suite.Case, tmp_path: Path) -> None:
    asyncio.run(suite.run_case(case, name, tmp_path / "chat.db"))


def test_its_section_comes_from_file_environment_and_session(tmp_path: Path) -> None:
    path = tmp_path / "foveate.toml"
    path.write_text("[every-right]\nnote_tokens = 90\nfolded_ahead = 1\n")
    loaded = load_settings(path, environment={"FOVEATE_EVERY_RIGHT__FOLDED_AHEAD": "7"})
    assert make_strategy(NAME, loaded) == EveryRight(note_tokens=90, folded_ahead=7)
    assert loaded.every_right == EveryRight(note_tokens=90, folded_ahead=7)
    assert make_strategy(NAME, loaded, {"folded_ahead": 2}) == EveryRight(note_tokens=90, folded_ahead=2)
    assert sections()["every_right"] is EveryRight


@pytest.mark.parametrize(
    ("values", "key"),
    [({"note_token": 90}, "every-right.note_token"), ({"note_tokens": 1}, "every-right.note_tokens"), (5, NAME)],
)
def test_a_wrong_value_in_its_section_names_the_key(values: Any, key: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(environment={}, overrides={"every_right": values})
    assert caught.value.key == key


def test_a_variable_that_is_nearly_its_own_is_refused() -> None:
    with pytest.raises(SettingsError, match="did you mean FOVEATE_EVERY_RIGHT__NOTE_TOKENS"):
        load_settings(environment={"FOVEATE_EVERY_RIGHT_NOTE_TOKENS": "90"})


def _open(path: Path, **models: Any) -> Any:
    overrides: dict[str, object] = {"compress": {"processes": 0}}
    return foveate.open(path / "chat.db", settings=load_settings(environment={}, overrides=overrides), **models)


def test_documents_explanation_events_kept_plan_and_recall_are_its_own(tmp_path: Path) -> None:
    async def job() -> None:
        told: list[Event] = []
        async with _open(tmp_path) as fov:
            with fov.subscribe(told.append, ["note-grown"]) as subscription:
                session = await fov.session("s", strategy=NAME, budget_tokens=2_000)
                await session.goals.add("Back up every host")
                await session.documents.give("tasks", "- [ ] fin-04")
                await talk(session, 40)
                await fov.settle()
                first = await session.context("Now?")
                folded = first.planned.notes["folded"]
                assert EXPLANATION in first.system
                assert "Back up every host" in first.text
                assert "fin-04" in first.text
                await talk(session, 1, first=41)
                assert (await session.context("Now?")).planned.notes["folded"] == folded
                subscription.drain()
            assert [event.data["last"] for event in told] == [folded]
            with pytest.raises(InputError):
                fov.subscribe(told.append, ["note-shrunk"])

    asyncio.run(job())


def test_recall_goes_first_in_a_preview_if_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def recalled_tokens(session: Any) -> int:
        preview = await session.context("What about word2x3?", budget_tokens=700)
        return sum(segment.tokens for segment in preview.segments if segment.name == "memory")

    async def job() -> None:
        async with _open(tmp_path) as fov:
            session = await fov.session("s", strategy=NAME, budget_tokens=2_000)
            await talk(session, 40)
            await fov.settle()
            first = await recalled_tokens(session)
            monkeypatch.setattr(EveryRight, "recalls_first", False)
            assert first > await recalled_tokens(session)  # which is only what the history leaves unused

    asyncio.run(job())


def test_a_model_words_its_artefacts(tmp_path: Path) -> None:
    async def job() -> None:
        models = settings(models={"roll_up": MODEL})
        async with scripted_store(tmp_path / "chat.db", Says("Hosts were checked."), models) as (fov, model):
            session = await fov.session("s", strategy=NAME, budget_tokens=2_000)
            await talk(session, 40)
            assert "Hosts were checked." not in (await session.context("Now?")).text
            await fov.settle()
            assert {ask.purpose for ask in model.asks} == {"roll-up"}
            assert "Hosts were checked." in (await session.context("Now?")).text

    asyncio.run(job())


def test_its_plan_is_kept_byte_for_byte_and_new_turns_are_appended(tmp_path: Path) -> None:
    async def job() -> None:
        async with _open(tmp_path) as fov:
            session = await fov.session("s", strategy=KEPT, budget_tokens=3_000)
            await talk(session, 30)
            await fov.settle()
            before = await session.context("Now?")
            made = [(before.planned.cause, before.planned.notes["made"])]
            for turn in range(31, 61):
                await talk(session, 1, first=turn)
                context = await session.context("Now?")
                if context.planned.is_new:
                    made.append((context.planned.cause, context.planned.notes["made"]))
                else:
                    assert context.history.startswith(before.history)
                    assert context.planned.last_turn == before.planned.last_turn < turn
                    assert f"Question {turn}: " in context.history.removeprefix(before.history)
                # The plan is stored: another handle shows the same bytes.
                assert (await (await fov.open_session("s")).context("Now?")).text == context.text
                before = context
            assert made == [("first", 1), ("full", 2), ("full", 3), ("full", 4)]

    asyncio.run(job())


def test_a_class_that_has_only_a_plan_gets_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    class Bare:
        def plan(self, snapshot: object, state: object, ledger: object) -> None: ...

    monkeypatch.setitem(strategies.REGISTRY._loaded, NAME, Bare)
    strategies.load.cache_clear()
    made = make_strategy(NAME, Settings())
    assert isinstance(made, strategies.Strategy)
    assert (made.documents, made.recalls, made.keeps_plan) == (("goals",), True, False)
