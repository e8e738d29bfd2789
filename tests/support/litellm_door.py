"""A program that calls LiteLLM's `acompletion`, with a custom provider of LiteLLM as the test model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import litellm

from foveate.adapters.litellm import FoveateLogger
from foveate.session import Session
from foveate.testing.adapters import SYSTEM, TOOL, ModelDown, Reply, Tool
from support.client_doors import CallIds, ChatDoor, all_text, openai_message


class ScriptedProvider(litellm.CustomLLM):  # type: ignore[misc]
    """Gives replies in order, and remembers the requests."""

    def __init__(self, requests: list[str]) -> None:
        super().__init__()
        self._requests = requests
        self.replies: Iterator[Reply] = iter(())
        self._ids = CallIds()

    def _next(self, messages: Any, optional_params: Any) -> dict[str, Any]:
        reply = next(self.replies)
        if reply.fails:
            raise ModelDown
        tools = json.dumps((optional_params or {}).get("tools"))
        self._requests.append("\n".join([tools, all_text(_without_ids(messages))]))
        return openai_message(reply, self._ids)

    async def acompletion(self, *_: Any, messages: Any = None, optional_params: Any = None, **given: Any) -> Any:
        message = self._next(messages, optional_params)
        response = given["model_response"]
        response.choices = [litellm.Choices(message=litellm.Message(**message), finish_reason="stop")]
        return response

    async def astreaming(
        self, *_: Any, messages: Any = None, optional_params: Any = None, **__: Any
    ) -> AsyncIterator[Any]:
        message = self._next(messages, optional_params)
        base = {"finish_reason": "", "index": 0, "is_finished": False, "tool_use": None, "usage": None}
        for index, call in enumerate(message.get("tool_calls", ())):
            yield {**base, "text": "", "tool_use": {**call, "index": index}}
        for start in range(0, len(message["content"] or ""), 5):
            yield {**base, "text": message["content"][start : start + 5]}
        yield {**base, "text": "", "finish_reason": "stop", "is_finished": True}


class LiteLLMDoor(ChatDoor):
    """A program that calls `acompletion`."""

    def __init__(self, session: Session, tool: Tool) -> None:
        super().__init__(tool)
        self._provider = ScriptedProvider(self.requests)
        litellm.custom_provider_map = [{"provider": "scripted", "custom_handler": self._provider}]
        litellm.logging_callback_manager._reset_all_callbacks()
        self._logger = FoveateLogger(session)
        litellm.callbacks = [self._logger]

    def _script(self, replies: Sequence[Reply]) -> None:
        self._provider.replies = iter(replies)

    async def _complete(self, run: list[Any], *, is_stream: bool) -> dict[str, Any]:
        answer = await litellm.acompletion(
            model="scripted/test",
            messages=[{"role": "system", "content": SYSTEM}, *run],
            tools=[{"type": "function", "function": TOOL}],
            stream=is_stream,
        )
        if is_stream:
            chunks = [chunk async for chunk in answer]
            answer = litellm.stream_chunk_builder(chunks)
            await self._reported()
        message: dict[str, Any] = answer.choices[0].message.model_dump(exclude_none=True)
        return {name: value for name, value in message.items() if value or name in ("role", "content")}

    async def _reported(self) -> None:
        """Wait until LiteLLM has reported what it streamed, which it does in a task of its own."""
        async with asyncio.timeout(30):
            while self._logger._views:  # noqa: ASYNC110 - LiteLLM has no event for it
                await asyncio.sleep(0.01)


def _without_ids(messages: Any) -> Any:
    return [{key: value for key, value in message.items() if key != "tool_call_id"} for message in messages]
