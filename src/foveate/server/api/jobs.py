"""Jobs: work that takes longer than a request, kept in memory until the server stops."""

from __future__ import annotations

import asyncio
import secrets
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from msgspec import Struct

from foveate.cache import BoundedCache
from foveate.errors import contained
from foveate.server.access import Principal
from foveate.server.api.endpoint import Call, Endpoints
from foveate.server.api.page import ItemList
from foveate.server.problems import ProblemError, explained
from foveate.session.tenant import stored_id
from foveate.session.values import copied

MAX_KEPT = 1_000
"""Jobs that have ended."""
MAX_KEPT_OF_TENANT = 250
"""The same of one tenant, so that none removes the jobs of the others."""
MAX_QUEUED = 100
"""Jobs of one tenant in one pool that have not ended."""
JobStatus = Literal["queued", "running", "done", "failed", "cancelled"]
ENDED = ("done", "failed", "cancelled")
Advance = Callable[[int], None]
Work = Callable[[Advance], Awaitable[dict[str, Any]]]

routes = Endpoints("jobs")


class JobResource(Struct, frozen=True, kw_only=True):
    """A job and its progress."""

    id: str
    kind: str
    session_id: str
    status: JobStatus
    done: int
    """Finished steps."""
    total: int
    """Total number of steps."""
    result: dict[str, Any] | None
    """Set when the status is `done`."""
    problem: str | None
    """Why the job failed."""
    created_at: datetime
    ended_at: datetime | None


class JobList(ItemList[JobResource], frozen=True):
    """The jobs of a tenant."""


@dataclass(slots=True)
class ServerJob:
    """A job in memory."""

    id: str
    tenant: str
    kind: str
    session_id: str
    """As the tenant knows it; empty for none."""
    total: int
    pool: str
    status: JobStatus = "queued"
    done: int = 0
    result: dict[str, Any] | None = None
    problem: str | None = None
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    ended_at: datetime | None = None
    task: asyncio.Task[None] | None = None

    @property
    def stored_session_id(self) -> str:
        """The stored id of its session; empty for none."""
        return self.session_id and stored_id(self.tenant, self.session_id)

    def shown(self, principal: Principal) -> JobResource:
        """Return the job as the API's resource, with the session id as its tenant or the owner knows it."""
        session_id = self.session_id if principal.tenant else self.stored_session_id
        return copied(JobResource, self, session_id=session_id, done=min(self.done, self.total))


class Jobs:
    """The jobs of one server: a limited number of each pool runs at the same time, the others are queued.

    In the queue of a pool each tenant has no more jobs than may run, so those of another tenant wait for few.
    """

    def __init__(self, at_once: int) -> None:
        self._slots: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(at_once))
        self._slots_of_tenant: defaultdict[tuple[str, str], asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(at_once)
        )
        self._unfinished: dict[str, ServerJob] = {}
        self._ended: BoundedCache[str, ServerJob] = BoundedCache(MAX_KEPT)
        self._outdated: set[str] = set()
        """Jobs in progress whose results are dropped."""

    def start(
        self, principal: Principal, kind: str, session_id: str, *, total: int, work: Work, pool: str = ""
    ) -> ServerJob:
        """Queue work that reports each finished step; it waits only for other jobs of its pool."""
        place = pool, principal.tenant
        waiting = sum((job.pool, job.tenant) == place for job in self._unfinished.values())
        if waiting >= MAX_QUEUED:
            raise ProblemError(429, f"{waiting} jobs are queued already", headers={"Retry-After": "30"})
        job = ServerJob(f"job-{secrets.token_hex(8)}", principal.tenant, kind, session_id, total, pool)
        self._unfinished[job.id] = job
        job.task = asyncio.create_task(self._run(job, work))
        job.task.add_done_callback(lambda _: self._end(job))
        return job

    def get(self, principal: Principal, job_id: str) -> ServerJob:
        """Return a job of this tenant; the owner sees all."""
        job = self._unfinished.get(job_id) or self._ended.get(job_id)
        if job is None or (principal.tenant and job.tenant != principal.tenant):
            raise ProblemError(
                404, f"no job {job_id[:50]!r}; jobs are kept until the server stops", kind="job-not-found"
            )
        return job

    def in_progress(self, kind: str, stored_session_id: str) -> ServerJob | None:
        """Return the job of this kind on a session, of any tenant, that has not ended."""
        wanted = (kind, stored_session_id)
        jobs = (job for job in self._unfinished.values() if (job.kind, job.stored_session_id) == wanted)
        return next((job for job in jobs if job.status not in ENDED), None)

    def list(self, principal: Principal) -> Sequence[ServerJob]:
        """Return the jobs of this tenant, newest first."""
        known = (*self._unfinished.values(), *(job for _, job in self._ended.items()))
        jobs = [job for job in known if not principal.tenant or job.tenant == principal.tenant]
        return sorted(jobs, key=lambda job: job.created_at, reverse=True)

    def forget_results(self) -> None:
        """Drop the jobs that have ended, and later those in progress: their results may contain what was erased."""
        self._ended.clear()
        self._outdated |= self._unfinished.keys()

    async def stop(self) -> None:
        """Cancel all jobs."""
        tasks = [job.task for job in self._unfinished.values() if job.task and not job.task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _end(self, job: ServerJob) -> None:
        """Keep a job that has ended among the latest of its tenant."""
        if job.status not in ENDED:  # cancelled before it began
            job.status, job.ended_at = "cancelled", datetime.now(UTC)
        del self._unfinished[job.id]
        if job.id in self._outdated:
            self._outdated.remove(job.id)
            return
        self._ended[job.id] = job
        own = [known.id for _, known in self._ended.items() if known.tenant == job.tenant]
        if len(own) > MAX_KEPT_OF_TENANT:
            self._ended.pop(own[0])

    async def _run(self, job: ServerJob, work: Work) -> None:
        def advance(steps: int) -> None:
            job.done += steps

        try:
            with contained() as outcome:
                async with self._slots_of_tenant[job.pool, job.tenant], self._slots[job.pool]:
                    job.status = "running"
                    job.result = await work(advance)
                job.done = job.total
            job.status = "failed" if outcome.error else "done"
            job.problem = explained(outcome.error, job.tenant, "a job") if outcome.error else None
        except asyncio.CancelledError:
            job.status = "cancelled"
            raise
        finally:
            job.ended_at = datetime.now(UTC)


@routes.add("GET", "/jobs", right="read")
async def list_jobs(call: Call) -> JobList:
    """List all jobs, newest first."""
    return JobList(items=[job.shown(call.principal) for job in call.parts.jobs.list(call.principal)])


@routes.add("GET", "/jobs/{job}", right="read")
async def get_job(call: Call, job: str) -> JobResource:
    """Get a job and its progress."""
    return call.parts.jobs.get(call.principal, job).shown(call.principal)


@routes.add("DELETE", "/jobs/{job}", right="write")
async def cancel_job(call: Call, job: str) -> JobResource:
    """Cancel a job. A job that has ended is not changed."""
    found = call.parts.jobs.get(call.principal, job)
    if found.task and not found.task.done():
        found.task.cancel()
        await asyncio.gather(found.task, return_exceptions=True)
    return found.shown(call.principal)
