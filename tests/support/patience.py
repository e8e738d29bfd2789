"""How tests wait: for a condition, with a limit that only a failure reaches, on a busy machine too."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

PATIENCE_SECONDS = 120.0
LOOK_SECONDS = 0.01
"""Between two looks at the condition."""


async def until(is_so: Callable[[], Awaitable[object]]) -> None:
    """Wait for a condition of the store or of a model."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await is_so():  # noqa: ASYNC110 - nothing tells when it is so
            await asyncio.sleep(LOOK_SECONDS)


def wait_until(is_so: Callable[[], object]) -> None:
    """Wait for a condition that another process or thread brings about."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(LOOK_SECONDS)
