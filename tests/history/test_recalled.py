"""Recall before a turn: what the prompt brings up stands behind the history, in its room, and nowhere else."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import foveate
from foveate import Foveate
from foveate.context.context import Context
from foveate.context.render import FORMATS
from foveate.history.recalled import LEAST_PASSAGES, RecallRequest
from foveate.recall.index import Query
from foveate.session import Session
from foveate.settings import Settings, load_settings
from foveate.store.database import Database
from foveate.testing.scripted import Says, ScriptedModel
from support.chats import scripted_store

FACT = "The spare key of the boat shed hangs on hook KH-731, behind the blue barrel."
QUESTION = "On which hook hangs the spare key of the boat shed?"
TALK = "We talked about the weather and the sea, nothing of note, number {0}. " * 6


BY_AGE = {"bands": "documented"}
"""Old turns are out of view; by worth, a fact among small talk would stay."""


def with_settings(**recall: object) -> Settings:
    given = {
        "recall": {"deadline_seconds": None, **recall},
        "compress": {"processes": 0},
        "gradient": BY_AGE,
    }
    return load_settings(environment={}, overrides=given)


def run(
    path: Path,
    job: Callable[[Session, Foveate], Awaitable[None]],
    chosen: Settings | None = None,
    *,
    budget_tokens: int = 2_500,
) -> None:
    """With a session of a fact and sixty turns of talk behind it."""

    async def told() -> None:
        async with foveate.open(path / "chat.db", settings=chosen or with_settings()) as fov:
            session = await fov.session("s", budget_tokens=budget_tokens)
            await session.record(
                [{"role": "user", "content": FACT}, {"role": "assistant", "content": "Noted."}],
                at="2026-03-02T10:00:00Z",
            )
            for number in range(60):
                said = [{"role": "user", "content": TALK.format(number)}, {"role": "assistant", "content": "I see."}]
                await session.record(said, at=f"2026-03-{3 + number // 5:02}T10:00:00Z")
            await fov.settle()
            await job(session, fov)

    asyncio.run(told())


def memory(context: Context) -> str:
    return "".join(segment.text for segment in context.segments if segment.name == "memory")


def test_what_a_question_asks_for_is_shown_behind_the_history(tmp_path: Path) -> None:
    async def job(session: Session, _: Foveate) -> None:
        context = await session.context(QUESTION)
        assert "KH-731" in memory(context)
        assert "2 March 2026:\nTurn 1: " in memory(context)
        assert context.text.endswith(memory(context))
        assert context.text.index("</memory>") > context.text.rindex("</T-")
        assert context.tokens <= context.budget_tokens

    run(tmp_path, job)


def test_small_talk_leaves_the_context_as_it_was(tmp_path: Path) -> None:
    async def job(session: Session, _: Foveate) -> None:
        assert memory(await session.context("Thanks, go on!")) == ""
        assert memory(await session.context("")) == ""

    run(tmp_path, job)


def test_recall_can_be_switched_off_for_a_call_and_for_all(tmp_path: Path) -> None:
    async def job(session: Session, _: Foveate) -> None:
        for budget in (None, 1_500):
            assert memory(await session.context(QUESTION, budget_tokens=budget, recall=False)) == ""

    async def none(session: Session, _: Foveate) -> None:
        assert memory(await session.context(QUESTION)) == ""

    run(tmp_path, job)
    (tmp_path / "off").mkdir()
    run(tmp_path / "off", none, with_settings(enabled=False))


def test_a_deadline_of_nothing_gives_a_context_without_a_memory(tmp_path: Path) -> None:
    async def job(session: Session, _: Foveate) -> None:
        context = await session.context(QUESTION)
        assert memory(context) == ""
        assert (await session.context(QUESTION, budget_tokens=1_500)).tokens <= 1_500

    run(tmp_path, job, with_settings(deadline_seconds=0.0))


def test_the_history_before_it_is_the_same_with_and_without(tmp_path: Path) -> None:
    async def job(session: Session, _: Foveate) -> None:
        asked = await session.context(QUESTION)
        plain = await session.context(QUESTION, recall=False)
        assert asked.history == plain.history
        assert asked.text.removesuffix(memory(asked)) == plain.text

    run(tmp_path, job)


def test_a_one_off_gives_recall_its_room_first_and_the_history_the_rest(tmp_path: Path) -> None:
    async def job(session: Session, _: Foveate) -> None:
        context = await session.context(QUESTION, budget_tokens=1_500)
        assert "KH-731" in memory(context)
        assert context.history
        assert 0.9 * 1_500 <= context.tokens <= 1_500
        whole = await session.context(QUESTION, budget_tokens=200_000)
        assert memory(whole) == ""

    run(tmp_path, job)


def test_a_broad_question_brings_up_more_turns_over_the_whole_span_in_order(tmp_path: Path) -> None:
    def turns(context: Context) -> list[int]:
        return [int(number) for number in re.findall(r"^Turn (\d+):", memory(context), re.MULTILINE)]

    async def job(session: Session, _: Foveate) -> None:
        point = turns(await session.context("What was the weather and the sea like?"))
        broad = turns(await session.context("Can you summarize the weather and the sea?"))
        assert len(point) == LEAST_PASSAGES  # all of the talk matches alike
        assert len(broad) > LEAST_PASSAGES
        assert broad == sorted(broad)

    run(tmp_path, job, with_settings(ticklers=0))


def test_a_prompt_that_names_a_speaker_brings_up_what_that_speaker_said(tmp_path: Path) -> None:
    async def told() -> None:
        async with foveate.open(tmp_path / "chat.db", settings=with_settings(least_score=99)) as fov:
            session = await fov.session("s", budget_tokens=2_500)
            for number in range(8):
                for name, said in (("Ben", "Anna, which hobbies do you have"), ("Anna", "I went rowing")):
                    message = {"role": "user", "name": name, "content": f"{said}, number {number}"}
                    await session.record([message], at=f"2026-03-{1 + number:02}T10:00:00Z")
            for number in range(25):
                await session.record([{"role": "user", "name": "Ben", "content": TALK.format(number)}])
            await fov.settle()
            context = await session.context("Which hobbies does Anna have?")
            lines = re.findall(r"^Turn \d+: (\w+):", memory(context), re.MULTILINE)
            assert lines.count("Anna") == 8
            assert len(lines) == LEAST_PASSAGES

    asyncio.run(told())


@pytest.mark.parametrize("budget", [None, 1_000])
def test_a_standing_order_that_has_no_word_of_the_prompt_is_shown(tmp_path: Path, budget: int | None) -> None:
    order = "Always write distances in nautical miles when I ask about routes."

    async def job(session: Session, fov: Foveate) -> None:
        await session.record([{"role": "user", "content": order}], at="2026-03-20T10:00:00Z")
        for number in range(20):
            await session.record([{"role": "user", "content": TALK.format(number)}], at="2026-03-21T10:00:00Z")
        await fov.settle()
        context = await session.context(QUESTION, budget_tokens=budget)
        assert order in memory(context)
        assert "KH-731" in memory(context)

    run(tmp_path, job)


async def say_all(session: Session, fov: Foveate, said: list[tuple[str, str]]) -> None:
    """Record turns of a prompt and a reply, then talk that fills the history."""
    for asked, replied in said:
        await session.record([{"role": "user", "content": asked}, {"role": "assistant", "content": replied}])
    for number in range(60, 100):
        await session.record([{"role": "user", "content": TALK.format(number)}])
    await fov.settle()


def test_an_unclear_question_gets_more_than_the_best_few_passages_at_the_sessions_own_budget(tmp_path: Path) -> None:
    async def job(session: Session, fov: Foveate) -> None:
        said = "I moored the boat at harbour {0} in the summer."
        await say_all(session, fov, [(said.format(number), "A fine harbour.") for number in range(30)])
        context = await session.context("At which harbours did I moor the boat?")
        assert len(re.findall(r"harbour \d+", memory(context))) > 2 * LEAST_PASSAGES
        assert context.tokens <= context.budget_tokens
        again = await session.context("Thanks, go on!")
        assert memory(again) == ""

    run(tmp_path, job)


def test_a_prompt_that_asks_about_the_past_gets_memory_even_if_nothing_stands_out(tmp_path: Path) -> None:
    async def job(session: Session, _: Foveate) -> None:
        assert memory(await session.context("Which quartz zebra sings polyphonic madrigals?"))

    run(tmp_path, job)


@pytest.mark.parametrize(
    ("prompt", "speaker"),
    [("What did you recommend for the mast paint?", "assistant"), ("Which mast paint is best?", "user")],
)
def test_a_prompt_that_asks_what_was_recommended_brings_up_the_assistants_words_first(
    tmp_path: Path, prompt: str, speaker: str
) -> None:
    long = (
        "The paint of the mast needs thought, since the mast paint {0} must last, and mast paint {0} peels in the sun. "
    )

    async def job(session: Session, fov: Foveate) -> None:
        said = [(long.format(number) * 6, long.format(number + 100) * 6) for number in range(10)]
        await say_all(session, fov, said)
        shown = memory(await session.context(prompt))
        numbers = {int(number) for number in re.findall(r"mast paint (\d+)", shown)}
        assert {"assistant" if number >= 100 else "user" for number in numbers} == {speaker}

    run(tmp_path, job, with_settings(least_score=99))


def test_a_question_that_is_found_brings_its_reply_and_a_reply_its_question(tmp_path: Path) -> None:
    async def job(session: Session, fov: Foveate) -> None:
        pairs = [
            ("Does the dinghy of the neighbour leak at the transom?", "Yes, through both of the drain plugs."),
            ("And what else should we do about that?", "Caulk the dinghy of the neighbour at the transom with oakum."),
        ]
        await say_all(session, fov, pairs)
        shown = memory(await session.context("What is it about the dinghy of the neighbour and its transom?"))
        assert "drain plugs" in shown
        assert "what else should we do" in shown

    run(tmp_path, job)


def test_turns_that_are_shown_word_for_word_are_not_shown_again(tmp_path: Path) -> None:
    async def job(session: Session, _: Foveate) -> None:
        context = await session.context("What was the weather and the sea like, number 59 and number 3?")
        shown = {
            turn
            for segment in context.segments
            if segment.level in ("R", "S") and segment.first and segment.last
            for turn in range(segment.first, segment.last + 1)
        }
        assert memory(context)
        assert not any(f"Turn {turn}:" in memory(context) for turn in shown)

    run(tmp_path, job)


def test_the_same_store_gives_the_same_bytes(tmp_path: Path) -> None:
    texts: list[str] = []

    async def job(session: Session, _: Foveate) -> None:
        texts.append((await session.context(QUESTION, budget_tokens=1_500)).text)
        texts.append((await session.context(QUESTION, budget_tokens=1_500)).text)

    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        run(tmp_path / name, job)
    assert len(set(texts)) == 1


def test_a_turn_at_work_recalls_what_its_user_asked(tmp_path: Path) -> None:
    async def job(session: Session, _: Foveate) -> None:
        call = {"id": "c1", "type": "function", "function": {"name": "peek", "arguments": "{}"}}
        await session.record(
            [
                {"role": "user", "content": QUESTION},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c1", "content": "nothing here"},
            ]
        )
        assert "KH-731" in memory(await session.context())

    run(tmp_path, job)


def step(number: int) -> list[dict[str, object]]:
    call = {"id": f"c{number}", "type": "function", "function": {"name": "peek", "arguments": "{}"}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": f"no spare key on shelf {number}"},
    ]


def test_while_a_turn_is_at_work_what_it_brought_up_stands_before_it_and_stays(tmp_path: Path) -> None:
    async def job(session: Session, fov: Foveate) -> None:
        asked = await session.context(QUESTION)
        await session.record([{"role": "user", "content": QUESTION}])
        before = await session.context()
        assert memory(before) == memory(asked) != ""
        for number in range(4):
            await session.record(step(number))
            await fov.settle()
            context = await (await fov.open_session("s")).context()
            assert memory(context) == memory(asked)
            assert context.text.index("</memory>") < context.text.index(f"<T-{session.info.turns}-")
            # What is new stands behind all that the last context had.
            assert context.text.startswith(before.text.rpartition("</T-")[0])
            assert context.tokens <= context.budget_tokens
            for name in FORMATS:
                said = json.dumps(context.messages(name))
                assert said.count("</memory>") == 1
                assert said[said.index("<memory>") : said.index("</memory>")].count("KH-731") == 1
                assert said.index("</memory>") < said.index("c0" if number else "peek")
            before = context

    run(tmp_path, job, budget_tokens=4_000)


def test_what_was_pruned_is_not_shown_again_to_a_turn_at_work(tmp_path: Path) -> None:
    async def job(session: Session, fov: Foveate) -> None:
        await session.record([{"role": "user", "content": QUESTION}])
        assert "KH-731" in memory(await session.context())
        await fov.prune("s", before="2026-03-03", dry_run=False)
        assert "KH-731" not in (await session.context()).text

    run(tmp_path, job)


def test_a_turn_that_says_something_new_is_not_taken_for_what_it_asks(tmp_path: Path) -> None:
    async def job(session: Session, _: Foveate) -> None:
        await session.record([{"role": "user", "content": "Would zebras make you sing?"}])
        assert memory(await session.context()) == ""

    run(tmp_path, job)


def test_words_that_were_said_twice_are_shown_once_as_the_newer_turn_has_them(tmp_path: Path) -> None:
    async def job(session: Session, fov: Foveate) -> None:
        for number in (2, 3):
            said = [{"role": "user", "content": FACT}, {"role": "assistant", "content": f"Noted, time {number}."}]
            await session.record(said)
            for _ in range(25):
                await session.record([{"role": "user", "content": TALK}, {"role": "assistant", "content": "I see."}])
        await fov.settle()
        shown = memory(await session.context(QUESTION))
        assert shown.count("KH-731") == 1
        assert f"Turn {61 + 27}: " in shown

    run(tmp_path, job)


def test_a_fork_recalls_what_its_parent_was_told(tmp_path: Path) -> None:
    async def job(session: Session, _: Foveate) -> None:
        forked = await session.fork("f", at="T-40")
        assert "KH-731" in memory(await forked.context(QUESTION))

    run(tmp_path, job)


def test_asking_records_nothing(tmp_path: Path) -> None:
    async def job(session: Session, _: Foveate) -> None:
        before = (await session.refresh()).turns
        await session.context(QUESTION)
        await session.context(QUESTION, budget_tokens=1_500)
        assert (await session.refresh()).turns == before

    run(tmp_path, job)


@pytest.mark.parametrize("prompt", ['"" AND OR NOT (', "*", "a" * 100_000, "🔑 ключ 鍵?", "What about \x00 that key?"])
def test_any_prompt_is_looked_for_safely(tmp_path: Path, prompt: str) -> None:
    async def job(session: Session, _: Foveate) -> None:
        context = await session.context(prompt, budget_tokens=60_000)
        assert context.tokens <= 60_000
        if len(prompt) < 1_000:
            assert (await session.context(prompt, budget_tokens=1_000)).tokens <= 1_000

    run(tmp_path, job)


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.text(max_size=80), st.integers(700, 6_000)), min_size=1, max_size=8))
def test_no_context_with_recall_exceeds_its_budget(
    tmp_path_factory: pytest.TempPathFactory, asked: list[tuple[str, int]]
) -> None:
    async def job(session: Session, _: Foveate) -> None:
        for text, budget in asked:
            context = await session.context(f"{text} {QUESTION}", budget_tokens=budget)
            assert context.tokens <= budget
            assert "</memory>\n" not in context.text.removesuffix("</memory>\n")

    run(tmp_path_factory.mktemp("recall"), job)


def test_the_first_context_of_a_long_session_recalls_before_the_index_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foveate.history.recalled.LOADED_TURNS", 50)
    monkeypatch.setattr("foveate.history.recalled.LOAD_DELAY_SECONDS", 60)

    async def job(session: Session, _: Foveate) -> None:
        index = session.engine.shared.searcher.index(session.engine.row)
        context = await session.context(QUESTION)
        assert "KH-731" in memory(context)
        assert not index.is_loaded
        await index.look(Query.of(QUESTION))
        assert index.is_loaded

    run(tmp_path, job, with_settings(deadline_seconds=60))


def test_a_warm_recall_reads_twice_and_a_stored_layer_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[object] = []
    read = Database.read

    async def counted(database: Database, job: Any) -> Any:
        reads.append(job)
        return await read(database, job)

    async def filled(_session: Session, _fov: Foveate) -> None:
        pass

    async def job() -> None:
        quiet = {"recall": {"deadline_seconds": None}, "compress": {"enabled": False, "processes": 0}}
        settings = load_settings(environment={}, overrides=quiet)
        async with foveate.open(tmp_path / "chat.db", settings=settings) as fov:
            session = await fov.open_session("s")
            recaller = session.engine.contexts._recaller
            wish = RecallRequest(query=QUESTION, room_tokens=400, visible=(), is_gated=True)
            await session.context(QUESTION)
            await session.record([{"role": "user", "content": "Is the spare key still there?"}])  # not indexed yet
            snapshot = await fov._store.snapshot("s")
            monkeypatch.setattr(Database, "read", counted)
            layer = await recaller.recall_once(replace(snapshot, memory=None), wish, mark="m")
            assert "KH-731" in layer.text
            assert len(reads) == 2
            snapshot = await fov._store.snapshot("s")
            reads.clear()
            assert await recaller.recall_once(snapshot, wish, mark="m") == layer
            assert reads == []

    run(tmp_path, filled)
    asyncio.run(job())


def test_a_filter_can_leave_nothing_and_the_judge_sees_the_newest_turns(tmp_path: Path) -> None:
    chosen = {"deadline_seconds": None, "filter_model": "small", "judge_model": "large"}
    answers = {"numbers": [1]}
    model = ScriptedModel(lambda _: Says(json.dumps(answers)))

    async def job() -> None:
        async with scripted_store(tmp_path / "chat.db", model, recall=chosen, gradient=BY_AGE) as fov:
            session = await fov.session("s", budget_tokens=2_500)
            for said in (FACT, *(TALK.format(number) for number in range(30))):
                await session.record([{"role": "user", "content": said}, {"role": "assistant", "content": "I see."}])
            await fov.settle()
            assert "KH-731" in memory(await session.context(QUESTION))
            assert "Newest turns:\nT-24: " in model.asks[-1].messages[-1].text
            answers["numbers"] = []
            assert memory(await session.context(f"{QUESTION} Tell me!")) == ""

    asyncio.run(job())


def test_with_models_each_search_has_its_own_limit(tmp_path: Path) -> None:
    """Without time for one, what the other finds is used."""
    model = ScriptedModel(lambda _: Says('{"numbers": [1]}'))
    limits = {"keyword_seconds": 0, "vector_seconds": 30, "filter_seconds": 30, "deadline_seconds": 60}

    async def job() -> None:
        chosen = {"filter_model": "small", **limits}
        async with scripted_store(tmp_path / "chat.db", model, recall=chosen, gradient=BY_AGE) as fov:
            session = await fov.session("s", budget_tokens=2_500)
            for said in (FACT, *(TALK.format(number) for number in range(30))):
                await session.record([{"role": "user", "content": said}, {"role": "assistant", "content": "I see."}])
            await fov.settle()
            context = await session.context(QUESTION, budget_tokens=2_000)
            assert "KH-731" in memory(context)
            assert context.planned.notes["recall_late"] == ["words"]

    asyncio.run(job())
