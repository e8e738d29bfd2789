"""The `context` section of the settings."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct


class ContextSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How contexts are put together."""

    order: Literal["cache-first", "documented"] = "cache-first"
    """`cache-first`: what changes comes after what does not. `documented`: memory and board before the history."""
    explain: bool = True
    """Tell the model what tags are and how to retrieve."""
    board_life_turns: Annotated[int, Meta(ge=1, le=1_000)] = 5
    """For how many turns something retrieved stays on the board."""
    cache_ttl_seconds: Annotated[float, Meta(gt=0)] | None = None
    """After this long unused a provider's cache is cold, and a rebuild costs nothing extra. None: not known."""
