"""Tells as events how models fare: each failure, and once for each change when one is held back or has recovered."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from foveate.errors import ModelFailed, ModelHeldBack, ModelUnavailable
from foveate.events import Event, EventBus, EventKind
from foveate.models import Purpose
from foveate.models._clock import Clock
from foveate.turn import Json, turn_id


@dataclass(frozen=True, slots=True)
class About:
    """What a call is for."""

    purpose: Purpose
    session_id: str | None
    turn: int | None


class Bulletin:
    def __init__(self, events: EventBus, clock: Clock) -> None:
        self._events = events
        self._clock = clock
        self._held: dict[str, set[str]] = {}
        """The reasons told of, by provider."""
        self._capped_day_us: int | None = None

    def failed(self, about: About, provider: str, error: ModelFailed | ModelUnavailable) -> None:
        data: dict[str, Json] = {
            "model": error.model,
            "provider": provider,
            "reason": error.reason,
            "problem": error.problem,
        }
        self._publish("model-failed", about, data)

    def held_back(self, about: About, provider: str, error: ModelHeldBack) -> None:
        reasons = self._held.setdefault(provider, set())
        if error.reason not in reasons:
            reasons.add(error.reason)
            self._publish_held(about, error)

    def capped(self, about: About, day_us: int, error: ModelHeldBack) -> None:
        """Once a day: a smaller call may still fit, so that the cap has no end before midnight."""
        if self._capped_day_us != day_us:
            self._capped_day_us = day_us
            self._publish_held(about, error)

    def answered(self, about: About, provider: str, day_us: int) -> None:
        """Whatever held this provider back is over."""
        reasons = self._held.pop(provider, set())
        if self._capped_day_us is not None and self._capped_day_us != day_us:
            self._capped_day_us = None
            reasons.add("cap")
        if reasons:
            self._publish("model-recovered", about, {"provider": provider, "reasons": sorted(reasons)})

    def _publish_held(self, about: About, error: ModelHeldBack) -> None:
        data: dict[str, Json] = {
            "model": error.model,
            "reason": error.reason,
            "problem": error.problem,
            "retry_after_seconds": error.retry_after_seconds,
        }
        self._publish("model-held-back", about, data)

    def _publish(self, kind: EventKind, about: About, data: dict[str, Json]) -> None:
        if self._events.is_watched:
            at = datetime.fromtimestamp(self._clock.now(), UTC)
            turn = None if about.turn is None else turn_id(about.turn)
            self._events.publish(Event(kind, about.session_id or "", at, turn, {**data, "purpose": about.purpose}))
