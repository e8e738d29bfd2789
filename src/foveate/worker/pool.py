"""Where compression runs: in processes beside the program, or in a thread where there can be none."""

from __future__ import annotations

import asyncio
import logging
import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from foveate.worker.process import read_frame, write_frame

T = TypeVar("T")
Job = tuple[Any, ...]
"""The arguments of a call."""

_log = logging.getLogger(__name__)


class Pool:
    """Runs batches of jobs; each thread has a process of its own, started when it is first needed."""

    def __init__(self, processes: int) -> None:
        self.width = max(1, processes)
        self._processes = processes
        self._threads = ThreadPoolExecutor(self.width, thread_name_prefix="foveate-compress")
        self._idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()

    async def run(self, function: Callable[..., T], jobs: Sequence[Job]) -> list[T]:
        """What the function makes of each job. It is a plain function of a module, and so is found there again."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, function, list(jobs))

    def close(self) -> None:
        """End the processes; what they were making is made again another time."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        while True:
            try:
                _end(self._idle.get_nowait())
            except Empty:
                return

    def _run(self, function: Callable[..., T], jobs: list[Job]) -> list[T]:
        if self._processes:
            try:
                return self._run_in_process(function, jobs)
            except (OSError, EOFError) as error:
                _log.warning("compressing in this process, since another can't be used: %s", error)
        return [function(*job) for job in jobs]

    def _run_in_process(self, function: Callable[..., T], jobs: list[Job]) -> list[T]:
        try:
            process = self._idle.get_nowait()
        except Empty:
            process = _start()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            write_frame(process.stdin, pickle.dumps((function, jobs)))  # type: ignore[arg-type]
            answer = read_frame(process.stdout)  # type: ignore[arg-type]
            if answer is None:
                raise EOFError("the compressing process ended")
        except BaseException:
            _end(process)
            raise
        self._idle.put(process)
        made: list[T] = pickle.loads(answer)  # noqa: S301 - from our own process
        return made


def _start() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "foveate.worker.process"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.stdin:
        with suppress(OSError):  # it may be dead already, with something still to be written to it
            process.stdin.close()
    process.terminate()
    process.wait()
    if process.stdout:
        process.stdout.close()
