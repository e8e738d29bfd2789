"""An agent of Pydantic AI with its `FunctionModel`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from pydantic_ai import Agent, BinaryContent, ModelMessage
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.models.function import (
    AgentInfo,
    DeltaThinkingCalls,
    DeltaThinkingPart,
    DeltaToolCall,
    DeltaToolCalls,
    FunctionModel,
)

from foveate.adapters.pydantic_ai import Foveate
from foveate.adapters.pydantic_ai_store import FoveateConversationStore
from foveate.session import Session
from foveate.testing.adapters import MODEL, SYSTEM, ModelDown, Reply, Tool


class PydanticAIDoor:
    """An agent with one tool."""

    def __init__(self, session: Session, tool: Tool, *, history_tools: bool = False) -> None:
        self.requests: list[str] = []
        self._replies: Iterator[Reply] = iter(())
        self._calls = 0
        self._copy: list[ModelMessage] = []
        model = FunctionModel(self._answer, stream_function=self._stream, model_name=MODEL)
        capability = Foveate(session, history_tools=history_tools)
        self.agent = Agent(model, instructions=SYSTEM, capabilities=[capability])

        @self.agent.tool_plain
        async def weather(city: str) -> str:
            """The weather of a city."""
            return await tool(city)

    def _next(self, messages: list[ModelMessage], info: AgentInfo) -> Reply:
        reply = next(self._replies)
        if reply.fails:
            raise ModelDown
        texts = [info.instructions or "", json.dumps([tool.parameters_json_schema for tool in info.function_tools])]
        for message in ModelMessagesTypeAdapter.dump_python(messages, mode="json"):
            texts += [_content(part) for part in message["parts"]]
        self.requests.append("\n".join(texts))
        return reply

    async def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        reply = self._next(messages, info)
        thinking = ThinkingPart(reply.thinking, signature=f"signed:{reply.thinking}")
        parts: list[Any] = [thinking] if reply.thinking else []
        parts += [TextPart(reply.text)] if reply.text else []
        for city in reply.cities:
            self._calls += 1
            parts.append(ToolCallPart("weather", {"city": city}, f"call_{id(self)}_{self._calls}"))
        return ModelResponse(parts, model_name=MODEL)

    async def _stream(
        self, messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | DeltaToolCalls | DeltaThinkingCalls]:
        reply = self._next(messages, info)
        if reply.thinking:
            yield {0: DeltaThinkingPart(content=reply.thinking, signature=f"signed:{reply.thinking}")}
        for start in range(0, len(reply.text), 5):
            yield reply.text[start : start + 5]
        for index, city in enumerate(reply.cities):
            self._calls += 1
            call_id = f"call_{id(self)}_{self._calls}"
            yield {index + 1: DeltaToolCall("weather", json.dumps({"city": city}), tool_call_id=call_id)}

    async def ask(self, prompt: str, replies: Sequence[Reply], *, image: str = "", is_stream: bool = False) -> str:
        self._replies = iter(replies)
        given: Any = [prompt, BinaryContent.from_data_uri(f"data:image/png;base64,{image}")] if image else prompt
        if is_stream:
            async with self.agent.run_stream(given, message_history=self._copy) as stream:
                output = await stream.get_output()
                self._copy = stream.all_messages()
            return output
        result = await self.agent.run(given, message_history=self._copy)
        self._copy = result.all_messages()
        return result.output

    async def undo(self) -> None:
        del self._copy[-2:]


def _content(part: dict[str, Any]) -> str:
    content = part.get("content", part.get("args"))
    if isinstance(content, list):
        items = (item if isinstance(item, str) else str(item.get("data")) for item in content)
        return "\n".join(items).translate(str.maketrans("-_", "+/"))
    return content if isinstance(content, str) else json.dumps(content)


class PydanticAIStoreDoor(PydanticAIDoor):
    """The agent, which keeps its copy in the conversation store."""

    def __init__(self, session: Session, tool: Tool) -> None:
        super().__init__(session, tool)
        self._store = FoveateConversationStore(session.engine.home)
        self._id = session.id

    async def ask(self, prompt: str, replies: Sequence[Reply], *, image: str = "", is_stream: bool = False) -> str:
        conversation = await self._store.load(self._id)
        self._copy = conversation.messages if conversation else []
        before = len(self._copy)
        said = await super().ask(prompt, replies, image=image, is_stream=is_stream)
        conversation = conversation or Conversation(conversation_id=self._id)
        conversation.messages = [*conversation.messages, *self._copy[before:]]
        await self._store.save(conversation)
        return said

    async def undo(self) -> None:
        conversation = await self._store.load(self._id)
        assert conversation is not None
        at = len(conversation.messages) - 2
        await self._store.branch(self._id, at=at, expected_revision=conversation.revision)
