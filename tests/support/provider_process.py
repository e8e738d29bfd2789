"""A scripted provider on a port of this machine, for examples that run in a process of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from support.upstream import Upstream


@contextmanager
def provider(upstream: Upstream) -> Iterator[dict[str, str]]:
    """Runs the provider; gives the variables that point the packages of OpenAI and Anthropic at it."""
    config = uvicorn.Config(upstream.app, host="127.0.0.1", port=0, log_level="critical", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=asyncio.run, args=(server.serve(),), daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.01)
        assert thread.is_alive(), "the provider did not start"
    port = server.servers[0].sockets[0].getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    try:
        keys = {"OPENAI_API_KEY": "key", "ANTHROPIC_API_KEY": "key"}
        yield {**keys, "OPENAI_BASE_URL": f"{url}/v1", "ANTHROPIC_BASE_URL": url}
    finally:
        server.should_exit = True
        thread.join(30)
