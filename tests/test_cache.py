"""The bounded cache."""

from foveate.cache import BoundedCache


def test_the_entry_used_longest_ago_is_dropped() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)
    cache["a"], cache["b"] = 1, 2
    assert cache.get("a") == 1
    cache["c"] = 3
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)
    cache["a"] = 4
    cache["d"] = 5
    assert "a" in cache
    assert "c" not in cache
    assert len(cache) == 2
    cache.clear()
    assert len(cache) == 0
