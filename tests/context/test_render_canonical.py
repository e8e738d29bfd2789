"""A context as canonical messages: system first, prompt last, and calls as text where no tools are offered."""

import asyncio
from pathlib import Path

import pytest

from foveate import Attachment, Foveate, Message, Text, ToolResult
from foveate.context.context import Context
from foveate.context.render import canonical_messages
from foveate.text import turn_text
from support.engine import assistant, talk, tool_step, user, with_store


def made(path: Path, *, budget_tokens: int = 6_000, retrieved: bool = False) -> Context:
    """A context of some turns, the last of which waits for an answer."""

    async def job(fov: Foveate) -> Context:
        session = await fov.session("s", budget_tokens=budget_tokens)
        await talk(session, 40, words=40)
        await session.record([user("Run it."), *tool_step(1, "made"), assistant("It is made.")])
        if retrieved:
            await session.call_tool("get_turn", {"turn_id": "T-2"})
        await session.record(user("And now?"))
        return await session.context(system="You are terse.")

    return asyncio.run(with_store(path, job))


def texts(messages: tuple[Message, ...]) -> str:
    return "".join(message.text for message in messages)


@pytest.mark.parametrize("retrieved", [False, True])
def test_the_messages_say_what_the_context_says_in_its_order(tmp_path: Path, *, retrieved: bool) -> None:
    context = made(tmp_path / "chat.db", retrieved=retrieved)
    system, lead, *native = canonical_messages(context.layout, context.system)
    assert (system.role, system.text) == ("system", context.system)
    layout = context.layout
    shown = [text for text in (layout.stable_lead, layout.lead, layout.note) if text]
    assert (lead.role, lead.text) == ("user", "\n".join(shown))
    assert native[-1].text.endswith("And now?")
    assert native[-1].text.startswith("<board>") is retrieved
    assert turn_text((*native[:-1], user("And now?"))) == turn_text(tuple(context.native_messages))


def test_calls_stay_calls_with_tools_and_become_text_without(tmp_path: Path) -> None:
    context = made(tmp_path / "chat.db")
    with_tools = canonical_messages(context.layout, context.system)
    without = canonical_messages(context.layout, context.system, has_tools=False)
    assert any(message.tool_calls for message in with_tools)
    assert not any(message.tool_calls or message.tool_results for message in without)
    assert '[call exec] {"cmd": "make step-1"}' in texts(without)
    assert "[result exec] made" in texts(without)
    assert [message.role for message in without if message.role == "tool"] == []


def test_what_is_shown_to_people_only_is_not_sent(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> Context:
        session = await fov.session("s")
        said = Message("assistant", assistant("Well").parts)
        await session.record([user("Hello."), said, Message("assistant", user("(interrupted)").parts, kind="display")])
        await session.record(user("Go on."))
        return await session.context()

    context = asyncio.run(with_store(tmp_path / "chat.db", job))
    sent = canonical_messages(context.layout, context.system)
    assert [message.text for message in sent] == [
        "Hello.",
        "Well",
        "Go on.",
    ]


def test_files_of_earlier_turns_are_named_and_those_of_the_newest_sent(tmp_path: Path) -> None:
    image = Attachment("image", data="aGVsbG8=", media_type="image/png", name="chart.png")
    call, result = tool_step(1, "see")
    seen = ToolResult("c1", (Text("A chart:"), image), name="exec")

    async def job(fov: Foveate) -> Context:
        session = await fov.session("s")
        await session.record(
            [Message("user", (Text("Look."), image)), call, Message("tool", (seen,)), assistant("Nice.")]
        )
        await session.record(Message("user", (Text("And this?"), image)))
        return await session.context()

    context = asyncio.run(with_store(tmp_path / "chat.db", job))
    messages = canonical_messages(context.layout, context.system)
    assert messages[0].parts == (Text("Look."), Text("[image] chart.png image/png"))
    assert messages[2].tool_results[0].content == (Text("A chart:"), Text("[image] chart.png image/png"))
    assert messages[-1].parts[-1] == image
    assert result.role == messages[2].role == "tool"
