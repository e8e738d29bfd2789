"""Writes that a context does not wait for: plans, states and recalled layers, which can be made again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from foveate.errors import StoreClosed, StoreError

WAIT_SECONDS = 1.0
"""Maximum time that a context waits for such a write, which then continues in the background."""

_log = logging.getLogger(__name__)


class LateWrites:
    """Runs one write of each name at a time. A full disk or a locked database never fails the caller."""

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Task[None]] = {}

    async def write(self, name: str, job: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Run a write; return whether it was done. If not, the caller keeps the value and tries again later."""
        if name in self._running:
            return False
        task = self._running[name] = asyncio.create_task(job())
        task.add_done_callback(lambda _: self._running.pop(name, None))
        await asyncio.wait([task], timeout=WAIT_SECONDS)
        if not task.done():
            _log.warning("the store is busy; the %s is saved later", name)
            task.add_done_callback(_note_failure)
            return False
        try:
            task.result()
        except StoreClosed:
            raise
        except StoreError as error:
            _log.warning("the %s could not be saved and is kept in memory: %s", name, error)
            return False
        return True


def _note_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()):
        _log.warning("a value could not be saved and is kept in memory: %s", error)
