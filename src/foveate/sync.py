"""The blocking library: the same names as the async one, run on an event loop in a background thread.

    import foveate.sync as foveate

    with foveate.open("chat.db") as fov:
        turn = fov.session("support-42").record([{"role": "user", "content": "…"}])

The classes are generated from the async ones; `sync.pyi`, written by `hatch_build.py` when the package is built or
installed, declares them for type checkers.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from foveate import client as api
from foveate import session
from foveate.errors import StoreClosed
from foveate.plugins import renamed
from foveate.session import (
    cabinet,
    checkpoints,
    documents,
    exchange,
    files,
    goals,
    keys,
    knowledge,
    memory,
    prompts,
    subagents,
)
from foveate.session import topics as topical
from foveate.settings import Settings
from foveate.store import FORKED
from foveate.text import without_password

INTERNAL = "engine"
"""Attribute of an async session that a blocking one does not offer."""
_END = object()


class _Loop:
    """An event loop in a separate thread, for one open store."""

    def __init__(self, location: str) -> None:
        self._location = location
        self._stopped = False
        self._process = os.getpid()
        self._stopping = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="foveate-loop", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                self._loop.run_forever()
                return
            except (KeyboardInterrupt, SystemExit):  # raised by a callback, and also in its caller
                continue

    def submit(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        """Start a coroutine on the loop, and return the future of its result."""
        if self._process != os.getpid():
            work.close()
            raise StoreClosed(self._location, FORKED.format(process=self._process))
        with self._stopping:
            if self._stopped:
                work.close()
                raise StoreClosed(self._location, "the store is closed; open it again")
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine on the loop, and wait for its result."""
        future = self.submit(work)
        try:
            return future.result()
        except CancelledError:
            raise StoreClosed(self._location, "the store was closed meanwhile; open it again") from None
        finally:
            future.cancel()  # if the caller was interrupted

    def iterate(self, items: AsyncIterator[Any]) -> Iterator[Any]:
        """Yield the items of an async iterator."""
        try:
            while (item := self.run(_awaited(anext(items, _END)))) is not _END:
                yield item
        finally:
            with suppress(StoreClosed):
                self.run(_awaited(items.aclose()))  # type: ignore[attr-defined]

    def stop(self, last: Callable[[], Coroutine[Any, Any, None]] | None = None) -> None:
        """Run a last coroutine, cancel the remaining tasks and end the thread. Later calls raise `StoreClosed`."""
        if self._process != os.getpid():
            return  # a forked process has neither the thread nor its tasks
        with self._stopping:
            stopped, self._stopped = self._stopped, True
        if stopped:
            self._thread.join()
            return
        try:
            asyncio.run_coroutine_threadsafe(self._finish(last), self._loop).result()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _finish(self, last: Callable[[], Coroutine[Any, Any, None]] | None) -> None:
        try:
            if last:
                await last()
        finally:
            running = asyncio.all_tasks() - {asyncio.current_task()}
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            await self._loop.shutdown_asyncgens()
            await self._loop.shutdown_default_executor()


async def _awaited(work: Awaitable[Any]) -> Any:
    return await work


class _Blocking:
    """A wrapper whose methods block; `of` is the async class that a subclass wraps."""

    _twins: ClassVar[dict[type, type[_Blocking]]] = {}

    def __init__(self, wrapped: Any, loop: _Loop) -> None:
        self._wrapped = wrapped
        self._loop = loop

    def __init_subclass__(cls, of: type) -> None:
        cls._twins[of] = cls
        for name, member in vars(of).items():
            if not name.startswith("_") and name not in vars(cls):
                setattr(cls, name, _blocking(name, member))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == INTERNAL:
            raise AttributeError(name)
        value = getattr(self._wrapped, name)
        return functools.partial(self._call, value) if inspect.ismethod(value) else value

    def _call(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        result = method(*args, **kwargs)
        if inspect.isasyncgen(result):
            return self._loop.iterate(result)
        return self._wrap(self._loop.run(result) if inspect.iscoroutine(result) else result)

    def _wrap(self, result: Any) -> Any:
        twin = self._twins.get(type(result))
        return twin(result, self._loop) if twin else result


def _blocking(name: str, member: Any) -> Any:
    if not inspect.isfunction(member):
        return property(lambda self: self._wrap(getattr(self._wrapped, name)), doc=member.__doc__)

    @functools.wraps(member)
    def method(self: _Blocking, *args: Any, **kwargs: Any) -> Any:
        return self._call(getattr(self._wrapped, name), *args, **kwargs)

    return method


def _twin(of: type) -> type[_Blocking]:
    """Make the blocking class of an async class, with the same members; `async with` becomes `with`."""
    members: dict[str, Any] = {"__doc__": f"See `{of.__module__}.{of.__name__}`.", "__module__": __name__}
    if hasattr(of, "__aenter__"):
        members |= {"__enter__": _enter, "__exit__": _leave}
    return type(of.__name__, (_Blocking,), members, of=of)


def _enter(self: _Blocking) -> _Blocking:
    self._loop.run(self._wrapped.__aenter__())
    return self


def _leave(self: _Blocking, *raised: object) -> None:
    self._loop.run(self._wrapped.__aexit__(*raised))


Cabinet = _twin(cabinet.Cabinet)
Documents = _twin(documents.Documents)
Files = _twin(files.Files)
Checkpoints = _twin(checkpoints.Checkpoints)
Goals = _twin(goals.Goals)
Keys = _twin(keys.Keys)
Knowledge = _twin(knowledge.Knowledge)
Memory = _twin(memory.Memory)
Agents = _twin(subagents.Agents)
Prompts = _twin(prompts.Prompts)
SessionTopics = _twin(topical.SessionTopics)
Exchange = _twin(exchange.Exchange)
Session = _twin(session.Session)


class Foveate(_Blocking, of=api.Foveate):
    """See `foveate.Foveate`."""

    def close(self) -> None:
        if not self._wrapped.is_view:
            self._loop.stop(self._wrapped.close)

    def __enter__(self) -> Foveate:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def unwrap(value: object) -> tuple[object, _Loop | None]:
    """Return the async object behind a blocking one and its loop; any other object is returned with None."""
    return (value._wrapped, value._loop) if isinstance(value, _Blocking) else (value, None)


def open(location: str | Path, *, settings: Settings | None = None) -> Foveate:  # noqa: A001 - as in `foveate.open`
    """Open the store at a path or `postgresql://` URL; use it in a `with` block, or close it."""
    opening = api.open(location, settings=settings)
    loop = _Loop(without_password(str(location)))
    try:
        return Foveate(loop.run(_awaited(opening)), loop)
    except BaseException:
        loop.stop()
        raise


def __getattr__(name: str) -> Any:
    """Return a name of the async library that this module does not define."""
    if name == "Topics":
        return renamed(__name__, name, {"Topics": f"{__name__}:SessionTopics"})
    import foveate  # noqa: PLC0415 - the package loads its modules lazily, too

    return getattr(foveate, name)
