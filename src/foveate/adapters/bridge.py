"""Run the library's coroutines for a framework, which may be synchronous or have its own event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, Final, TypeAlias, TypeVar

from foveate import sync
from foveate.client import Foveate
from foveate.errors import InputError
from foveate.session import Session

T = TypeVar("T")

AnySession: TypeAlias = "Session | sync.Session"
AnyFoveate: TypeAlias = "Foveate | sync.Foveate"
BLOCKING: Final = "a synchronous program needs a session of foveate.sync: foveate.sync.open(…).session(…)"


class Runner:
    """Runs coroutines in the event loop of a library object: that of `foveate.sync`, or the caller's own."""

    def __init__(self, handle: object) -> None:
        self.opened, self._loop = sync.unwrap(handle)

    @property
    def is_blocking(self) -> bool:
        """Whether the object is one of `foveate.sync`."""
        return self._loop is not None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of a coroutine, for a caller without an event loop."""
        if self._loop is None:
            work.close()
            raise InputError(BLOCKING)
        result: T = self._loop.run(work)
        return result

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """Yield the items of an asynchronous iterator, for a caller without an event loop."""
        if self._loop is None:
            raise InputError(BLOCKING)
        return self._loop.iterate(items)  # type: ignore[no-any-return]

    async def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of a coroutine, for a caller in any event loop."""
        if self._loop is None:
            return await work
        result: T = await asyncio.wrap_future(self._loop.submit(work))
        return result


class Bridge(Runner):
    """A session for both kinds of callers.

    One of `foveate.sync` works everywhere. One of `foveate` works in the event loop that it was opened in.
    """

    def __init__(self, session: AnySession) -> None:
        super().__init__(session)
        if not isinstance(self.opened, Session):
            problem = f"session is {type(session).__name__}"
            raise InputError(f"{problem}; give an open session, e.g. fov.session('support-42')")
        self.session: Session = self.opened


class FoveateBridge(Runner):
    """A store for both kinds of callers."""

    def __init__(self, fov: AnyFoveate) -> None:
        super().__init__(fov)
        if not isinstance(self.opened, Foveate):
            raise InputError(f"fov is {type(fov).__name__}; give an open store, e.g. foveate.sync.open('chat.db')")
        self.fov: Foveate = self.opened
