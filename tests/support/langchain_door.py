"""An agent of LangChain with a scripted chat model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool as as_tool
from pydantic import Field, PrivateAttr

from foveate.adapters.langchain import FoveateMiddleware
from foveate.session import Session
from foveate.testing.adapters import MODEL, SYSTEM, ModelDown, Reply, Tool
from support.client_doors import all_text


class ScriptedChatModel(BaseChatModel):
    """Gives replies in order, and remembers the requests."""

    requests: list[str] = Field(default_factory=list)
    tool_names: list[str] = Field(default_factory=list)
    _replies: Iterator[Reply] = PrivateAttr(default=iter(()))
    _tools: list[Any] = PrivateAttr(default_factory=list)
    _calls: int = PrivateAttr(default=0)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def script(self, replies: Sequence[Reply]) -> None:
        self._replies = iter(replies)

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        self._tools = [tool.get_input_jsonschema() for tool in tools]
        self.tool_names = [tool.name for tool in tools]
        return self

    def _next(self, messages: list[BaseMessage]) -> dict[str, Any]:
        reply = next(self._replies)
        if reply.fails:
            raise ModelDown
        texts = [all_text(message.content) for message in messages]
        texts += [json.dumps([call["args"] for call in getattr(message, "tool_calls", ())]) for message in messages]
        self.requests.append("\n".join([json.dumps(self._tools), *texts]))
        self._calls += 1
        calls = [
            {"name": "weather", "args": {"city": city}, "id": f"call_{id(self)}_{self._calls}_{index}"}
            for index, city in enumerate(reply.cities)
        ]
        thinking = {"type": "thinking", "thinking": reply.thinking, "signature": f"signed:{reply.thinking}"}
        content: Any = [thinking, {"type": "text", "text": reply.text}] if reply.thinking else reply.text
        return {"content": content, "tool_calls": calls, "response_metadata": {"model_name": MODEL}}

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(**self._next(messages)))])

    def _stream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any
    ) -> Iterator[ChatGenerationChunk]:
        said = self._next(messages)
        for start in range(0, len(said["content"]), 5):
            yield ChatGenerationChunk(message=AIMessageChunk(content=said["content"][start : start + 5]))
        chunks: Any = [
            {"name": call["name"], "args": json.dumps(call["args"]), "id": call["id"], "index": index}
            for index, call in enumerate(said["tool_calls"])
        ]
        yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=chunks))


class LangChainDoor:
    """An agent with one tool."""

    def __init__(self, session: Session, tool: Tool, *, history_tools: bool = False) -> None:
        self.model = ScriptedChatModel()
        self.requests = self.model.requests
        self._copy: list[Any] = []

        @as_tool
        async def weather(city: str) -> str:
            """The weather of a city."""
            return await tool(city)

        middleware = FoveateMiddleware(session, history_tools=history_tools)
        self.agent = create_agent(self.model, tools=[weather], system_prompt=SYSTEM, middleware=[middleware])

    async def ask(self, prompt: str, replies: Sequence[Reply], *, image: str = "", is_stream: bool = False) -> str:
        self.model.script(replies)
        block = {"type": "image", "base64": image, "mime_type": "image/png"}
        content: Any = [{"type": "text", "text": prompt}, block] if image else prompt
        given: Any = {"messages": [*self._copy, HumanMessage(content)]}
        if is_stream:
            state: Any = None
            async for mode, piece in self.agent.astream(given, stream_mode=["values", "messages"]):
                state = piece if mode == "values" else state
        else:
            state = await self.agent.ainvoke(given)
        self._copy = state["messages"]
        return str(self._copy[-1].text)

    async def undo(self) -> None:
        del self._copy[-2:]
