"""The `context` section of the settings."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from foveate.context.dates import Dates


class ContextSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Assembly of contexts."""

    order: Literal["cache-first", "documented"] = "cache-first"
    """`cache-first`: parts that change come last. `documented`: memory and board before the history."""
    explain: bool = True
    """Include an explanation of tags and history tools for the model."""
    dates: Dates = "auto"
    """Dates before the turns of the history, where the day changes. `auto`: as soon as a conversation has turns of more
    than one day, or was imported on a later day."""
    now: bool = True
    """Name the current day with recalled turns, if the history has dates and the system prompt does not name it."""
    board_life_turns: Annotated[int, Meta(ge=1, le=1_000)] = 5
    """Number of turns that a retrieved item stays on the board."""
    drop_unbound_thinking: bool = False
    """Requests in Anthropic's format ask for adaptive thinking, and the provider drops thinking that does not match the
    conversation instead of rejecting the request. Do not pass `thinking` yourself then."""
    cache_ttl_seconds: Annotated[float, Meta(gt=0)] | None = None
    """Lifetime of the provider's cache. After it, a rebuild costs nothing extra. None: unknown."""
