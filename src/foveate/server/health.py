"""Health of a server for supervisors: `/healthz` (the process is alive) and `/readyz` (it can do its work)."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from foveate.client import Foveate
from foveate.errors import StoreError
from foveate.server.gateway.upstream import without_key
from foveate.server.settings import MB, ServerSettings
from foveate.session.values import QueueState

CACHE_SECONDS: Final = 1.0
"""A report is reused for this time, so that anybody's probes cost one query a second at most."""
DATABASE_SECONDS: Final = 5.0
"""A database that takes longer does not answer."""
LEASES: Final = 2
"""Leases that a turn may wait: within one, a dead worker's turn is free again, and a running worker claims it."""
DISK_COPIES: Final = 2
"""How often a request is on the disk at most: in the log of the database, and in its file."""
CheckState = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """One check of a server's readiness: a failure means that requests would fail, a warning that an operator should
    look."""

    state: CheckState
    detail: str = ""
    """What is wrong; empty if nothing is."""
    values: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReadyReport:
    """The checks of a server's readiness."""

    checks: Mapping[str, HealthCheck]
    at: float

    @property
    def failed(self) -> list[str]:
        return [name for name, check in self.checks.items() if check.state == "fail"]

    def body(self, *, is_owner: bool) -> dict[str, object]:
        """Return the answer as JSON: the figures for the owner of the store only."""
        shown: dict[str, object] = {"status": "unavailable" if self.failed else "ready"}
        if is_owner:
            shown["checks"] = {
                name: {"state": check.state, **({"detail": check.detail} if check.detail else {}), **check.values}
                for name, check in self.checks.items()
            }
        elif self.failed:
            shown["failed"] = self.failed
        return shown


class Health:
    """Checks one server; a report is shared by all that ask within a second."""

    def __init__(self, fov: Foveate, settings: ServerSettings) -> None:
        self._fov = fov
        self._settings = settings
        self._began = time.monotonic()
        self._running: asyncio.Task[ReadyReport] | None = None

    @property
    def uptime_seconds(self) -> float:
        return time.monotonic() - self._began

    async def ready(self) -> ReadyReport:
        """Return the newest report, or make one."""
        task = self._running
        if task is None or (task.done() and time.monotonic() - task.result().at > CACHE_SECONDS):
            task = self._running = asyncio.create_task(self._report())
        return await asyncio.shield(task)

    async def _report(self) -> ReadyReport:
        began = time.monotonic()
        try:
            queue = await asyncio.wait_for(self._fov.queue_state(limit=0), DATABASE_SECONDS)
        except (StoreError, TimeoutError) as error:
            problem = str(error) or f"no answer within {DATABASE_SECONDS:g} s"
            checks = {"database": HealthCheck("fail", problem)}
        else:
            answered = {"milliseconds": round((time.monotonic() - began) * 1_000, 1)}
            checks = {"database": HealthCheck("ok", "", answered), **self._background(queue)}
        if any(upstream.key_variable for upstream in self._settings.upstreams.values()):
            missing = "; ".join(without_key(self._settings))
            checks["upstreams"] = HealthCheck("warn" if missing else "ok", missing)
        location = self._fov.location
        if "://" not in location:
            checks["disk"] = await asyncio.to_thread(check_disk, Path(location), self._settings.max_body_mb * MB)
        return ReadyReport(checks, time.monotonic())

    def _background(self, queue: QueueState) -> dict[str, HealthCheck]:
        """Check the background work: it may be late without failing any request."""
        settings = self._fov.settings.compress
        late = queue.waited_seconds > LEASES * settings.lease_seconds
        waits = (
            f"the first turn for a model has waited {queue.waited_seconds:,.0f} s; 'foveate worker --status' tells more"
        )
        values = {"waited_seconds": round(queue.waited_seconds, 1), "sessions": queue.due_sessions}
        compressing = sum(worker.compresses for worker in queue.workers)
        is_idle = not settings.enabled and not compressing
        nobody = "nobody compresses turns: compress.enabled is false here, and no 'foveate worker' runs"
        return {
            "queue": HealthCheck("warn" if late else "ok", waits if late else "", values),
            "workers": HealthCheck("warn" if is_idle else "ok", nobody if is_idle else "", {"running": compressing}),
        }


def check_disk(
    path: Path, request_bytes: int, *, usage: Callable[[Path], Sequence[int]] = shutil.disk_usage
) -> HealthCheck:
    """Fail if the largest allowed request may not be recorded; warn if a copy of the store would not fit beside it."""
    try:
        free = usage(path.parent)[2]
        size = sum(file.stat().st_size for file in (path, path.with_name(f"{path.name}-wal")) if file.exists())
    except OSError as error:
        return HealthCheck("fail", f"the folder of the store can't be read: {error.strerror or error}")
    values = {"free_bytes": free, "store_bytes": size}
    if free < DISK_COPIES * request_bytes:
        return HealthCheck("fail", f"{free / MB:,.0f} MB free; a request of server.max_body_mb would not fit", values)
    if free < size:
        return HealthCheck("warn", f"{free / MB:,.0f} MB free; a backup of the store would not fit", values)
    return HealthCheck("ok", "", values)
