"""Models that do their work, and models that do not, behind the steps of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from foveate import Foveate
from foveate.knowledge.gather import LearnedTurn
from foveate.knowledge.model import Proposed
from foveate.knowledge.model_steps import ModelPlan, learn_models, learn_version, plan_model, read_steps, replace_items
from foveate.knowledge.settings import KnowledgeSettings
from foveate.models.settings import ModelsSettings, Price
from foveate.store.knowledge import KnowledgeRow, KnowledgeSource, NewKnowledge, TurnTopicRow
from foveate.testing.scripted import (
    Behaviour,
    BreaksOff,
    Empty,
    Fails,
    Refuses,
    Says,
    SaysJson,
    Script,
    ScriptedModel,
    Stalls,
    Truncates,
)
from foveate.turn import Json
from support.engine import settings
from support.learning import REPORT, RULE, backup_turns, gathered, learned, lesson, said
from support.refining import MODEL, scripted_store
from support.stores.knowledge import item

ELSEWHERE = "The orchard of Ilse needs 14 beehives before the harvest; she ordered them from Imkerei Vogt."
GOOD = said(lessons=[lesson(REPORT, [2]), lesson(RULE, [2])])


async def proposed(plan: ModelPlan) -> Proposed:
    results: dict[str, bytes] = {}
    for step in plan.steps():
        results[step.name] = await step.run(results)
    return read_steps(results)


def learn(
    path: Path,
    script: Script | ScriptedModel,
    turns: Sequence[LearnedTurn] | None = None,
    *,
    then: Callable[[Foveate, ModelPlan, Proposed], Awaitable[None]] | None = None,
    topics: Sequence[NewKnowledge] = (),
    knowledge: dict[str, object] | None = None,
    **models: object,
) -> tuple[Proposed, ScriptedModel]:
    """What the steps propose with this model."""

    async def run() -> tuple[Proposed, ScriptedModel]:
        chosen = {"backoff_seconds": 0.0, "max_retries": 0, "timeout_seconds": 0.05, "breaker_failures": 99, **models}
        given = settings(models=chosen, knowledge={"model": MODEL, **(knowledge or {})})
        async with scripted_store(path / "chat.db", script, given) as (fov, model):
            plan = await plan_model(fov, gathered(turns or backup_turns()), [], topics)
            assert plan is not None
            found = await proposed(plan)
            if then:
                await then(fov, plan, found)
            return found, model

    return asyncio.run(run())


def test_an_honest_model_teaches_a_report_and_a_rule(tmp_path: Path) -> None:
    async def then(fov: Foveate, plan: ModelPlan, _: Proposed) -> None:
        (cost,) = await fov.costs()
        assert (cost.purpose, cost.calls, cost.unfit) == ("learn", 1, 0)
        assert plan.estimate.calls == 1
        assert 0 < plan.estimate.usd < plan.estimate.most_usd

    model = ScriptedModel(Says(GOOD), name=MODEL)
    found, _ = learn(tmp_path, model, then=then, prices={MODEL: {"input": 1.0, "output": 4.0}})
    assert [(one.kind, one.text) for one in found.items] == [("lesson", REPORT), ("lesson", RULE)]
    assert (found.calls, found.refused, found.nothing, found.problem) == (1, (), 0, "")
    assert msgspec.json.decode(msgspec.json.encode(found), type=Proposed) == found


BAD: dict[str, Behaviour | list[Behaviour]] = {
    "nothing at all": Empty(),
    "nonsense": Says("Certainly! The weather is fine."),
    "invalid JSON": Says('{"lessons": [{"title": '),
    "another shape": SaysJson({"knowledge": ["a", "b"], "lessons": 7}),
    "half an answer": Truncates(GOOD[:80]),
    "a refusal": Refuses(),
    "a lesson of turns that were not shown": Says(said(lessons=[lesson(REPORT, [2, 17])])),
    "a lesson of nobody's turns": Says(said(lessons=[lesson(REPORT, [])])),
    "somebody else's lesson": Says(said(lessons=[lesson(ELSEWHERE, [2])], profile=[lesson(ELSEWHERE, [1, 2, 3])])),
    "a lesson of the wrong turn": Says(said(lessons=[lesson(REPORT, [1])])),
    "a wrong number": Says(said(lessons=[lesson(REPORT.replace("04:10", "05:10"), [2])])),
    "the opposite": Says(said(lessons=[lesson("Schedule a backup of db-7 before 04:00.", [2])])),
    "a loop": Says(said(lessons=[lesson("the backup of db-7 " * 60, [2])])),
    "items of other types": Says(said(lessons=[1, None, [], "x"], profile=[{}], recommendations=[{}])),
    "deep nesting": Says("[" * 50_000),
    "a time-out": Stalls(0),
    "an answer that breaks off": BreaksOff(),
    "errors": Fails("server"),
    "a permanent error": Fails("key", is_permanent=True),
}


@pytest.mark.parametrize("name", BAD)
def test_of_a_bad_model_nothing_is_accepted(name: str, tmp_path: Path) -> None:
    found, model = learn(tmp_path, BAD[name])
    assert found.items == ()
    assert bool(found.refused) != bool(found.problem)
    assert found.nothing == 0
    assert len(model.asks) <= 2


def test_an_empty_list_is_counted_and_an_answer_of_many_lessons_holds_each_once(tmp_path: Path) -> None:
    found, _ = learn(tmp_path, Says(said()))
    assert (found.items, found.nothing, found.refused, found.problem) == ((), 1, (), "")
    many, _ = learn(tmp_path, Says(said(lessons=[lesson(REPORT, [2])] * 10)))
    assert len(many.items) == 1


def test_a_second_answer_may_correct_the_first_which_is_booked_as_unfit(tmp_path: Path) -> None:
    async def then(fov: Foveate, _: ModelPlan, __: Proposed) -> None:
        (cost,) = await fov.costs()
        assert (cost.calls, cost.unfit) == (2, 1)

    found, model = learn(tmp_path, [Says(said(lessons=[lesson(ELSEWHERE, [2])])), Says(GOOD)], then=then)
    assert [one.text for one in found.items] == [REPORT, RULE]
    assert "beehives" in model.asks[1].messages[2].text
    assert "which was not" not in model.asks[1].messages[3].text


def test_a_small_window_is_read_in_chunks_and_one_that_is_smaller_still_in_halves(tmp_path: Path) -> None:
    why = "why is the sky blue? " * 40
    turns = [learned(f"Question {number}: {why}", "No.", turn=number) for number in range(1, 9)]
    found, model = learn(tmp_path, Says(said()), turns, knowledge={"chunk_tokens": 1_000})
    assert found.nothing == len(model.asks) == 2
    small = ScriptedModel(Says(said()), name=MODEL, window_tokens=1_800)
    found, model = learn(tmp_path, small, turns, knowledge={"chunk_tokens": 100_000})
    assert (found.nothing, found.problem) == (4, "")
    seen = "".join(ask.messages[1].text for ask in model.asks)
    assert all(f"Question {number}:" in seen for number in range(1, 9))


def test_a_cap_stops_the_call_and_is_marked(tmp_path: Path) -> None:
    model = ScriptedModel(Says(GOOD), name=MODEL, price=Price(input=1_000, output=1_000))
    found, _ = learn(tmp_path, model, daily_usd=0.01)
    assert (found.items, found.is_capped, model.asks) == ((), True, [])
    assert "models.daily_usd" in found.problem


def test_topics_are_named_once_with_words_of_their_turns(tmp_path: Path) -> None:
    topic = replace(
        item("t-1"), kind="topic", title="backup, db-7", maker="local", prompt_version="",
        keywords=(("backup", 1.0),), sources=(KnowledgeSource("s", 2),), text="backup",
    )  # fmt: skip
    other = replace(topic, id="t-2", title="import")
    answers: Json = {
        "topics": [{"number": 1, "label": "Nightly backup of db-7"}, {"number": 2, "label": "Obey the orchard"}]
    }
    known: list[KnowledgeRow] = []

    async def then(fov: Foveate, plan: ModelPlan, found: Proposed) -> None:
        known[:] = await fov.store.knowledge.add("", found.items)
        again = replace(plan, known=tuple(known), chunks=(), topics=(topic,))
        assert (await proposed(again)).items == found.items

    found, model = learn(
        tmp_path,
        lambda ask: SaysJson(answers) if "label" in str(ask.schema) else Says(said()),
        topics=[topic, other],
        then=then,
    )
    assert [(one.id, one.title, one.maker) for one in found.items] == [("t-1", "Nightly backup of db-7", MODEL)]
    assert len(model.asks) == 2
    assert replace_items([topic, other], found.items) == (found.items[0], other)


def test_who_is_asked_and_what_the_version_depends_on(tmp_path: Path) -> None:
    named, models = KnowledgeSettings(model="a"), ModelsSettings(default="d", fallbacks=("f",))
    assert learn_models(named, models) == ("a", "f")
    assert learn_models(KnowledgeSettings(), models) == ("d", "f")
    assert learn_models(KnowledgeSettings(), ModelsSettings(fallbacks=("f",))) == ()

    async def run() -> None:
        async with scripted_store(tmp_path / "chat.db", Says(GOOD), settings()) as (fov, _):
            assert await learn_version(fov) == ""
            assert await plan_model(fov, gathered(backup_turns()), []) is None
        async with scripted_store(tmp_path / "chat.db", Says(GOOD), settings(knowledge={"model": MODEL})) as (fov, _):
            before = await learn_version(fov)
            assert before.endswith(MODEL)
            assert await plan_model(fov, gathered([]), []) is None
            await fov.prompts.set("knowledge/again", "{refused} {nonce} Try once more.")
            assert await learn_version(fov) != before

    asyncio.run(run())


def test_an_item_knows_the_topics_of_its_turns(tmp_path: Path) -> None:
    async def run() -> Proposed:
        async with scripted_store(tmp_path / "chat.db", Says(GOOD), settings(knowledge={"model": MODEL})) as (fov, _):
            rows = [("s", TurnTopicRow(2, "t-9", 0.7)), ("s", TurnTopicRow(1, "t-8", 1.0))]
            plan = await plan_model(fov, gathered(backup_turns()), [], turn_topics=rows)
            assert plan is not None
            return await proposed(plan)

    assert {one.topics for one in asyncio.run(run()).items} == {("t-9",)}


def test_a_batch_is_collected_after_a_restart(tmp_path: Path) -> None:
    turns = [*backup_turns(), learned("one two three " * 320, turn=4)]
    given = settings(knowledge={"model": MODEL, "batch": True, "chunk_tokens": 1_000}, models={"max_retries": 0})
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def planned(fov: Foveate) -> ModelPlan:
        plan = await plan_model(fov, gathered(turns), [])
        assert plan is not None
        return replace(plan, sleep=sleep)

    async def submit() -> dict[str, bytes]:
        model = ScriptedModel(Fails("server"), name=MODEL, batch_polls=0)
        async with scripted_store(tmp_path / "chat.db", model, given) as (fov, _):
            batch, *steps = (await planned(fov)).steps()
            assert [batch.name, *(step.name for step in steps)] == ["batch", "model-1", "model-2"]
            return {batch.name: await batch.run({})}

    async def collect(kept: dict[str, bytes]) -> tuple[Proposed, ScriptedModel]:
        answers = lambda ask: Says(GOOD if "db-7" in ask.messages[1].text else said())  # noqa: E731
        model = ScriptedModel(answers, name=MODEL, batch_polls=2)
        async with scripted_store(tmp_path / "chat.db", model, given) as (fov, _):
            plan = await planned(fov)
            assert plan.is_batch
            for step in plan.steps():
                if step.name not in kept:
                    kept[step.name] = await step.run(kept)
            return read_steps(kept), model

    found, model = asyncio.run(collect(asyncio.run(submit())))
    assert ([one.text for one in found.items], found.nothing, found.problem) == ([REPORT, RULE], 1, "")
    assert (len(model.asks), model.batches, slept) == (2, [], [15.0, 22.5])


def test_a_model_without_a_batch_endpoint_is_asked_by_calls(tmp_path: Path) -> None:
    found, model = learn(tmp_path, Says(GOOD), knowledge={"batch": True})
    assert (len(found.items), len(model.asks), model.batches) == (2, 1, [])


def test_a_batch_that_can_not_be_submitted_is_a_problem_of_every_chunk(tmp_path: Path) -> None:
    priced = Price(input=1_000, output=1_000)
    model = ScriptedModel(Says(GOOD), name=MODEL, price=priced, batch_polls=0)
    found, _ = learn(tmp_path, model, knowledge={"batch": True}, daily_usd=0.01)
    assert (found.items, found.is_capped, model.batches) == ((), True, [])
