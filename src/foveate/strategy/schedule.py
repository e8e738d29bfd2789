"""When a kept plan is made anew. In between, turns are appended and nothing already shown changes.

Provider caches match prefixes, so a rebuild costs a whole prompt: it waits until the history fills its allotment
(`watermark`), for some turns (`interval`), or for a number of turns that grows with what the last one changed
(`adaptive`). Whatever the schedule, a history that fills its allotment is rebuilt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from foveate.strategy.gradient import Gradient

Cause = Literal["first", "budget", "made", "full", "interval", "cold"]
"""There is no plan yet; budget or settings changed; renditions are made that it had to do without; the allotment is
full; it is time; the provider's cache expired."""

COLD_GAIN_SHARE = 0.10
"""A cold cache alone is reason enough for a rebuild that frees more than this share of the allotment."""


@dataclass(frozen=True, slots=True)
class PlanState:
    """What has to be known of the plan in use."""

    base_tokens: int
    """What the plan's rows cost."""
    last_turn: int
    """The plan reaches up to this turn, which was the newest when it was made,"""
    last_step: int
    """and up to this step of it; 0 where the turn was over."""
    budget_tokens: int
    """The session's budget and settings when it was made."""
    settings_key: str
    made_at: float
    used_at: float
    """The last time a context of this plan was asked for, in seconds like `made_at`."""
    churn: float = 0.0
    """The share of tokens that the plan changed when it was made, 0 to 1."""
    awaited_turn: int = 0
    """Turns up to this one had no renditions, so that some are cut or only named; 0 where none had to be."""


def settings_key(settings: Gradient) -> str:
    """Changes when any setting does."""
    return msgspec.json.encode(settings, order="sorted").decode()


def due(  # noqa: PLR0911 - each cause leaves at once
    settings: Gradient,
    state: PlanState | None,
    *,
    appended_tokens: int,
    turns_now: int,
    budget_tokens: int,
    allotment_tokens: int,
    now: float,
    cache_ttl_seconds: float | None,
    settled_turn: int = 0,
) -> Cause | None:
    """Why the plan is to be made anew, or None: it stands, and the turns since are appended.

    Turns up to `settled_turn` have their renditions.
    """
    if state is None:
        return "first"
    if state.budget_tokens != budget_tokens or state.settings_key != settings_key(settings):
        return "budget"
    if 0 < state.awaited_turn <= settled_turn:
        return "made"
    used = state.base_tokens + appended_tokens
    if used > allotment_tokens:
        return "full"
    if settings.schedule != "watermark" and turns_now - state.last_turn >= wait_turns(settings, state.churn):
        return "interval"
    is_cold = cache_ttl_seconds is not None and now - state.used_at > cache_ttl_seconds
    if is_cold and _gain(settings, state, used, turns_now, allotment_tokens):
        return "cold"
    return None


def wait_turns(settings: Gradient, churn: float) -> int:
    """Turns between two rebuilds by time: for `adaptive` from `interval_turns` where the last one changed nothing
    to `interval_limit_turns` where it changed everything, in proportion to its churn."""
    if settings.schedule != "adaptive":
        return settings.interval_turns
    waited = min(1.0, max(0.0, churn)) * (settings.interval_limit_turns - settings.interval_turns)
    return settings.interval_turns + round(waited)


def target_tokens(settings: Gradient, cause: Cause, allotment_tokens: int, *, raw_tokens: int | None = None) -> int:
    """What a rebuild aims at. A history known to fit raw is left so; there is nothing to rebuild."""
    fits_raw = raw_tokens is not None and raw_tokens <= allotment_tokens
    if settings.schedule != "watermark" or (cause in ("first", "budget", "made") and fits_raw):
        return allotment_tokens
    return int(allotment_tokens * settings.low_water)


def _gain(settings: Gradient, state: PlanState, used: int, turns_now: int, allotment_tokens: int) -> bool:
    """Whether a rebuild would free enough, or, where it aims at the whole allotment, level anything new."""
    if settings.schedule != "watermark":
        return turns_now > state.last_turn
    return used - target_tokens(settings, "cold", allotment_tokens) > COLD_GAIN_SHARE * allotment_tokens
