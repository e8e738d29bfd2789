"""The same library, blocking: every name of the async one, run on a loop in a background thread.

    import foveate.sync as foveate

    with foveate.open("chat.db") as fov:
        turn = fov.session("support-42").record([{"role": "user", "content": "…"}])

Nothing is written twice: the classes are made from the async ones. `sync.pyi` tells type checkers what they have.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, ClassVar

from foveate import api, session

_END = object()


class _Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="foveate-loop", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def iterate(self, items: AsyncIterator[Any]) -> Iterator[Any]:
        while (item := self.run(_next(items))) is not _END:
            yield item

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _next(items: AsyncIterator[Any]) -> Any:
    return await anext(items, _END)


class _Blocking:
    """A wrapped object whose coroutines block; `of` names the async class that a subclass stands for."""

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
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._wrapped, name)

    def _wrap(self, result: Any) -> Any:
        twin = self._twins.get(type(result))
        return twin(result, self._loop) if twin else result


def _blocking(name: str, member: Any) -> Any:
    if not inspect.isfunction(member):
        return property(lambda self: getattr(self._wrapped, name), doc=member.__doc__)

    @functools.wraps(member)
    def method(self: _Blocking, *args: Any, **kwargs: Any) -> Any:
        result = getattr(self._wrapped, name)(*args, **kwargs)
        if inspect.isasyncgen(result):
            return self._loop.iterate(result)
        return self._wrap(self._loop.run(result) if inspect.iscoroutine(result) else result)

    return method


class Session(_Blocking, of=session.Session):
    """See `foveate.Session`."""


class Foveate(_Blocking, of=api.Foveate):
    """See `foveate.Foveate`."""

    def close(self) -> None:
        self._loop.run(self._wrapped.close())
        self._loop.stop()

    def __enter__(self) -> Foveate:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@functools.wraps(api.open)
def open(*args: Any, **kwargs: Any) -> Foveate:  # noqa: A001 - as in `foveate.open`
    opening = api.open(*args, **kwargs)
    loop = _Loop()
    try:
        return Foveate(loop.run(_opened(opening)), loop)
    except BaseException:
        loop.stop()
        raise


async def _opened(opening: api.Opening) -> api.Foveate:
    return await opening


def __getattr__(name: str) -> Any:
    """Everything else is the async library's own."""
    import foveate  # noqa: PLC0415 - the package imports this module's neighbours lazily too

    return getattr(foveate, name)
