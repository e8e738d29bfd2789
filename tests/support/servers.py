"""A server of a store for tests: in this process, or on a real port."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.testclient import TestClient

import foveate
from foveate.client import Foveate
from foveate.server.app import create_app
from foveate.server.process import QuietServer, server_config
from foveate.settings import load_settings
from support.patience import PATIENCE_SECONDS

LOCAL = ("127.0.0.1", 50_000)
URL = "http://127.0.0.1"


def bearer(secret: str) -> dict[str, str]:
    """The header that carries a key."""
    return {"Authorization": f"Bearer {secret}"}


class ServerClient(TestClient):
    """A client with the server's store, whose methods `call` runs."""

    fov: Foveate
    server: Starlette


@contextmanager
def client_of(
    location: Path,
    *,
    client: tuple[str, int] = LOCAL,
    opened: AbstractAsyncContextManager[Foveate] | None = None,
    **server: Any,
) -> Iterator[ServerClient]:
    """A client of the application, which runs in a thread of its own together with its store.

    `server` are settings of its section. With `opened` the store is that one.
    """
    settings = load_settings(overrides={"server": server})
    running: dict[str, Any] = {}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            async with opened or foveate.open(location, settings=settings) as fov:
                running["app"] = create_app(fov)
                await running["app"](scope, receive, send)
        else:
            await running["app"](scope, receive, send)

    with ServerClient(app, base_url=URL, client=client, raise_server_exceptions=False) as made:
        made.fov = running["app"].state.fov
        made.server = running["app"]
        yield made


def call(client: ServerClient, function: Any, *args: Any, **kwargs: Any) -> Any:
    """Run an async method of the store in the server's thread."""

    async def run() -> Any:
        return await function(*args, **kwargs)

    assert client.portal
    return client.portal.call(run)


@contextmanager
def listening(location: Path, **server: Any) -> Iterator[str]:
    """A server on a free port of this machine, in a thread; its URL."""
    settings = load_settings(overrides={"server": {"port": 0, **server}})
    ready = threading.Event()
    running: dict[str, Any] = {}

    async def serve() -> None:
        async with foveate.open(location, settings=settings) as fov:
            app = create_app(fov)
            running["server"] = QuietServer(server_config(app, app.state.settings), ready.set)
            running["end_streams"] = partial(asyncio.get_running_loop().call_soon_threadsafe, app.state.end_streams)
            await running["server"].serve()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    assert ready.wait(PATIENCE_SECONDS), "the server did not start"
    try:
        yield f"{URL}:{running['server'].port}"
    finally:
        running["server"].should_exit = True
        running["end_streams"]()
        thread.join(PATIENCE_SECONDS)
