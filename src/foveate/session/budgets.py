"""Budgets of keys: what the calls of a key through the gateway may cost in a day or a month (UTC)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal, get_args

from foveate.errors import InputError
from foveate.store.calls import KeySpending
from foveate.store.rows import NANO
from foveate.store.sql import now_us
from foveate.turn import Json

Period = Literal["day", "month"]
PERIODS: tuple[Period, ...] = get_args(Period)
MAX_USD = 1_000_000_000.0


@dataclass(frozen=True, slots=True)
class KeyBudget:
    """What the calls of a key through the gateway may cost."""

    usd: float | None = None
    """Hard limit: a call that could exceed it is refused. None: no limit."""
    soft_usd: float | None = None
    """Warning level. None: no warning."""
    period: Period = "month"

    @property
    def is_limited(self) -> bool:
        return self.usd is not None or self.soft_usd is not None

    def began_us(self, now: datetime | None = None) -> int:
        """Return when the current period began."""
        return round(_start(self.period, now or datetime.now(UTC)).timestamp() * 1_000_000)

    def resets_at(self, now: datetime | None = None) -> datetime:
        """Return when the next period begins."""
        start = _start(self.period, now or datetime.now(UTC))
        return start + timedelta(days=1) if self.period == "day" else _start("month", start + timedelta(days=32))


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """What is used of a key's budget in the current period."""

    spent_usd: float
    """By calls that ended."""
    booked_usd: float
    """By calls in progress at their maximum."""
    resets_at: datetime
    lost_usd: float = 0.0
    """Of what is spent: by calls whose server was killed, at their maximum."""


@dataclass(frozen=True, slots=True)
class BudgetState:
    """A key's budget, and what is spent of it when a call is about to be made."""

    budget: KeyBudget
    spending: KeySpending = field(default_factory=lambda: KeySpending(0))
    """By earlier calls of the period."""
    needed_nano_usd: int = 0
    """What the call may cost at most."""
    is_exceeded: bool = False
    """Whether the call could exceed the budget, so that it is refused."""

    @property
    def is_soft_reached(self) -> bool:
        soft_usd = self.budget.soft_usd
        return soft_usd is not None and self.spending.spent_nano_usd >= soft_usd * NANO

    @property
    def is_only_booked(self) -> bool:
        """Whether the call fits as soon as the calls in progress turn out to cost little."""
        usd = self.budget.usd
        return usd is None or self.spending.spent_nano_usd + self.needed_nano_usd <= int(usd * NANO)

    @property
    def spent_usd(self) -> float:
        return self.spending.spent_nano_usd / NANO

    @property
    def booked_usd(self) -> float:
        return self.spending.booked_nano_usd / NANO

    @property
    def lost_usd(self) -> float:
        """What is spent by calls whose server was killed, at their maximum."""
        return self.spending.lost_nano_usd / NANO

    @property
    def booked_seconds(self) -> float:
        """How long ago the newest call in progress was booked."""
        return (now_us() - self.spending.booked_us) / 1_000_000 if self.spending.booked_us else 0.0

    @property
    def needed_usd(self) -> float:
        return self.needed_nano_usd / NANO

    def sentence(self) -> str:
        """Return the state in a sentence."""
        budget = self.budget
        limit = f" of ${budget.usd:g}" if budget.usd is not None else ""
        booked = f", ${self.booked_usd:.4f} booked for calls in progress" if self.spending.booked_nano_usd else ""
        resets = f"{budget.resets_at():%Y-%m-%dT%H:%M:%SZ}"
        needed = f"; the refused call may cost up to ${self.needed_usd:.4f}" if self.is_exceeded else ""
        return f"${self.spent_usd:.4f}{limit} a {budget.period} spent{booked}{needed}; resets {resets}"

    def described(self) -> dict[str, Json]:
        """Return the state as data of an event."""
        return {
            "spent_usd": self.spent_usd,
            "booked_usd": self.booked_usd,
            "budget_usd": self.budget.usd,
            "soft_usd": self.budget.soft_usd,
            "period": self.budget.period,
            "resets_at": f"{self.budget.resets_at():%Y-%m-%dT%H:%M:%SZ}",
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
