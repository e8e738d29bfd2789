"""A mapping with a limit: when it is full, the least recently used entry is dropped."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import ItemsView
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """Up to `limit` entries. Reading or writing an entry counts as a use. Not safe for threads."""

    def __init__(self, limit: int) -> None:
        assert limit > 0, f"a cache of {limit} entries"
        self.limit = limit
        self._entries: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Return the value of a key; None if it is not cached."""
        value = self._entries.get(key)
        if value is not None:
            self._entries.move_to_end(key)
        return value

    def __setitem__(self, key: K, value: V) -> None:
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > self.limit:
            self._entries.popitem(last=False)

    def pop(self, key: K) -> V | None:
        """Remove an entry and return its value; None if it is not cached."""
        return self._entries.pop(key, None)

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
