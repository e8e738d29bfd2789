"""A scripted provider for real clients: all four formats, streamed; every request is validated and logged.

    python bench/clients/upstream.py PORT LOG.jsonl [lenient]

The newest message of the user says what to answer: `[[call NAME {"argument": …}]]` a tool call, `[[big 400]]` a text of
400 kB, `What is the port?` what an earlier message of the same request says that it is, anything else a short text.
The tokens that it reports are a quarter of the request's bytes. A request that
`support.validators` finds faults with is logged with them, and rejected as the provider would (unless lenient).
"""

from __future__ import annotations

import gzip
import itertools
import json
import re
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))

import uvicorn
import zstandard
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from support.validators import faults

CALL = re.compile(r"\[\[call (\S+) (\{.*?\})\]\]", re.DOTALL)
BIG = re.compile(r"\[\[big (\d+)\]\]")
QUESTION = re.compile(r"\bWhat is (the [\w ]+?)\?")
PIECE_CHARS = 2_000
KEPT_HEADERS = re.compile(r"session|thread|agent|parent|codex|foveate|affinity|^user-agent$|beta|request-id|version")
Body = dict[str, Any]
Event = tuple[str | None, object]


@dataclass(frozen=True)
class Answer:
    """What the model says: a text, or a call of a tool."""

    number: int
    text: str
    tool: str | None = None
    arguments: str = "{}"


@dataclass(frozen=True)
class Asked:
    """The part of a request that decides the answer."""

    text: str
    tools: tuple[str, ...]
    is_result: bool
    """The newest message is a tool's result."""
    body: str = ""
    """The whole request, in which the model looks for answers."""


class Upstream:
    """Answers and logs requests."""

    def __init__(self, log: Path, *, is_strict: bool = True) -> None:
        self._is_strict = is_strict
        self._log = log
        self._numbers = itertools.count(1)

    async def read(self, request: Request, name: str) -> tuple[Body, list[str]]:
        """The body of a request, and its faults."""
        raw = await request.body()
        coding = request.headers.get("content-encoding")
        if coding == "gzip":
            raw = gzip.decompress(raw)
        elif coding == "zstd":
            raw = zstandard.ZstdDecompressor().decompressobj().decompress(raw)
        body: Body = json.loads(raw) if raw else {}
        found = faults(name, plain(body) if name == "anthropic" else body) if name else []
        headers = {key: value for key, value in request.headers.items() if KEPT_HEADERS.search(key)}
        entry = {
            "at": time.time(),
            "method": request.method,
            "path": request.url.path,
            "format": name,
            "bytes": len(raw),
            "headers": headers,
            "faults": found,
            "body": body,
        }
        with self._log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
        body["_tokens"] = len(raw) // 4
        return body, found if self._is_strict else []

    def answer(self, asked: Asked) -> Answer:
        number = next(self._numbers)
        call = CALL.search(asked.text.replace('\\"', '"'))  # OpenCode quotes its prompt
        if call and call[1] in asked.tools and not asked.is_result:
            return Answer(number, "", call[1], call[2])
        if question := QUESTION.search(asked.text):
            known = re.search(rf"{re.escape(question[1])} is (?!unknown)([\w-]+)", asked.body, re.IGNORECASE)
            found = f"{question[1]} is {known[1] if known else 'unknown to me'}."
            return Answer(number, found[0].upper() + found[1:])
        big = BIG.search(asked.text)
        more = " lorem ipsum dolor sit amet" * (int(big[1]) * 1_000 // 27) if big else ""
        return Answer(number, f"Scripted answer {number}.{more}")

    async def messages(self, request: Request) -> Response:
        body, found = await self.read(request, "anthropic")
        if found:
            error = {"type": "invalid_request_error", "message": "; ".join(found)[:500]}
            return JSONResponse({"type": "error", "error": error}, 400)
        return respond(
            body,
            anthropic_events(body, self.answer(replace(anthropic_asked(body), body=json.dumps(body)))),
            anthropic_whole,
        )

    async def chat(self, request: Request) -> Response:
        body, found = await self.read(request, "openai")
        if found:
            return openai_error(found)
        return respond(
            body, chat_events(body, self.answer(replace(chat_asked(body), body=json.dumps(body)))), chat_whole
        )

    async def responses(self, request: Request) -> Response:
        body, found = await self.read(request, "openai-responses")
        if found:
            return openai_error(found)
        return respond(
            body,
            responses_events(body, self.answer(replace(responses_asked(body), body=json.dumps(body)))),
            responses_whole,
        )

    async def gemini(self, request: Request) -> Response:
        body, found = await self.read(request, "gemini")
        if found:
            return JSONResponse(
                {"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "; ".join(found)}}, 400
            )
        body["stream"] = "stream" in request.url.path
        return respond(
            body,
            gemini_events(body, self.answer(replace(gemini_asked(body), body=json.dumps(body)))),
            lambda events: events[-1][1],
        )

    async def count(self, request: Request) -> Response:
        body, _ = await self.read(request, "")
        return JSONResponse({"input_tokens": body["_tokens"]})

    async def models(self, request: Request) -> Response:
        await self.read(request, "")
        one = {"id": "scripted", "object": "model", "type": "model", "display_name": "Scripted", "created": 0}
        return JSONResponse({"object": "list", "data": [one], "has_more": False})

    async def other(self, request: Request) -> Response:
        await self.read(request, "")
        return JSONResponse({"error": {"type": "not_found_error", "message": "there is nothing here"}}, 404)

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/messages", self.messages, methods=["POST"]),
                Route("/v1/messages/count_tokens", self.count, methods=["POST"]),
                Route("/v1/chat/completions", self.chat, methods=["POST"]),
                Route("/v1/responses", self.responses, methods=["POST"]),
                Route("/v1/models", self.models),
                Route("/v1/models/{call:path}", self.gemini, methods=["POST"]),
                Route("/v1beta/models/{call:path}", self.gemini, methods=["POST"]),
                Route("/{rest:path}", self.other, methods=["GET", "HEAD", "POST", "PUT", "DELETE"]),
            ]
        )


def respond(body: Body, events: Iterator[Event], whole: Any) -> Response:
    """The events as a stream, or what they amount to."""
    if not body.get("stream"):
        return JSONResponse(whole(list(events)))

    async def lines() -> AsyncIterator[str]:
        for name, data in events:
            yield (
                f"event: {name}\n" if name else ""
            ) + f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n"

    return StreamingResponse(lines(), media_type="text/event-stream")


def pieces(text: str) -> Iterator[str]:
    yield from (text[start : start + PIECE_CHARS] for start in range(0, len(text), PIECE_CHARS))


def texts(content: object) -> str:
    """All text in a message's content, as one."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def plain(body: Body) -> Body:
    """An Anthropic request without what betas add: system messages and options in mid-conversation."""
    messages: list[Body] = []
    for message in body.get("messages", []):
        if message["role"] == "system":
            continue
        kept = {key: value for key, value in message.items() if key in ("role", "content")}
        if messages and messages[-1]["role"] == kept["role"]:  # the API joins them
            kept["content"] = [*_blocks(messages.pop()["content"]), *_blocks(kept["content"])]
        messages.append(kept)
    return {**body, "messages": messages}


def _blocks(content: object) -> list[Body]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)  # type: ignore[call-overload]


def openai_error(found: list[str]) -> Response:
    error = {"type": "invalid_request_error", "code": None, "param": None, "message": "; ".join(found)[:500]}
    return JSONResponse({"error": error}, 400)


def anthropic_asked(body: Body) -> Asked:
    users = [message for message in body.get("messages", []) if message["role"] == "user"]
    newest = users[-1]["content"] if users else ""
    has_result = isinstance(newest, list) and any(block.get("type") == "tool_result" for block in newest)
    return Asked(texts(newest), tuple(tool.get("name", "") for tool in body.get("tools") or []), has_result)


def anthropic_events(body: Body, answer: Answer) -> Iterator[Event]:
    usage = {"input_tokens": body["_tokens"], "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    message = {"id": f"msg_{answer.number:024d}", "type": "message", "role": "assistant", "model": body.get("model")}
    message |= {"content": [], "stop_reason": None, "stop_sequence": None, "usage": {**usage, "output_tokens": 1}}
    stop = "tool_use" if answer.tool else "end_turn"
    yield "message_start", {"type": "message_start", "message": message}
    for index, (block, deltas) in enumerate(anthropic_blocks(body, answer)):
        yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": block}
        for delta in deltas:
            yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": stop, "stop_sequence": None}
    tokens = {**usage, "output_tokens": max(1, len(answer.text) // 4)}
    yield "message_delta", {"type": "message_delta", "delta": ended, "usage": tokens}
    yield "message_stop", {"type": "message_stop"}


def anthropic_blocks(body: Body, answer: Answer) -> Iterator[tuple[Body, list[Body]]]:
    """The blocks of an answer as they begin, each with its deltas; the first is thinking, if that is enabled."""
    if (body.get("thinking") or {}).get("type") == "enabled":
        signed = {"type": "signature_delta", "signature": "c2NyaXB0ZWQ="}
        yield {"type": "thinking", "thinking": "", "signature": ""}, [signed]
    if answer.tool:
        block = {"type": "tool_use", "id": f"toolu_{answer.number:022d}", "name": answer.tool, "input": {}}
        yield block, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(answer.arguments)]
    else:
        yield {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces(answer.text)]


def anthropic_whole(events: list[tuple[str, Any]]) -> Body:
    message: Body = dict(events[0][1]["message"])
    content = [dict(data["content_block"]) for name, data in events if name == "content_block_start"]
    for place, block in enumerate(content):
        deltas = [data["delta"] for name, data in events if name == "content_block_delta" and data["index"] == place]
        match block["type"]:
            case "text":
                block["text"] = "".join(delta["text"] for delta in deltas)
            case "tool_use":
                block["input"] = json.loads("".join(delta["partial_json"] for delta in deltas))
            case "thinking":
                block["signature"] = deltas[0]["signature"]
    return message | {"content": content, **events[-2][1]["delta"], "usage": events[-2][1]["usage"]}


def chat_asked(body: Body) -> Asked:
    messages = body.get("messages", [])
    users = [message for message in messages if message["role"] == "user"]
    names = tuple(tool.get("function", {}).get("name", "") for tool in body.get("tools") or [])
    return Asked(texts(users[-1]["content"] if users else ""), names, bool(messages) and messages[-1]["role"] == "tool")


def chat_events(body: Body, answer: Answer) -> Iterator[Event]:
    base = {"id": f"chatcmpl-{answer.number}", "object": "chat.completion.chunk", "created": int(time.time())}
    base["model"] = body.get("model", "scripted")

    def chunk(delta: Body, reason: str | None = None) -> Event:
        return None, {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    yield chunk({"role": "assistant", "content": ""})
    if answer.tool:
        function = {"name": answer.tool, "arguments": ""}
        yield chunk(
            {"tool_calls": [{"index": 0, "id": f"call_{answer.number}", "type": "function", "function": function}]}
        )
        for piece in pieces(answer.arguments):
            yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    for piece in pieces(answer.text):
        yield chunk({"content": piece})
    yield chunk({}, "tool_calls" if answer.tool else "stop")
    written = max(1, len(answer.text) // 4)
    tokens = body["_tokens"]
    usage = {"prompt_tokens": tokens, "completion_tokens": written, "total_tokens": tokens + written}
    yield None, {**base, "choices": [], "usage": usage}
    yield None, "[DONE]"


def chat_whole(events: list[tuple[None, Any]]) -> Body:
    chunks = [data for _, data in events if not isinstance(data, str)]
    choices = [data["choices"][0] for data in chunks if data["choices"]]
    deltas = [choice["delta"] for choice in choices]
    message: Body = {"role": "assistant", "content": "".join(delta.get("content") or "" for delta in deltas) or None}
    calls = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
    if calls:
        arguments = "".join(call["function"]["arguments"] for call in calls)
        function = {"name": calls[0]["function"]["name"], "arguments": arguments}
        message["tool_calls"] = [{"id": calls[0]["id"], "type": "function", "function": function}]
    choice = {"index": 0, "message": message, "finish_reason": choices[-1]["finish_reason"], "logprobs": None}
    return {**chunks[-1], "object": "chat.completion", "choices": [choice]}


def responses_asked(body: Body) -> Asked:
    items = body.get("input", [])
    if isinstance(items, str):
        return Asked(items, (), is_result=False)
    users = [item for item in items if item.get("role") == "user"]
    names = tuple(tool.get("name", "") for tool in body.get("tools") or [])
    is_result = bool(items) and str(items[-1].get("type", "")).endswith("_output")
    return Asked(texts(users[-1]["content"] if users else ""), names, is_result)


def responses_events(body: Body, answer: Answer) -> Iterator[Event]:
    numbers = itertools.count()

    def event(kind: str, **data: object) -> Event:
        return kind, {"type": kind, "sequence_number": next(numbers), **data}

    base = {"id": f"resp_{answer.number:030d}", "object": "response", "created_at": int(time.time()), "error": None}
    base |= {"model": body.get("model"), "status": "in_progress", "output": [], "tools": [], "tool_choice": "auto"}
    base |= {"parallel_tool_calls": True, "incomplete_details": None, "instructions": None, "metadata": {}}
    yield event("response.created", response=base)
    place = {"output_index": 0}
    item: Body
    if answer.tool:
        item = {"type": "function_call", "id": f"fc_{answer.number}", "call_id": f"call_{answer.number}"}
        item |= {"name": answer.tool, "arguments": answer.arguments, "status": "completed"}
        place["item_id"] = item["id"]
        yield event(
            "response.output_item.added", output_index=0, item={**item, "arguments": "", "status": "in_progress"}
        )
        for piece in pieces(answer.arguments):
            yield event("response.function_call_arguments.delta", **place, delta=piece)
        yield event("response.function_call_arguments.done", **place, arguments=answer.arguments, name=answer.tool)
    else:
        part = {"type": "output_text", "text": answer.text, "annotations": []}
        item = {"type": "message", "id": f"msg_{answer.number}", "role": "assistant", "status": "completed"}
        item["content"] = [part]
        place |= {"item_id": item["id"], "content_index": 0}
        yield event("response.output_item.added", output_index=0, item={**item, "content": [], "status": "in_progress"})
        yield event("response.content_part.added", **place, part={**part, "text": ""})
        for piece in pieces(answer.text):
            yield event("response.output_text.delta", **place, delta=piece, logprobs=[])
        yield event("response.output_text.done", **place, text=answer.text, logprobs=[])
        yield event("response.content_part.done", **place, part=part)
    yield event("response.output_item.done", output_index=0, item=item)
    written, tokens = max(1, len(answer.text) // 4), body["_tokens"]
    usage = {"input_tokens": tokens, "output_tokens": written, "total_tokens": tokens + written}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    yield event("response.completed", response={**base, "status": "completed", "output": [item], "usage": usage})


def responses_whole(events: list[tuple[str, Any]]) -> Body:
    whole: Body = events[-1][1]["response"]
    return whole


def gemini_asked(body: Body) -> Asked:
    contents = body.get("contents", [])
    spoken = [one for one in contents if one.get("role", "user") == "user" and texts(one.get("parts"))]
    last = contents[-1].get("parts", []) if contents else []
    declared = [one for tool in body.get("tools") or [] for one in tool.get("functionDeclarations", [])]
    is_result = any("functionResponse" in part for part in last)
    names = tuple(one["name"] for one in declared)
    return Asked(texts(spoken[-1]["parts"]) if spoken else "", names, is_result)


def gemini_events(body: Body, answer: Answer) -> Iterator[Event]:
    written, tokens = max(1, len(answer.text) // 4), body["_tokens"]
    usage = {"promptTokenCount": tokens, "candidatesTokenCount": written, "totalTokenCount": tokens + written}
    base = {"responseId": f"r{answer.number}", "modelVersion": "scripted", "usageMetadata": usage}
    part = {"text": answer.text}
    if answer.tool:
        part = {"functionCall": {"name": answer.tool, "args": json.loads(answer.arguments)}}  # type: ignore[dict-item]
    candidate = {"index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}
    yield None, {**base, "candidates": [candidate]}


def main(port: int, log: Path, *, is_strict: bool) -> None:
    uvicorn.run(Upstream(log, is_strict=is_strict).app(), host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), is_strict="lenient" not in sys.argv[3:])
