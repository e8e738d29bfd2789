"""LangChain and LangGraph: a middleware for agents, and a chat message history.

    agent = create_agent("openai:gpt-5.6", tools=[…], middleware=[FoveateMiddleware(chat)])

The state of the agent keeps its messages. Before each call of the model new messages are recorded, and the model
gets the view within the session's budget. The system prompt and tools count against it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from foveate.adapters.bridge import AnySession, Bridge
from foveate.intake.conversation import Conversation, Overhead, View

try:
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
    from langchain_core.chat_history import BaseChatMessageHistory
    from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, message_to_dict, messages_from_dict
    from langchain_core.tools import BaseTool, StructuredTool
    from langchain_core.utils.function_calling import convert_to_openai_tool
except ImportError as error:
    raise ImportError(f"{error.name or 'langchain'} is missing: pip install 'foveate[langchain]'") from error

FORMAT: Final = "langchain"


class FoveateMiddleware(AgentMiddleware[Any, Any, Any]):
    """An endless conversation for an agent. With `history_tools` the model can read and search the whole log."""

    def __init__(self, session: AnySession, *, history_tools: bool = True) -> None:
        super().__init__()
        self._bridge = Bridge(session)
        self._conversation = Conversation(self._bridge.session)
        offered = self._conversation.history_tools() if history_tools else []
        self.tools: Sequence[BaseTool] = [self._tool(definition) for definition in offered]

    def _tool(self, definition: Mapping[str, Any]) -> BaseTool:
        name = definition["name"]

        def call(**arguments: Any) -> str:
            return self._bridge.run(self._conversation.call_tool(name, arguments))

        async def call_async(**arguments: Any) -> str:
            return await self._bridge.wait(self._conversation.call_tool(name, arguments))

        return StructuredTool(
            name=name,
            description=definition["description"],
            args_schema=definition["parameters"],
            func=call,
            coroutine=call_async,
        )

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Record new messages, send the view, record the answer."""
        view = self._bridge.run(self._view(request))
        try:
            response = handler(_shown(request, view))
            self._bridge.run(self._conversation.answer(view, FORMAT, _said(response)))
        finally:
            self._conversation.release(view)
        return response

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Record new messages, send the view, record the answer, asynchronously."""
        view = await self._bridge.wait(self._view(request))
        try:
            response = await handler(_shown(request, view))
            await self._bridge.wait(self._conversation.answer(view, FORMAT, _said(response)))
        finally:
            self._conversation.release(view)
        return response

    async def _view(self, request: ModelRequest[Any]) -> View:
        system = request.system_message.text if request.system_message else ""
        overhead = Overhead.offering(str(system), [convert_to_openai_tool(tool) for tool in request.tools])
        return await self._conversation.view(FORMAT, _dump(request.messages), overhead)


class FoveateMessageHistory(BaseChatMessageHistory):
    """The messages of a session, for `RunnableWithMessageHistory` and programs of your own.

    `clear` continues on an empty branch; the messages stay in the log.
    """

    def __init__(self, session: AnySession) -> None:
        self._bridge = Bridge(session)
        self._conversation = Conversation(self._bridge.session)
        self._is_found = False

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        return messages_from_dict(self._bridge.run(self._read()))

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        self._bridge.run(self._add(messages))

    def clear(self) -> None:
        self._bridge.run(self._clear())

    async def aget_messages(self) -> list[BaseMessage]:
        return messages_from_dict(await self._bridge.wait(self._read()))

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        await self._bridge.wait(self._add(messages))

    async def aclear(self) -> None:
        await self._bridge.wait(self._clear())

    async def _current(self) -> Conversation:
        if not self._is_found:
            self._is_found = True
            self._conversation = Conversation(await self._conversation.last_branch())
        return self._conversation

    async def _read(self) -> list[dict[str, Any]]:
        return await (await self._current()).messages(FORMAT)

    async def _add(self, messages: Sequence[BaseMessage]) -> None:
        conversation, records = await self._current(), _dump(messages)
        await conversation.record(FORMAT, records, start=await conversation.end(FORMAT, records))

    async def _clear(self) -> None:
        self._conversation = await (await self._current()).cleared()


def _dump(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    return [message_to_dict(message) for message in messages]


def _said(response: ModelResponse[Any] | AIMessage) -> list[dict[str, Any]]:
    return _dump([response] if isinstance(response, AIMessage) else response.result)


def _shown(request: ModelRequest[Any], view: View) -> ModelRequest[Any]:
    """Return the request with the view in place of its messages."""
    if view.is_whole:
        return request
    messages: Any = messages_from_dict(view.messages)
    if not view.extra_system:
        return request.override(messages=messages)
    own = request.system_message.content if request.system_message else []
    parts: list[Any] = [own] if isinstance(own, str) else list(own)
    blocks = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    system = SystemMessage([*blocks, {"type": "text", "text": view.extra_system}])
    return request.override(messages=messages, system_message=system)
