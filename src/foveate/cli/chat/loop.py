"""Where `foveate chat` does its work: an event loop in a thread, so that compression goes on while the user types.

The main thread reads lines and gets the signals; what it hands over here ends when Ctrl-C is pressed.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

STOP_LIMIT_SECONDS = 10.0
"""How long something that was stopped has to put away what it did."""


class LoopThread:
    """An event loop; use it in a `with` block."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._serve, name="foveate-chat", daemon=True)

    def __enter__(self) -> LoopThread:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something and wait for it; Ctrl-C stops it, and is raised once it has come to its end."""
        assert self._loop is not None, "it is used in a with block"
        ended = threading.Event()

        async def whole() -> T:
            try:
                return await work
            finally:
                ended.set()

        future = asyncio.run_coroutine_threadsafe(whole(), self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            ended.wait(STOP_LIMIT_SECONDS)
            raise

    def _serve(self) -> None:
        with asyncio.Runner() as runner:
            self._loop = runner.get_loop()
            self._ready.set()
            while True:
                try:
                    self._loop.run_forever()
                    return
                except (KeyboardInterrupt, SystemExit):  # as of a closed pipe; whoever waits for the work gets it too
                    continue
