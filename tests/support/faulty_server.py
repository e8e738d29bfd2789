"""A real HTTP server on 127.0.0.1 that speaks OpenAI's, Anthropic's and Gemini's protocols, and misbehaves on demand.

    with faulty_server() as server:
        server.will(Reply(429, {"error": {"message": "slow down"}}, {"Retry-After": "2"}), server.says("Hello."))

Each request takes the next behaviour; the last one is repeated. What was asked is kept in `server.requests`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, TypeAlias

Protocol = Literal["openai", "anthropic", "google"]
MAX_STALL_SECONDS = 60.0


@dataclass(frozen=True)
class Reply:
    """A plain response; a body that is not text or bytes goes out as JSON."""

    status: int = 200
    body: object = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    missing_bytes: int = 0
    """Promised in Content-Length, and never sent."""

    @property
    def payload(self) -> bytes:
        if isinstance(self.body, bytes):
            return self.body
        return (self.body if isinstance(self.body, str) else json.dumps(self.body)).encode()


@dataclass(frozen=True)
class Stream:
    """Server-sent events. `end` is how it ends: properly, cut in the middle of a chunk, or not at all."""

    events: Sequence[str]
    end: Literal["done", "cut", "stall"] = "done"


@dataclass(frozen=True)
class Stall:
    """Takes the request and says nothing."""


@dataclass(frozen=True)
class HangUp:
    """Closes the connection without a word."""


Behaviour: TypeAlias = Reply | Stream | Stall | HangUp


@dataclass(frozen=True)
class Asked:
    path: str
    headers: Mapping[str, str]
    body: Any
    connection: int = 0
    """The client's port."""


@dataclass(frozen=True)
class Said:
    """An answer, to be written in any of the protocols."""

    text: str = "Hello."
    tool: tuple[str, Mapping[str, Any]] | None = None
    thinking: str = ""
    finish: Literal["stop", "length", "filter"] = "stop"
    input_tokens: int = 100
    """Including those from the cache."""
    cached_tokens: int = 80
    output_tokens: int = 7
    signature: str = "c2lnbmVk"


class FaultyServer:
    """The server; use `faulty_server`."""

    def __init__(self) -> None:
        self.requests: list[Asked] = []
        self.heads: list[Asked] = []
        """Requests without a body or an answer; they take no behaviour."""
        self.closing = threading.Event()
        self._behaviours: list[Behaviour] = [Reply(500, "no behaviour was set")]
        self._lock = threading.Lock()
        self._http = _Http(self)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def will(self, *behaviours: Behaviour) -> None:
        with self._lock:
            self._behaviours = list(behaviours)
            self.requests.clear()

    def take(self, asked: Asked) -> Behaviour:
        with self._lock:
            self.requests.append(asked)
            return self._behaviours.pop(0) if len(self._behaviours) > 1 else self._behaviours[0]

    def close(self) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@contextmanager
def faulty_server() -> Iterator[FaultyServer]:
    server = FaultyServer()
    try:
        yield server
    finally:
        server.close()


def environment(server: FaultyServer, key: str) -> dict[str, str]:
    """What leads each provider's own package to the server, with this key."""
    return {
        "OPENAI_BASE_URL": f"{server.url}/v1",
        "OPENAI_API_KEY": key,
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_API_KEY": key,
        "GOOGLE_GEMINI_BASE_URL": server.url,
        "GOOGLE_API_KEY": key,
        "FOVEATE_ENDPOINT_KEY": key,
    }


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, faulty: FaultyServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.faulty = faulty


class _Handler(BaseHTTPRequestHandler):
    server: _Http
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self.server.faulty.heads.append(self._asked(None))
        self._reply(Reply(404))

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        sent = self.rfile.read(length)
        is_file = "multipart" in self.headers.get("Content-Type", "") or "X-Goog-Upload-Offset" in self.headers
        body = sent.decode() if is_file else json.loads(sent or b"null")
        behaviour = self.server.faulty.take(self._asked(body))
        try:
            self._behave(behaviour)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _asked(self, body: Any) -> Asked:
        headers = {name.lower(): value for name, value in self.headers.items()}
        return Asked(self.path, headers, body, int(self.client_address[1]))

    def _behave(self, behaviour: Behaviour) -> None:
        match behaviour:
            case Reply():
                self._reply(behaviour)
            case Stream():
                self._stream(behaviour)
            case Stall():
                self.server.faulty.closing.wait(MAX_STALL_SECONDS)
                self.close_connection = True
            case HangUp():
                self.close_connection = True

    def _reply(self, reply: Reply) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(reply.payload) + reply.missing_bytes))
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.payload)
        self.close_connection = bool(reply.missing_bytes)

    def _stream(self, stream: Stream) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in stream.events:
            data = event.encode()
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            self.wfile.flush()
        if stream.end == "done":
            self.wfile.write(b"0\r\n\r\n")
            return
        if stream.end == "cut":
            self.wfile.write(b"40\r\ndata: {")
        else:
            self.server.faulty.closing.wait(MAX_STALL_SECONDS)
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Nobody reads it."""


def plain(protocol: Protocol, said: Said) -> Reply:
    """The answer in one piece."""
    return Reply(body={"openai": _openai_plain, "anthropic": _anthropic_plain, "google": _google_plain}[protocol](said))


def streamed(
    protocol: Protocol, said: Said, *, end: Literal["done", "cut", "stall"] = "done", finished: bool = True
) -> Stream:
    """The answer in pieces; `finished=False` leaves out what says that it is done."""
    write = {"openai": _openai_stream, "anthropic": _anthropic_stream, "google": _google_stream}[protocol]
    return Stream(write(said, finished), end)


def refused(protocol: Protocol, status: int, message: str, *, code: str = "", **headers: str) -> Reply:
    """An error as the protocol words it; headers are written with underscores."""
    match protocol:
        case "openai":
            body: object = {"error": {"message": message, "type": code or None, "code": code or None}}
        case "anthropic":
            body = {"type": "error", "error": {"type": code or "api_error", "message": message}}
        case "google":
            body = {"error": {"code": status, "message": message, "status": code}}
    return Reply(status, body, {name.replace("_", "-"): value for name, value in headers.items()})


def _pieces(text: str) -> list[str]:
    half = len(text) // 2
    return [text[:half], text[half:]]


def _openai_usage(said: Said) -> dict[str, Any]:
    return {
        "prompt_tokens": said.input_tokens,
        "completion_tokens": said.output_tokens,
        "total_tokens": said.input_tokens + said.output_tokens,
        "prompt_tokens_details": {"cached_tokens": said.cached_tokens},
    }


def _openai_finish(said: Said) -> str:
    if said.tool and said.finish == "stop":
        return "tool_calls"
    return {"stop": "stop", "length": "length", "filter": "content_filter"}[said.finish]


def _openai_tool(said: Said) -> list[dict[str, Any]]:
    if not said.tool:
        return []
    name, arguments = said.tool
    function = {"name": name, "arguments": json.dumps(arguments)}
    return [{"id": "call_1", "index": 0, "type": "function", "function": function}]


def _openai_plain(said: Said) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": said.text or None}
    if said.thinking:
        message["reasoning_content"] = said.thinking
    if said.tool:
        message["tool_calls"] = _openai_tool(said)
    choice = {"index": 0, "message": message, "finish_reason": _openai_finish(said)}
    head = {"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "provider": "p"}
    return {**head, "choices": [choice], "usage": _openai_usage(said)}


def _openai_stream(said: Said, finished: bool) -> list[str]:
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "provider": "p"}
    thoughts = _pieces(said.thinking) if said.thinking else []
    deltas: list[dict[str, Any]] = [{"reasoning_content": piece} for piece in thoughts]
    deltas += [{"role": "assistant", "content": piece} for piece in _pieces(said.text)]
    if said.tool:
        deltas.append({"tool_calls": _openai_tool(said)})
    chunks = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    if finished:
        chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": _openai_finish(said)}]})
        chunks.append({**head, "choices": [], "usage": _openai_usage(said)})
    events = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return [*events, "data: [DONE]\n\n"] if finished else events


def _anthropic_blocks(said: Said) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if said.thinking:
        blocks.append({"type": "thinking", "thinking": said.thinking, "signature": said.signature})
    if said.text:
        blocks.append({"type": "text", "text": said.text})
    if said.tool:
        blocks.append({"type": "tool_use", "id": "toolu_1", "name": said.tool[0], "input": said.tool[1]})
    return blocks


def _anthropic_usage(said: Said) -> dict[str, Any]:
    return {
        "input_tokens": said.input_tokens - said.cached_tokens,
        "cache_read_input_tokens": said.cached_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": said.output_tokens,
    }


def _anthropic_finish(said: Said) -> str:
    if said.tool and said.finish == "stop":
        return "tool_use"
    return {"stop": "end_turn", "length": "max_tokens", "filter": "refusal"}[said.finish]


def _anthropic_plain(said: Said) -> dict[str, Any]:
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
    ending = {"stop_reason": _anthropic_finish(said), "usage": _anthropic_usage(said)}
    return {**head, "content": _anthropic_blocks(said), **ending}


def _anthropic_stream(said: Said, finished: bool) -> list[str]:
    start = {**_anthropic_plain(said), "content": [], "stop_reason": None}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
    for index, block in enumerate(_anthropic_blocks(said)):
        empty, deltas = _anthropic_deltas(block)
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events.extend({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
        events.append({"type": "content_block_stop", "index": index})
    if finished:
        delta = {"stop_reason": _anthropic_finish(said), "stop_sequence": None}
        events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": said.output_tokens}})
        events.append({"type": "message_stop"})
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]


def _anthropic_deltas(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    match block["type"]:
        case "text":
            return {**block, "text": ""}, [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
        case "thinking":
            spoken = {"type": "thinking_delta", "thinking": block["thinking"]}
            signed = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [spoken, signed]
    return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]


def _google_chunk(parts: list[dict[str, Any]], said: Said, finish: str | None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    usage = {
        "promptTokenCount": said.input_tokens,
        "cachedContentTokenCount": said.cached_tokens,
        "candidatesTokenCount": said.output_tokens,
        "totalTokenCount": said.input_tokens + said.output_tokens,
    }
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m", "responseId": "r1"}


def _google_parts(said: Said) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    if said.thinking:
        parts.append({"text": said.thinking, "thought": True})
    if said.text:
        parts.append({"text": said.text})
    if said.tool:
        call = {"name": said.tool[0], "args": said.tool[1]}
        parts.append({"functionCall": call, "thoughtSignature": said.signature})
    return parts


def _google_finish(said: Said) -> str:
    return {"stop": "STOP", "length": "MAX_TOKENS", "filter": "SAFETY"}[said.finish]


def _google_plain(said: Said) -> dict[str, Any]:
    return _google_chunk(_google_parts(said), said, _google_finish(said))


def _google_stream(said: Said, finished: bool) -> list[str]:
    parts = [[{"text": piece}] for piece in _pieces(said.text)] if said.text else []
    parts += [[part] for part in _google_parts(said) if "functionCall" in part]
    chunks = [_google_chunk(part, said, None) for part in parts]
    if finished:
        chunks.append(_google_chunk([{"text": ""}], said, _google_finish(said)))
    return [f"data: {json.dumps(chunk)}\r\n\r\n" for chunk in chunks]
