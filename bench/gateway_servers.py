"""The scripted upstream and the plain proxy of bench/gateway.py, as ASGI apps.

python bench/gateway_servers.py serve …     `foveate serve` without accounts, requests as sent and logs
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from typing import Any

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

UPSTREAM = os.environ.get("BENCH_UPSTREAM", "")
TEXT = "The answer, in a few words that a model might say about the harbour and its berths. " * 6
CALL = b"List the berths first."
_last: dict[str, bytes] = {"body": b""}
_count = {"answers": 0}
_next: dict[str, list[dict[str, Any]]] = {}
"""The blocks of the next answer, where they are given."""
_client = httpx2.AsyncClient(timeout=60, limits=httpx2.Limits(max_connections=None))


async def _messages(request: Request) -> Response:
    raw = await request.body()
    _last["body"] = raw
    _count["answers"] += 1
    is_stream = b'"stream":true' in raw or b'"stream": true' in raw
    usage = {"input_tokens": 10, "output_tokens": 5}
    text = f"{TEXT}({_count['answers']})"
    newest = raw[raw.rindex(b'"role"') :]
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}]
    if CALL in newest:
        call_id = f"toolu_{_count['answers']}"
        blocks = [{"type": "tool_use", "id": call_id, "name": "ls", "input": {"path": "berths"}}]
    blocks = _next.pop("blocks", blocks)
    message: dict[str, Any] = {
        "id": f"msg_{_count['answers']}",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": blocks,
        "stop_reason": "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn",
        "stop_sequence": None,
        "usage": usage,
    }
    if not is_stream:
        return JSONResponse(message)
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
            for piece in (text[:200], text[200:])
        ),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 5},
        },
        {"type": "message_stop"},
    ]

    async def pieces() -> AsyncIterator[str]:
        for event in events:
            yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"

    return StreamingResponse(pieces(), media_type="text/event-stream")


async def _sent_last(_request: Request) -> Response:
    return Response(_last["body"])


async def _answer_next(request: Request) -> Response:
    _next["blocks"] = await request.json()
    return Response()


async def _health(_request: Request) -> Response:
    return Response()


async def _forward(request: Request) -> Response:
    """A body passed on as it came, and its answer as it comes."""
    kept = {name: value for name, value in request.headers.items() if name not in ("host", "content-length")}
    outgoing = _client.build_request("POST", f"{UPSTREAM}/v1/messages", headers=kept, content=await request.body())
    response = await _client.send(outgoing, stream=True)
    return StreamingResponse(response.aiter_raw(), response.status_code, media_type="text/event-stream")


upstream = Starlette(
    routes=[
        Route("/v1/messages", _messages, methods=["POST"]),
        Route("/last", _sent_last),
        Route("/next", _answer_next, methods=["POST"]),
        Route("/healthz", _health),
    ]
)
proxy = Starlette(routes=[Route("/v1/messages", _forward, methods=["POST"]), Route("/healthz", _health)])


def serve_unaccounted() -> None:
    """Run a command of `foveate` without what the gateway accounts and logs for each request."""
    from foveate.cli import main
    from foveate.server import app
    from foveate.server.gateway import routes

    def unlogged(inner: Any) -> Any:
        return inner

    vars(routes)["CallNote"] = lambda **_: None
    vars(app)["RequestLogMiddleware"] = unlogged
    main()


if __name__ == "__main__":
    serve_unaccounted()
