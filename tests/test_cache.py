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


def test_a_reservation_raises_the_limit_and_never_lowers_it() -> None:
    cache: BoundedCache[int, int] = BoundedCache(2)
    cache.reserve(4)
    cache.reserve(1)
    for number in range(6):
        cache[number] = number
    assert [key for key, _ in cache.items()] == [2, 3, 4, 5]


def test_an_entry_is_removed_once() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)
    cache["a"] = 1
    assert (cache.pop("a"), cache.pop("a"), len(cache)) == (1, None, 0)
