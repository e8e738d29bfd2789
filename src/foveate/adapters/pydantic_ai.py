"""Pydantic AI: a capability that records each run and keeps its requests within the session's budget.

    agent = Agent("openai:gpt-5.6", capabilities=[Foveate(chat)])

The run's own messages stay complete: new ones are recorded, and only the request to the model is replaced by the
view. Instructions, system prompts and tools count against the budget.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from foveate.adapters.bridge import AnySession, Bridge
from foveate.intake.conversation import Conversation, Overhead, View

try:
    from pydantic_ai import RunContext, Tool, ToolDefinition
    from pydantic_ai.agent import AgentRunResult
    from pydantic_ai.capabilities import AbstractCapability, WrapModelRequestHandler
    from pydantic_ai.messages import (
        ModelMessage,
        ModelMessagesTypeAdapter,
        ModelRequest,
        ModelResponse,
        SystemPromptPart,
    )
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.toolsets import FunctionToolset
except ImportError as error:
    raise ImportError(f"{error.name or 'pydantic-ai'} is missing: pip install 'foveate[pydantic-ai]'") from error

FORMAT: Final = "pydantic-ai"


class Foveate(AbstractCapability[Any]):
    """An endless conversation for an agent. With `history_tools` the model can read and search the whole log."""

    def __init__(self, session: AnySession, *, history_tools: bool = True) -> None:
        self._bridge = Bridge(session)
        self._conversation = Conversation(self._bridge.session)
        self._offers_history = history_tools
        self._view: View | None = None

    @classmethod
    def get_serialization_name(cls) -> str | None:
        return None

    async def for_run(self, ctx: RunContext[Any]) -> Foveate:  # noqa: ARG002 - the framework's signature
        own = copy.copy(self)
        own._view = None
        return own

    def get_toolset(self) -> FunctionToolset[Any] | None:
        if not self._offers_history:
            return None
        return FunctionToolset([self._tool(definition) for definition in self._conversation.history_tools()])

    def _tool(self, definition: Mapping[str, Any]) -> Tool[Any]:
        name = definition["name"]

        async def call(**arguments: Any) -> str:
            return await self._bridge.wait(self._conversation.call_tool(name, arguments))

        return Tool.from_schema(call, name, definition["description"], definition["parameters"])

    async def prepare_model_request(
        self,
        ctx: RunContext[Any],  # noqa: ARG002
        request_context: ModelRequestContext,
    ) -> ModelRequestContext:
        """Record new messages, and send the view."""
        prompts, messages = without_system(request_context.messages)
        overhead = _overhead(prompts, request_context)
        self._release()
        view = self._view = await self._bridge.wait(self._conversation.view(FORMAT, dump_messages(messages), overhead))
        if view.is_whole:
            return request_context
        shown = ModelMessagesTypeAdapter.validate_json(msgspec.json.encode(view.messages))
        extra = [SystemPromptPart(view.extra_system)] if view.extra_system else []
        return replace(request_context, messages=_with_system([*prompts, *extra], shown))

    async def after_model_request(
        self,
        ctx: RunContext[Any],  # noqa: ARG002
        *,
        request_context: ModelRequestContext,  # noqa: ARG002
        response: ModelResponse,
    ) -> ModelResponse:
        """Record the answer."""
        if self._view is not None:
            await self._bridge.wait(self._conversation.answer(self._view, FORMAT, dump_messages([response])))
            self._view = None
        return response

    async def wrap_model_request(
        self,
        ctx: RunContext[Any],  # noqa: ARG002
        *,
        request_context: ModelRequestContext,
        handler: WrapModelRequestHandler,
    ) -> ModelResponse:
        try:
            return await handler(request_context)
        finally:
            self._release()

    async def after_run(
        self,
        ctx: RunContext[Any],  # noqa: ARG002
        *,
        result: AgentRunResult[Any],
    ) -> AgentRunResult[Any]:
        """Record messages after the last answer, such as the result of an output tool."""
        _, messages = without_system(result.all_messages())
        await self._bridge.wait(self._conversation.record(FORMAT, dump_messages(messages)))
        return result

    def _release(self) -> None:
        if self._view is not None:
            self._conversation.release(self._view)
            self._view = None


def _overhead(prompts: Sequence[SystemPromptPart], request_context: ModelRequestContext) -> Overhead:
    parameters = request_context.model_request_parameters
    parts = [*(part.content for part in prompts), *(part.content for part in parameters.instruction_parts or ())]
    offered = [_definition(tool) for tool in (*parameters.function_tools, *parameters.output_tools)]
    return Overhead.offering("\n\n".join(parts), offered)


def dump_messages(messages: Sequence[ModelMessage]) -> list[dict[str, Any]]:
    dumped: list[dict[str, Any]] = ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")
    return dumped


def without_system(messages: Sequence[ModelMessage]) -> tuple[list[SystemPromptPart], list[ModelMessage]]:
    """Return the system prompts, and the messages without them."""
    prompts: list[SystemPromptPart] = []
    others: list[ModelMessage] = []
    for message in messages:
        own = [part for part in message.parts if isinstance(part, SystemPromptPart)]
        prompts += own
        if not own or isinstance(message, ModelResponse):
            others.append(message)
        elif parts := [part for part in message.parts if not isinstance(part, SystemPromptPart)]:
            others.append(replace(message, parts=parts))
    return prompts, others


def _with_system(prompts: Sequence[SystemPromptPart], messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    if not prompts:
        return list(messages)
    first, *rest = messages
    if isinstance(first, ModelRequest):
        return [replace(first, parts=[*prompts, *first.parts]), *rest]
    return [ModelRequest(list(prompts)), first, *rest]


def _definition(tool: ToolDefinition) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters_json_schema}
