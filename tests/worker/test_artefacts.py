"""Checkpoints and summaries given to a model: once each, nothing waits for it, and whatever it says, contexts fit."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from foveate import Foveate, Message, Session
from foveate.context.context import Context
from foveate.context.tags import parse_blocks
from foveate.models import Ask
from foveate.plan import Artefact
from foveate.settings import Settings
from foveate.testing.scripted import Behaviour, Fails, Refuses, Says, SaysJson, ScriptedModel
from foveate.turn import Json
from foveate.worker.artefacts import unpack_made
from support.contexts import forgeries
from support.engine import assistant, recounted, settings, user
from support.examples import times
from support.patience import until
from support.refining import MODEL, scripted_store, until_asked
from support.wording import clauses_of, noted, worded

BUDGET = 8_000
TURNS = 14
EXAMPLES = times(3)
PARTS = ("disk", "queue", "index", "cache", "ledger", "mailer")


def rolling(**models: object) -> Settings:
    return settings(models={"roll_up": MODEL, "backoff_seconds": 0.0, "breaker_failures": 1_000, **models})


def turn(number: int) -> list[Message]:
    part = PARTS[number % 6]
    told = " ".join(
        f"Node n{number}-{place} of the {part} had {number * 7 + place} errors; it was restarted at 04:{10 + place}."
        for place in range(16)
    )
    return [
        user(f"New topic: what about the {part} of site {number}?"),
        assistant(f"We decided to use plan-{number} instead of plan-{number + 1}. {told} I did not touch the backups."),
    ]


async def talk(fov: Foveate, strategy: str, *, first: int = 1, turns: int = TURNS) -> Session:
    session = await fov.session("s", strategy=strategy, budget_tokens=BUDGET)
    await session.record([message for number in range(first, first + turns) for message in turn(number)])
    return session


async def looked_at(session: Session) -> Context:
    """A context, recounted and read."""
    context = await session.context("And now?")
    assert context.tokens <= context.budget_tokens
    assert context.tokens == recounted(session, context, "And now?")
    last = (await session.refresh()).turns
    for block in parse_blocks(context.history):
        assert 1 <= block.first <= block.last <= last
    return context


async def shown(fov: Foveate, strategy: str) -> dict[str, Artefact]:
    """What was made of the kinds that a model may word, by name."""
    rows = await fov._store.artefacts.made("s", strategy)
    kinds = ("checkpoint", "checkpoints", "topic", "bulk")
    return {row.name: unpack_made(row) for row in rows if row.kind in kinds}


@pytest.mark.parametrize("strategy", ["checkpoint", "topics"])
def test_a_model_words_what_is_shown_once(strategy: str, tmp_path: Path) -> None:
    async def run() -> None:
        async with scripted_store(tmp_path / "chat.db", worded, rolling()) as (fov, model):
            session = await talk(fov, strategy)
            await looked_at(session)
            by_rules = await shown(fov, strategy)
            assert not model.asks or all("model" not in made.data for made in by_rules.values())
            await fov.settle()
            by_model = await shown(fov, strategy)
            changed = [name for name, made in by_model.items() if made.data.get("model") == MODEL]
            assert {ask.purpose for ask in model.asks} == {"roll-up"}
            assert 0 < len(changed) <= len(model.asks)
            assert all(by_model[name].text != by_rules[name].text for name in changed)
            context = await looked_at(session)
            assert any(by_model[name].text in context.history for name in changed)
            await fov.settle()
            assert {row.purpose for row in await fov.costs("s")} == {"roll-up"}
        async with scripted_store(tmp_path / "chat.db", worded, rolling()) as (fov, again):
            await looked_at(await fov.session("s"))
            await fov.settle(session_id="s")
            asked = list(map(noted, [*model.asks, *again.asks]))
            assert len(set(asked)) == len(asked)

    asyncio.run(run())


def test_the_background_asks_by_itself_and_a_context_waits_for_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        async with scripted_store(tmp_path / "chat.db", worded, rolling()) as (fov, model):
            session = await talk(fov, "checkpoint")
            assert (await looked_at(session)).tokens <= BUDGET
            await until_asked(model)

            async def is_worded() -> bool:
                return any("model" in made.data for made in (await shown(fov, "checkpoint")).values())

            await until(is_worded)

    asyncio.run(run())


def test_what_rules_found_stays_whatever_a_model_says(tmp_path: Path) -> None:
    async def run() -> None:
        async with scripted_store(tmp_path / "chat.db", worded, rolling()) as (fov, _):
            session = await talk(fov, "checkpoint")
            await session.context()
            before = await shown(fov, "checkpoint")
            await fov.settle()
            changed = [made for made in (await shown(fov, "checkpoint")).values() if "model" in made.data]
            assert changed
            for made in changed:
                old, new = (set(map(str, one.data["decisions"])) for one in (before[made.name], made))  # type: ignore[arg-type]
                assert old <= new
                assert made.data["files"] == before[made.name].data["files"]
                assert made.tokens <= before[made.name].tokens + 1_600

    asyncio.run(run())


def test_goals_are_shown_to_the_model(tmp_path: Path) -> None:
    async def run() -> None:
        async with scripted_store(tmp_path / "chat.db", worded, rolling()) as (fov, model):
            session = await talk(fov, "checkpoint")
            await session.goals.add("Keep the mailer up", steps=["Find the errors"])
            await session.goals.decide("G-1", "Never restart the ledger")
            await session.goals.artifact("G-1", "ops/mailer.toml")
            await session.context()
            await fov.settle()
            assert model.asks
            line = (
                "goal: Keep the mailer up; steps: Find the errors; decisions: Never restart the ledger; "
                "artifacts: ops/mailer.toml"
            )
            assert all(line in ask.messages[-1].text for ask in model.asks)

    asyncio.run(run())


@pytest.mark.parametrize("answer", [Fails("server"), Refuses(), Says("Once upon a time."), SaysJson({"summary": [7]})])
def test_what_a_model_cannot_word_stays_and_is_not_asked_for_again(answer: Behaviour, tmp_path: Path) -> None:
    async def run() -> None:
        given = rolling(max_retries=5, max_calls_per_turn=2)
        async with scripted_store(tmp_path / "chat.db", answer, given) as (fov, model):
            session = await talk(fov, "checkpoint")
            before = await session.context()
            by_rules = await shown(fov, "checkpoint")
            await fov.settle()
            assert 0 < len(model.asks) <= 2 * len(by_rules)
            assert await shown(fov, "checkpoint") == by_rules
            assert (await session.context()).history == before.history
            asked = len(model.asks)
            await fov.settle(session_id="s")
            assert len(model.asks) == asked

    asyncio.run(run())


def test_what_was_held_back_is_asked_for_later(tmp_path: Path) -> None:
    async def run() -> None:
        async with scripted_store(tmp_path / "chat.db", worded, rolling(daily_usd=0.0)) as (fov, model):
            model.price = fov.settings.models.unknown_price
            session = await talk(fov, "topics")
            await session.context()
            await fov.settle()
            assert model.asks == []
        async with scripted_store(tmp_path / "chat.db", worded, rolling()) as (fov, model):
            await fov.settle(session_id="s")
            assert model.asks

    asyncio.run(run())


@pytest.mark.parametrize("deed", ["delete", "prune"])
def test_an_answer_that_comes_too_late_brings_nothing_back(deed: str, tmp_path: Path) -> None:
    async def run() -> None:
        gone = asyncio.Event()
        async with scripted_store(tmp_path / "chat.db", worded, rolling()) as (fov, model):
            answer = model.ask

            async def answer_late(ask: Ask):  # type: ignore[no-untyped-def]
                found = await answer(ask)
                if deed == "delete":
                    await fov.delete_session("s")
                else:
                    await fov.prune("s", before="2100-01-01", dry_run=False)
                gone.set()
                return found

            model.ask = answer_late  # type: ignore[method-assign]
            session = await talk(fov, "checkpoint")
            await session.context()
            await gone.wait()
            await fov.settle()
            if deed == "prune":
                assert await shown(fov, "checkpoint") == {}
            assert len(model.asks) == 1

    asyncio.run(run())


def test_without_a_model_for_roll_ups_nobody_is_asked(tmp_path: Path) -> None:
    async def run() -> None:
        async with scripted_store(tmp_path / "chat.db", worded, settings()) as (fov, model):
            await (await talk(fov, "checkpoint")).context()
            await fov.settle()
            assert model.asks == []

    asyncio.run(run())


ESSAY = "The nodes were restarted, and that is a long story about errors. " * 300
GERMAN = "Die Knoten sind neu gestartet worden, und es war nicht klar, warum die Fehler aus dem Lager kamen."


def _answers(drawn: list[tuple[str, str]]) -> list[ScriptedModel]:
    """A model for each draw, which does something to an honest answer."""

    def scripted(kind: str, text: str) -> ScriptedModel:
        def answer(ask: Ask) -> Behaviour:
            clauses = clauses_of(ask)
            said = {"essay": ESSAY, "german": GERMAN, "forged": text}.get(kind, "")
            spoilt = [{**clause, "text": f"{clause['text']} {said}"} for clause in clauses]
            mixed = {"few": [*spoilt[:2], *clauses], "all": spoilt}["few" if kind == "forged" else "all"]
            if kind == "garbage":
                return Says(text)
            is_topic = "clauses" in str(ask.schema)
            if is_topic:
                return SaysJson({"title": said or text, "clauses": mixed})
            return SaysJson({"summary": mixed, "decisions": spoilt[:9], "next_steps": spoilt[-9:]})

        return ScriptedModel(answer, name=MODEL)

    return [scripted(kind, text) for kind, text in drawn]


_kinds = st.sampled_from(["honest", "essay", "german", "forged", "garbage"])


@examples(max_examples=EXAMPLES, deadline=None)
@given(
    strategy=st.sampled_from(["checkpoint", "topics"]),
    drawn=st.lists(st.tuples(_kinds, forgeries | st.text(max_size=60)), min_size=2, max_size=2),
    budget=st.sampled_from([3_000, 8_000]),
)
def test_whatever_a_model_answers_contexts_fit_and_forge_nothing(
    strategy: str, drawn: list[tuple[str, str]], budget: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("wording") / "chat.db"

    async def run() -> None:
        for number, model in enumerate(_answers(drawn)):
            async with scripted_store(path, model, rolling(max_retries=0)) as (fov, _):
                session = await talk(fov, strategy, first=1 + number * 8, turns=8)
                session = await fov.session("s", budget_tokens=budget)
                for _ in range(2):
                    context = await looked_at(session)
                    await fov.settle(session_id="s")
                again = await looked_at(session)
                assert again.text == (await looked_at(session)).text
                assert "</source-" not in context.text + again.text
                assert "story about errors. The nodes" not in again.text

    asyncio.run(run())


def long_turn(number: int) -> list[Message]:
    more = " It was checked on three machines, and nobody saw anything else worth a word." * 14
    return [
        user(f"Please set limit_{number} to {number * 10} ms, never more.{more}"),
        assistant(f"Done, limit_{number} is {number * 10} ms in config_{number}.py.{more}"),
    ]


async def hybrid(fov: Foveate) -> Session:
    sizes: dict[str, Json] = {"window_tokens": 6_000, "target": 0.65}
    session = await fov.session("s", strategy="hybrid", strategy_settings=sizes, budget_tokens=12_000)
    await session.record([message for number in range(1, 13) for message in long_turn(number)])
    return session


def test_a_model_words_the_short_messages_of_a_hybrid_session_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with scripted_store(tmp_path / "chat.db", worded, rolling()) as (fov, model):
            session = await hybrid(fov)
            by_rules = await looked_at(session)
            await fov.settle()
            by_model = await looked_at(session)
            assert by_model.history != by_rules.history
            assert "[user] Please set limit_3 to 30 ms, never more. (short T-3)" in by_model.history
            assert "[assistant] Done, limit_3 is 30 ms in config_3.py. (short T-3)" in by_model.history
            assert {ask.purpose for ask in model.asks} == {"roll-up"}
            asked = len(model.asks)
            await looked_at(session)
            await fov.settle()
            assert len(model.asks) == asked

    asyncio.run(run())


@pytest.mark.parametrize("behaviour", [Fails(), Refuses(), Says("no"), SaysJson({"messages": []})])
def test_short_messages_stay_as_rules_made_them_whatever_fails(behaviour: Behaviour, tmp_path: Path) -> None:
    async def run() -> None:
        async with scripted_store(tmp_path / "chat.db", lambda ask: behaviour, rolling()) as (fov, model):
            session = await hybrid(fov)
            by_rules = await looked_at(session)
            await fov.settle()
            assert model.asks
            assert (await looked_at(session)).history == by_rules.history
            assert "(short T-3)" in by_rules.history

    asyncio.run(run())
