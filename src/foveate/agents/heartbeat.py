"""The heartbeat of a process that does background work, so that others can see that it runs, also while it is idle."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import foveate
from foveate.client import Foveate
from foveate.errors import contained
from foveate.store.leases import RENEWALS
from foveate.store.rows import WorkerBeat, WorkerKind

_log = logging.getLogger(__name__)


@asynccontextmanager
async def beating(fov: Foveate, kind: WorkerKind, *, compresses: bool = True) -> AsyncIterator[WorkerBeat]:
    """Renew the heartbeat of this process during the block, and remove it at the end. A store that can't be written
    does not end the block."""
    settings, rows = fov.settings.compress, fov.store.workers
    own = WorkerBeat(
        id=uuid.uuid4().hex,
        kind=kind,
        host=socket.gethostname(),
        pid=os.getpid(),
        version=foveate.__version__,
        compresses=compresses,
    )

    async def beat() -> None:
        while True:
            with contained(_log, "the heartbeat can't be written; it is tried again"):
                await rows.beat(own, settings.lease_seconds)
            await asyncio.sleep(settings.lease_seconds / RENEWALS)

    task = asyncio.create_task(beat())
    try:
        yield own
    finally:
        task.cancel()
        await asyncio.wait({task})
        with contained(_log, "the heartbeat can't be removed; it will expire"):
            await asyncio.shield(rows.end(own.id))
