"""A chat with a toolbox: results are recorded as they are, and a crash in a tool call repeats nothing harmful."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from foveate import Foveate
from foveate.agents.calls import INTERRUPTED_CALL, NOT_STARTED
from foveate.agents.chat import Chat, ToolResponse
from foveate.agents.toolboxes import ToolChoice, note_packs
from foveate.errors import InputError
from foveate.events import Event
from foveate.testing.scripted import CallsTool, Says, ScriptedModel, Stalls
from foveate.tools import Tool, Toolbox, ToolOutput, Workspace, registry, tool
from foveate.tools.tool import READ_ONLY
from foveate.turn import Attachment, Message, ToolResult
from support.chats import events_of, finished, scripted_store, unpaired

MODEL = "scripted:test"
IMAGE = Attachment("image", data="aGk=", media_type="image/png")


class Crash(BaseException):
    """Stands for a process that is gone: nothing after it happens."""


class World:
    """What the tools of a test did; a crash happens in the named tool, after it took effect."""

    def __init__(self, crash_in: str = "") -> None:
        self.done: list[str] = []
        self.crash_in = crash_in

    def tools(self) -> list[Tool]:
        def do(name: str) -> None:
            self.done.append(name)
            if name == self.crash_in:
                self.crash_in = ""
                raise Crash

        @tool(annotations=READ_ONLY)
        async def look() -> str:
            """Look."""
            do("look")
            return "A wall.\n"

        @tool
        async def change() -> ToolOutput:
            """Change something."""
            do("change")
            return ToolOutput("1 failed\n", is_error=True, exit_code=1)

        @tool(annotations=READ_ONLY)
        async def picture() -> ToolOutput:
            """Show a picture."""
            return ToolOutput("A picture.", (IMAGE,))

        return [look, change, picture]


@asynccontextmanager
async def chatting(path: Path, model: ScriptedModel, world: World) -> AsyncIterator[tuple[Foveate, Chat]]:
    async with scripted_store(path, model, store={"synchronous": "normal"}) as fov:
        session = await fov.session("s")
        yield fov, Chat(session, fov.caller, [MODEL], toolbox=Toolbox(world.tools(), Workspace(session=session)))


def results_of(messages: Sequence[Message]) -> list[ToolResult]:
    return [result for message in messages for result in message.tool_results]


def text_of(result: ToolResult) -> str:
    return "".join(part.text for part in result.content if not isinstance(part, Attachment))  # type: ignore[union-attr]


def test_a_result_is_recorded_with_its_exit_code_and_the_model_gets_its_image(tmp_path: Path) -> None:
    model = ScriptedModel([CallsTool("change", more=(CallsTool("picture"),)), Says("Done.")])

    async def job() -> None:
        async with chatting(tmp_path / "a.db", model, World()) as (_, chat):
            events = await events_of(chat.say("Change it."))
            told = [
                (event.name, event.is_error, event.exit_code) for event in events if isinstance(event, ToolResponse)
            ]
            assert told == [("change", True, 1), ("picture", False, None)]
            changed, pictured = results_of((await chat.session.load_turn(1)).messages)
            assert (text_of(changed), changed.is_error, changed.exit_code) == ("1 failed\n", True, 1)
            assert changed.duration_seconds is not None
            assert IMAGE in pictured.content
        shown = results_of(model.asks[-1].messages)
        assert IMAGE in shown[-1].content
        names = [tool["function"]["name"] for tool in model.asks[0].tools]  # type: ignore[index, call-overload]
        assert names == ["change", "look", "picture"]

    asyncio.run(job())


@pytest.mark.parametrize(
    ("crash_in", "done"),
    [("look", ["look", "look", "change"]), ("change", ["change", "look"])],
)
def test_after_a_crash_in_a_call_only_a_read_only_one_is_executed_again(
    tmp_path: Path, crash_in: str, done: list[str]
) -> None:
    order = ["look", "change"] if crash_in == "look" else ["change", "look"]
    first = CallsTool(order[0], id="a", more=(CallsTool(order[1], id="b"),))
    world = World(crash_in)

    async def job() -> None:
        async with chatting(tmp_path / "a.db", ScriptedModel(first), world) as (_, chat):
            with pytest.raises(Crash):
                await events_of(chat.say("Change it."))
        model = ScriptedModel(Says("Done."))
        async with chatting(tmp_path / "a.db", model, world) as (_, chat):
            assert await chat.waiting() == "T-1"
            assert (await finished(chat.answer())).text == "Done."
            assert world.done == done
            results = results_of((await chat.session.load_turn(1)).messages)
            assert [result.call_id for result in results] == ["a", "b"]
            assert (text_of(results[0]) == INTERRUPTED_CALL) == (crash_in == "change")
        assert not unpaired(model.asks[0])

    asyncio.run(job())


def test_a_call_that_is_known_not_to_have_been_started_is_executed(tmp_path: Path) -> None:
    world = World()

    async def job() -> None:
        async with chatting(tmp_path / "a.db", ScriptedModel(Says("Done.")), world) as (_, chat):
            call = {"id": "a", "type": "function", "function": {"name": "change", "arguments": "{}"}}
            await chat.session.record([{"role": "user", "content": "Go."}, {"role": "assistant", "tool_calls": [call]}])
            await finished(chat.answer(unstarted="a"))
            assert world.done == ["change"]

    asyncio.run(job())


def test_a_prompt_after_a_crash_ends_the_calls_before_it(tmp_path: Path) -> None:
    world = World("change")
    model = ScriptedModel([CallsTool("change", id="a", more=(CallsTool("look", id="b"),)), Says("Hello.")])

    async def job() -> None:
        async with chatting(tmp_path / "a.db", model, world) as (_, chat):
            with pytest.raises(Crash):
                await events_of(chat.say("Change it."))
            await finished(chat.say("Never mind."))
            results = results_of((await chat.session.load_turn(1)).messages)
            assert [text_of(result) for result in results] == [INTERRUPTED_CALL, NOT_STARTED]
            assert world.done == ["change"]
        assert not unpaired(model.asks[-1])

    asyncio.run(job())


def test_a_call_that_the_user_stops_gets_a_result_that_says_so(tmp_path: Path) -> None:
    async def job() -> None:
        started = asyncio.Event()

        @tool
        async def change() -> str:
            """Change something, slowly."""
            started.set()
            await asyncio.Event().wait()
            return ""

        async with scripted_store(tmp_path / "a.db", ScriptedModel(CallsTool("change", id="a"))) as fov:
            session = await fov.session("s")
            chat = Chat(session, fov.caller, [MODEL], toolbox=Toolbox([change], Workspace()))
            asking = asyncio.create_task(events_of(chat.say("Change it.")))
            await started.wait()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            (result,) = results_of((await session.load_turn(1)).messages)
            assert text_of(result) == INTERRUPTED_CALL

    asyncio.run(job())


def test_tools_that_take_too_much_of_the_budget_are_an_error(tmp_path: Path) -> None:
    async def job() -> None:
        async with scripted_store(tmp_path / "a.db", ScriptedModel(Stalls())) as fov:
            session = await fov.session("s", budget_tokens=1_000)
            with pytest.raises(InputError, match="use a larger budget or a smaller pack"):
                Chat(session, fov.caller, [MODEL], toolbox=Toolbox(World().tools(), Workspace()))

    asyncio.run(job())


def test_a_switch_of_packs_in_a_session_is_an_event(tmp_path: Path) -> None:
    async def job() -> list[Event]:
        events: list[Event] = []
        async with scripted_store(tmp_path / "a.db", ScriptedModel(Says("Yes."))) as fov:
            subscription = fov.subscribe(events.append, ["pack-switched"])
            session = await fov.session("s")
            assert not await note_packs(session, ToolChoice(packs=("research",)))
            await session.record([{"role": "user", "content": "Hello."}])
            assert not await note_packs(session, ToolChoice(packs=("research",)))
            await session.refresh()
            assert await note_packs(session, ToolChoice(packs=("core-codex", "agents")))
            subscription.drain()
        return events

    (event,) = asyncio.run(job())
    assert (event.kind, dict(event.data)) == ("pack-switched", {"from": "research", "to": "core-codex,agents"})


def test_the_calls_of_a_script_are_recorded_and_the_model_sees_one(tmp_path: Path) -> None:
    model = ScriptedModel([CallsTool("run_script", {"script": "look()\nlook().upper()"}), Says("Done.")])

    async def job() -> None:
        async with scripted_store(tmp_path / "a.db", model, store={"synchronous": "normal"}) as fov:
            session = await fov.session("s")
            box = Toolbox([*World().tools(), registry.find("run_script")], Workspace(session=session))
            await events_of(Chat(session, fov.caller, [MODEL], toolbox=box).say("Look twice."))
            messages = (await session.load_turn(1)).messages
        inner = [json.loads(message.text) for message in messages if message.kind == "display"]
        assert inner == [{"tool": "look", "arguments": {}, "result": "A wall.\n"}] * 2
        (seen,) = results_of(model.asks[-1].messages)
        assert text_of(seen) == "A WALL.\n\n(2 tool calls)\n"

    asyncio.run(job())


def test_the_record_of_a_scripts_call_has_its_images_its_error_and_its_exit_code(tmp_path: Path) -> None:
    @tool
    async def shoot() -> ToolOutput:
        """Take a picture."""
        return ToolOutput("No film.", (IMAGE,), is_error=True, exit_code=3)

    script = "try:\n    shoot()\nexcept RuntimeError:\n    pass"
    model = ScriptedModel([CallsTool("run_script", {"script": script}), Says("Done.")])

    async def job() -> None:
        async with scripted_store(tmp_path / "a.db", model, store={"synchronous": "normal"}) as fov:
            session = await fov.session("s")
            box = Toolbox([shoot, registry.find("run_script")], Workspace(session=session))
            await events_of(Chat(session, fov.caller, [MODEL], toolbox=box).say("Take a picture."))
            messages = (await session.load_turn(1)).messages
        (inner,) = [message for message in messages if message.kind == "display"]
        record = {"tool": "shoot", "arguments": {}, "result": "No film.", "is_error": True, "exit_code": 3}
        assert json.loads(inner.text) == record
        assert inner.parts[1:] == (IMAGE,)

    asyncio.run(job())
