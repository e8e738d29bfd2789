"""A scripted upstream for tests of the gateway: an ASGI app that answers all protocols, and remembers requests."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

Blocks = list[dict[str, Any]]
Script = Callable[[dict[str, Any]], Blocks]
USAGE = {"input_tokens": 10, "output_tokens": 5}


@dataclass
class Upstream:
    """What the upstream was sent, and what it answers: Anthropic blocks, in either format."""

    script: Script
    bodies: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    fail: list[Response] = field(default_factory=list)
    """Answers that are given first, instead of the script's."""
    cut_after: int | None = None
    """Events after which a stream ends."""
    input_tokens: int = USAGE["input_tokens"]
    """The tokens of each request that it reports."""

    @property
    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/messages", self._messages, methods=["POST"]),
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
                Route("/v1/responses", self._responses, methods=["POST"]),
                Route("/v1beta/models/{model}:{verb}", self._gemini, methods=["POST"]),
                Route("/v1/models", self._models, methods=["GET"]),
            ]
        )

    async def _take(self, request: Request) -> tuple[dict[str, Any], Response | None]:
        body = json.loads(await request.body())
        self.bodies.append(body)
        self.paths.append(request.url.path)
        self.headers.append(dict(request.headers))
        return body, self.fail.pop(0) if self.fail else None

    async def _messages(self, request: Request) -> Response:
        body, failure = await self._take(request)
        if failure is not None:
            return failure
        blocks = self.script(body)
        stop = "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn"
        message = {
            "id": f"msg_{len(self.bodies)}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": blocks,
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": {**USAGE, "input_tokens": self.input_tokens},
        }
        if not body.get("stream"):
            return JSONResponse(message)
        return self._stream([(str(event["type"]), event) for event in _anthropic_events(message)])

    async def _chat(self, request: Request) -> Response:
        body, failure = await self._take(request)
        if failure is not None:
            return failure
        blocks = self.script(body)
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
        calls = [
            {
                "index": index,
                "id": block["id"],
                "type": "function",
                "function": {"name": block["name"], "arguments": json.dumps(block["input"])},
            }
            for index, block in enumerate(block for block in blocks if block["type"] == "tool_use")
        ]
        stop = "tool_calls" if calls else "stop"
        message = {"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})}
        usage = {
            "prompt_tokens": self.input_tokens,
            "completion_tokens": 5,
            "total_tokens": self.input_tokens + 5,
        }
        base = {"id": f"chatcmpl-{len(self.bodies)}", "created": 0, "model": body["model"]}
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": stop}
            return JSONResponse({**base, "object": "chat.completion", "choices": [choice], "usage": usage})
        chunk = {**base, "object": "chat.completion.chunk"}
        events: list[tuple[str, Any]] = [
            ("", {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]}),
            ("", {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": stop}]}),
            ("", {**chunk, "choices": [], "usage": usage}),
            ("", "[DONE]"),
        ]
        return self._stream(events)

    async def _responses(self, request: Request) -> Response:
        body, failure = await self._take(request)
        if failure is not None:
            return failure
        items = [_response_item(block) for block in self.script(body)]
        response = {
            "id": f"resp_{len(self.bodies)}",
            "object": "response",
            "created_at": 0,
            "model": body["model"],
            "status": "completed",
            "output": items,
            "usage": {**USAGE, "input_tokens": self.input_tokens, "total_tokens": self.input_tokens + 5},
        }
        if not body.get("stream"):
            return JSONResponse(response)
        events: list[tuple[str, Any]] = [("response.created", {"response": {**response, "output": []}})]
        for index, item in enumerate(items):
            events += [
                (f"response.output_item.{step}", {"output_index": index, "item": item}) for step in ("added", "done")
            ]
        events.append(("response.completed", {"response": response}))
        return self._stream([(name, {"type": name, **data}) for name, data in events])

    async def _gemini(self, request: Request) -> Response:
        body, failure = await self._take(request)
        if failure is not None:
            return failure
        parts = [_gemini_part(block) for block in self.script(body)]
        usage = {"promptTokenCount": self.input_tokens, "candidatesTokenCount": 5}
        candidate = {"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
        answer = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": request.path_params["model"]}
        if request.path_params["verb"] != "streamGenerateContent":
            return JSONResponse(answer)
        pieces = [{"candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}]} for part in parts]
        last = {**answer, "candidates": [{"index": 0, "finishReason": "STOP"}]}
        return self._stream([("", piece) for piece in (*pieces, last)])

    async def _models(self, _request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": "scripted", "object": "model"}]})

    def _stream(self, events: list[tuple[str, Any]]) -> Response:
        async def pieces() -> AsyncIterator[str]:
            for index, (name, data) in enumerate(events):
                if index == self.cut_after:
                    return
                head = f"event: {name}\n" if name else ""
                yield f"{head}data: {data if isinstance(data, str) else json.dumps(data)}\n\n"

        return StreamingResponse(pieces(), media_type="text/event-stream")


def say(text: str) -> Blocks:
    return [{"type": "text", "text": text}]


def call(name: str, arguments: dict[str, Any], call_id: str = "toolu_1") -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def _gemini_part(block: dict[str, Any]) -> dict[str, Any]:
    if block["type"] == "tool_use":
        return {"functionCall": {"id": block["id"], "name": block["name"], "args": block["input"]}}
    return {"text": block["text"]}


def _response_item(block: dict[str, Any]) -> dict[str, Any]:
    if block["type"] == "tool_use":
        named = {"type": "function_call", "id": f"fc_{block['id']}", "call_id": block["id"], "name": block["name"]}
        return {**named, "arguments": json.dumps(block["input"]), "status": "completed"}
    content = [{"type": "output_text", "text": block["text"], "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}


def _anthropic_events(message: dict[str, Any]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
    ]
    for index, block in enumerate(message["content"]):
        is_text = block["type"] == "text"
        started = {**block, "text": ""} if is_text else {**block, "input": {}}
        delta = (
            {"type": "text_delta", "text": block["text"]}
            if is_text
            else {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        )
        events += [
            {"type": "content_block_start", "index": index, "content_block": started},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    events += [
        {
            "type": "message_delta",
            "delta": {"stop_reason": message["stop_reason"], "stop_sequence": None},
            "usage": {"output_tokens": 5},
        },
        {"type": "message_stop"},
    ]
    return events
