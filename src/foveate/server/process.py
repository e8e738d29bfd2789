"""Runs the server: opens the store, listens, and stops gracefully on SIGINT or SIGTERM."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import uvicorn
from starlette.applications import Starlette

import foveate
from foveate import telemetry
from foveate.agents.heartbeat import beating
from foveate.agents.worker import working
from foveate.client import Foveate
from foveate.client import open as open_store
from foveate.errors import InputError, Refused
from foveate.knowledge.schedule import read_schedule, scheduled
from foveate.server.app import create_app, server_settings
from foveate.server.connection import LimitedConnection
from foveate.server.gateway.upstream import listed, without_key
from foveate.server.local import LoopbackGuard, make_first_key
from foveate.server.problems import ProblemError
from foveate.server.request_log import logging_to_stderr
from foveate.server.settings import ServerSettings
from foveate.settings import Settings
from foveate.text import without_password

KEEP_ALIVE_SECONDS = 75
"""How long an idle connection is kept open: long, since a client that uses one while it is closed gets an error."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServeReport:
    """The addresses of a running server."""

    url: str
    pid: int
    upstreams: tuple[str, ...]
    """What the gateway forwards to: the upstreams with names, then the default one."""
    needs_key: bool
    schedule: str = ""
    """When the server learns from past sessions; empty for never."""
    warnings: tuple[str, ...] = ()
    """What an operator should look at."""
    token: str | None = None
    """The token that requests from this machine need; None if they need none."""


class QuietServer(uvicorn.Server):
    """Does not handle signals: uvicorn would raise them again before the store is closed."""

    def __init__(self, config: uvicorn.Config, on_start: Callable[[], object]) -> None:
        super().__init__(config)
        self._on_start = on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        except SystemExit as error:
            where = f"{self.config.host}:{self.config.port}"
            raise Refused(f"can't listen on {where}; choose another port with --port, or free this one") from error
        self._on_start()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    @property
    def port(self) -> int:
        """The port that the server listens on."""
        port: int = self.servers[0].sockets[0].getsockname()[1]
        return port


def serve(location: Path, settings: Settings, *, on_ready: Callable[[ServeReport], object]) -> None:
    """Serve the store until a signal stops the process; `on_ready` is called once the server listens."""
    try:
        import uvloop  # noqa: PLC0415 - not on every platform

        uvloop.run(_serve(location, settings, on_ready))
    except ImportError:
        asyncio.run(_serve(location, settings, on_ready))


async def _serve(location: Path, settings: Settings, on_ready: Callable[[ServeReport], object]) -> None:
    read_schedule(settings.knowledge)  # report an invalid schedule before anything starts
    own = settings.server
    assert isinstance(own, ServerSettings)
    with logging_to_stderr(own), telemetry.exporting(settings.telemetry):
        await _serve_store(location, settings, on_ready)


async def _serve_store(location: Path, settings: Settings, on_ready: Callable[[ServeReport], object]) -> None:
    async with open_store(location, settings=settings) as fov:
        own = server_settings(fov)
        if own.first_key_file:
            await make_first_key(fov.keys, own.first_key_file)
        async with beating(fov, "serve", compresses=settings.compress.enabled), working(fov), scheduled(fov):
            await _serve_app(fov, own, settings, on_ready)


async def _serve_app(
    fov: Foveate, own: ServerSettings, settings: Settings, on_ready: Callable[[ServeReport], object]
) -> None:
    app = create_app(fov)
    try:
        await app.state.access.check_start()
    except ProblemError as error:
        raise InputError(error.detail) from error
    needs_key = await fov.keys.exist()
    guard = app.state.access.guard = LoopbackGuard.of_system()

    warnings = without_key(own)
    for warning in warnings:
        _log.warning("%s", warning)

    def report() -> None:
        set_aside_startup_objects()
        host = f"[{own.host}]" if ":" in own.host else own.host
        url = f"http://{host}:{server.port}"
        token = None if needs_key else guard.token
        _log.info("started: Foveate %s at %s, store %s", foveate.__version__, url, without_password(fov.location))
        schedule = settings.knowledge.schedule.strip()
        on_ready(ServeReport(url, os.getpid(), listed(own), needs_key, schedule, tuple(warnings), token))

    server = QuietServer(server_config(app, own), report)

    def stop(number: int) -> None:
        _log.info("stopping: %s", signal.Signals(number).name)
        server.should_exit = True
        app.state.end_streams()  # event streams would keep their connections open

    loop = asyncio.get_running_loop()
    with stopping_at_signals(lambda number: loop.call_soon_threadsafe(stop, number)):
        await server.serve()


@contextmanager
def stopping_at_signals(stop: Callable[[int], object]) -> Iterator[None]:
    """Call `stop` with the number of the signal at the first SIGINT or SIGTERM. A second one ends the process at
    once, whatever it is doing.

    What was acknowledged is durable, so nothing is lost. The event loop's own handlers would wait for a free loop.
    A signal arrives while some request is served; `stop` runs outside of it, in the context of the caller.
    """
    numbers = (signal.SIGINT, signal.SIGTERM)
    outside = copy_context()

    def on_signal(first: int, _frame: FrameType | None) -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
        outside.run(stop, first)

    before = {number: signal.signal(number, on_signal) for number in numbers}
    try:
        yield
    finally:
        if all(signal.getsignal(number) is on_signal for number in numbers):
            for number, handler in before.items():
                signal.signal(number, handler)


def set_aside_startup_objects() -> None:
    """Exclude objects that live as long as the process from garbage collection.

    A full collection would otherwise block all requests for tens of milliseconds.
    """
    gc.collect()
    gc.freeze()


def server_config(app: Starlette, settings: ServerSettings) -> uvicorn.Config:
    """Return uvicorn's configuration: requests are limited and not logged, and proxy headers are not trusted."""
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=LimitedConnection,
        ws="none",
        log_level="critical",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=max(1, round(settings.shutdown_seconds)),
    )
