"""How many examples a property is tested with."""

from __future__ import annotations

from hypothesis import settings


def times(count: int) -> int:
    """`count` examples in `make test`; in `make thorough`, whose profile has many, ten times as many."""
    return min(10 * count, max(count, settings().max_examples))
