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


def test_entries_are_dropped_beyond_their_bytes() -> None:
    cache: BoundedCache[str, bytes] = BoundedCache(10, most_bytes=5, size=len)
    cache["a"], cache["b"] = b"12", b"345"
    assert (len(cache), cache.get("a")) == (2, b"12")
    cache["c"] = b"6"
    assert [key for key, _ in cache.items()] == ["a", "c"]
    cache["a"] = b"1234"
    assert [key for key, _ in cache.items()] == ["c", "a"]
    cache.pop("a")
    cache["d"] = b"4444"
    assert len(cache) == 2
    cache["e"] = b"too large"
    assert len(cache) == 0
    cache["f"] = b"12345"
    cache.clear()
    cache["g"] = b"12345"
    assert "g" in cache


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
