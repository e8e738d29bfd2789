"""CPU per request of the HTTP clients that a gateway could use, against the scripted upstream on loopback.

python bench/transports.py        # aiohttp is measured if it is installed
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import msgspec
import uvloop

from foveate.server.gateway.transport import UpstreamTransport
from gateway import FOLDER, HEADERS, _free_port, _wait_for

RUNS = 5
LOADS = ((2_000, 1, 100), (2_000, 64, 640), (400_000, 1, 40))
"""Bytes of the body, requests at once, requests of a run."""
Ask = Callable[[Any, str, bytes], Awaitable[int]]


async def ask_httpx(client: Any, url: str, body: bytes) -> int:
    response = await client.send(client.build_request("POST", url, headers=HEADERS, content=body), stream=True)
    received = 0
    async for chunk in response.aiter_bytes():
        received += len(chunk)
    await response.aclose()
    return received


async def ask_aiohttp(session: Any, url: str, body: bytes) -> int:
    received = 0
    async with session.post(url, data=body, headers=HEADERS) as response:
        async for chunk in response.content.iter_any():
            received += len(chunk)
    return received


def kinds() -> dict[str, tuple[Callable[[], Any], Ask]]:
    found: dict[str, tuple[Callable[[], Any], Ask]] = {
        "httpx2": (lambda: httpx2.AsyncClient(timeout=60, limits=httpx2.Limits(max_connections=None)), ask_httpx),
        "httpx2, our transport": (lambda: httpx2.AsyncClient(timeout=60, transport=UpstreamTransport()), ask_httpx),
    }
    try:
        import aiohttp  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return found
    found["aiohttp"] = (lambda: aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)), ask_aiohttp)
    return found


async def measure(make: Callable[[], Any], ask: Ask, url: str, *, size: int, width: int, count: int) -> float:
    """The least CPU time per request, in ms."""
    message = {"role": "user", "content": "x" * size}
    body = msgspec.json.encode({"model": "scripted", "stream": True, "messages": [message]})

    async def ask_often(client: Any) -> None:
        for _ in range(count // width):
            assert await ask(client, url, body) > 0

    async with make() as client:
        least = float("inf")
        for _ in range(RUNS):
            began = time.process_time()
            await asyncio.gather(*(ask_often(client) for _ in range(width)))
            least = min(least, time.process_time() - began)
    return least / (count // width * width) * 1_000


async def compare(url: str) -> None:
    for size, width, count in LOADS:
        for name, (make, ask) in kinds().items():
            cpu = await measure(make, ask, url, size=size, width=width, count=count)
            print(f"{size:>9,} bytes, {width:2} at once, {name:22} {cpu:.2f} ms", flush=True)


def main() -> None:
    port = _free_port()
    command = [sys.executable, "-m", "uvicorn", "--app-dir", str(FOLDER), "--log-level", "warning", "--port", str(port)]
    upstream = subprocess.Popen([*command, "gateway_servers:upstream"], env=dict(os.environ))
    try:
        _wait_for(f"http://127.0.0.1:{port}")
        uvloop.run(compare(f"http://127.0.0.1:{port}/v1/messages"))
    finally:
        upstream.send_signal(signal.SIGTERM)
        upstream.wait(20)


if __name__ == "__main__":
    main()
