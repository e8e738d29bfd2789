"""Time and chance as the caller of models sees them, so that a test can have others."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    now: Callable[[], float] = time.time
    """Seconds since 1970: which day it is, for the cap."""
    monotonic: Callable[[], float] = time.monotonic
    """For everything that is measured."""
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    chance: Callable[[], float] = random.random
    """From 0 to 1."""
