"""Programs with a wrapped client of `openai` or `anthropic`, and a scripted provider."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import httpx2
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from foveate.adapters.wrap import wrap
from foveate.session import Session
from foveate.testing.adapters import MODEL, SYSTEM, TOOL, Reply, Tool

USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def all_text(body: Any) -> str:
    """Every text in a request, the data of images included."""
    if isinstance(body, dict):
        return "\n".join(all_text(value) for key, value in body.items() if key not in ("type", "role", "cache_control"))
    if isinstance(body, list):
        return "\n".join(all_text(value) for value in body)
    return body.removeprefix("data:image/png;base64,") if isinstance(body, str) else ""


class CallIds:
    """Ids of the calls of one model, no two the same."""

    def __init__(self) -> None:
        self._calls = 0

    def of(self, reply: Reply) -> list[tuple[str, str]]:
        """Each city of a reply with the id of its call."""
        self._calls += 1
        return [(f"call_{id(self)}_{self._calls}_{index}", city) for index, city in enumerate(reply.cities)]


def openai_message(reply: Reply, ids: CallIds) -> dict[str, Any]:
    """A reply as a message of Chat Completions."""
    calls = [
        {"id": call_id, "type": "function", "function": {"name": "weather", "arguments": json.dumps({"city": city})}}
        for call_id, city in ids.of(reply)
    ]
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    message |= {"tool_calls": calls} if calls else {}
    return message | ({"reasoning_content": reply.thinking} if reply.thinking else {})


class Provider(httpx2.AsyncBaseTransport):
    """Answers with a program's replies, and remembers the requests."""

    def __init__(self, requests: list[str]) -> None:
        self._requests = requests
        self.replies: Iterator[Reply] = iter(())
        self._ids = CallIds()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(await request.aread())
        reply = next(self.replies)
        if reply.fails:
            return httpx2.Response(500, json={"error": {"message": "down", "type": "server_error"}})
        self._requests.append(all_text({**body, "model": None}))
        message = self._anthropic(reply) if "/messages" in request.url.path else self._openai(reply)
        if not body.get("stream"):
            return httpx2.Response(200, json=message)
        events = _anthropic_events(message) if "/messages" in request.url.path else _openai_events(message)
        return httpx2.Response(200, content=events.encode(), headers={"content-type": "text/event-stream"})

    def _openai(self, reply: Reply) -> dict[str, Any]:
        message = openai_message(reply, self._ids)
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if reply.cities else "stop"}
        base = {"id": "chatcmpl-1", "created": 0, "model": MODEL, "object": "chat.completion"}
        return {**base, "choices": [choice], "usage": USAGE}

    def _anthropic(self, reply: Reply) -> dict[str, Any]:
        thinking = {"type": "thinking", "thinking": reply.thinking, "signature": f"signed:{reply.thinking}"}
        content: list[dict[str, Any]] = [thinking] if reply.thinking else []
        content += [{"type": "text", "text": reply.text}] if reply.text else []
        content += [
            {"type": "tool_use", "id": call_id, "name": "weather", "input": {"city": city}}
            for call_id, city in self._ids.of(reply)
        ]
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": MODEL,
            "content": content,
            "stop_reason": "tool_use" if reply.cities else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 5},
        }


def _openai_events(message: dict[str, Any]) -> str:
    (choice,) = message["choices"]
    delta = choice["message"]
    calls = [{**call, "index": index} for index, call in enumerate(delta.get("tool_calls", ()))]
    delta = {**delta, **({"tool_calls": calls} if calls else {})}
    base = {**message, "object": "chat.completion.chunk", "usage": None}
    chunks = [
        {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]},
    ]
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"


def _anthropic_events(message: dict[str, Any]) -> str:
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
    ]
    for index, block in enumerate(message["content"]):
        is_text = block["type"] == "text"
        begun = {**block, "text": ""} if is_text else {**block, "input": {}}
        data = json.dumps(block.get("input"))
        delta = {"type": "text_delta", "text": block["text"]} if is_text else {}
        delta = delta or {"type": "input_json_delta", "partial_json": data}
        events += [
            {"type": "content_block_start", "index": index, "content_block": begun},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    stop = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    events += [{"type": "message_delta", "delta": stop, "usage": {"output_tokens": 5}}, {"type": "message_stop"}]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


class ChatDoor(ABC):
    """A loop of tool calls around Chat Completions."""

    def __init__(self, tool: Tool) -> None:
        self.requests: list[str] = []
        self._tool = tool
        self._copy: list[Any] = []

    @abstractmethod
    def _script(self, replies: Sequence[Reply]) -> None:
        """The model gives these replies next."""

    @abstractmethod
    async def _complete(self, run: list[Any], *, is_stream: bool) -> dict[str, Any]:
        """The model's message."""

    async def ask(self, prompt: str, replies: Sequence[Reply], *, image: str = "", is_stream: bool = False) -> str:
        self._script(replies)
        content: Any = prompt
        if image:
            url = {"url": f"data:image/png;base64,{image}"}
            content = [{"type": "text", "text": prompt}, {"type": "image_url", "image_url": url}]
        run = [*self._copy, {"role": "user", "content": content}]
        while True:
            message = await self._complete(run, is_stream=is_stream)
            run.append(message)
            if not message.get("tool_calls"):
                self._copy = run
                return str(message["content"])
            for call in message["tool_calls"]:
                result = await self._tool(json.loads(call["function"]["arguments"])["city"])
                run.append({"role": "tool", "tool_call_id": call["id"], "content": result})

    async def undo(self) -> None:
        self._copy = self._copy[: max(place for place, message in enumerate(self._copy) if message["role"] == "user")]


class OpenAIDoor(ChatDoor):
    """A program with a wrapped client of `openai`."""

    def __init__(self, session: Session, tool: Tool) -> None:
        super().__init__(tool)
        self._provider = Provider(self.requests)
        http = httpx2.AsyncClient(transport=self._provider)
        self._client = wrap(AsyncOpenAI(api_key="key", http_client=http, max_retries=0), session)

    def _script(self, replies: Sequence[Reply]) -> None:
        self._provider.replies = iter(replies)

    async def _complete(self, run: list[Any], *, is_stream: bool) -> dict[str, Any]:
        messages: Any = [{"role": "system", "content": SYSTEM}, *run]
        completions = self._client.chat.completions
        if not is_stream:
            tools: Any = [{"type": "function", "function": TOOL}]
            answer = await completions.create(model=MODEL, messages=messages, tools=tools)
            return dict(answer.choices[0].message.model_dump(exclude_none=True))
        tools = [{"type": "function", "function": {**TOOL, "strict": True}}]
        async with completions.stream(model=MODEL, messages=messages, tools=tools) as stream:
            parsed = await stream.get_final_completion()
        return dict(parsed.choices[0].message.model_dump(exclude_none=True, exclude={"parsed"}, warnings=False))


class AnthropicDoor:
    """A loop of tool calls around Messages."""

    def __init__(self, session: Session, tool: Tool) -> None:
        self.requests: list[str] = []
        self._tool = tool
        self._provider = Provider(self.requests)
        http = httpx2.AsyncClient(transport=self._provider)
        self._client = wrap(AsyncAnthropic(api_key="key", http_client=http, max_retries=0), session)
        self._copy: list[Any] = []

    async def ask(self, prompt: str, replies: Sequence[Reply], *, image: str = "", is_stream: bool = False) -> str:
        self._provider.replies = iter(replies)
        content: list[dict[str, Any]] = [{"type": "text", "text": prompt}]
        if image:
            source = {"type": "base64", "media_type": "image/png", "data": image}
            content.append({"type": "image", "source": source})
        run: list[Any] = [*self._copy, {"role": "user", "content": content}]
        tools: Any = [{"name": "weather", "description": TOOL["description"], "input_schema": TOOL["parameters"]}]
        while True:
            given: Any = {"model": MODEL, "max_tokens": 500, "system": SYSTEM, "messages": run, "tools": tools}
            if is_stream:
                async with self._client.messages.stream(**given) as stream:
                    answer = await stream.get_final_message()
            else:
                answer = await self._client.messages.create(**given)
            run.append(
                {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in answer.content]}
            )
            calls = [block for block in answer.content if block.type == "tool_use"]
            if not calls:
                self._copy = run
                return "".join(block.text for block in answer.content if block.type == "text")
            results = [
                {"type": "tool_result", "tool_use_id": call.id, "content": await self._tool(str(call.input["city"]))}
                for call in calls
            ]
            run.append({"role": "user", "content": results})

    async def undo(self) -> None:
        del self._copy[-2:]
