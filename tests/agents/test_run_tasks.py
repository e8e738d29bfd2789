"""The tasks of a run: ticked and added to by the model, merged with what the user gives, and never lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from foveate.agents.chat import Notice
from foveate.agents.run import Caps, RunState, TaskUpdate
from foveate.errors import InputError
from foveate.models import Ask
from foveate.testing.scripted import Behaviour, CallsTool, Says, ScriptedModel
from support.chats import scripted_store
from support.runs import BUDGET_TOKENS, DONE, MODEL, TASKS, by_iteration, ended, events_of_run, iteration_asked, log_of


def test_the_model_may_look_things_up_before_it_goes_on(tmp_path: Path) -> None:
    def reply(ask: Ask) -> Behaviour:
        number = iteration_asked(ask)
        is_answered = any(result.call_id == "look" for message in ask.messages for result in message.tool_results)
        if number == 2 and not is_answered:
            looks = CallsTool("update_tasks", {"done": [1]}, id="tick")
            return CallsTool("get_turn", {"turn_id": "T-1"}, id="look", more=(looks,))
        return DONE if number == 3 else Says(f"Worked on step {number}.")

    async def look() -> None:
        model = ScriptedModel(reply, name=MODEL)
        async with scripted_store(tmp_path / "run.db", model) as fov:
            session = await fov.session("run", strategy="oneshot", budget_tokens=BUDGET_TOKENS)
            events = await events_of_run(fov, session)
            assert ended(events).iterations == 3
            second = (await session.load_turn("T-2")).messages
            assert [message.role for message in second] == ["user", "assistant", "tool", "tool", "assistant"]
            seen = "".join(message.text for message in model.asks[2].messages)
            assert "1. [x] dig" in seen, "the second call of the iteration sees it ticked"
            assert [event.tasks.done_count for event in events if isinstance(event, TaskUpdate)] == [1]

    asyncio.run(look())


def test_a_wrong_call_is_explained_to_the_model_and_changes_nothing(tmp_path: Path) -> None:
    model = by_iteration(
        {1: CallsTool("update_tasks", {"done": [7]}, id="u"), 2: CallsTool("ask_user", {}, id="q"), 3: DONE}
    )

    async def look() -> None:
        async with scripted_store(tmp_path / "run.db", model) as fov:
            session = await fov.session("run", strategy="oneshot", budget_tokens=BUDGET_TOKENS)
            assert ended(await events_of_run(fov, session)).tasks.markdown() == TASKS
            log = await log_of(session)
            assert "[result update_tasks error] Error: there is no task 7; they are 1 to 2" in log[0]
            assert "[result ask_user error] Error: ask_user: question is missing" in log[1]

    asyncio.run(look())


def test_a_model_can_do_what_the_user_asked_for_but_not_drop_it(tmp_path: Path) -> None:
    model = by_iteration(
        {
            1: Says("TASKS:\n- [ ] my own\n- [x] dig\n"),
            2: CallsTool("update_tasks", {"tasks": "- [ ] something else"}, id="u"),
            3: DONE,
        }
    )

    async def look() -> None:
        async with scripted_store(tmp_path / "run.db", model) as fov:
            session = await fov.session("run", strategy="oneshot", budget_tokens=BUDGET_TOKENS)
            events = await events_of_run(fov, session)
            changed = [event.tasks.markdown() for event in events if isinstance(event, TaskUpdate)]
            assert changed == ["- [ ] my own\n- [x] dig\n- [ ] build\n", "- [ ] something else\n- [ ] build\n"]
            assert "Open tasks that are not in it any more: my own." in (await log_of(session))[1]

    asyncio.run(look())


def test_tasks_too_long_for_their_limit_are_refused(tmp_path: Path) -> None:
    many = [f"task number {number} of many" for number in range(400)]
    model = by_iteration({1: CallsTool("update_tasks", {"added": many}, id="u"), 2: DONE})

    async def look() -> None:
        async with scripted_store(tmp_path / "run.db", model) as fov:
            session = await fov.session("run", strategy="oneshot", budget_tokens=BUDGET_TOKENS)
            assert ended(await events_of_run(fov, session)).tasks.markdown() == TASKS
            assert "more than the 3,000 it may have" in (await log_of(session))[0]
            other = await fov.session("other", strategy="oneshot", budget_tokens=BUDGET_TOKENS)
            with pytest.raises(InputError, match="3,000"):
                await events_of_run(fov, other, tasks="".join(f"- {text}\n" for text in many))

    asyncio.run(look())


def test_a_task_file_changed_underneath_is_merged_and_told(tmp_path: Path) -> None:
    model = by_iteration({2: Says("STATUS: question: And now?"), 3: DONE, 4: DONE})

    async def look() -> None:
        async with scripted_store(tmp_path / "run.db", model) as fov:
            session = await fov.session("run", strategy="oneshot", budget_tokens=BUDGET_TOKENS)
            await events_of_run(fov, session)
            changed = "- [x] dig\n- [ ] plant a tree\n"
            events = await events_of_run(fov, session, tasks=changed, answer="Go on.")
            notes = [event.text for event in events if isinstance(event, Notice)]
            told = "The tasks have changed since they were read (new: plant a tree; done: dig)."
            assert notes == [f"{told} The run's own tasks are kept."]
            listed = "# The house\n- [x] dig\n- [ ] build\n- [ ] plant a tree\n"
            assert ended(events).tasks.markdown() == listed
            assert not [
                event for event in await events_of_run(fov, session, tasks=changed) if isinstance(event, Notice)
            ]
            # What was done goes on if there is more to do.
            events = await events_of_run(fov, session, tasks=f"{changed}- [ ] move in\n")
            assert ended(events).iterations == 4

    asyncio.run(look())


def test_a_fork_goes_on_from_its_own_turns(tmp_path: Path) -> None:
    async def look() -> None:
        model = by_iteration(
            {
                2: CallsTool("update_tasks", {"done": [1]}, id="a"),
                4: CallsTool("update_tasks", {"done": [2]}, id="b"),
                6: DONE,
            }
        )
        async with scripted_store(tmp_path / "run.db", model) as fov:
            session = await fov.session("run", strategy="oneshot", budget_tokens=BUDGET_TOKENS)
            await events_of_run(fov, session)
            fork = await session.fork("other", 3)
            events = await events_of_run(fov, fork, caps=Caps(max_iterations=3))
            assert ended(events).iterations == 3
            assert ended(events).tasks.markdown() == "# The house\n- [x] dig\n- [ ] build\n"
            assert ended(await events_of_run(fov, fork)).iterations == 6

    asyncio.run(look())


def test_a_pruned_log_does_not_take_the_tasks_along(tmp_path: Path) -> None:
    async def look() -> None:
        model = by_iteration(
            {1: CallsTool("update_tasks", {"done": [1]}, id="u"), 2: Says("STATUS: question: ?"), 4: DONE}
        )
        async with scripted_store(tmp_path / "run.db", model) as fov:
            session = await fov.session("run", strategy="oneshot", budget_tokens=BUDGET_TOKENS)
            await events_of_run(fov, session)
            await fov.prune("run", before="2100-01-01", dry_run=False)
            end = ended(await events_of_run(fov, session, answer="Yes."))
            assert (end.iterations, end.tasks.done_count) == (4, 1)

    asyncio.run(look())


def test_the_state_is_read_back_as_it_was() -> None:
    state, _ = RunState(first_turn=2, turn=2).taking(TASKS)
    assert RunState.unpack(state.pack()) == state
