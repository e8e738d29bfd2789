"""Answers that are used again for a while."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from foveate.cache import BoundedCache

V = TypeVar("V")


class ExpiringCache(Generic[V]):
    """A bounded cache whose entries are dropped after a number of seconds."""

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._entries: BoundedCache[Hashable, tuple[float, V]] = BoundedCache(limit)
        self._clock = clock

    def get(self, key: Hashable, max_age_seconds: float) -> V | None:
        """The value of a key, if it is not older."""
        found = self._entries.get(key)
        if found is None or self._clock() - found[0] >= max_age_seconds:
            return None
        return found[1]

    def put(self, key: Hashable, value: V) -> None:
        self._entries[key] = (self._clock(), value)

    def clear(self) -> None:
        self._entries.clear()
