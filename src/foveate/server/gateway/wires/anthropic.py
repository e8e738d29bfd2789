"""Anthropic Messages: `POST /v1/messages`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import msgspec

from foveate.errors import BadRequest, BadUpstream
from foveate.server.gateway.wires.fields import (
    Record,
    add_usage,
    check_content,
    count_in,
    decode,
    encode,
    int_in,
    joined,
    limit_in,
    parse_arguments,
    record_in,
    records_in,
    request_flag,
    request_messages,
    request_object,
    request_objects,
    request_text,
    text_in,
    text_of,
    texts_in,
    usage_in,
)
from foveate.server.gateway.wires.wire import ClientRequest, OwnCall, UpstreamAnswer
from foveate.server.sse import SseEvent, write_event
from foveate.session.client_calls import UsageKeys

KINDS: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
CALLS: Final = frozenset({"tool_use"})
"""Blocks that the client has to answer; server tools have other types."""


class AnthropicWire:
    format = "anthropic"

    def read(self, body: object, *, path: str) -> ClientRequest:  # noqa: ARG002
        data = request_object(body)
        tools = request_objects(data, "tools")
        check_content(data.get("system"), "system")
        return ClientRequest(
            body=data,
            model=request_text(data, "model"),
            is_stream=request_flag(data, "stream"),
            system=text_of(data.get("system")),
            messages=request_messages(data),
            tools=tools,
            tool_names=frozenset(name for tool in tools if isinstance(name := tool.get("name"), str)),
            max_output_tokens=limit_in(data, "max_tokens"),
            hints=_hints(data),
        )

    def upstream_body(
        self, request: ClientRequest, rendered: Record, *, extra_system: str, own_tools: list[Record]
    ) -> Record:
        body = {**request.body, "messages": rendered["messages"]}
        system = _visible(request.body.get("system"))
        if not system:
            body.pop("system", None)
        elif system != request.body["system"]:
            body["system"] = system
        if extra_system:
            if isinstance(system, list):
                body["system"] = [*system, {"type": "text", "text": extra_system}]
            else:
                body["system"] = f"{system}\n\n{extra_system}" if system else extra_system
        if own_tools:
            body["tools"] = [*request.tools, *own_tools]
        return body

    def with_usage(self, body: Record) -> Record:
        return body

    def without_calls(self, body: Record) -> Record:
        return {**body, "tool_choice": {"type": "none"}}

    def answer(self, request: ClientRequest, *, own_names: frozenset[str]) -> AnthropicAnswer:
        return AnthropicAnswer(request, own_names)

    def error(self, status: int, message: str, *, kind: str | None = None, param: str | None = None) -> Record:
        prefix = f"{param}: " if param and not message.startswith(param) else ""
        default = KINDS.get(status, "api_error" if status >= 500 else "invalid_request_error")  # noqa: PLR2004
        return {"type": "error", "error": {"type": kind or default, "message": prefix + message}}

    def ping(self) -> bytes:
        return b'event: ping\ndata: {"type": "ping"}\n\n'


def _visible(system: object) -> str | list[Record]:
    """Return a system prompt without blank text, which the API rejects."""
    if isinstance(system, str):
        return system if system.strip() else ""
    blocks = system if isinstance(system, list) else []
    return [block for block in blocks if not isinstance(text := block.get("text"), str) or text.strip()] or ""


def _hints(body: Record) -> dict[str, str]:
    """Read ids from `metadata.user_id`, a string that in some clients holds a JSON object."""
    metadata = body.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise BadRequest("must be an object", "metadata")
    hints = texts_in(metadata)
    try:
        ids = msgspec.json.decode(hints.get("user_id", ""))
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return hints
    return {**texts_in(ids), **hints}


@dataclass
class _Block:
    """A content block as it arrives."""

    content: Record
    index: int | None
    """Its index for the client; None if it is hidden."""
    pieces: dict[str, list[str]] = field(default_factory=dict)
    is_done: bool = False

    def add(self, delta: Record) -> None:
        match text_in(delta, "type"):
            case "text_delta":
                self._grow("text", delta, "text")
            case "thinking_delta":
                self._grow("thinking", delta, "thinking")
            case "input_json_delta":
                self._grow("input", delta, "partial_json")
            case "compaction_delta":
                for key, value in delta.items():
                    if key == "content" and isinstance(value, str):
                        self._grow("content", delta, "content")
                    elif key not in {"type", "content"} and value is not None:
                        self.content[key] = value
            case "signature_delta":
                self.content["signature"] = text_in(delta, "signature")
            case "citations_delta":
                self.content["citations"] = [*records_in(self.content, "citations"), record_in(delta, "citation")]

    def _grow(self, name: str, delta: Record, key: str) -> None:
        self.pieces.setdefault(name, []).append(text_in(delta, key))

    def whole(self) -> Record:
        """Return the block as in a non-streaming answer."""
        content = dict(self.content)
        for name, pieces in self.pieces.items():
            text = joined(pieces)
            if name != "input":
                content[name] = (content.get(name) or "") + text
            elif text.strip():
                value = parse_arguments(text)
                # An input must be an object; this is Anthropic's documented form for invalid JSON.
                content[name] = value if isinstance(value, dict) else {"INVALID_JSON": text}
        return content

    def call(self) -> OwnCall:
        text = joined(self.pieces.get("input", []))
        arguments = parse_arguments(text) if text.strip() else self.content.get("input", {})
        return OwnCall(text_in(self.content, "id"), text_in(self.content, "name"), arguments)


class AnthropicAnswer(UpstreamAnswer):
    contents = frozenset({"content"})
    inputs = frozenset({"input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "cache_creation"})
    usage_keys = UsageKeys(
        "input_tokens",
        "output_tokens",
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
        is_cache_apart=True,
    )
    counted_inputs = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")

    def __init__(self, request: ClientRequest, own_names: frozenset[str]) -> None:
        super().__init__(request, own_names)
        self._message: Record = {}
        self._blocks: dict[int, _Block] = {}
        self._next_index = 0
        self._end: Record = {}
        """The `message_delta` of this round."""
        self._shown: list[Record] = []
        """Content of earlier rounds without own calls."""

    @property
    def own_calls(self) -> list[OwnCall]:
        return [block.call() for block in self._blocks.values() if block.index is None and block.is_done]

    @property
    def has_client_calls(self) -> bool:
        return any(
            block.index is not None and block.content.get("type") in CALLS and block.is_done
            for block in self._blocks.values()
        )

    @property
    def round_messages(self) -> list[Record]:
        return _message([block.whole() for block in self._kept()])

    def _kept(self) -> list[_Block]:
        """Return all complete blocks; of an interrupted block only the text is usable."""
        return [
            block
            for block in self._blocks.values()
            if block.is_done or (block.content.get("type") == "text" and any(block.pieces.get("text", ())))
        ]

    def feed(self, event: SseEvent) -> list[bytes]:
        if event.data == b"[DONE]":
            return []
        data = decode(event.data)
        kind = text_in(data, "type") or event.name
        if kind == "message_start":
            return self._start(event, data)
        if kind in {"message_delta", "message_stop"}:
            self._take_end(kind, data)
            return []
        self.has_failed |= kind == "error"
        block = self._take_block(kind, data)
        if block is None or block.index == data.get("index"):
            return [_named(event, kind).encode()]
        return [] if block.index is None else [write_event(encode({**data, "index": block.index}), name=kind)]

    def _start(self, event: SseEvent, data: Record) -> list[bytes]:
        if self._message:
            raise BadUpstream("a second message_start in one answer")
        self._message = record_in(data, "message")
        if not self._message:
            raise BadUpstream("message_start has no message")
        self._usage = dict(usage_in(self._message, "usage"))
        self._take_model(self._message.get("model"))
        if self.rounds > 1:
            return []
        self._first = self._message
        return [_named(event, "message_start").encode()]

    def _take_block(self, kind: str, data: Record) -> _Block | None:
        """Read an event of a content block; return the block, or None for other events."""
        if "index" not in data and not kind.startswith("content_block_"):
            return None
        index = int_in(data, "index")
        if kind == "content_block_start":
            if index is None or index in self._blocks or not self._message:
                raise BadUpstream(f"unexpected content_block_start with the index {index}")
            return self._add(index, record_in(data, "content_block"))
        block = None if index is None else self._blocks.get(index)
        if block is None and kind.startswith("content_block_"):
            raise BadUpstream(f"{kind} for the block {index}, which has not started")
        if block is not None and kind == "content_block_delta":
            block.add(record_in(data, "delta"))
        elif block is not None and kind == "content_block_stop":
            block.is_done = True
        return block

    def _add(self, index: int, content: Record) -> _Block:
        for key in ("type", "id", "name", "text", "thinking"):
            text_in(content, key)
        is_own = content.get("type") == "tool_use" and content.get("name") in self.own_names
        block = self._blocks[index] = _Block(dict(content), None if is_own else self._next_index)
        self._next_index += not is_own
        return block

    def _take_end(self, kind: str, data: Record) -> None:
        if kind == "message_stop":
            self._complete()
            return
        delta = {**record_in(self._end, "delta"), **record_in(data, "delta")}
        text_in(delta, "stop_reason")
        usage = {key: value for key, value in usage_in(data, "usage").items() if value is not None}
        self._end = {**self._end, **data, "delta": delta, "usage": {**usage_in(self._end, "usage"), **usage}}
        self._usage |= usage

    def _complete(self) -> None:
        self.is_complete = True
        for block in self._blocks.values():
            block.is_done = True

    def load(self, body: Record) -> None:
        self._check(body)
        self._message = body
        for index, content in enumerate(records_in(body, "content")):
            self._add(index, content)
        self._usage = dict(usage_in(body, "usage"))
        self._take_model(body.get("model"))
        if self.rounds == 1:
            self._first = body
        text_in(body, "stop_reason")
        self._end = {"delta": {key: body[key] for key in ("stop_reason", "stop_sequence") if key in body}}
        self._complete()

    def _events(self, body: Record) -> Iterator[SseEvent]:
        usage = usage_in(body, "usage")
        start = {**body, "content": [], "stop_reason": None, "stop_sequence": None}
        yield _event("message_start", message={**start, "usage": {**usage, "output_tokens": 0}})
        for index, block in enumerate(records_in(body, "content")):
            empty, deltas = _as_deltas(block)
            yield _event("content_block_start", index=index, content_block=empty)
            for delta in deltas:
                yield _event("content_block_delta", index=index, delta=delta)
            yield _event("content_block_stop", index=index)
        ends = {key: body[key] for key in ("stop_reason", "stop_sequence") if key in body}
        yield _event("message_delta", delta=ends, usage=usage)
        yield _event("message_stop")

    def follow_up(self, body: Record, results: list[tuple[OwnCall, str]]) -> Record:
        answers = [{"type": "tool_result", "tool_use_id": call.id, "content": text} for call, text in results]
        messages = [*body["messages"], *self.round_messages, {"role": "user", "content": answers}]
        return {**body, "messages": messages}

    def next_round(self) -> None:
        self._shown = self._all_shown()
        super().next_round()
        self._message, self._end, self._blocks = {}, {}, {}

    def finish(self) -> list[bytes]:
        end = {"type": "message_delta", **self._end}
        end["delta"] = {"stop_sequence": None, **record_in(self._end, "delta"), "stop_reason": self._stop_reason()}
        if self.rounds > 1 or "usage" not in end:
            end["usage"] = self._client_usage()
        return [
            write_event(encode(end), name="message_delta"),
            write_event(b'{"type":"message_stop"}', name="message_stop"),
        ]

    def _stop_reason(self) -> str:
        reason = text_in(record_in(self._end, "delta"), "stop_reason") or "end_turn"
        return "end_turn" if reason == "tool_use" and not self.has_client_calls else reason

    def result(self) -> Record:
        message = {**self._first, **self._message, **record_in(self._end, "delta")}
        if "id" in self._first:
            message["id"] = self._first["id"]
        return {
            **message,
            "content": self._all_shown(),
            "stop_reason": self._stop_reason(),
            "usage": self._client_usage(),
        }

    def shown_messages(self) -> list[Record]:
        return _message(self._all_shown())

    def _all_shown(self) -> list[Record]:
        return self._shown + [block.whole() for block in self._kept() if block.index is not None]

    def abort(self, message: str, *, kind: str | None = None) -> list[bytes]:
        if self.has_failed:
            return []
        error = {"type": "error", "error": {"type": kind or "api_error", "message": message}}
        return [write_event(encode(error), name="error")]

    def _has_hosted_calls(self) -> bool:
        return any(text_in(block.content, "type") == "server_tool_use" for block in self._blocks.values())

    def _total_usage(self) -> Record:
        """Return the usage of all rounds; `iterations` has each round's."""
        listed = self._usage.get("iterations")
        iterations = listed if listed and isinstance(listed, list) else [_iteration(self._usage)]
        return add_usage(self._before, {**self._usage, "iterations": iterations})


def _event(kind: str, **fields: object) -> SseEvent:
    return SseEvent(kind, encode({"type": kind, **fields}))


def _as_deltas(block: Record) -> tuple[Record, list[Record]]:
    """Return a content block as its start has it, and the deltas that complete it."""
    deltas: list[Record] = []
    match block:
        case {"type": "text", "text": str(text)}:
            cited = [{"type": "citations_delta", "citation": citation} for citation in block.get("citations") or ()]
            deltas = [{"type": "text_delta", "text": text}, *cited]
            return {**block, "text": "", **({"citations": []} if cited else {})}, deltas
        case {"type": "thinking", "thinking": str(thinking)}:
            deltas = [{"type": "thinking_delta", "thinking": thinking}]
            if signature := block.get("signature"):
                deltas.append({"type": "signature_delta", "signature": signature})
            return {**block, "thinking": "", "signature": ""}, deltas
        case {"input": dict(arguments)}:
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": encode(arguments).decode()}]
    return block, deltas


def _iteration(usage: Record) -> Record:
    keys = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return {"type": "message", **{key: count_in(usage, key) for key in keys}}


def _message(content: list[Record]) -> list[Record]:
    return [{"role": "assistant", "content": content}] if content else []


def _named(event: SseEvent, kind: str) -> SseEvent:
    """Name an unnamed event, since clients of this format skip events without a name."""
    return event if event.name else SseEvent(kind, event.data)
