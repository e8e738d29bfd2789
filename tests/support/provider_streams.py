"""Answers of providers as they come over the wire: the same parts as a stream of events and as one JSON body."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

Record = dict[str, Any]


@dataclass(frozen=True)
class Thinking:
    text: str
    signature: str = "sig"


@dataclass(frozen=True)
class Said:
    text: str


@dataclass(frozen=True)
class Call:
    id: str
    name: str
    arguments: Record


Part = Thinking | Said | Call


@dataclass(frozen=True)
class Scripted:
    """One round of a provider."""

    parts: tuple[Part, ...]
    number: int = 1
    piece: int = 4
    """Length of a delta."""
    input_tokens: int = 10
    cached_tokens: int = 3
    output_tokens: int = 5
    options: Record = field(default_factory=dict)

    @property
    def has_calls(self) -> bool:
        return any(isinstance(part, Call) for part in self.parts)

    def pieces(self, text: str) -> list[str]:
        return [text[i : i + self.piece] for i in range(0, len(text), self.piece)]

    def without(self, names: frozenset[str]) -> Scripted:
        """The same answer without the calls of `names`."""
        parts = tuple(part for part in self.parts if not (isinstance(part, Call) and part.name in names))
        return Scripted(
            parts, self.number, self.piece, self.input_tokens, self.cached_tokens, self.output_tokens, self.options
        )


def sse(data: object, name: str = "") -> bytes:
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


# Anthropic Messages


def anthropic_body(answer: Scripted) -> Record:
    return {
        "id": f"msg_{answer.number:024d}",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": [_anthropic_block(part) for part in answer.parts],
        "stop_reason": "tool_use" if answer.has_calls else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": answer.input_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": answer.cached_tokens,
            "output_tokens": answer.output_tokens,
        },
    }


def _anthropic_block(part: Part) -> Record:
    match part:
        case Thinking(text, signature):
            return {"type": "thinking", "thinking": text, "signature": signature}
        case Said(text):
            return {"type": "text", "text": text}
        case Call(call_id, name, arguments):
            return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def anthropic_stream(answer: Scripted) -> Iterator[bytes]:
    body = anthropic_body(answer)

    def event(kind: str, **fields: Any) -> bytes:
        return sse({"type": kind, **fields}, kind)

    start = {**body, "content": [], "stop_reason": None, "usage": {**body["usage"], "output_tokens": 1}}
    yield event("message_start", message=start)
    for i, part in enumerate(answer.parts):
        block = _anthropic_block(part)
        empty: Record = {"thinking": {"thinking": "", "signature": ""}, "text": {"text": ""}, "tool_use": {"input": {}}}
        yield event("content_block_start", index=i, content_block={**block, **empty[block["type"]]})
        yield event("ping")
        match part:
            case Thinking(text, signature):
                deltas = [{"type": "thinking_delta", "thinking": piece} for piece in answer.pieces(text)]
                deltas.append({"type": "signature_delta", "signature": signature})
            case Said(text):
                deltas = [{"type": "text_delta", "text": piece} for piece in answer.pieces(text)]
            case Call(_, _, arguments):
                pieces = answer.pieces(json.dumps(arguments))
                deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *pieces]]
        for delta in deltas:
            yield event("content_block_delta", index=i, delta=delta)
        yield event("content_block_stop", index=i)
    yield event(
        "message_delta",
        delta={"stop_reason": body["stop_reason"], "stop_sequence": None},
        usage={"output_tokens": answer.output_tokens},
    )
    yield event("message_stop")


# OpenAI Chat Completions. A message has one text; thinking is `reasoning_content`, as several providers send it.


def openai_body(answer: Scripted) -> Record:
    said = "".join(part.text for part in answer.parts if isinstance(part, Said))
    thought = "".join(part.text for part in answer.parts if isinstance(part, Thinking))
    calls = [_openai_call(part) for part in answer.parts if isinstance(part, Call)]
    message: Record = {"role": "assistant", "content": said or None}
    if thought:
        message["reasoning_content"] = thought
    if calls:
        message["tool_calls"] = calls
    return {
        **_openai_base(answer),
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
        "usage": _openai_usage(answer),
    }


def _openai_base(answer: Scripted) -> Record:
    return {"id": f"chatcmpl-{answer.number}", "created": 1_800_000_000 + answer.number, "model": "gpt-x"}


def _openai_usage(answer: Scripted) -> Record:
    return {
        "prompt_tokens": answer.input_tokens,
        "completion_tokens": answer.output_tokens,
        "total_tokens": answer.input_tokens + answer.output_tokens,
        "prompt_tokens_details": {"cached_tokens": answer.cached_tokens},
    }


def _openai_call(call: Call) -> Record:
    function = {"name": call.name, "arguments": json.dumps(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def openai_stream(answer: Scripted) -> Iterator[bytes]:
    def chunk(delta: Record, finish_reason: str | None = None) -> bytes:
        choices = [{"index": 0, "delta": delta, "finish_reason": finish_reason}]
        return sse({**_openai_base(answer), "object": "chat.completion.chunk", "choices": choices})

    calls = itertools.count()
    yield chunk({"role": "assistant", "content": None})
    for part in answer.parts:
        match part:
            case Thinking(text):
                yield from (chunk({"reasoning_content": piece}) for piece in answer.pieces(text))
            case Said(text):
                yield from (chunk({"content": piece}) for piece in answer.pieces(text))
            case Call():
                index, whole = next(calls), _openai_call(part)
                function = {"name": part.name, "arguments": ""}
                yield chunk({"tool_calls": [{"index": index, **whole, "function": function}]})
                for piece in answer.pieces(whole["function"]["arguments"]):
                    yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, "tool_calls" if answer.has_calls else "stop")
    usage = {"object": "chat.completion.chunk", "choices": [], "usage": _openai_usage(answer)}
    yield sse({**_openai_base(answer), **usage})
    yield sse("[DONE]")


# OpenAI Responses


def responses_body(answer: Scripted) -> Record:
    return {
        **_responses_base(answer),
        "status": "completed",
        "output": [_responses_item(part, answer) for part in answer.parts],
        "usage": {
            "input_tokens": answer.input_tokens,
            "input_tokens_details": {"cached_tokens": answer.cached_tokens, "cache_write_tokens": 0},
            "output_tokens": answer.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": answer.input_tokens + answer.output_tokens,
        },
    }


def _responses_base(answer: Scripted) -> Record:
    return {
        "id": f"resp_{answer.number:030d}",
        "object": "response",
        "created_at": 1_800_000_000 + answer.number,
        "model": "gpt-x",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def _responses_item(part: Part, answer: Scripted) -> Record:
    """An id belongs to the part, so that it stays when other parts are taken out."""
    match part:
        case Thinking(text, signature):
            summary = [{"type": "summary_text", "text": text}]
            item_id = f"rs_{answer.number}"
            return {"type": "reasoning", "id": item_id, "summary": summary, "encrypted_content": signature}
        case Said(text):
            content = [{"type": "output_text", "text": text, "annotations": []}]
            item_id = f"msg_{answer.number}"
            return {"type": "message", "id": item_id, "role": "assistant", "status": "completed", "content": content}
        case Call(call_id, name, arguments):
            fields = {"call_id": call_id, "name": name, "arguments": json.dumps(arguments), "status": "completed"}
            return {"type": "function_call", "id": f"fc_{call_id}", **fields}


def responses_stream(answer: Scripted) -> Iterator[bytes]:
    numbers = itertools.count()
    body = responses_body(answer)

    def event(kind: str, **fields: Any) -> bytes:
        return sse({"type": kind, "sequence_number": next(numbers), **fields}, kind)

    begun = {**_responses_base(answer), "status": "in_progress"}
    yield event("response.created", response=begun)
    yield event("response.in_progress", response=begun)
    for i, item in enumerate(body["output"]):
        at = {"output_index": i, "item_id": item["id"]}
        empty: Record = {"reasoning": {"summary": []}, "message": {"content": []}, "function_call": {"arguments": ""}}
        status = {"status": "in_progress"} if "status" in item else {}
        yield event("response.output_item.added", output_index=i, item={**item, **empty[item["type"]], **status})
        match item:
            case {"type": "reasoning", "summary": [{"text": text} as part]}:
                at |= {"summary_index": 0}
                yield event("response.reasoning_summary_part.added", **at, part={**part, "text": ""})
                for piece in answer.pieces(text):
                    yield event("response.reasoning_summary_text.delta", **at, delta=piece)
                yield event("response.reasoning_summary_text.done", **at, text=text)
                yield event("response.reasoning_summary_part.done", **at, part=part)
            case {"type": "message", "content": [{"text": text} as part]}:
                at |= {"content_index": 0}
                yield event("response.content_part.added", **at, part={**part, "text": ""})
                for piece in answer.pieces(text):
                    yield event("response.output_text.delta", **at, delta=piece, logprobs=[])
                yield event("response.output_text.done", **at, text=text, logprobs=[])
                yield event("response.content_part.done", **at, part=part)
            case {"type": "function_call", "arguments": arguments, "name": name}:
                for piece in answer.pieces(arguments):
                    yield event("response.function_call_arguments.delta", **at, delta=piece)
                yield event("response.function_call_arguments.done", **at, arguments=arguments, name=name)
        yield event("response.output_item.done", output_index=i, item=item)
    yield event("response.completed", response=body)


# Gemini


def gemini_body(answer: Scripted) -> Record:
    parts = [_gemini_part(part) for part in answer.parts] or [{"text": ""}]
    return _gemini(answer, parts, finishReason="STOP") | {"usageMetadata": _gemini_usage(answer)}


def _gemini(answer: Scripted, parts: list[Record], **fields: Any) -> Record:
    candidate = {"content": {"parts": parts, "role": "model"}, **fields, "index": 0}
    return {"candidates": [candidate], "modelVersion": "gemini-x", "responseId": f"r{answer.number}"}


def _gemini_usage(answer: Scripted) -> Record:
    return {
        "promptTokenCount": answer.input_tokens,
        "cachedContentTokenCount": answer.cached_tokens,
        "candidatesTokenCount": answer.output_tokens,
        "totalTokenCount": answer.input_tokens + answer.output_tokens,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": answer.input_tokens}],
    }


def _gemini_part(part: Part) -> Record:
    match part:
        case Thinking(text):
            return {"text": text, "thought": True}
        case Said(text):
            return {"text": text}
        case Call(call_id, name, arguments):
            return {"functionCall": {"id": call_id, "name": name, "args": arguments}, "thoughtSignature": "sig"}


def gemini_stream(answer: Scripted) -> Iterator[bytes]:
    for part in answer.parts:
        whole = _gemini_part(part)
        for piece in answer.pieces(whole["text"]) if "text" in whole else [None]:
            yield sse(_gemini(answer, [whole if piece is None else {**whole, "text": piece}]))
    yield sse(_gemini(answer, [{"text": ""}], finishReason="STOP") | {"usageMetadata": _gemini_usage(answer)})


STREAMS: dict[str, Callable[[Scripted], Iterator[bytes]]] = {
    "anthropic": anthropic_stream,
    "openai": openai_stream,
    "openai-responses": responses_stream,
    "gemini": gemini_stream,
}
BODIES: dict[str, Callable[[Scripted], Record]] = {
    "anthropic": anthropic_body,
    "openai": openai_body,
    "openai-responses": responses_body,
    "gemini": gemini_body,
}
REQUESTS: dict[str, Record] = {
    "anthropic": {"model": "claude-x", "max_tokens": 100, "messages": [{"role": "user", "content": "hello"}]},
    "openai": {"model": "gpt-x", "messages": [{"role": "user", "content": "hello"}]},
    "openai-responses": {"model": "gpt-x", "input": [{"role": "user", "content": "hello"}]},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]},
}
"""A minimal request of each format."""
PATHS: dict[str, str] = {
    "anthropic": "/v1/messages",
    "openai": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "gemini": "/v1beta/models/gemini-x:streamGenerateContent?alt=sse",
}


def usage_in(format: str, body: Record) -> dict[str, int]:  # noqa: A002
    """The tokens that a client reads from an answer; the input includes what was cached."""
    usage = body.get("usageMetadata" if format == "gemini" else "usage") or {}
    if format == "gemini":
        output = usage.get("candidatesTokenCount", 0) + usage.get("thoughtsTokenCount", 0)
        return _usage(usage.get("promptTokenCount"), output, usage.get("cachedContentTokenCount"))
    if format == "anthropic":
        read, written = usage.get("cache_read_input_tokens", 0), usage.get("cache_creation_input_tokens", 0)
        return _usage(usage.get("input_tokens", 0) + read + written, usage.get("output_tokens"), read, written)
    given, made = ("prompt", "completion") if format == "openai" else ("input", "output")
    details = usage.get(f"{given}_tokens_details") or {}
    return _usage(
        usage.get(f"{given}_tokens"),
        usage.get(f"{made}_tokens"),
        details.get("cached_tokens"),
        details.get("cache_write_tokens"),
    )


def _usage(
    input_tokens: int | None, output_tokens: int | None, read: int | None, written: int | None = None
) -> dict[str, int]:
    return {
        "input_tokens": input_tokens or 0,
        "output_tokens": output_tokens or 0,
        "cache_read_tokens": read or 0,
        "cache_write_tokens": written or 0,
    }
