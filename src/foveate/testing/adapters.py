"""The conformance suite of adapters, for built-in and third-party ones.

A `Door` is a small program in the framework, with the framework's own test model and one tool, `weather(city)`:

@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_my_adapter_conforms(case, tmp_path):
    asyncio.run(run_case(case, MyDoor, tmp_path / "chat.db"))
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from foveate import client as api
from foveate.session import Session
from foveate.settings import Settings, load_settings
from foveate.tokens import exact_counter
from foveate.turn import Attachment, Message, Reasoning, ToolResult

BUDGET_TOKENS = 8_000
TURNS = 50
SYSTEM = "You are a weather service. " + "Be brief, be exact, and name the city in every sentence. " * 12
"""The system prompt, long enough that a budget which does not count it is exceeded."""
TOOL = {
    "name": "weather",
    "description": "The weather of a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""An image of one pixel, in base64."""
MODEL = "claude-test"

Tool = Callable[[str], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of the test model."""

    text: str = ""
    cities: tuple[str, ...] = ()
    """Cities of parallel calls of `weather`."""
    thinking: str = ""
    """Reasoning, whose signature is `signed:` and the text itself."""
    fails: bool = False
    """The model can't be reached."""


class ModelDown(Exception):
    """The test model can't be reached."""


class Door(Protocol):
    """A program in the framework, with `SYSTEM` as its prompt. Its own copy of the conversation is empty at first."""

    requests: list[str]
    """All text of each request to the model: system prompt, tools as JSON, messages, the data of images."""

    async def ask(self, prompt: str, replies: Sequence[Reply], *, image: str = "", is_stream: bool = False) -> str:
        """Run the program with a prompt and return the last text: the model gives these replies, and its calls are
        executed.

        A reply that fails raises `ModelDown`, or the framework's error for it.
        """
        ...

    async def undo(self) -> None:
        """Remove the newest turn from the program's copy, like a user who asks in another way."""
        ...


MakeDoor = Callable[[Session, Tool], Door]


@dataclass
class World:
    """A store that can be closed and opened again, and doors to its session."""

    path: Path
    make: MakeDoor
    settings: Settings
    stack: AsyncExitStack
    fov: api.Foveate
    session: Session
    called: list[str] = field(default_factory=list)
    hangs: bool = False
    """The tool never answers."""
    is_hanging: asyncio.Event = field(default_factory=asyncio.Event)

    async def weather(self, city: str) -> str:
        self.called.append(city)
        if self.hangs:
            self.is_hanging.set()
            await asyncio.Event().wait()
        return f"sunny in {city}"

    def door(self) -> Door:
        return self.make(self.session, self.weather)

    async def reopen(self) -> None:
        """Close the store and open it again, like another process."""
        await self.stack.aclose()
        self.fov = await self.stack.enter_async_context(api.open(self.path, settings=self.settings))
        self.session = await self.fov.open_session("chat")

    async def log(self, session_id: str = "chat") -> list[list[Message]]:
        """Return the messages of each turn."""
        turns = await (await self.fov.open_session(session_id)).load_turns()
        return [[message for message in turn.messages if message.kind == "message"] for turn in turns]

    async def texts(self, session_id: str = "chat") -> list[list[str]]:
        """Return the texts of user and model in each turn."""
        return [[message.text for message in turn if message.text] for turn in await self.log(session_id)]


Case = Callable[[World], Awaitable[None]]


async def run_case(case: Case, make: MakeDoor, path: Path) -> None:
    """Run one case on a new store at a path."""
    settings = load_settings(environment={}, overrides={"compress": {"processes": 0}})
    async with AsyncExitStack() as stack:
        fov = await stack.enter_async_context(api.open(path, settings=settings))
        session = await fov.session("chat", budget_tokens=BUDGET_TOKENS)
        await case(World(path, make, settings, stack, fov, session))


async def every_message_is_recorded_once(world: World) -> None:
    door = world.door()
    for number in range(3):
        assert await door.ask(f"question {number}", [Reply(f"answer {number}")]) == f"answer {number}"
    assert await world.texts() == [[f"question {number}", f"answer {number}"] for number in range(3)]
    assert all(text in door.requests[-1] for text in ("question 0", "answer 1", "question 2"))
    assert len(await world.fov.sessions()) == 1


async def calls_keep_their_results(world: World) -> None:
    door = world.door()
    replies = [Reply(cities=("Oslo",)), Reply(cities=("Rome", "Bern")), Reply("All sunny.")]
    assert await door.ask("The weather?", replies) == "All sunny."
    await door.ask("Thanks.", [Reply("You are welcome.")])
    turns = await world.log()
    assert _pairs(turns[0]) == {"Oslo": "sunny in Oslo", "Rome": "sunny in Rome", "Bern": "sunny in Bern"}
    assert [len(turn) for turn in turns[1:]] == [2]
    assert all(text in door.requests[2] for text in ("sunny in Oslo", "sunny in Rome", "sunny in Bern"))


async def images_are_kept(world: World) -> None:
    door = world.door()
    await door.ask("What is this?", [Reply("A pixel.")], image=PNG)
    ((prompt, _),) = await world.log()
    (image,) = [part for part in prompt.parts if isinstance(part, Attachment)]
    assert (image.media, image.data, image.media_type) == ("image", PNG, "image/png")
    assert PNG in door.requests[0]


async def thinking_is_kept(world: World) -> None:
    door = world.door()
    await door.ask("The weather?", [Reply(cities=("Oslo",), thinking="Oslo it is."), Reply("Sunny.")])
    (turn,) = await world.log()
    (thought,) = [part for message in turn for part in message.parts if isinstance(part, Reasoning)]
    assert thought.text == "Oslo it is."
    assert "Oslo it is." in door.requests[1], "a provider asks for it with the results of its calls"


async def a_stream_leaves_the_same_log(world: World) -> None:
    door = world.door()
    replies = [Reply(cities=("Oslo",)), Reply("Sunny in Oslo.")]
    assert await door.ask("The weather?", replies, is_stream=True) == "Sunny in Oslo."
    (turn,) = await world.log()
    assert _pairs(turn) == {"Oslo": "sunny in Oslo"}
    assert [message.text for message in turn if message.text] == ["The weather?", "Sunny in Oslo."]


async def a_retry_adds_nothing(world: World) -> None:
    door = world.door()
    await door.ask("question 0", [Reply("answer 0")])
    for _ in range(2):
        answered = await asyncio.gather(door.ask("question 1", [Reply(fails=True)]), return_exceptions=True)
        assert isinstance(answered[0], Exception), "the model was down"
    assert await door.ask("question 1", [Reply("answer 1")]) == "answer 1"
    assert await world.texts() == [["question 0", "answer 0"], ["question 1", "answer 1"]]


async def a_cancelled_tool_leaves_a_conversation_that_goes_on(world: World) -> None:
    door = world.door()
    world.hangs = True
    run = asyncio.ensure_future(door.ask("The weather?", [Reply(cities=("Oslo",)), Reply("Sunny.")]))
    await asyncio.wait_for(world.is_hanging.wait(), 10)
    run.cancel()
    with suppress(asyncio.CancelledError):
        await run
    world.hangs = False
    assert [text for text in (await world.texts())[0] if text] == ["The weather?"]
    after = world.door()
    assert await after.ask("Are you there?", [Reply("Yes.")]) == "Yes."
    assert (await world.texts())[-1] == ["Are you there?", "Yes."]
    assert "The weather?" in after.requests[-1]


async def another_process_goes_on(world: World) -> None:
    await world.door().ask("The code is 4711.", [Reply("Noted.")])
    await world.reopen()
    door = world.door()
    await door.ask("What is the code?", [Reply(cities=("Oslo",)), Reply("4711.")])
    assert "The code is 4711." in door.requests[0]
    assert "The code is 4711." in door.requests[1]
    assert await world.texts() == [["The code is 4711.", "Noted."], ["What is the code?", "4711."]]
    await door.ask("Thanks.", [Reply("Sure.")])
    assert (await world.texts())[2:] == [["Thanks.", "Sure."]]
    assert len(await world.fov.sessions()) == 1


async def an_edit_is_a_branch(world: World) -> None:
    door = world.door()
    await door.ask("question 0", [Reply("answer 0")])
    await door.ask("question 1", [Reply("answer 1")])
    await door.undo()
    await door.ask("question 2", [Reply("answer 2")])
    assert await world.texts() == [["question 0", "answer 0"], ["question 1", "answer 1"]]
    (branch,) = [info for info in await world.fov.sessions() if info.id != "chat"]
    assert branch.parent_id == "chat"
    assert await world.texts(branch.id) == [["question 0", "answer 0"], ["question 2", "answer 2"]]
    assert "question 1" not in door.requests[-1]
    await door.ask("question 3", [Reply("answer 3")])
    assert (await world.texts(branch.id))[-1] == ["question 3", "answer 3"]


async def fifty_turns_fit_the_budget(world: World) -> None:
    door = world.door()
    counter = exact_counter("o200k_base")
    for number in range(TURNS):
        report = f"Station {number} measured {number * 37} millimetres of rain. " * 12
        await door.ask(f"Report {number}?", [Reply(cities=(f"City{number}",)), Reply(report)])
    assert max(counter.count(request) for request in door.requests) <= BUDGET_TOKENS
    turns = await world.log()
    assert [turn[0].text for turn in turns] == [f"Report {number}?" for number in range(TURNS)]
    assert [_pairs(turn) for turn in turns] == [{f"City{number}": f"sunny in City{number}"} for number in range(TURNS)]
    assert "Station 48 measured" in door.requests[-1]
    assert len(await world.fov.sessions()) == 1


CASES: tuple[Case, ...] = (
    every_message_is_recorded_once,
    calls_keep_their_results,
    images_are_kept,
    thinking_is_kept,
    a_stream_leaves_the_same_log,
    a_retry_adds_nothing,
    a_cancelled_tool_leaves_a_conversation_that_goes_on,
    another_process_goes_on,
    an_edit_is_a_branch,
    fifty_turns_fit_the_budget,
)


def _pairs(turn: Sequence[Message]) -> dict[str, str]:
    """Return the result of each call by its city; every call has exactly one."""
    calls = [call for message in turn for call in message.tool_calls]
    results = [result for message in turn for result in message.tool_results]
    assert sorted(str(result.call_id) for result in results) == sorted(str(call.id) for call in calls)
    by_id = {result.call_id: _text(result) for result in results}
    cities = [call.arguments["city"] if isinstance(call.arguments, dict) else "" for call in calls]
    return {str(city): by_id[call.id] for city, call in zip(cities, calls, strict=True)}


def _text(result: ToolResult) -> str:
    return "".join(getattr(part, "text", "") for part in result.content).strip('"')
