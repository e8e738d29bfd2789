"""Work under a deadline: stages side by side, what is ready counts, what is late is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from foveate.errors import FoveateError

T = TypeVar("T")
Stage = Callable[[], Awaitable[T]]


class Deadline:
    """A moment by which all must be done; without one, everything is waited for."""

    def __init__(self, seconds: float | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = None if seconds is None else self._loop.time() + seconds

    def left_seconds(self, most: float | None = None) -> float | None:
        """What is left of it, and not more than `most`; None if nothing sets a limit."""
        left = None if self._end is None else max(0.0, self._end - self._loop.time())
        # Without a deadline limits of stages don't count either: the same store gives the same bytes.
        return left if left is None or most is None else min(left, most)

    @property
    def has_passed(self) -> bool:
        return self.left_seconds() == 0.0


@dataclass(frozen=True, slots=True)
class StageResults(Generic[T]):
    """What stages brought, by their names."""

    results: Mapping[str, T] = field(default_factory=dict)
    late: tuple[str, ...] = ()
    failed: Mapping[str, FoveateError] = field(default_factory=dict)


async def run_stages(stages: Mapping[str, Stage[T]], seconds: float | None) -> StageResults[T]:
    """Run stages concurrently up to the deadline. A failed stage is logged; the others go on."""
    if seconds is not None and seconds <= 0:
        return StageResults(late=tuple(stages))
    tasks = {name: asyncio.ensure_future(stage()) for name, stage in stages.items()}
    try:
        await asyncio.wait(tasks.values(), timeout=seconds)
    finally:
        give_up(*tasks.values())
    results: dict[str, T] = {}
    failed: dict[str, FoveateError] = {}
    late = [name for name, task in tasks.items() if not task.done() or task.cancelled()]
    for name, task in tasks.items():
        if name in late:
            continue
        error = task.exception()
        if error is None:
            results[name] = task.result()
        elif isinstance(error, FoveateError):
            failed[name] = error
        else:
            raise error
    return StageResults(results, tuple(late), failed)


async def is_ready(task: asyncio.Future[T], seconds: float | None) -> bool:
    """Whether a task is done within a time; never within none."""
    if seconds is not None and seconds <= 0:
        return False
    await asyncio.wait([task], timeout=seconds)
    return task.done()


def outcome(task: asyncio.Future[T]) -> T | None:
    """The result of a task that is done; None if it failed."""
    error = task.exception()
    if error is not None and not isinstance(error, FoveateError):
        raise error
    return None if error else task.result()


def give_up(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks, and do not wait for them: one may be slow to end, and the deadline is not."""
    for task in tasks:
        task.cancel()
        task.add_done_callback(_look_at)


def _look_at(task: asyncio.Future[Any]) -> None:
    """So that nothing complains of a late failure that nobody heard of."""
    if not task.cancelled():
        task.exception()
