"""How well recall's deadline holds when stages are made slow on purpose: in the event loop, in a thread, and both."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from foveate.recall.deadline import run_stages

DEADLINES_SECONDS = (0.05, 0.2, 1.0)
SLOW_SECONDS = 3.0
TIMES = 10


async def quick() -> str:
    return "ready"


async def slow() -> str:
    await asyncio.sleep(SLOW_SECONDS)
    return "late"


async def slow_thread() -> str:
    await asyncio.to_thread(time.sleep, SLOW_SECONDS)
    return "late"


def hold_all() -> str:
    return asyncio.run(_hold_all())


async def _hold_all() -> str:
    lines = ["| deadline | stages | used | worst overrun |", "|" + " --- |" * 4]
    cases: dict[str, Callable[[], Awaitable[str]]] = {"a slow one": slow, "a slow thread": slow_thread}
    for seconds in DEADLINES_SECONDS:
        for name, stage in cases.items():
            worst, used = 0.0, set()
            for _ in range(TIMES):
                start = time.perf_counter()
                done = await run_stages({"words": quick, "vectors": stage}, seconds)
                worst = max(worst, time.perf_counter() - start - seconds)
                used |= set(done.results)
            lines.append(f"| {seconds * 1000:.0f} ms | {name} | {', '.join(sorted(used))} | {worst * 1000:.1f} ms |")
    return "\n".join(lines)
