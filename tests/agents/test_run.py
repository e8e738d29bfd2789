"""Runs: a model works by itself, stops where it should, and goes on where it was."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from foveate.agents.chat import AnswerPiece, AnswerSummary, Notice
from foveate.agents.options import ChatOptions
from foveate.agents.run import INSTRUCTIONS, Caps, IterationEnd, IterationStart, RunStart, TaskUpdate, run
from foveate.context.tags import parse_blocks
from foveate.errors import InputError, ModelError, Refused
from foveate.models import Ask
from foveate.models.prompts import prompt_text
from foveate.models.settings import Price
from foveate.testing.scripted import Behaviour, CallsTool, Fails, Says, ScriptedModel
from support.chats import scripted_store
from support.runs import (
    BUDGET_TOKENS,
    DONE,
    EPIC,
    MODEL,
    by_iteration,
    ended,
    events_of_run,
    iteration_asked,
    log_of,
    run_once,
)


def test_a_run_goes_on_until_the_model_says_done(tmp_path: Path) -> None:
    model = by_iteration(
        {
            2: CallsTool("update_tasks", {"done": [1], "added": ["paint"]}, id="u", text="Dug."),
            3: Says("Built.\n\nTASKS:\n- [x] dig\n- [x] build\n- [ ] paint\n"),
            4: CallsTool("finish", {"summary": "It stands."}, id="f", more=(CallsTool("update_tasks", {"done": [3]}),)),
        }
    )
    events = asyncio.run(run_once(tmp_path / "run.db", model))
    assert [event.iteration for event in events if isinstance(event, IterationStart)] == [1, 2, 3, 4]
    assert [event.iteration for event in events if isinstance(event, IterationEnd)] == [1, 2, 3, 4]
    changed = [event.tasks.markdown() for event in events if isinstance(event, TaskUpdate)]
    assert changed == [
        "# The house\n- [x] dig\n- [ ] build\n- [ ] paint\n",
        "- [x] dig\n- [x] build\n- [ ] paint\n",
        "- [x] dig\n- [x] build\n- [x] paint\n",
    ]
    end = ended(events)
    assert (end.reason, end.text, end.iterations) == ("done", "It stands.", 4)
    assert not end.tasks.open
    assert end.tokens == sum(
        event.answer.input_tokens + event.answer.output_tokens for event in events if isinstance(event, IterationEnd)
    )
    assert "".join(event.text for event in events if isinstance(event, AnswerPiece)).startswith("Worked on step 1.Dug.")


def test_each_call_sees_epic_tasks_and_log_and_nothing_else(tmp_path: Path) -> None:
    model = by_iteration({1: CallsTool("update_tasks", {"done": [1]}, id="u"), 3: Says("STATUS: done")})

    async def look() -> None:
        async with scripted_store(tmp_path / "run.db", model) as fov:
            session = await fov.session("run", strategy="oneshot", budget_tokens=BUDGET_TOKENS)
            await events_of_run(fov, session)
            last = model.asks[-1].messages
            assert [message.role for message in last] == [
                "system",
                "user",
                "assistant",
                "tool",
                "user",
                "assistant",
                "user",
            ]
            assert last[0].text.startswith(prompt_text(INSTRUCTIONS))
            assert last[0].text.endswith(f"<epic>\n{EPIC}\n</epic>\n")
            assert last[1].text == "Go on."
            assert last[-1].parts[0].text == "<tasks>\nIteration 3:\n# The house\n1. [x] dig\n2. [ ] build\n</tasks>\n"  # type: ignore[union-attr]
            assert last[-1].parts[1].text == "Go on."  # type: ignore[union-attr]
            names = [tool["function"]["name"] for tool in model.asks[-1].tools]  # type: ignore[index, call-overload]
            assert {"finish", "ask_user", "report_blocker", "update_tasks"} == set(names)

    asyncio.run(look())


def test_what_tools_take_is_within_the_budget(tmp_path: Path) -> None:
    model = by_iteration({1: DONE})

    async def look() -> None:
        async with scripted_store(tmp_path / "run.db", model) as fov:
            session = await fov.session("run", strategy="oneshot", budget_tokens=BUDGET_TOKENS)
            await events_of_run(fov, session)
            (ask,) = model.asks
            assert ask.input_tokens - (await session.context()).tokens > 150

    asyncio.run(look())


@pytest.mark.parametrize(
    ("reply", "reason", "text"),
    [
        (Says("Hm.\nSTATUS: question: Which hill?"), "question", "Which hill?"),
        (CallsTool("ask_user", {"question": "Which hill?"}, id="q"), "question", "Which hill?"),
        (Says("STATUS: blocked: it rains"), "blocked", "it rains"),
        (CallsTool("report_blocker", {"problem": "it rains"}, id="b"), "blocked", "it rains"),
    ],
)
def test_a_run_stops_for_the_user_and_goes_on_with_the_answer(
    reply: Behaviour, reason: str, text: str, tmp_path: Path
) -> None:
    model = by_iteration({2: reply, 3: DONE})

    async def look() -> None:
        async with scripted_store(tmp_path / "run.db", model) as fov:
            session = await fov.session("run", strategy="oneshot", budget_tokens=BUDGET_TOKENS)
            for _ in range(2):  # asking once more costs nothing, and gives the same
                end = ended(await events_of_run(fov, session))
                assert (end.reason, end.text, end.iterations) == (reason, text, 2)
            assert len(model.asks) == 2
            end = ended(await events_of_run(fov, session, epic=None, tasks=None, answer=" The green one. "))
            assert (end.reason, end.iterations) == ("done", 3)
            assert (await log_of(session))[2].startswith("[user] The user answers: The green one.\n")

    asyncio.run(look())


def test_an_answer_that_nobody_asked_for_is_not_used(tmp_path: Path) -> None:
    async def look() -> None:
        async with scripted_store(tmp_path / "run.db", by_iteration({2: DONE})) as fov:
            session = await fov.session("run", strategy="oneshot", budget_tokens=BUDGET_TOKENS)
            events = await events_of_run(fov, session, answer="42")
            assert any(isinstance(event, Notice) and "not used" in event.text for event in events)
            assert "42" not in "".join(await log_of(session))

    asyncio.run(look())


def test_a_cap_stops_a_run_and_a_higher_one_lets_it_go_on(tmp_path: Path) -> None:
    model = by_iteration({5: DONE})
    path = tmp_path / "run.db"
    end = ended(asyncio.run(run_once(path, model, caps=Caps(max_iterations=3))))
    assert (end.reason, end.text, end.iterations) == ("cap", "3 of at most 3 iterations", 3)
    assert ended(asyncio.run(run_once(path, model, caps=Caps(max_iterations=3)))).iterations == 3
    tokens = ended(asyncio.run(run_once(path, model, caps=Caps(max_tokens=1_000))))
    assert (tokens.reason, tokens.iterations) == ("cap", 3)
    assert "of at most 1,000 tokens" in tokens.text
    assert ended(asyncio.run(run_once(path, model, caps=Caps(max_seconds=0)))).reason == "cap"
    assert ended(asyncio.run(run_once(path, model))).reason == "done"


def test_what_a_run_costs_is_capped_too(tmp_path: Path) -> None:
    model = ScriptedModel(Says("Worked."), name=MODEL, price=Price(input=1_000_000, output=0))

    async def look() -> None:
        dear = {"daily_usd": None, "max_retries": 0}
        async with scripted_store(tmp_path / "run.db", model, models=dear) as fov:
            session = await fov.session("run", strategy="oneshot", budget_tokens=BUDGET_TOKENS)
            end = ended(await events_of_run(fov, session, caps=Caps(max_usd=700)))
            assert end.reason == "cap"
            assert end.usd >= 700
            assert end.text.startswith("$")
            assert end.iterations == 2

    asyncio.run(look())


def test_the_epic_of_a_run_is_fixed(tmp_path: Path) -> None:
    async def look() -> None:
        async with scripted_store(tmp_path / "run.db", by_iteration({1: DONE})) as fov:
            session = await fov.session("run", strategy="oneshot", budget_tokens=BUDGET_TOKENS)
            await events_of_run(fov, session)
            with pytest.raises(Refused, match="has a different epic"):
                await events_of_run(fov, session, epic="Build a bridge.")

    asyncio.run(look())


def test_a_title_is_enough_and_nothing_is_too_little(tmp_path: Path) -> None:
    async def look() -> None:
        model = by_iteration({1: DONE})
        async with scripted_store(tmp_path / "run.db", model) as fov:
            titled = await fov.session("titled", title="Build a bridge", budget_tokens=BUDGET_TOKENS)
            assert ended(await events_of_run(fov, titled, epic=None, tasks=None)).reason == "done"
            assert (await titled.refresh()).strategy == "oneshot"
            assert "<epic>\nBuild a bridge\n</epic>" in model.asks[0].messages[0].text
            bare = await fov.session("bare", budget_tokens=BUDGET_TOKENS)
            with pytest.raises(InputError, match="there is nothing to work on"):
                await events_of_run(fov, bare, epic=None, tasks=None)

    asyncio.run(look())


def test_a_small_budget_leaves_the_tools_out_and_the_lines_do(tmp_path: Path) -> None:
    async def look() -> None:
        model = by_iteration({2: Says("TASKS:\n- [x] dig\n- [x] build\nSTATUS: done")})
        async with scripted_store(tmp_path / "run.db", model) as fov:
            session = await fov.session("run", strategy="oneshot", budget_tokens=2_000)
            end = ended(await events_of_run(fov, session))
            assert (end.reason, end.tasks.done_count) == ("done", 2)
            assert not model.asks[0].tools

    asyncio.run(look())


def test_a_model_that_fails_leaves_the_iteration_to_be_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with pytest.raises(ModelError, match="it fails"):
        asyncio.run(run_once(path, by_iteration({2: Fails("server")})))
    events = asyncio.run(run_once(path, by_iteration({3: DONE})))
    began = [event for event in events if isinstance(event, IterationStart)]
    assert began == [IterationStart(2, is_again=True), IterationStart(3)]
    assert isinstance(events[0], RunStart)
    assert events[0].iterations == 1


def test_an_answer_is_not_said_twice_by_the_same_command(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    asyncio.run(run_once(path, by_iteration({1: Says("STATUS: question: Which hill?")})))
    with pytest.raises(ModelError):
        asyncio.run(run_once(path, by_iteration({2: Fails("server")}), answer="The green one."))
    events = asyncio.run(run_once(path, by_iteration({3: DONE}), answer="The green one."))
    assert not [event for event in events if isinstance(event, Notice)]
    assert ended(events).iterations == 3


def test_stopped_in_the_middle_of_an_answer_it_asks_again(tmp_path: Path) -> None:
    async def stop_and_go() -> None:
        model = by_iteration({2: DONE})
        async with scripted_store(tmp_path / "run.db", model) as fov:
            session = await fov.session("run", strategy="oneshot", budget_tokens=BUDGET_TOKENS)
            events = run(session, fov.caller, [MODEL], costs=fov.costs, epic=EPIC)
            async with aclosing(events):
                async for event in events:
                    if isinstance(event, AnswerPiece):
                        break
            assert [len(turn.messages) for turn in await session.load_turns()] == [1]
            assert ended(await events_of_run(fov, session, tasks=None)).iterations == 2
            assert [len(turn.messages) for turn in await session.load_turns()] == [2, 3]

    asyncio.run(stop_and_go())


def test_what_is_said_in_a_chat_meanwhile_is_log_and_lets_a_question_go(tmp_path: Path) -> None:
    async def look() -> None:
        model = by_iteration({1: Says("STATUS: question: Which hill?"), 2: DONE})
        async with scripted_store(tmp_path / "run.db", model) as fov:
            session = await fov.session("run", strategy="oneshot", budget_tokens=BUDGET_TOKENS)
            await events_of_run(fov, session)
            said = [{"role": "user", "content": "The green one."}, {"role": "assistant", "content": "STATUS: done"}]
            await session.record(said)
            end = ended(await events_of_run(fov, session))
            assert (end.reason, end.iterations, (await session.refresh()).turns) == ("done", 2, 3)

    asyncio.run(look())


def test_a_session_with_a_past_can_be_worked_in(tmp_path: Path) -> None:
    async def look() -> None:
        model = by_iteration({1: DONE})
        async with scripted_store(tmp_path / "run.db", model) as fov:
            session = await fov.session("s", budget_tokens=BUDGET_TOKENS)
            await session.record(
                [{"role": "user", "content": "Go on."}, {"role": "assistant", "content": "STATUS: done"}]
            )
            end = ended(await events_of_run(fov, session))
            assert (end.reason, end.iterations) == ("done", 1)
            assert model.asks[0].messages[2].text == "STATUS: done", "the past is part of the log, and no more"

    asyncio.run(look())


def test_a_long_log_is_summed_up_by_what_was_done(tmp_path: Path) -> None:
    def reply(ask: Ask) -> Behaviour:
        number = iteration_asked(ask)
        end = "\nSTATUS: done" if number == 70 else ""
        return Says(f"Hill {number} has {number * 37 % 101} sheep, counted at noon.{end}")

    async def look() -> None:
        async with scripted_store(tmp_path / "run.db", ScriptedModel(reply, name=MODEL)) as fov:
            by_age = {"bands": "documented"}
            session = await fov.session("run", strategy="oneshot", strategy_settings=by_age, budget_tokens=3_000)
            assert ended(await events_of_run(fov, session, has_tools=False)).iterations == 70
            await fov.settle()
            oldest = parse_blocks((await session.context(budget_tokens=1_100)).history)[0]
            assert oldest.level == "E"
            text = oldest.entries[0].text
            assert text.lower().count("go on") <= 1
            assert text.count("sheep") >= 5

    asyncio.run(look())


def test_the_events_of_an_answer_come_through(tmp_path: Path) -> None:
    events = asyncio.run(run_once(tmp_path / "run.db", by_iteration({1: DONE})))
    kinds = [type(event).__name__ for event in events]
    assert kinds == [
        "RunStart",
        "IterationStart",
        "RequestSent",
        "ToolRequest",
        "ToolResponse",
        "IterationEnd",
        "RunEnd",
    ]
    (done,) = [event.answer for event in events if isinstance(event, IterationEnd)]
    assert isinstance(done, AnswerSummary)


def test_a_run_takes_one_value_of_options_or_its_fields_and_needs_the_costs(tmp_path: Path) -> None:
    async def job() -> None:
        model = by_iteration({1: DONE})
        async with scripted_store(tmp_path / "run.db", model) as fov:
            session = await fov.session("run", strategy="oneshot", budget_tokens=BUDGET_TOKENS)
            with pytest.raises(InputError, match="costs"):
                _ = [event async for event in run(session, fov.caller, [MODEL], epic=EPIC)]
            options = ChatOptions.of(fov, max_output_tokens=321)
            events = [
                event async for event in run(session, fov.caller, [MODEL], options, epic=EPIC, system="Be brief.")
            ]
            assert ended(events).reason == "done"
        assert model.asks[0].max_output_tokens == 321
        assert model.asks[0].messages[0].text.startswith("Be brief.")

    asyncio.run(job())
