"""The accounts: every call of a model, what it took and what it cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

NANO = 1_000_000_000
"""Nano-dollars in a dollar: whole numbers add up the same in every database."""
DAY_US = 86_400_000_000
OK = "ok"
UNFIT = "unfit"
RUNNING = "running"
"""The outcome of a call that was reserved and not settled yet; of one whose process died, for good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRow:
    """One call. `turn` is what it was for, if a turn's renditions."""

    session_id: str | None
    turn: int | None
    at_us: int
    provider: str
    """Whose limits it counts against."""
    model: str
    purpose: str
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    nano_usd: int
    is_estimate: bool
    """The price is assumed, or the provider reported no usage."""
    latency_us: int
    outcome: str
    """`ok`; `unfit` for an answer that was paid for and not used; or the reason of a `ModelError`."""


@dataclass(frozen=True, slots=True)
class CostRow:
    """What the calls of one session, day, model and purpose took together."""

    session_id: str | None
    day: str
    """In UTC, as in 2026-11-15."""
    model: str
    purpose: str
    calls: int
    failed: int
    unfit: int
    """Answered, but the answer did not pass."""
    latency_us: int
    """Of all of them together."""
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    nano_usd: int
    is_estimate: bool

    @property
    def usd(self) -> float:
        return self.nano_usd / NANO


class Calls(Protocol):
    """The accounts of a store."""

    async def add(self, call: CallRow) -> int:
        """Account for a call, under the number that is returned; of a session that is gone, as of none."""
        ...

    async def reserve(self, call: CallRow, *, since_us: int, limit_nano_usd: int) -> int | None:
        """Account for a call that is about to be made, at the most it may cost; None if all calls since a moment
        would then cost more than the limit. No two processes both get the last of it.
        """
        ...

    async def settle(self, reservation: int, call: CallRow) -> None:
        """Replace what was reserved by what the call took."""
        ...

    async def mark_unfit(self, number: int) -> None:
        """The call was answered, but the answer did not pass."""
        ...

    async def newest(self, since_us: int, *, limit: int) -> list[CallRow]:
        """At most so many of the calls since a moment, those that began last, oldest first."""
        ...

    async def spent(self, since_us: int) -> int:
        """Nano-dollars of all calls since a moment, of every session and process, with what is reserved."""
        ...

    async def costs(self, session_id: str | None = None, *, since_us: int = 0) -> list[CostRow]:
        """Summed by session, day, model and purpose, oldest day first; of one session, or of all."""
        ...
