"""The `store` section of the settings."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct


class StoreSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the raw log is kept."""

    synchronous: Literal["full", "normal"] = "full"
    """`full`: a turn survives a power cut once `record` returns. `normal`: it survives a crash of the program only."""
    lock_timeout_seconds: Annotated[float, Meta(gt=0, le=3600)] = 60.0
    """How long to wait for other processes that write the same file."""
    compression_level: Annotated[int, Meta(ge=1, le=19)] = 3
    """zstd's, for stored bodies."""
    group_limit: Annotated[int, Meta(ge=1, le=10_000)] = 512
    """At most this many waiting writes share one commit."""
    readers: Annotated[int, Meta(ge=1, le=64)] = 4
    """Threads that read; each has a connection of its own."""
