"""The pool that runs compression: in child processes, or in a thread if there can be none.

A job that crashes its process or takes too long ends only that process, never the program: it gets a fallback
(`instead`), and the others continue in a new process.
"""

from __future__ import annotations

import asyncio
import logging
import subprocess
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from foveate.plugins import module_command
from foveate.worker.process import (
    CPU_SECONDS,
    JobError,
    is_cpu_limit,
    job_name,
    pack_call,
    read_frame,
    unpack_result,
    write_frame,
)

T = TypeVar("T")
Job = tuple[Any, ...]
"""The arguments of a call."""
ATTEMPTS = 2
"""Attempts per job: a process may die for unrelated reasons."""

_log = logging.getLogger(__name__)


class PoolClosed(Exception):
    """Raised if the pool was closed while a job was running, or before it started."""


class _TookTooLong(Exception):
    """Raised if a job was stopped at its time limit."""


class Pool:
    """Runs batches of jobs; each thread has its own process, started when it is first needed."""

    def __init__(self, processes: int) -> None:
        self.width = max(1, processes)
        self._processes = processes
        self._threads = ThreadPoolExecutor(self.width, thread_name_prefix="foveate-compress")
        self._idle: SimpleQueue[_Process] = SimpleQueue()
        self._running: set[_Process] = set()
        self._is_closed = False

    async def run(
        self,
        function: Callable[..., T],
        jobs: Sequence[Job],
        *,
        instead: Callable[..., T] | None = None,
        limit_seconds: float | None = None,
    ) -> list[T]:
        """Run a function of `foveate.worker.process.JOBS` for each job; return the results.

        `instead` replaces the result of a job that fails, crashes its process, or exceeds `limit_seconds`; without it
        the error is raised.
        """

        def work() -> list[T]:
            return [self._one(function, job, instead, limit_seconds) for job in jobs]

        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def close(self) -> None:
        """End the processes at once; jobs in progress are repeated later."""
        self._is_closed = True
        for process in list(self._running):
            process.kill()
        # A job in a thread can't be stopped; it is short, and no call waits for it.
        self._threads.shutdown(wait=self._processes > 0, cancel_futures=True)
        while True:
            try:
                self._idle.get_nowait().end()
            except Empty:
                return

    def _one(
        self,
        function: Callable[..., T],
        job: Job,
        instead: Callable[..., T] | None,
        limit_seconds: float | None,
    ) -> T:
        try:
            return self._result(function, job, limit_seconds)
        except (EOFError, JobError, _TookTooLong) as error:
            if instead is None:
                raise
            _log.warning("%s failed; a fallback is used: %s", job_name(function), error)
            return instead(*job)

    def _result(self, function: Callable[..., T], job: Job, limit_seconds: float | None) -> T:
        if self._is_closed:
            raise PoolClosed
        for attempt in range(ATTEMPTS if self._processes else 0):
            try:
                process = self._take()
            except OSError as error:
                _log.warning("compressing in this process, because no child process can be started: %s", error)
                break
            try:
                answer: T = process.call(function, job, limit_seconds)
            except (OSError, EOFError) as error:
                if self._is_closed:
                    raise PoolClosed from None
                if attempt == ATTEMPTS - 1:
                    raise EOFError(f"the compression process ended: {error}") from None
            else:
                return answer
            finally:
                self._give_back(process)
        return function(*job)

    def _take(self) -> _Process:
        try:
            process = self._idle.get_nowait()
        except Empty:
            process = _Process()
        self._running.add(process)
        return process

    def _give_back(self, process: _Process) -> None:
        self._running.discard(process)
        if process.is_usable:
            self._idle.put(process)
        else:
            process.end()


class _Process:
    """A child process for compression, one job at a time."""

    def __init__(self) -> None:
        command = module_command("foveate.worker.process")
        self._popen = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603
        self.is_usable = True

    def call(self, function: Callable[..., T], job: Job, limit_seconds: float | None) -> T:
        name = job_name(function)
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        call = pack_call(name, job)
        is_late = threading.Event()

        def stop() -> None:
            is_late.set()
            self.kill()

        timer = threading.Timer(limit_seconds, stop) if limit_seconds is not None else None
        self.is_usable = False
        try:
            if timer:
                timer.start()
            write_frame(self._popen.stdin, call)  # type: ignore[arg-type]
            answer = read_frame(self._popen.stdout)  # type: ignore[arg-type]
        except OSError:
            answer = None
        finally:
            if timer:
                timer.cancel()
        if answer is None:
            if is_late.is_set():
                raise _TookTooLong(f"it took more than {limit_seconds:g} seconds")
            status = self._popen.wait()
            if is_cpu_limit(status):
                raise _TookTooLong(f"it took more than {CPU_SECONDS[name]:g} seconds of CPU")
            raise EOFError(f"exit status {status}")
        self.is_usable = not is_late.is_set()
        made: T = unpack_result(name, answer)
        return made

    def kill(self) -> None:
        with suppress(OSError):
            self._popen.kill()

    def end(self) -> None:
        if self._popen.stdin:
            with suppress(OSError):  # it may have died with unwritten input
                self._popen.stdin.close()
        self._popen.terminate()
        self._popen.wait()
        if self._popen.stdout:
            self._popen.stdout.close()
