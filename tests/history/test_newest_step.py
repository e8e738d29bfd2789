"""The newest tool calls and their results wait for the answer: they go out as they came, if the budget allows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from foveate.context.context import Context
from foveate.context.cut import MAX_COUNTED_CHARS
from foveate.context.render import FORMATS
from foveate.errors import InvalidMessage
from foveate.formats import ProviderFormat
from foveate.history.newest_step import _Measure, waiting_step
from foveate.tokens import exact_counter
from support.engine import assistant, opened, settings, talk, tool_step, user
from support.recount import recount
from support.validators import faults

STRATEGIES = (
    *("gradient", "standard", "checkpoint", "topics", "hybrid"),
    pytest.param("oneshot", marks=pytest.mark.thorough),  # its log is a gradient
)
BUDGET = 8_000


def words(count: int) -> str:
    return " ".join(f"line{number}" for number in range(count))


def last_block(format_name: ProviderFormat, context: Context) -> Any:
    """The last thing that a request says."""
    last = context.messages(format_name)[-1]
    if format_name in ("openai", "openai-responses"):
        return last
    content = last["content"] if format_name == "anthropic" else last["parts"]
    return {"text": content} if isinstance(content, str) else content[-1]


def last_result(format_name: ProviderFormat, context: Context) -> str:
    """The text of the tool result that a request ends with."""
    last = last_block(format_name, context)
    match format_name:
        case "openai":
            assert last["role"] == "tool"
            return str(last["content"])
        case "openai-responses":
            return str(last["output"])
        case "anthropic":
            content = last["content"]
            return str(content if isinstance(content, str) else content[0]["text"])
    return str(last["functionResponse"]["response"]["output"])


def last_words(format_name: ProviderFormat, context: Context) -> str:
    """The text of the user's message that a request ends with."""
    last = last_block(format_name, context)
    if format_name in ("openai", "openai-responses"):
        assert last["role"] == "user"
        content = last["content"]
        return str(content if isinstance(content, str) else content[-1]["text"])
    return str(last["text"])


async def check_end(session: Any, budgets: Sequence[int | None], output: str) -> None:
    for budget in budgets:
        context = await session.context(budget_tokens=budget)
        assert context.tokens <= (budget or BUDGET)
        for name in FORMATS:
            assert last_result(name, context) == output
            assert not faults(name, context.request(name))
            assert recount(name, context.request(name)) <= (budget or BUDGET)


@pytest.mark.parametrize("name", STRATEGIES)
def test_results_that_fit_the_budget_go_out_raw_as_results(name: str, tmp_path: Path) -> None:
    async def job() -> None:
        async with opened(tmp_path / "s.db") as fov:
            session = await fov.session("s", budget_tokens=BUDGET, strategy=name)
            await talk(session, 20, words=40)
            await session.record([user("Read it, as you did with word3x1."), *tool_step(1, words(300))])
            for step, size in enumerate((700, 1_500), 2):
                output = words(size)
                await session.record(tool_step(step, output))
                await check_end(session, (None, BUDGET - 500), output)

    asyncio.run(job())


@pytest.mark.parametrize("name", STRATEGIES)
def test_parallel_results_go_out_together(name: str, tmp_path: Path) -> None:
    async def job() -> None:
        async with opened(tmp_path / "s.db") as fov:
            session = await fov.session("s", budget_tokens=BUDGET, strategy=name)
            await talk(session, 30, words=40)
            steps = [tool_step(number, f"out {number} {words(70)}") for number in range(12)]
            calls = [part for call, _ in steps for part in call.parts]
            together = [assistant(""), *[result for _, result in steps]]
            together[0] = type(together[0])("assistant", tuple(calls))
            await session.record([user("Do it all."), *tool_step(99, "first"), *together])
            await check_end(session, (None,), f"out 11 {words(70)}")

    asyncio.run(job())


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_result_larger_than_the_budget_is_cut_inside_its_message(name: str, tmp_path: Path) -> None:
    async def job() -> None:
        async with opened(tmp_path / "s.db") as fov:
            session = await fov.session("s", budget_tokens=BUDGET, strategy=name)
            await talk(session, 20)
            await session.record([user("Read it."), *tool_step(1, "short"), *tool_step(2, words(6_000))])
            for budget in (None, 4_000):
                context = await session.context(budget_tokens=budget)
                assert context.tokens <= (budget or BUDGET)
                for format_name in FORMATS:
                    shown = last_result(format_name, context)
                    assert "(cut: " in shown
                    assert shown.startswith("line0 line1 ")
                    assert shown.endswith(" line5999")
                    assert not faults(format_name, context.request(format_name))

    asyncio.run(job())


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_prompt_larger_than_its_room_is_still_the_users_message(name: str, tmp_path: Path) -> None:
    async def job() -> None:
        async with opened(tmp_path / "s.db") as fov:
            session = await fov.session("s", budget_tokens=BUDGET, strategy=name)
            await talk(session, 20, words=60)
            for size in (1_700, 6_000):
                asked = f"Why is it so? {words(size)}"
                await session.record(user(asked))
                context = await session.context()
                assert context.tokens <= BUDGET
                for format_name in FORMATS:
                    shown = last_words(format_name, context)
                    assert shown == asked or (size == 6_000 and "(cut: " in shown and shown.startswith("Why is it"))
                await session.record(assistant("So it is."))

    asyncio.run(job())


def test_a_large_result_that_fits_the_budget_goes_out_raw_beside_a_long_history(tmp_path: Path) -> None:
    async def job() -> None:
        async with opened(tmp_path / "s.db", settings(recall={"enabled": False})) as fov:
            session = await fov.session("s", budget_tokens=60_000)
            await talk(session, 100, words=60)
            output = words(8_000)
            await session.record([user("Read it."), *tool_step(1, "short"), *tool_step(2, output)])
            assert exact_counter("o200k_base").base(output) > 20_000
            for _ in range(2):
                context = await session.context()
                assert last_result("openai", context) == output
                assert context.tokens <= 60_000

    asyncio.run(job())


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_call_without_its_result_is_no_request(name: str, tmp_path: Path) -> None:
    async def job() -> None:
        async with opened(tmp_path / "s.db") as fov:
            session = await fov.session("s", budget_tokens=BUDGET, strategy=name)
            call, result = tool_step(1, "done")
            await session.record([user("Go."), call])
            context = await session.context()
            assert "make step-1" in context.text
            for format_name in FORMATS:
                with pytest.raises(InvalidMessage, match="call of 'exec' without its result"):
                    context.request(format_name)
            assert last_words("openai", await session.context("Stop that.")) == "Stop that."
            await session.record(result)
            assert last_result("openai", await session.context()) == "done"

    asyncio.run(job())


def test_what_is_on_the_board_is_never_the_last_word(tmp_path: Path) -> None:
    async def job() -> None:
        async with opened(tmp_path / "s.db") as fov:
            session = await fov.session("s", budget_tokens=BUDGET)
            await talk(session, 4)
            await session.call_tool("get_turn", {"turn_id": "T-1"})
            await session.record(user("Well?"))
            context = await session.context()
            assert "<board>" in context.text
            assert all(last_words(name, context) == "Well?" for name in FORMATS)

    asyncio.run(job())


def test_only_what_the_model_is_to_answer_is_pending() -> None:
    step = tool_step(1, "done")
    assert waiting_step([user("Go."), *step]).messages == tuple(step)  # type: ignore[union-attr]
    assert waiting_step([user("Go.")]).number == 1  # type: ignore[union-attr]
    assert waiting_step([user("Go."), assistant("Done.")]) is None
    assert waiting_step([user("Go."), step[0]]) is None
    assert waiting_step([user("Go."), step[0]], has_results=True).number == 2  # type: ignore[union-attr]


def test_a_text_that_is_cut_is_counted_once_and_a_very_long_one_only_in_part() -> None:
    counted: list[int] = []

    class Counting:
        def base(self, text: str) -> int:
            counted.append(len(text))
            return len(text) // 4

    measure = _Measure(Counting())  # type: ignore[arg-type]
    text = "word " * (MAX_COUNTED_CHARS // 2)
    assert measure.size(text) == measure.size(text) == len(text) // 4
    assert counted == [MAX_COUNTED_CHARS]
    assert len(measure.cut(text, 100)) < 1_000
    assert sum(counted) < 1.1 * MAX_COUNTED_CHARS
