"""An agent of the OpenAI Agents SDK with a scripted model."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
)
from openai.types.responses.response_reasoning_item import Summary

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage, function_tool, set_tracing_disabled
from foveate.adapters.openai_agents import FoveateSession
from foveate.session import Session
from foveate.testing.adapters import MODEL, SYSTEM, ModelDown, Reply, Tool
from support.client_doors import all_text

set_tracing_disabled(disabled=True)


class ScriptedModel(Model):
    """Gives replies in order, and remembers the requests."""

    def __init__(self, requests: list[str]) -> None:
        self._requests = requests
        self.replies: Iterator[Reply] = iter(())
        self._calls = 0

    def _next(self, system: str | None, given: Any, tools: list[Any]) -> list[Any]:
        reply = next(self.replies)
        if reply.fails:
            raise ModelDown
        offered = json.dumps([tool.params_json_schema for tool in tools])
        self._requests.append("\n".join([system or "", offered, all_text(_without_ids(given))]))
        output: list[Any] = []
        self._calls += 1
        own = f"{id(self)}_{self._calls}"
        if reply.thinking:
            summary = [Summary(text=reply.thinking, type="summary_text")]
            output.append(ResponseReasoningItem(id=f"rs_{own}", summary=summary, type="reasoning"))
        for index, city in enumerate(reply.cities):
            arguments = json.dumps({"city": city})
            call_id = f"call_{own}_{index}"
            call = ResponseFunctionToolCall(
                arguments=arguments, call_id=call_id, name="weather", type="function_call", id=f"fc_{own}_{index}"
            )
            output.append(call)
        if reply.text:
            content: list[Any] = [ResponseOutputText(annotations=[], text=reply.text, type="output_text")]
            message = ResponseOutputMessage(
                id=f"msg_{own}", content=content, role="assistant", status="completed", type="message"
            )
            output.append(message)
        return output

    async def get_response(
        self,
        system_instructions: Any,
        input: Any,  # noqa: A002
        model_settings: Any,
        tools: Any,
        *_: Any,
        **__: Any,
    ) -> Any:
        return ModelResponse(self._next(system_instructions, input, tools), Usage(), None)

    async def stream_response(
        self,
        system_instructions: Any,
        input: Any,  # noqa: A002
        model_settings: Any,
        tools: Any,
        *_: Any,
        **__: Any,
    ) -> AsyncIterator[Any]:
        output = self._next(system_instructions, input, tools)
        response = Response(
            id="resp_1",
            created_at=0,
            model=MODEL,
            object="response",
            output=output,
            parallel_tool_calls=True,
            tool_choice="auto",
            tools=[],
        )
        yield ResponseCompletedEvent(response=response, sequence_number=0, type="response.completed")


class OpenAIAgentsDoor:
    """An agent with one tool."""

    def __init__(self, session: Session, tool: Tool, *, history_tools: bool = False) -> None:
        self.requests: list[str] = []
        self._model = ScriptedModel(self.requests)
        self.memory = FoveateSession(session)

        @function_tool(failure_error_function=None)
        async def weather(city: str) -> str:
            """The weather of a city."""
            return await tool(city)

        tools: list[Any] = [weather, *(self.memory.tools if history_tools else ())]
        self.agent = Agent("Weather", instructions=SYSTEM, model=self._model, tools=tools)
        self._config = RunConfig(call_model_input_filter=self.memory.filter)

    async def ask(self, prompt: str, replies: Sequence[Reply], *, image: str = "", is_stream: bool = False) -> str:
        self._model.replies = iter(replies)
        given: Any = prompt
        if image:
            url = f"data:image/png;base64,{image}"
            content = [
                {"type": "input_text", "text": prompt},
                {"type": "input_image", "image_url": url, "detail": "auto"},
            ]
            given = [{"role": "user", "content": content}]
        if is_stream:
            stream = Runner.run_streamed(self.agent, given, session=self.memory, run_config=self._config)
            async for _ in stream.stream_events():
                pass
            return str(stream.final_output)
        result = await Runner.run(self.agent, given, session=self.memory, run_config=self._config)
        return str(result.final_output)

    async def undo(self) -> None:
        await self.memory.pop_item()
        await self.memory.pop_item()


def _without_ids(items: Any) -> Any:
    hidden = ("id", "call_id", "status", "annotations", "name", "detail")
    return [{key: value for key, value in item.items() if key not in hidden} for item in items]
