"""One prompt and its answer by `session.turn`: recorded once, sent once, answered whoever else asks meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from openai.types.chat import ChatCompletion

from foveate import Foveate, sync
from foveate.errors import InvalidMessage, TurnBegun
from support.engine import assistant, user, with_store
from support.validators import faults

OWN = {"name": "read_tide", "description": "", "input_schema": {"type": "object", "properties": {}}}
COMPLETION = ChatCompletion.model_validate(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-5-mini",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Rising."}}],
    }
)


def test_prompts_asked_at_once_each_get_their_answer(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")

        async def ask(number: int) -> None:
            async with session.turn(f"Question {number}?") as turn:
                request = await turn.request("openai", model="gpt-5-mini")
                assert request["messages"][-1]["content"] == f"Question {number}?"
                await asyncio.sleep(0)
                await turn.record({"role": "assistant", "content": f"Answer {number}."})

        await asyncio.gather(*map(ask, range(5)))
        for turn in await session.load_turns():
            question, answer = turn.messages
            assert question.text.removeprefix("Question ")[0] == answer.text.removeprefix("Answer ")[0]
        assert session.info.turns == 5

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_the_blocking_form_sends_tools_and_takes_a_whole_completion(tmp_path: Path) -> None:
    with sync.open(tmp_path / "chat.db") as fov:
        chat = fov.session("s")
        with chat.turn("How is the tide?") as turn:
            request = turn.request("anthropic", model="claude-haiku-4-5", system="Be brief.", extra_tools=[OWN])
            assert request["model"] == "claude-haiku-4-5"
            assert request["tools"][-1] == OWN
            assert faults("anthropic", {key: value for key, value in request.items() if key != "model"}) == []
            turn.record(COMPLETION)
        assert turn.id == "T-1"
        (kept,) = chat.load_turns()
    assert [message.text for message in kept.messages] == ["How is the tide?", "Rising."]


def test_a_block_that_is_tried_again_records_its_prompt_once(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        for _ in range(2):
            with pytest.raises(ConnectionError):
                async with session.turn("How is the tide?"):
                    raise ConnectionError
        assert (await session.refresh()).turns == 1

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_prompt_that_is_recorded_and_passed_as_well_is_sent_once(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        await session.record([user("Hello."), assistant("Yes?"), user("How is the tide?")])
        messages: list[Any] = (await session.context("How is the tide?")).messages("openai")
        assert [message["content"] for message in messages] == ["Hello.", "Yes?", "How is the tide?"]
        again: list[Any] = (await session.context("Hello.")).messages("openai")
        assert again[-1]["content"] == "Hello.", "another prompt is another message"

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_an_answer_to_a_turn_that_another_program_ended_is_an_error(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        async with session.turn("How is the tide?") as turn:
            await session.record(user("Never mind."))
            with pytest.raises(TurnBegun):
                await turn.request("openai")
            with pytest.raises(TurnBegun):
                await turn.record({"role": "assistant", "content": "Rising."})
        with pytest.raises(InvalidMessage):
            async with session.turn(" "):
                pass

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_turn_without_its_with_block_says_so(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        turn = session.turn("How is the tide?")
        with pytest.raises(InvalidMessage, match=r"async with chat\.turn"):
            await turn.request("openai")
        with pytest.raises(InvalidMessage, match=r"async with chat\.turn"):
            await turn.record({"role": "assistant", "content": "Rising."})
        assert (await session.refresh()).turns == 0

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_the_old_name_of_extra_tools_still_works(tmp_path: Path) -> None:
    with sync.open(tmp_path / "chat.db") as fov:
        chat = fov.session("s")
        with pytest.warns(DeprecationWarning, match="extra_tools"):
            assert chat.tools("anthropic", besides=[OWN])[-1] == OWN
