"""Budgets of keys: what the calls of a key through the gateway may cost in a day or a month (UTC)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, get_args

from foveate.errors import InputError
from foveate.store.rows import NANO
from foveate.turn import Json

__all__ = ["NANO", "KeyBudget", "Period", "check_budget"]

Period = Literal["day", "month"]
PERIODS: tuple[Period, ...] = get_args(Period)
MAX_USD = 1_000_000_000.0


@dataclass(frozen=True, slots=True)
class KeyBudget:
    """The budget of a key, and what is spent of it."""

    usd: float | None = None
    """Hard limit: a call that could exceed it is refused. None: no limit."""
    soft_usd: float | None = None
    """Warning level. None: no warning."""
    period: Period = "month"
    spent_nano_usd: int = 0
    needed_nano_usd: int = 0
    """What the call may cost at most."""
    is_exceeded: bool = False

    @property
    def is_limited(self) -> bool:
        return self.usd is not None or self.soft_usd is not None

    @property
    def is_soft_reached(self) -> bool:
        return self.soft_usd is not None and self.spent_nano_usd >= self.soft_usd * NANO

    def began_us(self, now: datetime | None = None) -> int:
        """Return when the current period began."""
        return round(_start(self.period, now or datetime.now(UTC)).timestamp() * 1_000_000)

    def resets_at(self, now: datetime | None = None) -> datetime:
        """Return when the next period begins."""
        start = _start(self.period, now or datetime.now(UTC))
        return start + timedelta(days=1) if self.period == "day" else _start("month", start + timedelta(days=32))

    def sentence(self) -> str:
        """Return the state in a sentence."""
        limit = f" of ${self.usd:g}" if self.usd is not None else ""
        return (
            f"${self.spent_nano_usd / NANO:.4f}{limit} a {self.period} spent; resets {self.resets_at():%Y-%m-%dT%H:%MZ}"
        )

    def described(self) -> dict[str, Json]:
        """Return the state as data of an event."""
        return {
            "spent_usd": self.spent_nano_usd / NANO,
            "budget_usd": self.usd,
            "soft_usd": self.soft_usd,
            "period": self.period,
            "resets_at": f"{self.resets_at():%Y-%m-%dT%H:%M:%SZ}",
        }


def check_budget(usd: float | None, soft_usd: float | None, period: str) -> None:
    """Raise `InputError` if these are no budget."""
    for name, value in (("budget_usd", usd), ("soft_usd", soft_usd)):
        if value is not None and not 0 <= value <= MAX_USD:  # NaN, too
            raise InputError(f"{name} takes US dollars from 0 to {MAX_USD:,.0f}; got {value}")
    if usd is not None and soft_usd is not None and soft_usd > usd:
        raise InputError(f"soft_usd ({soft_usd:g}) warns before the budget is reached; make it less than {usd:g}")
    if period not in PERIODS:
        raise InputError(f"no period {period!r}; available: {', '.join(PERIODS)}")


def _start(period: Period, now: datetime) -> datetime:
    day = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return day if period == "day" else day.replace(day=1)
