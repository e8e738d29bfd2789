"""A mapping with a limit: when it is full, the least recently used entries are dropped."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, ItemsView
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """Up to `limit` entries, and up to `most_bytes` of all together, if their size is given. Reading or writing an
    entry counts as a use. Not safe for threads."""

    def __init__(self, limit: int, *, most_bytes: int = 0, size: Callable[[V], int] = lambda _: 0) -> None:
        """`size` returns the bytes of an entry, which must not change."""
        assert limit > 0, f"a cache of {limit} entries"
        self.limit = limit
        self._most_bytes = most_bytes
        self._size = size
        self._bytes = 0
        self._entries: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Return the value of a key; None if it is not cached."""
        value = self._entries.get(key)
        if value is not None:
            self._entries.move_to_end(key)
        return value

    def __setitem__(self, key: K, value: V) -> None:
        self.pop(key)
        self._entries[key] = value
        self._bytes += self._size(value)
        while len(self._entries) > self.limit or self._bytes > self._most_bytes:
            self.pop(next(iter(self._entries)))

    def pop(self, key: K) -> V | None:
        """Remove an entry and return its value; None if it is not cached."""
        value = self._entries.pop(key, None)
        if value is not None:
            self._bytes -= self._size(value)
        return value

    def items(self) -> ItemsView[K, V]:
        """Return keys and values, the least recently used first. This does not count as a use."""
        return self._entries.items()

    def reserve(self, entries: int) -> None:
        """Raise the limit, if necessary, so that this many entries fit at the same time."""
        self.limit = max(self.limit, entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def clear(self) -> None:
        self._entries.clear()
        self._bytes = 0
