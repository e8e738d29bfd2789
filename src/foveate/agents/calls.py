"""Execute the tool calls of a model's answer: history tools, the program's own tools, and those of a toolbox.

A call of a toolbox's tool is recorded before it is executed, and its result right after. If the process ends in
between, the next one finds the call without a result: a read-only tool is executed again, and for any other the result
is an error which says that the call may have taken effect.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from foveate.context.pairs import loose_ends
from foveate.context.tools import HISTORY_TOOLS
from foveate.session import Session
from foveate.text import compact_json
from foveate.tools import InnerCall, Toolbox, ToolOutput
from foveate.turn import Json, Message, Text, ToolCall, ToolResult

MAX_CALLS_PER_ROUND = 16
"""Tool calls of one answer that are executed; the others get an error result."""
TOO_MANY_CALLS = f"Not executed: at most {MAX_CALLS_PER_ROUND} calls at a time.\n"
INTERRUPTED_CALL = (
    "Error: interrupted: the call was stopped before its result was stored, and may have taken effect. Check what it "
    "did before you call it again.\n"
)
NOT_STARTED = "Error: interrupted: the call was not executed.\n"


@dataclass(frozen=True, slots=True)
class OwnTool:
    """A tool of the program that talks to the model, in addition to those of the history and of a toolbox."""

    definition: Mapping[str, Json]
    """Definition in OpenAI's format."""
    answer: Callable[[Json], Awaitable[str]]
    """Answers a call, by its arguments."""
    is_last: bool = False
    """A model that calls only such tools is not called again with their results."""

    @property
    def name(self) -> str:
        return _name(self.definition)


class CallExecutor:
    """Executes the calls of one chat."""

    def __init__(self, session: Session, own_tools: Sequence[OwnTool], toolbox: Toolbox | None) -> None:
        self._session = session
        self._own = {tool.name: tool for tool in own_tools}
        self._toolbox = toolbox
        boxed = toolbox.definitions("openai") if toolbox else []
        self.definitions: tuple[Mapping[str, Json], ...] = (
            *(definition for definition in boxed if _name(definition) not in {*HISTORY_TOOLS, *self._own}),
            *(tool.definition for tool in own_tools),
        )
        """The tools other than those of the history, in OpenAI's format."""

    def are_last(self, calls: Sequence[ToolCall]) -> bool:
        """Check whether no call needs another answer after its result."""
        return all(call.name in self._own and self._own[call.name].is_last for call in calls)

    def need_record(self, calls: Sequence[ToolCall]) -> bool:
        """Check whether the calls have to be recorded before they are executed: some are of the toolbox."""
        return self._toolbox is not None and any(
            call.name not in HISTORY_TOOLS and call.name not in self._own for call in calls
        )

    def is_repeatable(self, call: ToolCall) -> bool:
        """Check whether the call can safely be executed a second time."""
        boxed = self._toolbox.tools.get(call.name) if self._toolbox else None
        return call.name in HISTORY_TOOLS or call.name in self._own or bool(boxed and boxed.annotations.read_only)

    async def execute(self, call: ToolCall) -> list[Message]:
        """Execute a call and return its result, after the calls that a script made; it is published as an event."""
        began = time.monotonic()
        output = await self._output(call)
        seconds = time.monotonic() - began
        data: dict[str, Json] = {"name": call.name, "is_error": output.is_error, "seconds": round(seconds, 3)}
        if output.exit_code is not None:
            data["exit_code"] = output.exit_code
        self._session.engine.publish("tool-called", data)
        result = ToolResult(
            call.id,
            (Text(output.text), *output.attachments),
            name=call.name,
            is_error=output.is_error,
            exit_code=output.exit_code,
            duration_seconds=seconds if self.need_record([call]) else None,
        )
        return [*map(_inner_message, output.inner), Message("tool", (result,))]

    async def _output(self, call: ToolCall) -> ToolOutput:
        if call.name in self._own:
            return _text(await self._own[call.name].answer(call.arguments))
        if call.name in HISTORY_TOOLS:
            return _text(await self._session.call_tool(call.name, call.arguments))
        if self._toolbox and call.name in self._toolbox.tools:
            return await self._toolbox.call(call.name, call.arguments)
        known = ", ".join(sorted({*HISTORY_TOOLS, *map(_name, self.definitions)}))
        return _text(f"Error: there is no tool {call.name!r} here; available: {known}.\n")


def failed_result(call: ToolCall, problem: str) -> Message:
    """Return the result of a call that was not executed, or not completely."""
    return Message("tool", (ToolResult(call.id, (Text(problem),), name=call.name, is_error=True),))


def _inner_message(call: InnerCall) -> Message:
    """Return a call of a script with its full result: for people and programs, not for the model."""
    output = call.output
    record: dict[str, Json] = {"tool": call.name, "arguments": dict(call.arguments), "result": output.text}
    if output.is_error:
        record["is_error"] = True
    if output.exit_code is not None:
        record["exit_code"] = output.exit_code
    return Message("tool", (Text(compact_json(record)), *output.attachments), kind="display")


def unanswered_calls(messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """Return the calls of a turn's last answer that have no result."""
    spoken = [message for message in messages if message.kind == "message"]
    last = next((message for message in reversed(spoken) if message.role == "assistant"), None)
    if last is None or not last.tool_calls:
        return ()
    return loose_ends(spoken[spoken.index(last) :]).calls


def _text(text: str) -> ToolOutput:
    return ToolOutput(text, is_error=text.startswith("Error: "))


def _name(definition: Mapping[str, Json]) -> str:
    function = definition["function"]
    assert isinstance(function, Mapping), "a definition names a function"
    return str(function["name"])
