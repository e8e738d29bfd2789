"""Runs the library's coroutines for a framework, which may be synchronous or have an event loop of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, Final, TypeAlias, TypeVar

from foveate import sync
from foveate.errors import InputError
from foveate.session import Session

T = TypeVar("T")

AnySession: TypeAlias = "Session | sync.Session"

BLOCKING: Final = "a synchronous program needs a session of foveate.sync: foveate.sync.open(…).session(…)"


class Bridge:
    """A session for both kinds of callers.

    One of `foveate.sync` works everywhere. One of `foveate` works in the event loop that it was opened in.
    """

    def __init__(self, session: AnySession) -> None:
        opened, self._loop = sync.unwrap(session)
        if not isinstance(opened, Session):
            problem = f"session is {type(session).__name__}"
            raise InputError(f"{problem}; give an open session, e.g. fov.session('support-42')")
        self.session: Session = opened

    @property
    def is_blocking(self) -> bool:
        """Whether the session is one of `foveate.sync`."""
        return self._loop is not None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine, for a caller without an event loop."""
        if self._loop is None:
            work.close()
            raise InputError(BLOCKING)
        result: T = self._loop.run(work)
        return result

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """The items of an asynchronous iterator, for a caller without an event loop."""
        if self._loop is None:
            raise InputError(BLOCKING)
        return self._loop.iterate(items)  # type: ignore[no-any-return]

    async def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine, for a caller in any event loop."""
        if self._loop is None:
            return await work
        result: T = await asyncio.wrap_future(self._loop.submit(work))
        return result
